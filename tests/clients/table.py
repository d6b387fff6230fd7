"""Writes docs/reference/clients.md: which client works over which API before which backend.

    python3 table.py --binary target/debug/signalbox                    # runs everything (about 15 minutes), then writes the page
    python3 table.py --binary … --backends chat --kinds features --only "AI SDK"    # runs a part again
    python3 table.py                                                    # writes the page from the last results

Results are kept beside the installed clients, one file for each backend and kind.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys

import environment
import run

PAGE = environment.HERE.parents[1] / "docs" / "reference" / "clients.md"
# What the model behind the gateway speaks, by the name of the column.
BACKENDS = {"chat": "chat", "native": "chat,messages,responses", "anthropic": "messages"}
KINDS = {"features": ["--only", "_features"], "agents": ["--agents"]}
TITLES = {"chat": "Chat-only backend", "native": "Backend with all three APIs", "anthropic": "Anthropic upstream"}
APIS = {
    "chat": "Chat Completions",
    "responses": "Responses",
    "messages": "Messages",
    "compatible": "Chat Completions (`openai-compatible`)",
    "azure-chat": "Azure, `/openai/v1` Chat Completions",
    "azure-responses": "Azure, `/openai/v1` Responses",
    "azure-deployment": "Azure, deployment",
}
# Why a check fails, where it is not the gateway's to mend.
NOTES = {
    ("LangChain Node", "messages", "usage"): "It takes input tokens from the first event of a stream, where a translated answer has an estimate, and adds output tokens of both ends.",
}
FEATURES = {
    "text": "an answer",
    "stream": "a streamed answer",
    "tools": "a tool loop of two steps, the first with parallel calls",
    "tools_streamed": "the same loop, streamed",
    "reasoning": "reasoning beside the answer",
    "structured": "an answer by a schema",
    "image": "an image as input",
    "usage": "token counts with cached tokens, whole and streamed",
    "errors": "the client's own errors for 400, 401, 404, 429 and 503, with the text of the error",
    "cancel": "a stream that the client leaves stops at the engine",
}
HEAD = """# Clients reference

This page shows which client libraries and coding agents work through the gateway, over which API and before which backend. It is written by [tests/clients](../../tests/clients/README.md), with a scripted model behind the gateway;
[Clients](../benchmarks/clients.md) says how, and how the answers compare with those of the native APIs. Settings of clients are in [examples/clients](../../examples/clients/README.md).

"""


def file(backend, kind):
    """Where the results of a backend are kept."""
    return environment.HOME / f"table-{backend}-{kind}.json"


def results(backend, kind):
    """The checks of a backend, none if they were not run."""
    path = file(backend, kind)
    return json.loads(path.read_text())["results"] if path.exists() else []


def cell(checks, notes):
    """What became of the checks of a row before one backend. `notes` collects the reasons of known failures."""
    if not checks:
        return "not run"
    failed = [check for check in checks if check["passed"] is False]
    if not failed:
        return "all"
    words = []
    for check in failed:
        api, _, feature = check["check"].partition("/")
        note = NOTES.get((check["suite"], api, feature))
        if note and note not in notes:
            notes.append(note)
        words.append(f"{feature}{f' ({notes.index(note) + 1})' if note else ''}")
    return f"all but {', '.join(words)}"


def rows(names, lines):
    """A table as text."""
    return ["| " + " | ".join(names) + " |", "|" + "---|" * len(names), *("| " + " | ".join(line) + " |" for line in lines)]


def libraries(notes):
    """The table of client libraries."""
    found = {}
    for backend in BACKENDS:
        # In the order of the suites, whichever was run last.
        for check in sorted(results(backend, "features"), key=lambda check: [*run.SUITES, check["suite"]].index(check["suite"])):
            api, _, feature = check["check"].partition("/")
            if feature:
                found.setdefault((check["suite"], api), {}).setdefault(backend, []).append(check)
    lines = []
    for (suite, api), row in found.items():
        missing = sorted({check["check"].partition("/")[2] for checks in row.values() for check in checks if check["passed"] is None})
        own = ", ".join(missing) or "–"
        lines.append([suite, APIS.get(api, api), *(cell(row.get(backend), notes) for backend in BACKENDS), own])
    return rows(["Client", "API", *TITLES.values(), "not in the client"], lines)


def agents():
    """The table of agents."""
    found = {}
    for backend in BACKENDS:
        for check in results(backend, "agents"):
            found.setdefault((check["agent"], check["api"]), {})[backend] = "done" if check["passed"] else "fails"
    lines = [[agent, APIS[api], *(row.get(backend, "not run") for backend in BACKENDS)] for (agent, api), row in found.items()]
    return rows(["Agent", "API", *TITLES.values()], lines)


def versions():
    """The pinned packages, sorted by name."""
    found = set()
    for name in ("package.json", "agents-package.json"):
        for package, version in json.loads((environment.HERE / name).read_text())["dependencies"].items():
            # Older versions stand beside the newest under another name.
            package, _, version = version.removeprefix("npm:").rpartition("@") if version.startswith("npm:") else (package, "", version)
            found.add(f"{package} {version}")
    for name in environment.ENVIRONMENTS.values():
        found |= {line.replace("==", " ") for line in (environment.HERE / name).read_text().splitlines()}
    return ", ".join(sorted(f"`{name}`" for name in found))


def page():
    """The whole page."""
    notes = []
    table = libraries(notes)
    features = [f"- `{name}`: {words}" for name, words in FEATURES.items()]
    numbered = [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    day = datetime.date.fromtimestamp(max(path.stat().st_mtime for path in environment.HOME.glob("table-*.json")))
    parts = [
        ["## Libraries", "", "Each is asked the same, as its documentation uses it:", "", *features, ""],
        [*table, "", *numbered, ""] if notes else [*table, ""],
        ["## Agents", "", "Each reads a file, edits it and runs a command. With thinking, every block must come back in the next request.", "", *agents(), ""],
        ["## Versions", "", f"Run on {day}, with {versions()}.", ""],
    ]
    return HEAD + "\n".join(line for part in parts for line in part)


def ask(options, backend, kind):
    """Runs a kind before a backend and keeps the results, beside those of suites and runs that were not run again."""
    new = environment.HOME / "table-new.json"
    command = [sys.executable, str(environment.HERE / "gateway.py"), "--binary", options.binary, "--upstream", BACKENDS[backend]]
    subprocess.run([*command, *KINDS[kind], *(["--only", options.only] if options.only else []), "--json", str(new)], check=False)
    results_now = json.loads(new.read_text())["results"]
    fresh = {part(kind, result) for result in results_now}
    kept = [result for result in results(backend, kind) if options.only and part(kind, result) not in fresh]
    slim = [{name: value for name, value in result.items() if name != "exchanges"} for result in results_now]
    file(backend, kind).write_text(json.dumps({"results": kept + slim}, indent=1))
    new.unlink()


def part(kind, result):
    """What is run at once: a suite, or the run of an agent."""
    return result["suite"] if kind == "features" else result["check"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", help="the gateway; without it nothing is run")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="of these, with commas")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of these, with commas")
    parser.add_argument("--only", help="a part of the name of a suite or of an agent's run")
    options = parser.parse_args()
    for backend in options.backends.split(",") if options.binary else []:
        for kind in options.kinds.split(","):
            ask(options, backend, kind)
    pathlib.Path(PAGE).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
