"""Runs the suites of client libraries against a server and prints a table.

    python3 run.py --base http://127.0.0.1:4100/v1 --model scripted
    python3 run.py --base … --model … --only anthropic          # suites, or checks as SUITE.CHECK, whose name contains this
    python3 run.py --base … --model … --json out.json           # results with the traffic of every failure

The server behind --base must end at the scripted model (scripted_model.py). MODEL-429, MODEL-500, MODEL-broken and MODEL-cut are asked for the
failures of these kinds; gateway.py writes a policy that has them.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import environment
from record import Recorder

# Reads the traffic of the suites before it.
PUBLISHED = "published-schemas"
SUITES = {
    "openai-python-chat": ("python", "openai_chat.py"),
    "openai-python-responses": ("python", "openai_responses.py"),
    "openai-node": ("node", "openai_sdk.mjs"),
    "anthropic-python": ("python", "anthropic_sdk.py"),
    "anthropic-node": ("node", "anthropic_sdk.mjs"),
    "agents-python": ("python", "agents_sdk.py"),
    "agents-node": ("node", "agents_sdk.mjs"),
    "langchain": ("python", "langchain_chat.py"),
    "ai-sdk": ("node", "ai_sdk.mjs"),
    "pydantic-ai": ("python", "pydantic_ai_agents.py"),
    "litellm": ("python", "litellm_client.py"),
    "gpt-oss": ("python", "gpt_oss.py"),
    "open-responses": ("python", "openresponses.py"),
    "any-model": ("python", "shapes.py"),
    "llm-comply": ("python", "comply.py"),
    "AI SDK 5": ("node", "ai_sdk_features.mjs", "5"),
    "AI SDK 6": ("node", "ai_sdk_features.mjs", "6"),
    "AI SDK 7": ("node", "ai_sdk_features.mjs", "7"),
    "OpenAI Node": ("node", "openai_features.mjs"),
    "OpenAI Python": ("python", "openai_features.py"),
    "Anthropic Node": ("node", "anthropic_features.mjs"),
    "Anthropic Python": ("python", "anthropic_features.py"),
    "LangChain Node": ("node", "langchain_features.mjs"),
    "LangChain Python": ("python", "langchain_features.py"),
    "Pydantic AI": ("python", "pydantic_ai_features.py"),
    "LlamaIndex": ("llama-index", "llama_index_features.py"),
    PUBLISHED: ("python", "published.py"),
}


def command(language, script, *arguments):
    """The command of a suite. Modules are found from the script's folder, so Node's scripts are copied beside them."""
    if language != "node":
        return [str(environment.python(language)), str(environment.HERE / "python" / script), *arguments]
    folder = environment.MODULES / "suites"
    shutil.copytree(environment.HERE / "node", folder, dirs_exist_ok=True)
    return [str(environment.node()), str(folder / script), *arguments]


def suite(name, options, recorder):
    """Runs a suite; returns its checks as dictionaries. A check that is skipped neither passed nor failed."""
    recorder.suite = name
    env = os.environ | environment.path() | {"MODEL": options.model, "API_KEY": options.key, "MARK_URL": f"{recorder.url}/mark"}
    env |= {"BASE_URL": recorder.url + recorder.target.path, "ONLY": options.check or "", "PYTHONDONTWRITEBYTECODE": "1"}
    if name == PUBLISHED:
        env["TRAFFIC"] = str(options.traffic)
        recorder.write(options.traffic)
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        env.pop(variable, None)
    started = time.monotonic()
    process = subprocess.Popen(command(*SUITES[name]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    try:
        output, errors = process.communicate(timeout=options.timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        output += f"FAIL suite: no end after {options.timeout} s\n"
    checks = []
    for line in output.splitlines():
        verdict, _, rest = line.partition(" ")
        if verdict not in ("PASS", "FAIL", "SKIP"):
            continue
        check, _, reason = rest.partition(": ")
        checks.append({"suite": name, "check": check, "passed": {"PASS": True, "FAIL": False}.get(verdict), "reason": reason})
    if not checks and not options.check:
        checks.append({"suite": name, "check": "start", "passed": False, "reason": errors[-900:].strip() or "no output"})
    for check in checks:
        verdict = {True: "PASS", False: "FAIL", None: "SKIP"}[check["passed"]]
        print(f"{verdict} {name}.{check['check']}{': ' if check['reason'] else ''}{check['reason']}", flush=True)
        if check["passed"] is False:
            # The checks of llm-comply share the traffic of their format.
            check["exchanges"] = recorder.exchanges(check["check"]) or [e for e in recorder.exchanges(check["check"].split("_")[0])]
    print(f"     {name}: {time.monotonic() - started:.1f} s", file=sys.stderr)
    return checks


def table(results):
    """Prints a line a suite."""
    print(f"\n{'suite':26}{'passed':>8}{'failed':>8}")
    for name in dict.fromkeys(result["suite"] for result in results):
        own = [result["passed"] for result in results if result["suite"] == name and result["passed"] is not None]
        print(f"{name:26}{sum(own):8}{len(own) - sum(own):8}")
    passed = [result["passed"] for result in results]
    print(f"\n{passed.count(True)} passed, {passed.count(False)} failed, {passed.count(None)} skipped")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="the server's URL with /v1")
    parser.add_argument("--model", required=True)
    parser.add_argument("--key", default="sk-test")
    parser.add_argument("--only", default="", help="a part of a suite's name or of its script's, or SUITE.CHECK")
    parser.add_argument("--json", help="a file for the results and the traffic of failures")
    parser.add_argument("--traffic", type=pathlib.Path, default=environment.HOME / "traffic.jsonl", help="the file that takes the whole traffic")
    parser.add_argument("--timeout", type=float, default=180, help="seconds a suite may take")
    options = parser.parse_args()
    part, _, options.check = options.only.partition(".")
    environment.prepare()
    recorder = Recorder(options.base.rstrip("/"))
    # The traffic of the other suites is read last.
    names = [name for name in SUITES if part in name or part in SUITES[name][1]]
    results = [check for name in dict.fromkeys([*names, PUBLISHED]) for check in suite(name, options, recorder)]
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"base": options.base, "model": options.model, "results": results}, file, indent=1, ensure_ascii=False)
    table(results)
    raise SystemExit(any(result["passed"] is False for result in results) or not results)


if __name__ == "__main__":
    main()
