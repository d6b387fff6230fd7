"""LiteLLM as a client, with its openai/ and anthropic/ prefixes."""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
import pydantic
from suite import API_KEY, BASE_URL, MODEL, PNG, PNG_SEEN, ROOT_URL, check, failing, run, same

litellm.suppress_debug_info = True
litellm.telemetry = False
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


class Event(pydantic.BaseModel):
    name: str
    participants: list[str]


def routes(name=MODEL):
    """The arguments for each API, by the API's name."""
    return {
        "chat": {"model": f"openai/{name}", "api_base": BASE_URL, "api_key": API_KEY},
        "messages": {"model": f"anthropic/{name}", "api_base": ROOT_URL, "api_key": API_KEY},
    }


def ask(route, content, **more):
    messages = content if isinstance(content, list) and "role" in content[0] else [{"role": "user", "content": content}]
    return litellm.completion(**route, messages=messages, num_retries=0, max_retries=0, max_tokens=100, timeout=20, **more)


def each(expected, get):
    """Compares what `get` finds with each API."""
    for api, route in routes().items():
        same(get(route), expected, api)


@check
def completion():
    each("Hello there", lambda route: ask(route, 'say "Hello there"').choices[0].message.content)


@check
def history():
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "repeat the conversation"},
    ]
    each("system: Be brief. | user: one | assistant: two | user: repeat the conversation", lambda route: ask(route, turns).choices[0].message.content)


@check
def stream():
    def whole(route):
        chunks = list(ask(route, "count to 4", stream=True))
        return "".join(c.choices[0].delta.content or "" for c in chunks), [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason]

    each(("1 2 3 4", ["stop"]), whole)


@check
def tools():
    def loop(route):
        messages = [{"role": "user", "content": 'call get_weather with {"city": "Paris"} and call get_weather with {"city": "Rome"}'}]
        first = ask(route, messages, tools=[WEATHER]).choices[0].message
        messages.append(first.model_dump())
        messages += [{"role": "tool", "tool_call_id": c.id, "content": json.loads(c.function.arguments)["city"]} for c in first.tool_calls]
        return ask(route, messages, tools=[WEATHER]).choices[0].message.content

    each("The tool said: Paris; Rome", loop)


@check
def structured_output():
    def parsed(route):
        return Event.model_validate_json(ask(route, "An event.", response_format=Event).choices[0].message.content)

    each(Event(name="text", participants=["text"]), parsed)


@check
def image():
    parts = [{"type": "text", "text": "describe the images"}, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]
    each(f"I see {PNG_SEEN}", lambda route: ask(route, parts).choices[0].message.content)


@check
def usage():
    def counts(route):
        usage = ask(route, "half is cached please now").usage
        return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens

    each((5, 2, 7), counts)


@check
def responses():
    answer = litellm.responses(model=f"openai/{MODEL}", input='say "Hello"', api_base=BASE_URL, api_key=API_KEY)
    same(answer.output[0].content[0].text, "Hello")


@check
def errors():
    for api, route in routes(failing("429")).items():
        try:
            ask(route, "fail with 429")
        except litellm.RateLimitError as error:
            same(error.status_code, 429, api)
            continue
        raise AssertionError(f"{api}: no error")


run()
