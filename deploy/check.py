#!/usr/bin/env python3
"""Checks the files of this folder offline: the unit, the manifests, the chart and the compose file.

  python3 -m venv .venv && .venv/bin/pip install -r deploy/requirements.txt
  .venv/bin/python deploy/check.py [PATH-OF-SIGNALBOX]

Uses Helm's own engine (helm-python-sdk), the schemas of the Kubernetes API (kubernetes-validate), the compose
specification's schema (compose-spec) and, where the machine has them, systemd-analyze and promtool. With the path of a built
signalbox, every policy in these files is checked by it, and every metric against docs/reference/metrics.md.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
CHART = HERE / "helm/signalbox"
# The oldest and the newest release that the manifests are checked for.
RELEASES = ["1.30", "1.37"]
# Kinds of the Prometheus Operator, of which there are no schemas here.
UNKNOWN = {"ServiceMonitor"}
ENVIRONMENT = {"SIGNALBOX_ADMIN_TOKEN": "0123456789abcdef", "LAME_DUCK": "10s", "DRAIN": "60s", "REDIS_PASSWORD": "pass",
               "CACHE_KEY": "0123456789abcdef0123456789abcdef"}
problems = []


def report(place, problem):
    problems.append(f"{place}: {problem}")


def skipped(what, why):
    print(f"not checked: {what} ({why})")


def run(*command, env=None):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})})
    return done.returncode, done.stdout + done.stderr


def check_unit():
    """systemd takes the unit without a warning and rates its exposure 2.0 or less."""
    if not shutil.which("systemd-analyze"):
        return skipped("systemd/signalbox.service", "no systemd-analyze")
    unit = HERE / "systemd/signalbox.service"
    text = unit.read_text()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / unit.name
        # The binary need not be installed here.
        copy.write_text(text.replace("/usr/local/bin/signalbox", "/bin/true"))
        code, said = run("systemd-analyze", "verify", "--man=no", str(copy))
        if code or said.strip():
            report(unit.name, f"systemd-analyze verify: {said}")
        code, said = run("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", str(copy))
        exposure = next((line for line in said.splitlines() if "exposure level" in line), said)
        print(f"unit: {exposure.strip('→ ')}")
        if code:
            report(unit.name, "its exposure is above 2.0")


def check_path():
    """The image has the binary where the manifests, the compose file and the guide start it."""
    text = (HERE.parent / "Containerfile").read_text()
    started = re.search(r'^ENTRYPOINT \["([^"]+)"', text, re.M).group(1)
    places = ["Containerfile", "tools/container-root.sh", "deploy/compose/compose.yaml", "deploy/kubernetes/deployment.yaml",
              "deploy/helm/signalbox/templates/deployment.yaml", "docs/how-to/deploy.md", ".github/workflows/release.yml"]
    for place in places:
        found = set(re.findall(r"/usr/(?:local/)?bin/signalbox", (HERE.parent / place).read_text()))
        if found != {started}:
            report(place, f"starts {', '.join(sorted(found))}, but the image has {started}")


def check_manifests(place, documents):
    """Each object fits the API's schema, and references between objects are whole."""
    import kubernetes_validate

    documents = [document for document in documents if document]
    for document in documents:
        name = f"{place}: {document['kind']} {document['metadata']['name']}"
        if document["kind"] in UNKNOWN:
            continue
        for release in RELEASES:
            try:
                kubernetes_validate.validate(document, release, strict=True)
            except Exception as error:  # The package has an error class of its own in each version.
                report(name, f"Kubernetes {release}: {error}")
    by_kind = lambda kind: [it for it in documents if it["kind"] == kind]
    for deployment in by_kind("Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        container = spec["containers"][0]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        for service in by_kind("Service"):
            wanted = service["spec"]["selector"]
            if not wanted.items() <= labels.items():
                report(place, f"Service {service['metadata']['name']} selects no pod: {wanted} of {labels}")
            for port in service["spec"]["ports"]:
                if port["targetPort"] not in ports:
                    report(place, f"Service {service['metadata']['name']}: no port {port['targetPort']}")
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"]:
            if container[probe]["httpGet"]["port"] not in ports:
                report(place, f"{probe} asks a port that is not there")
        for monitor in by_kind("ServiceMonitor"):
            wanted = monitor["spec"]["selector"]["matchLabels"]
            chosen = [it for it in by_kind("Service") if wanted.items() <= it["metadata"].get("labels", {}).items()]
            names = [port["name"] for it in chosen for port in it["spec"]["ports"]]
            if [endpoint["port"] for endpoint in monitor["spec"]["endpoints"]] != names:
                report(place, f"ServiceMonitor {monitor['metadata']['name']} selects {names}")
        security = container["securityContext"]
        if not security["readOnlyRootFilesystem"] or security["allowPrivilegeEscalation"]:
            report(place, "the container is not locked down")
        policies = {it["metadata"]["name"]: it["data"]["policy.yaml"] for it in by_kind("ConfigMap")}
        volumes = {it["name"]: it for it in spec["volumes"]}
        used = volumes["policy"]["configMap"]["name"]
        for mount in container["volumeMounts"]:
            if mount["name"] not in volumes:
                report(place, f"no volume {mount['name']}")
        environment = {it["name"]: it.get("value", ENVIRONMENT.get(it["name"], "set")) for it in container["env"]}
        grace = spec["terminationGracePeriodSeconds"]
        if used in policies:
            check_policy(f"{place}: policy", policies[used], environment, grace, container)


def check_policy(place, text, environment, grace=None, container=None):
    """signalbox takes the policy, whose stop fits into the grace period."""
    if not SIGNALBOX:
        return
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        code, said = run(SIGNALBOX, "check", file.name, env=environment)
    if code:
        report(place, said)
    if grace is not None:
        filled = re.sub(r"\$\{(\w+)\}", lambda found: environment.get(found[1], ""), text)
        limits = yaml.safe_load(filled).get("limits", {})
        seconds = lambda key, default: int(str(limits.get(key, default)).removesuffix("s"))
        sleep = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        if seconds("lame_duck", 0) + seconds("drain", 30) + sleep >= grace:
            report(place, f"pods are killed after {grace} s, before their drain is over")


def kustomized(folder):
    """What `kubectl kustomize` makes of the few fields that these files use."""
    spec = yaml.safe_load((folder / "kustomization.yaml").read_text())
    known = {"apiVersion", "kind", "resources", "labels", "configMapGenerator", "generatorOptions", "images"}
    if unknown := spec.keys() - known:
        report(folder, f"fields that this script does not apply: {unknown}")
    documents = []
    for resource in spec["resources"]:
        path = (folder / resource).resolve()
        documents += kustomized(path) if path.is_dir() else list(yaml.safe_load_all(path.read_text()))
    for generator in spec.get("configMapGenerator", []):
        data = {name: (folder / name).read_text() for name in generator["files"]}
        documents.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generator["name"]}, "data": data})
    for label in spec.get("labels", []):
        for document in documents:
            document["metadata"].setdefault("labels", {}).update(label["pairs"])
            select(document, label["pairs"])
    for image in spec.get("images", []):
        for document in documents:
            for container in document.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
                if container["image"] == image["name"]:
                    container["image"] = f"{image['newName']}:{image['newTag']}"
    return documents


