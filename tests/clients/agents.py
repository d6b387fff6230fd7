"""Drives coding agents through a task of three steps: read a file, edit it, run a command.

    python3 agents.py --base http://127.0.0.1:4100/v1 --model scripted
    python3 agents.py --base … --model … --only codex-freeform --json out.json --keep requests/

The model behind --base must be the scripted one: it reads the task from the prompt and calls whatever tools the agent offers. Each agent runs with a
home of its own, without any setting of the caller's, and reaches nothing but --base.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import agent_commands as agents
import environment
from record import Recorder

TASK = 'Please read {file}, replace "Hello, world!" by "Hello, gateway!", run `cat greeting.txt | wc -c` and tell me the result.{more}'
THINK = " think first"


@dataclasses.dataclass
class Run:
    """One run of an agent. `command` makes its command and environment, `settings` are more arguments of it, `model` is the name that it is told,
    `more` is added to the prompt. `agent` and `api` name it in the table of clients."""

    agent: str
    api: str
    command: object
    settings: dict = dataclasses.field(default_factory=dict)
    model: str = "{model}"
    more: str = ""


RUNS = {
    "claude-code": Run("Claude Code", "messages", agents.claude),
    "claude-code-thinking": Run("Claude Code, thinking", "messages", agents.claude, model="claude-sonnet-4-5", more=THINK),
    # It gives thinking back only if the answer's model is the one it asked for, so an alias must keep its name.
    "claude-code-thinking-alias": Run("Claude Code, thinking, behind an alias", "messages", agents.claude, model="agent", more=THINK),
    "codex": Run("Codex", "responses", agents.codex),
    "codex-websocket": Run("Codex, WebSocket", "responses", agents.codex, {"websockets": True}),
    "codex-reasoning": Run("Codex, reasoning", "responses", agents.codex, more=THINK),
    # With this name Codex offers apply_patch as a freeform tool.
    "codex-freeform": Run("Codex, freeform apply_patch", "responses", agents.codex, model="gpt-5.5"),
    "opencode": Run("opencode", "chat", agents.opencode, {"package": "@ai-sdk/openai-compatible"}),
    "opencode-responses": Run("opencode", "responses", agents.opencode, {"package": "@ai-sdk/openai"}),
    "opencode-anthropic": Run("opencode", "messages", agents.opencode, {"package": "@ai-sdk/anthropic"}),
    "qwen-code": Run("Qwen Code", "chat", agents.qwen),
    "copilot": Run("Copilot CLI", "chat", agents.copilot, {"kind": "openai"}),
    "copilot-responses": Run("Copilot CLI", "responses", agents.copilot, {"kind": "openai", "WIRE_API": "responses"}),
    "copilot-anthropic": Run("Copilot CLI", "messages", agents.copilot, {"kind": "anthropic"}),
    "copilot-azure": Run("Copilot CLI, azure", "chat", agents.copilot, {"kind": "azure"}),
    "copilot-azure-deployment": Run("Copilot CLI, azure with a version", "chat", agents.copilot, {"kind": "azure", "AZURE_API_VERSION": "2024-10-21"}),
    "aider": Run("aider", "chat", agents.aider),
    "cline": Run("Cline", "chat", agents.cline),
}


def home(parent):
    """A fresh home and work tree. Codex refuses to install its helpers under the system's temporary folder."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="agent-", dir=parent))
    (folder / "work").mkdir()
    (folder / "work" / "greeting.txt").write_text("Hello, world!\n")
    return folder


def counted(folder, output):
    """True if the bytes of the edited file were counted: 16 proves that all three steps ran, in order."""
    count = folder / "work" / "count.txt"
    return count.exists() and count.read_text().strip() == "16" or re.search(r"The tool said:.*\b16\b", agents.said(output), re.S)


def thoughts(exchanges):
    """The (blocks of thinking, turns of the model) that the longest request of Messages gives back."""
    histories = [e["request"]["body"].get("messages", []) for e in exchanges if isinstance(e["request"]["body"], dict)]
    turns = [turn["content"] for turn in max(histories, key=len, default=[]) if turn["role"] == "assistant"]
    return sum(block.get("type") == "thinking" for content in turns if isinstance(content, list) for block in content), len(turns)


def drive(name, recorder, options):
    """Runs an agent; returns what happened."""
    run, folder = RUNS[name], home(environment.HOME)
    prompt = TASK.format(file=folder / "work" / "greeting.txt", more=run.more)
    recorder.suite, recorder.check = "agents", name
    base = recorder.url + recorder.target.path
    command, env = run.command(folder, base, run.model.format(model=options.model), prompt, **run.settings)
    env |= agents.home(folder)
    try:
        done = subprocess.run(
            command, cwd=folder / "work", env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
        )
        output, errors, code = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        output, errors, code = str(late.stdout or ""), "no end after 120 s", -1
    file, done = (folder / "work" / "greeting.txt").read_text(), counted(folder, output)
    shutil.rmtree(folder, ignore_errors=True)
    problems = [] if code == 0 else [f"exit code {code}: {errors.strip()[-300:]}"]
    problems += [] if file == "Hello, gateway!\n" else [f"the file holds {file!r}"]
    problems += [] if done else [f"the agent said {agents.said(output)[:300]!r}"]
    exchanges = [e for e in recorder.exchanges(name) if e["request"]["method"] == "POST"]
    if run.settings.get("websockets") and exchanges:
        problems.append("it fell back to HTTP")
    if run.more and run.api == "messages":
        blocks, turns = thoughts(exchanges)
        problems += [] if blocks == turns == 3 else [f"{blocks} blocks of thinking came back in {turns} turns"]
    problems += [
        f"{e['request']['path']}: {e['response'].get('status')} {str(e['response'].get('body'))[:300]}"
        for e in exchanges
        if e["response"].get("status") != 200
    ]
    keep(options.keep, name, exchanges)
    print(f"{'FAIL' if problems else 'PASS'} agents.{name}: {len(exchanges)} requests{'; ' if problems else ''}{'; '.join(problems)}", flush=True)
    result = {"suite": "agents", "check": name, "agent": run.agent, "api": run.api, "passed": not problems, "reason": "; ".join(problems)}
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
    parser.add_argument("--traffic", type=pathlib.Path, default=environment.HOME / "traffic-agents.jsonl", help="the file that takes the whole traffic")
    options = parser.parse_args()
    environment.prepare(agents=True)
    recorder = Recorder(options.base.rstrip("/"))
    results = [drive(name, recorder, options) for name in RUNS if options.only in name]
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"base": options.base, "results": results}, indent=1, ensure_ascii=False))
    recorder.write(options.traffic)
    failed = sum(not result["passed"] for result in results)
    print(f"\n{len(results) - failed} passed, {failed} failed")
    sys.exit(bool(failed or not results))


if __name__ == "__main__":
    main()
