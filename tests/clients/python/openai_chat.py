"""OpenAI's Python SDK at /v1/chat/completions."""

import json

import openai
import pydantic
from suite import API_KEY, BASE_URL, MODEL, PNG, PNG_SEEN, check, failing, ordered, raises, run, same

client = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0, timeout=20)
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False},
        "strict": True,
    },
}


class Event(pydantic.BaseModel):
    name: str
    participants: list[str]
    count: int


def user(text):
    return [{"role": "user", "content": text}]


def ask(text, **more):
    return client.chat.completions.create(model=MODEL, messages=user(text), **more)


@check
def text():
    answer = ask('say "Hello there"')
    same(answer.choices[0].message.content, "Hello there")
    same(answer.choices[0].finish_reason, "stop")
    same(answer.model, MODEL, "model")
    same((answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens), (3, 2, 5), "usage")


@check
def history():
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": [{"type": "text", "text": "repeat the conversation"}]},
    ]
    answer = client.chat.completions.create(model=MODEL, messages=turns)
    same(answer.choices[0].message.content, "system: Be brief. | user: one | assistant: two | user: repeat the conversation")


@check
def cached_tokens():
    usage = ask("half is cached please now").usage
    same((usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens), (5, 2), "usage")


@check
def stream():
    chunks = list(ask("count to 4", stream=True, stream_options={"include_usage": True}))
    same("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), "1 2 3 4")
    same([c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason], ["stop"], "finish reasons")
    same([c.usage.total_tokens for c in chunks if c.usage], [7], "usage")
    same(len({c.id for c in chunks}), 1, "ids")


@check
def stream_helper():
    with client.chat.completions.stream(model=MODEL, messages=user("count to 3")) as events:
        kinds = [event.type for event in events]
        final = events.get_final_completion()
    ordered(kinds, "content.delta", "content.done")
    same(final.choices[0].message.content, "1 2 3")


@check
def tool_loop():
    messages = user('call get_weather with {"city": "Paris"}')
    first = client.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER]).choices[0]
    same(first.finish_reason, "tool_calls")
    call = first.message.tool_calls[0]
    same((call.function.name, json.loads(call.function.arguments)), ("get_weather", {"city": "Paris"}), "call")
    messages += [first.message, {"role": "tool", "tool_call_id": call.id, "content": "18 degrees"}]
    same(client.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER]).choices[0].message.content, "The tool said: 18 degrees")


@check
def parallel_tools_streamed():
    prompt = 'call get_weather with {"city": "Paris"} and call get_weather with {"city": "Rome"}'
    with client.chat.completions.stream(model=MODEL, messages=user(prompt), tools=[WEATHER]) as events:
        final = events.get_final_completion().choices[0].message
    same([json.loads(c.function.arguments)["city"] for c in final.tool_calls], ["Paris", "Rome"])
    same(len({c.id for c in final.tool_calls}), 2, "ids")


@check
def tool_choice():
    required = ask("hello", tools=[WEATHER], tool_choice="required").choices[0].message
    same(required.tool_calls[0].function.name, "get_weather")
    named = ask("hello", tools=[WEATHER], tool_choice={"type": "function", "function": {"name": "get_weather"}}).choices[0].message
    same(named.tool_calls[0].function.name, "get_weather")
    none = ask('call get_weather with {"city": "Paris"} and say "no"', tools=[WEATHER], tool_choice="none").choices[0].message
    same((none.tool_calls, none.content), (None, "no"))


@check
def parse():
    prompt = 'answer with {"name": "Fair", "participants": ["Ann", "Bob"], "count": 2}'
    answer = client.chat.completions.parse(model=MODEL, messages=user(prompt), response_format=Event)
    same(answer.choices[0].message.parsed, Event(name="Fair", participants=["Ann", "Bob"], count=2))


@check
def parse_from_schema():
    answer = client.chat.completions.parse(model=MODEL, messages=user("An event."), response_format=Event)
    same(answer.choices[0].message.parsed, Event(name="text", participants=["text"], count=7))


@check
def json_object():
    same(json.loads(ask("JSON please", response_format={"type": "json_object"}).choices[0].message.content), {"ok": True})


@check
def image():
    parts = [
        {"type": "text", "text": "describe the images"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}},
    ]
    answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": parts}])
    same(answer.choices[0].message.content, f"I see {PNG_SEEN}; image at https://example.com/cat.png")


@check
def length_and_stop():
    short = ask("count to 9", max_completion_tokens=3).choices[0]
    same((short.message.content, short.finish_reason), ("1 2 3", "length"))
    same(ask("count to 9", stop=["5"]).choices[0].message.content, "1 2 3 4 ")


@check
def length_in_parse():
    ask = lambda: client.chat.completions.parse(model=MODEL, messages=user('answer with {"name": "a b c"}'), response_format=Event, max_tokens=1)  # noqa: E731
    raises(openai.LengthFinishReasonError, ask)


@check
def error_400():
    error = raises(
        openai.BadRequestError,
        lambda: client.chat.completions.create(model=MODEL, messages=[{"role": "tool", "tool_call_id": "x", "content": "y"}]),
        400,
    )
    assert error.body["message"], error.body


@check
def error_429():
    raises(openai.RateLimitError, lambda: client.chat.completions.create(model=failing("429"), messages=user("fail with 429")), 429)


@check
def error_500():
    raises(openai.InternalServerError, lambda: client.chat.completions.create(model=failing("500"), messages=user("fail with 500")))


@check
def error_in_stream():
    raises(openai.APIError, lambda: list(client.chat.completions.create(model=failing("broken"), messages=user("break the stream"), stream=True)))


@check
async def asynchronous():
    async with openai.AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0) as other:
        stream = await other.chat.completions.create(model=MODEL, messages=user("count to 2"), stream=True)
        same("".join([c.choices[0].delta.content or "" async for c in stream if c.choices]), "1 2")


run()
