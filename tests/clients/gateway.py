"""Runs suites and agents through a gateway in front of the scripted model, which speaks Chat Completions alone.

python3 gateway.py --binary target/debug/signalbox                  # every suite
python3 gateway.py --binary … --only anthropic --json out.json
python3 gateway.py --binary … --upstream messages                   # the model speaks Anthropic Messages alone
python3 gateway.py --binary … --agents                              # Claude Code and Codex instead of the suites
python3 gateway.py --binary … --model-url http://127.0.0.1:8080 --only any-model     # another model in place of the scripted one
python3 gateway.py --binary … --serve                               # only starts both, for trying things by hand
"""

import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import scripted_model

HERE = pathlib.Path(__file__).resolve().parent
FAILURES = ("429", "500", "503", "broken", "cut")
# Of `sk-test`, as `signalbox key hash` prints it.
KEYS = [{"id": "clients", "hash": "blake3:bec91e294ce18c501ea770e9c1f9ce380ed8d87fabcfb4aa7295a5f7ab9a9938"}]


def policy(upstream, speaks):
    """A policy (JSON is YAML): a pool for the model, and one for each kind of failure, so that breakers spare the rest."""
    engines, pools, models = {}, {}, {}
    for kind in ("main", *FAILURES):
        engines[kind] = {"url": f"{upstream}/{kind}/v1" if kind != "main" else f"{upstream}/v1"} | (
            {"dialect": "anthropic"} if speaks == ["messages"] else {}
        )
        pools[kind] = {"model": "scripted", "backends": [{"engine": kind}]} | ({"speaks": speaks} if speaks != ["messages"] else {})
        models["scripted" if kind == "main" else f"scripted-{kind}"] = {"to": kind}
    models |= {name: {"to": "main"} for name in ("agent", "complete", "claude-*", "gpt-*")}
    return json.dumps({"engines": engines, "pools": pools, "models": models, "keys": KEYS}, indent=1)


def start(binary, upstream, speaks, folder):
    """Starts a gateway on free ports; returns its process and URL once it serves."""
    file, ready = folder / "policy.yaml", folder / "ready.json"
    file.write_text(policy(upstream, speaks))
    command = [binary, "serve", "--config", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--ready-file", ready]
    with (folder / "gateway.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    deadline = time.monotonic() + 20
    while not (ready.exists() and ready.read_text().endswith("}")):
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"the gateway did not start:\n{(folder / 'gateway.log').read_text()}")
        time.sleep(0.05)
    return process, f"http://{json.loads(ready.read_text())['listen']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--upstream", default="chat", help="what the model speaks: chat, messages, responses, with commas")
    parser.add_argument("--agents", action="store_true", help="Claude Code and Codex instead of the suites")
    parser.add_argument("--model-url", help="another server in place of the scripted model, without /v1")
    parser.add_argument("--serve", action="store_true", help="print the URL and wait")
    parser.add_argument("--record", help="a file that takes every request the model gets")
    options, rest = parser.parse_known_args()
    # A terminated script ends its gateway, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    speaks = options.upstream.split(",")
    record = open(options.record, "w", encoding="utf-8") if options.record else None
    upstream = options.model_url or scripted_model.serve(scripted_model.Model(speaks=speaks, file=record))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="signalbox-clients-"))
    process, url = start(options.binary, upstream.rstrip("/"), speaks, folder)
    print(f"gateway {url}, model {upstream}, log {folder / 'gateway.log'}", file=sys.stderr)
    try:
        if options.serve:
            process.wait()
        script = "agents.py" if options.agents else "run.py"
        command = [sys.executable, str(HERE / script), "--base", f"{url}/v1", "--model", "scripted", *rest]
        raise SystemExit(subprocess.run(command, check=False).returncode)
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
