"""The same questions to every client: one check for each API and feature, named API/feature, for the table of clients.

A suite gives an adapter for each API, an object with functions that use the client as its documentation does. A feature without its function prints
SKIP, since the client has no such thing over that API. node/features.mjs asks the same.

    text(prompt)               the answer
    stream(prompt)             the pieces of a streamed answer
    loop(prompt, stream)       (cities that get_weather was called with, the final text), after all steps
    reasoning(prompt)          (reasoning, answer)
    structured()               an answer by the schema Event
    image(prompt)              the answer about PNG
    usage(prompt, stream)      (input tokens, of these cached, output tokens)
    status(model, prompt, key)     raises the client's error; ERRORS name the classes that count
    cancel(prompt)             reads a piece of a stream, then leaves
"""

import os
import time

import pydantic
from suite import API_KEY, CHECKS, MODEL, PNG_SEEN, REASONING, failing, run, same


class Event(pydantic.BaseModel):
    """An event."""

    name: str
    participants: list[str]


def sunny(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


STEPS = 'call get_weather with {"city": "Paris"} and call get_weather with {"city": "Rome"} and then call get_weather with {"city": "Oslo"}'
FAILURES = {
    400: {"prompt": "fail with 400", "contains": "scripted failure 400"},
    401: {"key": "sk-wrong", "contains": "key"},
    404: {"model": "no-such-model", "contains": "no-such-model"},
    429: {"model": failing("429"), "prompt": "fail with 429", "contains": "scripted failure 429"},
    503: {"model": failing("503"), "prompt": "fail with 503", "contains": ""},
}


def text(api, _):
    same(api.text('say "Hello there"'), "Hello there")


def stream(api, _):
    pieces = api.stream("count to 4")
    same("".join(pieces), "1 2 3 4")
    assert len([piece for piece in pieces if piece]) > 1, f"the text came in {len(pieces)} piece"


def tools(api, _, streamed=False):
    cities, said = api.loop(STEPS, streamed)
    same((cities, said.replace('"', "")), (["Paris", "Rome", "Oslo"], "The tool said: sunny in Oslo"))


def tools_streamed(api, name):
    tools(api, name, streamed=True)


def reasoning(api, _):
    same(api.reasoning("think first, then count to 2"), (REASONING, "1 2"))


def structured(api, _):
    same(api.structured(), Event(name="text", participants=["text"]))


def image(api, _):
    same(api.image("describe the images"), f"I see {PNG_SEEN}")


def usage(api, _):
    for streamed in (False, True):
        same(api.usage("half is cached please now", streamed), (5, 2, 7), "streamed" if streamed else "whole")


def errors(api, _):
    for status, asked in FAILURES.items():
        contains = asked["contains"]
        try:
            got = api.status(asked.get("model", MODEL), asked.get("prompt", "hello"), asked.get("key", API_KEY))
        except api.ERRORS as error:
            same(getattr(error, "status_code", None), status, f"status of {error}")
            assert contains in str(error), f"{contains!r} is not in: {error}"
        else:
            raise AssertionError(f"{status}: got {got!r}")


def cancel(api, name):
    tag = f"{name}-{os.getpid()}"
    api.cancel(f"drip {tag}")
    # The model writes every 50 ms, so it notices within a second or so.
    until = time.monotonic() + 4
    while time.monotonic() < until:
        if api.text(f"did the caller of {tag} leave?") == "yes":
            return
    raise AssertionError("the model still wrote 4 s after the caller had left")


# Each feature with the function of an adapter that it needs.
FEATURES = {
    text: "text",
    stream: "stream",
    tools: "loop",
    tools_streamed: "loop",
    reasoning: "reasoning",
    structured: "structured",
    image: "image",
    usage: "usage",
    errors: "status",
    cancel: "cancel",
}


def features(apis):
    """Runs every feature over every API."""
    for name, api in apis.items():
        for feature, needed in FEATURES.items():
            if not hasattr(api, needed):
                print(f"SKIP {name}/{feature.__name__}", flush=True)
                continue

            def check(feature=feature, api=api, name=name):
                feature(api, name)

            check.__name__ = f"{name}/{feature.__name__}"
            CHECKS.append(check)
    run()
