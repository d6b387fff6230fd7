#!/usr/bin/env python3
"""Counts the files of `src/` that one plain streamed chat crosses.

Builds the gateway with coverage counters in its own code, but not in its dependencies. Runs it twice with the smallest policy
before a mock engine in this process: once with a few chats, once with so many more. A line belongs to the request's way where
its counter grew by at least one for each further chat. Start, end, timers and the first chat's extra work are left out by that.
Needs the tools of LLVM that fit the compiler: `rustup component add llvm-tools`.
"""

import argparse
import collections
import http.client
import http.server
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = "plain"
WARM_UP = 3


class Engine(http.server.BaseHTTPRequestHandler):
    """An engine that streams twenty tokens."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        models = {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "mock"}]}
        known = {"/v1/models": models, "/health": {}}
        body = json.dumps(known.get(self.path, {})).encode()
        self.send_response(200 if self.path in known else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.event(self.choice({"role": "assistant", "content": ""}))
        for token in range(20):
            self.event(self.choice({"content": f" token{token}"}))
        self.event(self.choice({}, "stop"))
        usage = {"prompt_tokens": 12, "completion_tokens": 20, "total_tokens": 32}
        self.event({**self.choice({}), "choices": [], "usage": usage})
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def choice(self, delta, finish=None):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}

    def event(self, data):
        text = data if isinstance(data, str) else json.dumps(data)
        event = f"data: {text}\n\n".encode()
        self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        self.wfile.flush()


def build(folder):
    """The gateway with coverage counters in the workspace's own crates."""
    wrapper = folder / "instrumented-rustc"
    wrapper.write_text('#!/bin/sh\nexec "$@" -C instrument-coverage\n')
    wrapper.chmod(0o755)
    env = {**os.environ, "RUSTC_WORKSPACE_WRAPPER": str(wrapper), "LLVM_PROFILE_FILE": "/dev/null"}
    command = ["cargo", "build", "--bin", "signalbox", "--message-format=json-render-diagnostics"]
    messages = subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    artifacts = [json.loads(line) for line in messages.splitlines() if line.startswith("{")]
    built = [artifact["executable"] for artifact in artifacts if artifact.get("executable")]
    return pathlib.Path(shutil.copy(built[-1], folder / "signalbox"))


def run(binary, engine, chats, profile):
    """Starts the gateway, sends the chats one after the other, and ends it."""
    with tempfile.TemporaryDirectory() as folder:
        ready, policy = pathlib.Path(folder, "ready.json"), pathlib.Path(folder, "policy.yaml")
        policy.write_text(f"pools:\n  main:\n    model: {MODEL}\n    backends: [http://127.0.0.1:{engine}/v1]\n")
        command = [binary, "serve", "--config", policy, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        env = {**os.environ, "LLVM_PROFILE_FILE": str(profile)}
        gateway = subprocess.Popen(
            [*command, "--ready-file", ready], cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        try:
            until = time.monotonic() + 30
            while not (ready.exists() and ready.read_text().strip()):
                if gateway.poll() is not None or time.monotonic() > until:
                    raise SystemExit("the gateway does not start")
                time.sleep(0.02)
            listen = json.loads(ready.read_text())["listen"]
            client = http.client.HTTPConnection(listen, timeout=30)
            for number in range(chats):
                chat(client, number)
            client.close()
        finally:
            gateway.send_signal(signal.SIGTERM)
            gateway.wait(60)


def chat(client, number):
    messages = [{"role": "user", "content": f"Question number {number}: name one token."}]
    body = json.dumps({"model": MODEL, "stream": True, "messages": messages})
    client.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
    reply = client.getresponse()
    text = reply.read()
    if reply.status != 200 or b"token19" not in text or b"[DONE]" not in text:
        raise SystemExit(f"the chat failed: {reply.status} {text[:500]!r}")


def counters(binary, profile):
    """The counters of lines and functions: {(file, line or function): count}."""
    version = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout
    host = next(line.split()[1] for line in version.splitlines() if line.startswith("host:"))
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, stdout=subprocess.PIPE, text=True).stdout
    tools = pathlib.Path(sysroot.strip(), "lib/rustlib", host, "bin")
    if not (tools / "llvm-cov").exists():
        raise SystemExit("llvm-cov is not here: rustup component add llvm-tools")
    merged = profile.with_suffix(".profdata")
    subprocess.run([tools / "llvm-profdata", "merge", "-sparse", profile, "-o", merged], check=True)
    export = [tools / "llvm-cov", "export", "-format=lcov", f"-instr-profile={merged}", binary]
    text = subprocess.run(export, check=True, stdout=subprocess.PIPE, text=True).stdout
    lines, functions, file = collections.Counter(), collections.Counter(), ""
    for record in text.splitlines():
        kind, _, value = record.partition(":")
        if kind == "SF":
            path = pathlib.Path(value)
            file = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else value
        elif kind == "DA":
            line, count = value.split(",")[:2]
            lines[file, int(line)] = int(count)
        elif kind == "FNDA":
            count, function = value.split(",", 1)
            functions[file, function] = int(count)
    return lines, functions


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chats", type=int, default=100, help="further chats, from which the counters are read")
    parser.add_argument("--crate", dest="member", help="count the files of this crate only, such as `gateway`")
    parser.add_argument("--at-most", type=int, help="fail where the files are more")
    args = parser.parse_args()
    folder = ROOT / "target/crossed"
    folder.mkdir(parents=True, exist_ok=True)
    binary = build(folder)
    engine = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    threading.Thread(target=engine.serve_forever, daemon=True).start()
    below = f"crates/{args.member}/src/" if args.member else ("crates/", "src/")
    found = []
    for name, chats in [("few", WARM_UP), ("many", WARM_UP + args.chats)]:
        profile = folder / f"{name}.profraw"
        run(binary, engine.server_address[1], chats, profile)
        found.append(counters(binary, profile))
    grown = [
        [key for key, count in many.items() if key[0].startswith(below) and count - few[key] >= args.chats]
        for few, many in zip(*found)
    ]
    lines, functions = (collections.Counter(file for file, _ in keys) for keys in grown)
    report(lines, functions)
    if args.at_most and len(lines) > args.at_most:
        raise SystemExit(f"{len(lines)} files, {args.at_most} are allowed")


def report(lines, functions):
    member = lambda file: file.split("/")[1]
    print(f"{'file':48} {'functions':>9} {'lines':>6}")
    for file in sorted(lines):
        print(f"{file:48} {functions[file]:>9} {lines[file]:>6}")
    print(f"\n{'crate':48} {'files':>9} {'lines':>6}")
    files = collections.Counter(member(file) for file in lines)
    for name, number in sorted(files.items()):
        print(f"{name:48} {number:>9} {sum(count for file, count in lines.items() if member(file) == name):>6}")
    print(f"{'all':48} {len(lines):>9} {sum(lines.values()):>6}")


if __name__ == "__main__":
    main()
