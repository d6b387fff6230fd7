"""Measures how long this workspace takes to build, and how much memory: a Markdown table.

    python3 tools/build_times.py [--target FOLDER] [--edit FILE] [--unit "FLAGS"]

Each build starts from nothing, or from an edit of one line in FILE, with the machine's own number of jobs. Seconds of the processor
depend little on what else runs, wall time does: run it on an idle machine. Needs Linux and Python 3.
"""

import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import time

ROOT = pathlib.Path(__file__).parent.parent
GATEWAY = "crates/gateway/src/dispatch/retry.rs"


def measure(name, command, target):
    """Runs a build and prints its row: processor and wall seconds, and the largest process."""
    env = {**os.environ, "CARGO_TARGET_DIR": str(target), "CARGO_TERM_COLOR": "never"}
    began = time.monotonic()
    build = subprocess.Popen(["cargo", *command], cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(build.pid, 0)
    if status:
        raise SystemExit(f"cargo {' '.join(command)}: failed")
    seconds = used.ru_utime + used.ru_stime
    print(f"| {name} | {seconds:.0f} | {time.monotonic() - began:.0f} | {used.ru_maxrss / 1e6:.2f} |", flush=True)


def edited(path, number):
    """Adds a line to a function: a comment alone would leave the same code."""
    text = path.read_text()
    at = re.search(r"^ *(pub(\([^)]*\))? )?fn [^;{]*\{\n", text, re.MULTILINE).end()
    path.write_text(text[:at] + f"let _ = {number}_u32;\n" + text[at:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", type=pathlib.Path, default=ROOT / "target/build-times", help="emptied before and after")
    parser.add_argument("--edit", default=GATEWAY, help="the file to edit")
    parser.add_argument("--unit", default="-p signalbox-gateway-core --lib", help="the unit tests of that file")
    args = parser.parse_args()
    target, file = args.target.absolute(), ROOT / args.edit
    kept = file.read_text()
    shutil.rmtree(target, ignore_errors=True)
    print("| Build | Processor, s | Wall, s | Largest process, GB |\n|---|---:|---:|---:|", flush=True)
    try:
        measure("`cargo build --release`, from nothing", ["build", "--release"], target)
        shutil.rmtree(target)
        measure("`cargo test --no-run`, from nothing", ["test", "--no-run"], target)
        unit = ["test", "--no-run", *shlex.split(args.unit)]
        for name, command in [("the debug binary", ["build", "--bin", "signalbox"]), ("its unit tests", unit)]:
            subprocess.run(["cargo", *command], cwd=ROOT, env={**os.environ, "CARGO_TARGET_DIR": str(target)}, check=True, capture_output=True)
            for number in range(2):
                edited(file, number)
                measure(f"an edit in `{args.edit}` to {name}", command, target)
                file.write_text(kept)
    finally:
        file.write_text(kept)
        shutil.rmtree(target, ignore_errors=True)


if __name__ == "__main__":
    main()