def select(document, labels):
    """Adds labels to selectors and templates, as `includeSelectors` does."""
    spec = document.get("spec", {})
    match document["kind"]:
        case "Deployment":
            spec.setdefault("selector", {}).setdefault("matchLabels", {}).update(labels)
            spec["template"].setdefault("metadata", {}).setdefault("labels", {}).update(labels)
        case "Service":
            spec.setdefault("selector", {}).update(labels)
        case "PodDisruptionBudget":
            spec.setdefault("selector", {}).setdefault("matchLabels", {}).update(labels)
        case "NetworkPolicy":
            spec["podSelector"].setdefault("matchLabels", {}).update(labels)


EVERYTHING = {
    "image": {"repository": "r.example.com/s", "digest": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "pull"}],
    "autoscaling": {"enabled": True},
    "engineAutoscaling": [{"pool": "main", "name": "vllm", "minReplicas": 1, "maxReplicas": 8, "saturation": 0.85},
                          {"pool": "b", "kind": "StatefulSet", "name": "sg", "minReplicas": 0, "maxReplicas": 2, "saturation": 1}],
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "networkPolicy": {"enabled": True},
    "restartOnPolicyChange": True,
    "preStopSleepSeconds": 5,
    "adminToken": {"existingSecret": "mine"},
    "envFrom": [{"secretRef": {"name": "provider-keys"}}],
    "env": [{"name": "A", "value": "b"}],
    "service": {"type": "LoadBalancer", "port": 443, "annotations": {"a": "b"}},
    "podLabels": {"team": "x"},
    "podAnnotations": {"a": "b"},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "extraVolumes": [{"name": "roots", "secret": {"secretName": "roots"}}],
    "extraVolumeMounts": [{"name": "roots", "mountPath": "/etc/roots", "readOnly": True}],
}
# Values, and a part of the error that they have to give.
WRONG = [
    ({"replica": 3}, "replica"),
    ({"policy": ""}, "policy"),
    ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
    ({"engineAutoscaling": [{"pool": "main", "name": "vllm", "minReplicas": 1, "maxReplicas": 2, "saturation": 80}]}, "saturation"),
]


