#!/usr/bin/env python3
"""Processor time that open pages cost a gateway: 64 watchers of /admin/events, 200 backends, no requests.

    cargo build --release && python3 tools/watchers.py target/release/signalbox [--backends 200] [--watchers 64] [--seconds 20]

Every watcher reads the stream as a browser does. Prints the share of one core that the gateway used, with and without watchers: the simulated
engines run in the same process and are polled, which is the share without. Linux only (/proc).
"""
import argparse, json, os, socket, subprocess, tempfile, threading, time, urllib.request
from pathlib import Path


def policy(backends):
    engines = "".join(f'  gpu-{at}: {{ url: "http://10.0.{at // 200}.{at % 200 + 1}:8000/v1" }}\n' for at in range(backends))
    names = ", ".join(f"{{ engine: gpu-{at} }}" for at in range(backends))
    return f"listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nengines:\n{engines}pools:\n  all:\n    model: m\n    backends: [{names}]\nmodels: {{ auto: {{ to: all }} }}\n"


def used(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share(pid, seconds):
    before, began = used(pid), time.monotonic()
    time.sleep(seconds)
    return (used(pid) - before) / (time.monotonic() - began)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--backends", type=int, default=200)
    parser.add_argument("--watchers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config, ready = Path(folder, "policy.yaml"), Path(folder, "ready.json")
        config.write_text(policy(args.backends))
        gateway = subprocess.Popen([args.binary, "serve", "--simulate", "--config", config, "--ready-file", ready], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not ready.exists():
                time.sleep(0.1)
            time.sleep(3)
            host, port = json.loads(ready.read_text())["admin"].rsplit(":", 1)
            state = urllib.request.urlopen(f"http://{host}:{port}/admin/state").read()
            idle = share(gateway.pid, args.seconds)
            read = [0] * args.watchers

            def watch(at):
                stream = socket.create_connection((host, int(port)))
                stream.sendall(f"GET /admin/events HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: text/event-stream\r\nAccept-Encoding: gzip\r\n\r\n".encode())
                while chunk := stream.recv(1 << 20):
                    read[at] += len(chunk)

            for at in range(args.watchers):
                threading.Thread(target=watch, args=(at,), daemon=True).start()
            time.sleep(3)
            before = sum(read)
            busy = share(gateway.pid, args.seconds)
            rate = (sum(read) - before) / args.seconds / max(1, args.watchers)
            print(f"{args.backends} backends, {args.watchers} watchers, a state of {len(state) / 1e3:.0f} kB; each read {rate / 1e3:.0f} kB/s")
            print(f"without watchers {idle:.2%} of a core, with them {busy:.2%}: they cost {busy - idle:.2%}")
        finally:
            gateway.terminate()
            gateway.wait()


main()
