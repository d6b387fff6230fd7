"""Every answer and event of a recording against the published schemas: OpenAI's and Anthropic's specifications and Open Responses (as the package
llm-comply ships them), and the models of the SDKs in strict mode.

TRAFFIC names the recording, one exchange a line (`run.py --traffic`). One check for each kind of object; a failure shows each problem once, with the
checks whose traffic had it. A null where the schema has none is a problem, as strict clients reject it.
"""

import collections
import importlib.resources
import json
import os
import pathlib

import anthropic.types
import jsonschema
import openai.types.responses
import pydantic
import referencing
import referencing.jsonschema
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from suite import CHECKS, run

SPECS = importlib.resources.files("llm_comply") / "specs"


def nullable(schema):
    """OpenAPI 3.0 says `nullable`, JSON Schema has no such word."""
    if isinstance(schema, list):
        return [nullable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: nullable(part) for key, part in schema.items() if key != "nullable"}
    return {"anyOf": [plain, {"type": "null"}]} if schema.get("nullable") is True else plain


def specification(name):
    """A specification as a resource of that name."""
    spec = json.loads((SPECS / f"{name}.json").read_text())
    if name == "openresponses":
        # The published schema lets a response repeat a JSON schema only as null, which no server does.
        spec["components"]["schemas"]["JsonSchemaResponseFormat"]["properties"]["schema"] = {"type": ["object", "null"]}
    return name, referencing.jsonschema.DRAFT202012.create_resource(nullable(spec))


REGISTRY = referencing.Registry().with_resources(map(specification, ("anthropic", "openai_chat", "openresponses")))
OPEN_EVENTS = {
    kind: name
    for name, schema in REGISTRY.contents("openresponses")["components"]["schemas"].items()
    if name.endswith("StreamingEvent")
    for kind in schema["properties"]["type"]["enum"]
}


def schema(spec, name):
    """A function that lists what a schema says against a value."""
    validator = jsonschema.Draft202012Validator({"$ref": f"{spec}#/components/schemas/{name}"}, registry=REGISTRY)

    def problems(value):
        for error in validator.iter_errors(value):
            # Of alternatives the one that fits best says most.
            while error.context:
                error = min(error.context, key=lambda e: (e.validator in ("const", "enum", "type"), -len(e.absolute_path)))
            yield f"{spec}: {'.'.join('#' if isinstance(p, int) else p for p in error.absolute_path)}: {error.message[:120]}"

    return problems


def model(kind):
    """A function that lists what an SDK's type says against a value."""
    adapter = pydantic.TypeAdapter(kind)

    def problems(value):
        try:
            adapter.validate_json(json.dumps(value), strict=True)
        except pydantic.ValidationError as error:
            for found in error.errors(include_url=False)[:8]:
                yield f"SDK: {'.'.join('#' if isinstance(p, int) else str(p) for p in found['loc'])}: {found['msg']}"

    return problems


def each(*validators):
    """What any of these says."""
    return lambda value: [problem for validator in validators for problem in validator(value)]


# The specification's Response is of 2025; Open Responses and the SDK are newer.
RESPONSE = each(schema("openresponses", "ResponseResource"), model(openai.types.responses.Response))
EVENT = model(openai.types.responses.ResponseStreamEvent)
OPEN_EVENT = {kind: schema("openresponses", name) for kind, name in OPEN_EVENTS.items()}
CHUNK = each(schema("openai_chat", "CreateChatCompletionStreamResponse"), model(ChatCompletionChunk))
MESSAGE_EVENT = each(schema("anthropic", "MessageStreamEvent"), model(anthropic.types.RawMessageStreamEvent))
OPENAI_ERROR, ANTHROPIC_ERROR = schema("openai_chat", "ErrorResponse"), schema("anthropic", "ErrorResponse")


def response_event(value):
    """An event of Responses. An error has OpenAI's flat form; Open Responses has one of its own."""
    kind = value.get("type")
    found = list(EVENT(value))
    return found + (list(OPEN_EVENT[kind](value)) if kind in OPEN_EVENT and kind != "error" else [])


def message_error(value):
    """An error of Messages. Its request's id, which the schema lets be null, is in the head alone."""
    return ANTHROPIC_ERROR({"request_id": None} | value)


def message_event(value):
    """An event of Messages; `ping` and `error` are described in words alone."""
    if value.get("type") == "ping":
        return []
    return message_error(value) if value.get("type") == "error" else MESSAGE_EVENT(value)


def chunk(value):
    """A chunk of chat, or the error in its place."""
    return OPENAI_ERROR(value) if "error" in value else CHUNK(value)


# Path and whether it streams, to the name of the check and its validator.
ANSWERS = {
    "/chat/completions": ("chat answers", each(schema("openai_chat", "CreateChatCompletionResponse"), model(ChatCompletion))),
    "/messages": ("Messages answers", each(schema("anthropic", "Message"), model(anthropic.types.Message))),
    "/messages/count_tokens": ("token counts", schema("anthropic", "CountMessageTokensResponse")),
    "/responses": ("Responses answers", RESPONSE),
}
EVENTS = {
    "/chat/completions": ("chat chunks", chunk),
    "/messages": ("Messages events", message_event),
    "/responses": ("Responses events", response_event),
}


def datas(text):
    """The JSON of a stream's events; one that the recording cut off is left out."""
    for block in text.replace("\r\n", "\n").split("\n\n")[:-1]:
        data = "\n".join(line[5:].strip() for line in block.splitlines() if line.startswith("data:"))
        if data and data != "[DONE]":
            yield json.loads(data)


def objects(exchange):
    """The (name, validator, object) of an exchange."""
    request, response = exchange["request"], exchange["response"]
    path = request["path"].split("?")[0]
    place = next((place for place in sorted(ANSWERS, key=len, reverse=True) if path.endswith(place)), None)
    body, status = response.get("body"), response.get("status", 0)
    if request["method"] != "POST" or place is None:
        return
    if status >= 400:
        claude = place.startswith("/messages")
        yield ("Anthropic errors", message_error, body) if claude else ("OpenAI errors", OPENAI_ERROR, body)
    elif isinstance(body, dict):
        yield *ANSWERS[place], body
    elif body and place in EVENTS:
        for data in datas(body):
            yield *EVENTS[place], data


def main():
    with pathlib.Path(os.environ["TRAFFIC"]).open(encoding="utf-8") as file:
        exchanges = [json.loads(line) for line in file]
    counts, found = collections.Counter(), collections.defaultdict(lambda: collections.defaultdict(set))
    for exchange in exchanges:
        for name, validator, value in objects(exchange):
            counts[name] += 1
            for problem in validator(value):
                found[name][problem].add(f"{exchange['suite']}.{exchange['check']}")
    for name, count in sorted(counts.items()):

        def check(name=name):
            lines = [f"{problem} ({len(where)}: {min(where)})" for problem, where in found[name].items()]
            assert not lines, f"{len(lines)} problems: " + "; ".join(lines)

        check.__name__ = f"{name}, {count}"
        CHECKS.append(check)
    os.environ.pop("MARK_URL", None)
    run()


main()
