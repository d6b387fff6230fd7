"""Exercises an OpenAI-compatible gateway with the official Python SDK; BASE_URL says where, one line is printed per check.

The models `chat`, `embed` and `err-400`, `err-422`, `err-429`, `err-503` are expected there, `no-such-model` is not.
"""

import json
import os
import sys

import openai

client = openai.OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ.get("API_KEY", "sk-test"), max_retries=0, timeout=30)
# Temperature 0 throughout: a model of random weights ends one answer in a hundred before its first word.
HELLO = [{"role": "user", "content": "hello"}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}}, "required": ["city"]},
        },
    }
]
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}


def list_models():
    names = [model.id for model in client.models.list()]
    assert {"chat", "embed"} <= set(names), names


def retrieve_model():
    model = client.models.retrieve("chat")
    assert model.id == "chat" and model.object == "model", model


def retrieve_unknown_model():
    expect(openai.NotFoundError, 404, lambda: client.models.retrieve("no-such-model"))


def chat():
    answer = client.chat.completions.create(model="chat", messages=HELLO, temperature=0, max_tokens=16)
    choice = answer.choices[0]
    assert choice.message.role == "assistant" and choice.message.content, choice
    assert choice.finish_reason in ("stop", "length"), choice
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens, answer.usage


def stream():
    chunks = list(client.chat.completions.create(model="chat", messages=HELLO, temperature=0, max_tokens=16, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices), chunks
    assert [c.choices[0].delta.role for c in chunks if c.choices].count("assistant") == 1, "one role"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] in ("stop", "length"), chunks[-1]
    assert not any(c.usage for c in chunks), "usage that was not asked for"
    assert all(c.choices for c in chunks), "an event without choices that was not asked for"


def stream_with_usage():
    chunks = list(
        client.chat.completions.create(
            model="chat", messages=HELLO, temperature=0, max_tokens=16, stream=True, stream_options={"include_usage": True}
        )
    )
    assert sum(1 for c in chunks if c.usage) == 1, "usage comes once"
    assert chunks[-1].usage.completion_tokens > 0 and not chunks[-1].choices, chunks[-1]


def stream_left_early():
    answer = client.chat.completions.create(model="chat", messages=HELLO, temperature=0, max_tokens=64, stream=True)
    next(iter(answer))
    answer.close()


def tools():
    answer = client.chat.completions.create(
        model="chat", messages=HELLO, temperature=0, max_tokens=300, tools=TOOLS, tool_choice="required"
    )
    call = answer.choices[0].message.tool_calls[0]
    assert answer.choices[0].finish_reason == "tool_calls", answer
    assert call.type == "function" and call.function.name == "get_weather" and call.id, call
    assert "city" in json.loads(call.function.arguments), call


def tools_streamed():
    name, arguments, finish = "", "", None
    for chunk in client.chat.completions.create(
        model="chat", messages=HELLO, temperature=0, max_tokens=300, tools=TOOLS, tool_choice="required", stream=True
    ):
        finish = chunk.choices[0].finish_reason or finish
        for call in chunk.choices[0].delta.tool_calls or []:
            name += call.function.name or ""
            arguments += call.function.arguments or ""
    assert (name, finish) == ("get_weather", "tool_calls"), (name, finish)
    assert "city" in json.loads(arguments), arguments


def json_schema():
    form = {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": SCHEMA}}
    answer = client.chat.completions.create(model="chat", messages=HELLO, temperature=0, max_tokens=200, response_format=form)
    assert isinstance(json.loads(answer.choices[0].message.content)["ok"], bool), answer


def embeddings():
    # The SDK asks for base64 unless told otherwise: both forms have to come through.
    for form in ({}, {"encoding_format": "float"}):
        answer = client.embeddings.create(model="embed", input=["one", "two"], **form)
        assert [item.index for item in answer.data] == [0, 1], answer
        assert all(isinstance(x, float) for item in answer.data for x in item.embedding), form
        assert answer.usage.prompt_tokens > 0, answer.usage


def completions():
    answer = client.completions.create(model="chat", prompt="once upon a time", temperature=0, max_tokens=8)
    assert answer.choices[0].text and answer.object == "text_completion", answer


def completions_streamed():
    chunks = list(client.completions.create(model="chat", prompt="once upon a time", temperature=0, max_tokens=8, stream=True))
    assert "".join(c.choices[0].text for c in chunks if c.choices), chunks


def request_id():
    answer = client.chat.completions.with_raw_response.create(model="chat", messages=HELLO, temperature=0, max_tokens=4)
    assert answer.headers.get("x-request-id"), dict(answer.headers)


def expect(kind, status, call):
    try:
        call()
    except openai.APIStatusError as error:
        assert type(error) is kind and error.status_code == status, repr(error)
        assert isinstance(error.body, dict) and error.body.get("message"), f"no message in {error.body}"
    else:
        raise AssertionError(f"no {kind.__name__}")


def error(model, kind, status):
    def check():
        expect(kind, status, lambda: client.chat.completions.create(model=model, messages=HELLO))
        expect(kind, status, lambda: list(client.chat.completions.create(model=model, messages=HELLO, stream=True)))

    check.__name__ = f"error_{status}"
    return check


CHECKS = [
    list_models, retrieve_model, retrieve_unknown_model, chat, stream, stream_with_usage, stream_left_early, tools,
    tools_streamed, json_schema, embeddings, completions, completions_streamed, request_id,
    error("err-400", openai.BadRequestError, 400),
    error("err-422", openai.UnprocessableEntityError, 422),
    error("no-such-model", openai.NotFoundError, 404),
    error("err-429", openai.RateLimitError, 429),
    error("err-503", openai.InternalServerError, 503),
]  # fmt: skip

# SKIP names checks that this target cannot meet, separated by commas.
skipped = set(filter(None, os.environ.get("SKIP", "").split(",")))
failed = 0
for check in CHECKS:
    if check.__name__ in skipped:
        print("skip", check.__name__)
        continue
    try:
        check()
        print("ok  ", check.__name__)
    except Exception as problem:
        failed += 1
        print("FAIL", check.__name__, "-", type(problem).__name__, str(problem)[:600])
print(f"openai {openai.__version__} for Python: {failed} failed")
sys.exit(1 if failed else 0)
