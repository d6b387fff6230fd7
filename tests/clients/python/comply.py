"""The checks of the package llm-comply: published schemas of Open Responses, Anthropic Messages and OpenAI Chat Completions."""

import json
import os
import subprocess
import sys
import urllib.request

from suite import API_KEY, BASE_URL, MODEL

failed = False
for style in ("open-responses", "anthropic", "openai-chat"):
    if os.environ.get("ONLY") and os.environ["ONLY"] not in style:
        continue
    if "MARK_URL" in os.environ:
        urllib.request.urlopen(f"{os.environ['MARK_URL']}/{style}").close()
    command = [os.path.join(os.path.dirname(sys.executable), "llm-comply"), "-u", BASE_URL, "-k", API_KEY, "-m", MODEL, "--format", style, "--json"]
    report = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    for result in json.loads(report)["results"]:
        if result["status"] == "skipped":
            continue
        name = f"{style}_{result['id']}"
        if result["status"] == "failed":
            failed = True
            print(f"FAIL {name}: {'; '.join(result.get('errors') or [])[:900]}", flush=True)
        else:
            print(f"PASS {name}", flush=True)
raise SystemExit(failed)
