"""The Open Responses specification, in checks of our own: the published schema (as the package llm-comply ships it) and the rules of its text.

The requests are those of its compliance tests (basic-response, streaming-response, system-prompt, tool-calling, tool-calling-streaming, image-input,
multi-turn), with reasoning, an incomplete answer and structured output beside them.
"""

import importlib.resources
import json
import urllib.request

import jsonschema
import referencing
import referencing.jsonschema
from suite import API_KEY, BASE_URL, MODEL, PNG, check, failing, run, same

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
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}


def message(role, content):
    return {"type": "message", "role": role, "content": content}


USER = message("user", "What's the weather like in San Francisco?")
IMAGE = [{"type": "input_text", "text": "What do you see?"}, {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}]
REQUESTS = {
    "basic": {"input": [message("user", "Say hello in exactly 3 words.")]},
    "string": {"input": "Say hello."},
    "system": {"input": [message("system", "You are a pirate."), message("user", "Say hello.")]},
    "tool": {"input": [USER], "tools": [WEATHER]},
    "tools": {"input": 'call get_weather with {"location": "A"} and call get_weather with {"location": "B"}', "tools": [WEATHER]},
    "image": {"input": [message("user", IMAGE)]},
    "turns": {"input": [message("user", "My name is Alice."), message("assistant", "Hello Alice!"), message("user", "What is my name?")]},
    "reasoning": {"input": "think first, then count to 3", "reasoning": {"effort": "low"}},
    "incomplete": {"input": "count to 9", "max_output_tokens": 3},
    "schema": {"input": "Is it fine?", "text": {"format": {"type": "json_schema", "name": "fine", "schema": SCHEMA, "strict": True}}},
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


def each(function):
    """Runs a check with every request; failures name it."""
    found = []
    for name, body in REQUESTS.items():
        try:
            function(name, body)
        except AssertionError as error:
            found.append(f"{name}: {error}")
    assert not found, "; ".join(found)


@check
def answers_follow_the_schema():
    def one(_, body):
        kind, text = post(body)
        assert kind.startswith("application/json"), kind
        same(problems(json.loads(text), "ResponseResource"), [], "problems")

    each(one)


@check
def answers_have_their_status():
    def one(name, body):
        answer = json.loads(post(body)[1])
        same(answer["status"], "incomplete" if name == "incomplete" else "completed", "status")
        same({item["type"] for item in answer["output"]} & {"function_call"} != set(), name.startswith("tool"), "a function call")

    each(one)


@check
def events_follow_the_schema():
    def one(_, body):
        found = events(body)[0]
        wrong = {f"{kind}: {p}" for _, data in found if (kind := data["type"]) in EVENTS for p in problems(data, EVENTS[kind])}
        same(sorted(wrong), [], "problems")

    each(one)


@check
def event_names_and_numbers():
    def one(_, body):
        found = events(body)[0]
        same([name for name, _ in found], [data["type"] for _, data in found], "names")
        same([data["sequence_number"] for _, data in found], list(range(len(found))), "sequence numbers")

    each(one)


@check
def the_last_event_is_done():
    each(lambda _, body: same(events(body)[1], "[DONE]", "last event"))


@check
def streams_end_with_the_whole_response():
    def one(_, body):
        found = [data for _, data in events(body)[0]]
        same([data["type"] for data in found[:2]], ["response.created", "response.in_progress"], "first events")
        whole = found[-1]["response"]
        same(found[-1]["type"], f"response.{whole['status']}", "last event")
        same(problems(whole, "ResponseResource"), [], "problems")
        done = [data["item"] for data in found if data["type"] == "response.output_item.done"]
        same(done, whole["output"], "items that were done")
        alone = json.loads(post(body)[1])
        same([content(item) for item in whole["output"]], [content(item) for item in alone["output"]], "output, streamed or not")

    each(one)


def content(item):
    """What an item says, without its ids."""
    return item["type"], item.get("arguments"), [part["text"] for part in item.get("content") or []]


@check
def items_are_state_machines():
    def one(_, body):
        opened, parts, texts = {}, {}, {}
        for data in (data for _, data in events(body)[0]):
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

    each(one)


@check
def calls_have_arguments_events():
    kinds = [data["type"] for _, data in events(REQUESTS["tool"])[0]]
    for kind in ("response.function_call_arguments.delta", "response.function_call_arguments.done"):
        assert kind in kinds, f"no {kind} in {kinds}"


@check
def errors_have_their_form():
    for body, status in (({"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]}, 400), ({"model": failing("429"), "input": "fail with 429"}, 429)):
        try:
            post(body)
        except urllib.error.HTTPError as error:
            same(error.code, status, "status")
            fields = json.loads(error.read())["error"]
            assert fields["message"] and fields["type"] and {"code", "param"} <= fields.keys(), fields
            continue
        raise AssertionError(f"no error {status}")


run()