def check_chart():
    """Helm takes the chart, renders it with few and with all values, and refuses wrong ones."""
    from helm_python import chart as helm

    for values in [{}, EVERYTHING]:
        found = helm.lint(str(CHART), values, strict=True)
        # Severity 1 is advice, such as an icon.
        for message in [it for it in found["messages"] if it["severity"] > 1]:
            report("chart", f"helm lint: {message}")
        with helm.Chart.load(str(CHART)) as chart:
            files = chart.render(values, name="prod", namespace="llm")
        manifests = {path: text for path, text in files.items() if path.endswith(".yaml")}
        documents = [it for text in manifests.values() for it in yaml.safe_load_all(text)]
        print(f"chart: {len([it for it in documents if it])} objects")
        check_manifests("chart", documents)
    with helm.Chart.load(str(CHART)) as chart:
        for values, part in WRONG:
            try:
                chart.validate_schema(values)
                report("chart", f"the schema takes {values}")
            except Exception as error:
                if part not in str(error):
                    report("chart", f"{values}: {error}")


def check_compose():
    """The compose file has the specification's form, and mounts what is there."""
    path = HERE / "compose/compose.yaml"
    fill = lambda found: found[3] if found[2] == "-" else ENVIRONMENT[found[1]]
    text = re.sub(r"\$\{(\w+):([-?])([^}]*)\}", fill, path.read_text())
    document = yaml.safe_load(text)
    try:
        import compose_spec
        compose_spec.PyCompose.from_yaml(text).validate()
    except ImportError:
        skipped("compose.yaml against the specification", "no compose-spec")
    except Exception as error:
        report("compose.yaml", error)
    for name, service in document["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith(".") and not (path.parent / source).exists():
                report("compose.yaml", f"{name} mounts {source}, which is not there")
            if not source.startswith(".") and source not in document["volumes"]:
                report("compose.yaml", f"{name} mounts the volume {source}, which is not declared")
        for other in service.get("depends_on", {}):
            if other not in document["services"]:
                report("compose.yaml", f"{name} depends on {other}, which is not there")
    check_policy("compose/policy/policy.yaml", (path.parent / "policy/policy.yaml").read_text(), ENVIRONMENT)
    if shutil.which("promtool"):
        with tempfile.TemporaryDirectory() as folder:
            config = yaml.safe_load((path.parent / "prometheus.yml").read_text())
            # Paths as they are in the container.
            config["rule_files"] = [str(HERE.parent / "examples/observability/rules" / Path(it).name) for it in config["rule_files"]]
            token = Path(folder) / "token"
            token.write_text("token")
            for job in config["scrape_configs"]:
                if "authorization" in job:
                    job["authorization"]["credentials_file"] = str(token)
            copy = Path(folder) / "prometheus.yml"
            copy.write_text(yaml.safe_dump(config))
            code, said = run("promtool", "check", "config", str(copy))
            if code:
                report("compose/prometheus.yml", said)
    else:
        skipped("compose/prometheus.yml", "no promtool")


def check_metrics():
    """Every metric that is named here exists."""
    reference = (HERE.parent / "docs/reference/metrics.md").read_text()
    known = set(re.findall(r"`(signalbox_[a-z0-9_]+)`", reference))
    for path in sorted(HERE.rglob("*")):
        if path.is_file() and path.suffix in {".yaml", ".yml", ".tpl", ".md", ".txt"}:
            for name in set(re.findall(r"signalbox_[a-z0-9_]+", path.read_text())):
                if name not in known:
                    report(path.relative_to(HERE), f"there is no metric {name}")


SIGNALBOX = str(Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else None
if not SIGNALBOX:
    skipped("policies", "no path of signalbox given")
check_unit()
check_path()
check_manifests("kubernetes", kustomized(HERE / "kubernetes"))
check_manifests("kubernetes/monitoring", kustomized(HERE / "kubernetes/monitoring"))
check_chart()
check_compose()
check_metrics()
for problem in problems:
    print(f"WRONG {problem}", file=sys.stderr)
print("deploy: " + (f"{len(problems)} problems" if problems else "all checks passed"))
sys.exit(1 if problems else 0)
