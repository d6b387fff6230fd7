"""The Open Responses specification, in checks of our own: the published schema (as the package llm-comply ships it) and the rules of its text.

The requests are those of its compliance tests (basic-response, streaming-response, system-prompt, tool-calling, tool-calling-streaming, image-input,
multi-turn), with reasoning, an incomplete answer and structured output beside them.
"""

import json
import urllib.error

from responses_schema import EVENTS, events, follow, post, problems
from suite import PNG, check, failing, run, same

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
    each(lambda _, body: follow(events(body)[0]))


@check
def calls_have_arguments_events():
    kinds = [data["type"] for _, data in events(REQUESTS["tool"])[0]]
    for kind in ("response.function_call_arguments.delta", "response.function_call_arguments.done"):
        assert kind in kinds, f"no {kind} in {kinds}"


@check
def errors_have_their_form():
    for body, status in (
        ({"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]}, 400),
        ({"model": failing("429"), "input": "fail with 429"}, 429),
    ):
        try:
            post(body)
        except urllib.error.HTTPError as error:
            same(error.code, status, "status")
            fields = json.loads(error.read())["error"]
            assert fields["message"] and fields["type"] and {"code", "param"} <= fields.keys(), fields
            continue
        raise AssertionError(f"no error {status}")


run()
