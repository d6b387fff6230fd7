"""Drives Claude Code and Codex through a task of three tool calls: read a file, edit it, run a command.

    python3 agents.py --base http://127.0.0.1:4100/v1 --model scripted
    python3 agents.py --base … --model … --only codex-freeform --json out.json --keep requests/

The model behind --base must be the scripted one: it reads the task from the prompt and calls whatever tools the agent offers. Each agent runs with a
home of its own, without any setting of the caller's, and reaches nothing but --base.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import environment
from record import Recorder

TASK = 'Please read {file}, replace "Hello, world!" by "Hello, gateway!", run `cat greeting.txt | wc -c` and tell me the result.{more}'
CODEX = """model = "{model}"
model_provider = "gateway"
check_for_update_on_startup = false

[model_providers.gateway]
name = "gateway"
base_url = "{base}"
env_key = "GATEWAY_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false
"""
# Name of a run: the agent, the model it is told, and what the prompt adds.
RUNS = {
    "claude-code": ("claude", "{model}", ""),
    "claude-code-thinking": ("claude", "claude-sonnet-4-5", " think first"),
    "codex": ("codex", "{model}", ""),
    "codex-reasoning": ("codex", "{model}", " think first"),
    # With this name Codex offers apply_patch as a freeform tool.
    "codex-freeform": ("codex", "gpt-5.5", ""),
}


def home(parent):
    """A fresh home and work tree. Codex refuses to install its helpers under the system's temporary folder."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="agent-", dir=parent))
    (folder / "work").mkdir()
    (folder / ".codex").mkdir()
    (folder / "work" / "greeting.txt").write_text("Hello, world!\n")
    return folder


def claude(folder, base, model, prompt):
    """The command and environment of Claude Code."""
    command = ["claude", "--print", prompt, "--model", model, "--allowedTools", "Read,Edit,Bash", "--output-format", "json"]
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1"}
    return command, quiet | {"ANTHROPIC_BASE_URL": base.removesuffix("/v1"), "ANTHROPIC_AUTH_TOKEN": "sk-test"}


def codex(folder, base, model, prompt):
    """The command and environment of Codex."""
    (folder / ".codex" / "config.toml").write_text(CODEX.format(model=model, base=base))
    command = ["codex", "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "--json", prompt]
    return command, {"GATEWAY_KEY": "sk-test"}


def said(agent, output):
    """The agent's last words."""
    for line in reversed(output.splitlines()):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if agent == "claude" and "result" in event:
            return event["result"]
        if agent == "codex" and event.get("item", {}).get("type") == "agent_message":
            return event["item"]["text"]
    return ""


def drive(name, recorder, options):
    """Runs an agent; returns what happened."""
    agent, model, more = RUNS[name]
    folder = home(environment.HOME)
    prompt = TASK.format(file=folder / "work" / "greeting.txt", more=more)
    recorder.check = name
    base = recorder.url + recorder.target.path
    command, env = {"claude": claude, "codex": codex}[agent](folder, base, model.format(model=options.model), prompt)
    binaries = environment.HOME / "agents" / "node_modules" / ".bin"
    env |= {
        "PATH": f"{binaries}{os.pathsep}{environment.node().parent}{os.pathsep}/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "TERM": "xterm",
    }
    try:
        done = subprocess.run(
            command, cwd=folder / "work", env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
        )
        output, errors, code = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        output, errors, code = str(late.stdout or ""), "no end after 120 s", -1
    file, answer = (folder / "work" / "greeting.txt").read_text(), said(agent, output)
    shutil.rmtree(folder, ignore_errors=True)
    problems = [] if code == 0 else [f"exit code {code}: {errors.strip()[-300:]}"]
    problems += [] if file == "Hello, gateway!\n" else [f"the file holds {file!r}"]
    # The command counts the bytes of the edited file: 16 proves that all three calls ran, in order.
    problems += [] if answer.startswith("The tool said:") and "16" in answer.split() else [f"the agent said {answer[:300]!r}"]
    exchanges = [e for e in recorder.exchanges(name) if e["request"]["method"] == "POST"]
    problems += [
        f"{e['request']['path']}: {e['response'].get('status')} {str(e['response'].get('body'))[:300]}"
        for e in exchanges
        if e["response"].get("status") != 200
    ]
    keep(options.keep, name, exchanges)
    print(f"{'FAIL' if problems else 'PASS'} agents.{name}: {len(exchanges)} requests{'; ' if problems else ''}{'; '.join(problems)}", flush=True)
    result = {"suite": "agents", "check": name, "passed": not problems, "reason": "; ".join(problems)}
    return result | ({"exchanges": exchanges, "output": output[-3000:], "errors": errors[-3000:]} if problems else {})


def keep(folder, name, exchanges):
    """Writes the bodies of the requests as samples."""
    if folder:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        for number, exchange in enumerate(exchanges, 1):
            pathlib.Path(folder, f"{name}-{number}.json").write_text(json.dumps(exchange["request"]["body"], indent=1, ensure_ascii=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="the server's URL with /v1")
    parser.add_argument("--model", required=True)
    parser.add_argument("--only", default="", help="a part of a run's name")
    parser.add_argument("--json", help="a file for the results and the traffic of failures")
    parser.add_argument("--keep", help="a folder for the bodies of all requests")
    options = parser.parse_args()
    environment.prepare(agents=True)
    recorder = Recorder(options.base.rstrip("/"))
    results = [drive(name, recorder, options) for name in RUNS if options.only in name]
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"base": options.base, "results": results}, indent=1, ensure_ascii=False))
    failed = sum(not result["passed"] for result in results)
    print(f"\n{len(results) - failed} passed, {failed} failed")
    sys.exit(bool(failed or not results))


if __name__ == "__main__":
    main()
