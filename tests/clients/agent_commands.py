"""How each coding agent is called: its command, its environment and the files of its home, and what it says last."""

import json
import os
import re

import environment

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
{transport}
[analytics]
enabled = false
"""
KEY = "sk-test"


def claude(_folder, base, model, prompt):
    """Claude Code, over Messages."""
    command = ["claude", "--print", prompt, "--model", model, "--allowedTools", "Read,Edit,Bash", "--output-format", "json"]
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1"}
    return command, quiet | {"ANTHROPIC_BASE_URL": base.removesuffix("/v1"), "ANTHROPIC_AUTH_TOKEN": KEY}


def codex(folder, base, model, prompt, websockets=False):
    """Codex, over Responses, by HTTP or a WebSocket."""
    (folder / ".codex").mkdir()
    transport = f"supports_websockets = {str(websockets).lower()}\n"
    (folder / ".codex" / "config.toml").write_text(CODEX.format(model=model, base=base, transport=transport))
    command = ["codex", "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "--json", prompt]
    return command, {"GATEWAY_KEY": KEY}


def opencode(folder, base, model, prompt, package):
    """opencode with a provider of the AI SDK."""
    provider = {"npm": package, "name": "gateway", "options": {"baseURL": base, "apiKey": KEY}, "models": {model: {"name": model}}}
    more = {"autoupdate": False, "share": "disabled", "permission": {"edit": "allow", "bash": "allow"}}
    (folder / "work" / "opencode.json").write_text(json.dumps({"provider": {"gateway": provider}, "model": f"gateway/{model}"} | more))
    return ["opencode", "run", "--model", f"gateway/{model}", prompt], {"OPENCODE_DISABLE_AUTOUPDATE": "1"}


def qwen(_folder, base, model, prompt):
    """Qwen Code, over Chat Completions."""
    return ["qwen", "--yolo", "--prompt", prompt], {"OPENAI_BASE_URL": base, "OPENAI_API_KEY": KEY, "OPENAI_MODEL": model}


def copilot(_folder, base, model, prompt, kind, **settings):
    """Copilot CLI with a provider of the user's own."""
    url = base if kind == "openai" else base.removesuffix("/v1")
    env = {"TYPE": kind, "BASE_URL": url, "API_KEY": KEY} | settings
    return ["copilot", "--allow-all-tools", "--no-color", "--prompt", prompt], {"COPILOT_MODEL": model, "COPILOT_AUTO_UPDATE": "false"} | {
        f"COPILOT_PROVIDER_{name}": value for name, value in env.items()
    }


def cline(folder, base, model, prompt):
    """Cline, over Chat Completions."""
    settings = ["cline", "auth", "openai", "--apikey", KEY, "--baseurl", base, "--modelid", model]
    environment.run(settings, cwd=folder, env=environment.path() | home(folder))
    return ["cline", "--json", prompt], {"CLINE_TELEMETRY_DISABLED": "1"}


def aider(_folder, base, model, prompt):
    """aider, over Chat Completions: it edits by text instead of tools, and runs the command as the test of its edit."""
    quiet = ["--no-git", "--yes-always", "--no-check-update", "--analytics-disable", "--no-show-model-warnings", "--no-pretty", "--no-gitignore"]
    # It would put them at the root of the repository around its folder.
    quiet += ["--chat-history-file", os.devnull, "--input-history-file", os.devnull]
    test = ["--auto-test", "--test-cmd", "cat greeting.txt | wc -c > count.txt"]
    command = [str(environment.python("aider").parent / "aider"), "--model", f"openai/{model}", *quiet, *test, "--message", prompt, "greeting.txt"]
    return command, {"OPENAI_API_BASE": base, "OPENAI_API_KEY": KEY}


def home(folder):
    """The variables that keep an agent in its own home, with its binaries and Node.js on the path."""
    binaries = environment.HOME / "agents" / "node_modules" / ".bin"
    return {"PATH": f"{binaries}:{environment.node().parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "TERM": "xterm"}


def said(output):
    """The agent's last words: a field of its last event that has any, or its plain output."""
    for line in reversed(output.splitlines()):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        words = isinstance(event, dict) and (event.get("result") or event.get("text") or (event.get("item") or {}).get("text"))
        if words:
            return words
    return "".join(re.findall(r"The tool said:.*\Z", output, re.S))
