"""Requests to /v1/responses without an SDK, and the published schema and rules of Open Responses."""

import importlib.resources
import json
import urllib.request

import jsonschema
import referencing
import referencing.jsonschema
from suite import API_KEY, BASE_URL, MODEL, same

SPEC = json.loads(importlib.resources.files("llm_comply").joinpath("specs/openresponses.json").read_text())
# The published schema lets a response repeat a JSON schema only as null, which no server does.
SPEC["components"]["schemas"]["JsonSchemaResponseFormat"]["properties"]["schema"] = {"type": ["object", "null"]}
REGISTRY = referencing.Registry().with_resource("spec", referencing.jsonschema.DRAFT202012.create_resource(SPEC))
EVENTS = {
    kind: name
    for name, schema in SPEC["components"]["schemas"].items()
    if name.endswith("StreamingEvent")
    for kind in schema["properties"]["type"]["enum"]
}


def post(body):
    """Sends a request; the response's type and text."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {API_KEY}"}
    raw = json.dumps({"model": MODEL, "store": False} | body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{BASE_URL}/responses", raw, headers), timeout=20) as response:
        return response.headers["content-type"], response.read().decode()


def problems(value, name):
    """What the schema of this name says against a value."""
    validator = jsonschema.Draft202012Validator({"$ref": f"spec#/components/schemas/{name}"}, registry=REGISTRY)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message[:160]}" for error in validator.iter_errors(value)]


def events(body):
    """The events of a stream as (name, data), and the text of the last one."""
    kind, text = post({"stream": True} | body)
    assert kind.startswith("text/event-stream"), kind
    found, last = [], ""
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":") and ": " in line)
        if "data" not in fields:
            continue
        last = fields["data"]
        if last != "[DONE]":
            found.append((fields.get("event"), json.loads(last)))
    return found, last


def follow(found):
    """Fails unless items and parts open, grow and close in order."""
    opened, parts, texts = {}, {}, {}
    for _, data in found:
        kind, at = data["type"], data.get("output_index")
        part = (at, data.get("content_index"))
        if kind == "response.output_item.added":
            same(at, len(opened), "output_index")
            assert all(state == "done" for state in opened.values()), "an item began before the last one ended"
            same(data["item"]["status"], "in_progress", "status of a new item")
            opened[at] = data["item"]["id"]
        elif kind == "response.output_item.done":
            same(data["item"]["id"], opened[at], "id")
            opened[at] = "done"
        elif kind == "response.content_part.added":
            parts[part], texts[part] = data["part"]["type"], ""
        elif kind.endswith(".delta"):
            same(data["item_id"], opened[at], "item_id")
            assert part in parts or "arguments" in kind, f"{kind} outside of a content part"
            texts[part] = texts.get(part, "") + data["delta"]
        elif kind.endswith(".done") and kind != "response.content_part.done":
            same(data.get("text", data.get("arguments")), texts[part], kind)
        elif kind == "response.content_part.done":
            same(data["part"]["text"], texts[part], kind)
    assert all(state == "done" for state in opened.values()), opened
