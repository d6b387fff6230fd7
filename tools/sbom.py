"""Lists what a build of signalbox consists of: a CycloneDX SBOM, and the licence texts of the parts.

    python3 tools/sbom.py --target TRIPLE --sbom FILE --licences FILE [cargo flags, such as --no-default-features]

Needs Python 3.11 and cargo. Equal sources give equal files.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import tomllib
import uuid
from datetime import datetime, timezone

ROOT = pathlib.Path(__file__).parent.parent
LICENCE = re.compile(r"^(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)


def metadata(target: str, flags: list[str]) -> dict:
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target, *flags]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def parts(data: dict) -> tuple[dict, list[dict], dict[str, list[str]]]:
    """The program, the packages that are compiled into it, and for each package those that it uses directly."""
    packages = {package["id"]: package for package in data["packages"]}
    program = next(package for package in data["packages"] if package["name"] == "signalbox-gateway" and not package["source"])
    uses = {
        node["id"]: [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
        for node in data["resolve"]["nodes"]
    }
    reached, waiting = set(), [program["id"]]
    while waiting:
        at = waiting.pop()
        if at not in reached:
            reached.add(at)
            waiting.extend(uses[at])
    order = sorted(reached - {program["id"]}, key=lambda at: (packages[at]["name"], packages[at]["version"]))
    return program, [packages[at] for at in order], {at: uses[at] for at in [program["id"], *order]}


def component(package: dict, checksums: dict[tuple[str, str], str], kind: str) -> dict:
    name, version = package["name"], package["version"]
    made = {
        "type": kind,
        "bom-ref": f"pkg:cargo/{name}@{version}",
        "name": name,
        "version": version,
        "description": (package["description"] or "").strip(),
        "purl": f"pkg:cargo/{name}@{version}",
    }
    if package["license"]:
        # An old way to write `OR`, which the standard for expressions does not know.
        made["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    if checksum := checksums.get((name, version)):
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return made


def sbom(program: dict, packages: list[dict], uses: dict[str, list[str]]) -> dict:
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(entry["name"], entry["version"]): entry["checksum"] for entry in lock if "checksum" in entry}
    refs = {package["id"]: f"pkg:cargo/{package['name']}@{package['version']}" for package in [program, *packages]}
    components = [component(package, checksums, "library") for package in packages]
    made = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), timezone.utc).isoformat(),
            "component": component(program, checksums, "application"),
        },
        "components": components,
        "dependencies": [
            {"ref": refs[at], "dependsOn": sorted({refs[used] for used in used_by if used in refs})}
            for at, used_by in uses.items()
        ],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(made, sort_keys=True))
    return {"serialNumber": f"urn:uuid:{serial}", **made}


def licences(packages: list[dict]) -> str:
    """Every licence text once, with the packages that carry it."""
    texts: dict[str, list[str]] = {}
    bare = []
    for package in packages:
        name = f"{package['name']} {package['version']}"
        folder = pathlib.Path(package["manifest_path"]).parent
        files = sorted(file for file in folder.iterdir() if LICENCE.match(file.name) and file.is_file())
        for file in files:
            texts.setdefault(file.read_text(errors="replace").strip(), []).append(name)
        if not files:
            bare.append(f"{name}: {package['license']}")
    vendored = pathlib.Path(__file__).parent.parent / "crates/server/assets/page/vendor/LICENSE-uPlot"
    texts.setdefault(vendored.read_text().strip(), []).append("uPlot 1.6.32, in the page")
    rule = "\n\n" + "=" * 100 + "\n"
    head = "Signalbox is made of the packages below. Each licence text follows the packages that carry it."
    without = "These packages carry no text of their licence:\n" + "\n".join(bare)
    return rule.join([head, without, *(f"{', '.join(names)}\n\n{text}" for text, names in texts.items())]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--sbom", type=pathlib.Path, required=True)
    parser.add_argument("--licences", type=pathlib.Path, required=True)
    args, flags = parser.parse_known_args()
    program, packages, uses = parts(metadata(args.target, flags))
    args.sbom.write_text(json.dumps(sbom(program, packages, uses), indent=1, ensure_ascii=False) + "\n")
    args.licences.write_text(licences(packages))
    print(f"{len(packages)} packages")


main()
