"""LangChain's chat models for OpenAI (both APIs) and Anthropic."""

import anthropic
import openai
import pydantic
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from suite import API_KEY, BASE_URL, MODEL, PNG, PNG_SEEN, ROOT_URL, check, failing, run, same


class Event(pydantic.BaseModel):
    """An event."""

    name: str
    participants: list[str]


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def models(name=MODEL):
    """The model behind each API, by the API's name."""
    shared = {"model": name, "api_key": API_KEY, "max_retries": 0}
    return {
        "chat": ChatOpenAI(base_url=BASE_URL, use_responses_api=False, **shared),
        "responses": ChatOpenAI(base_url=BASE_URL, use_responses_api=True, **shared),
        "messages": ChatAnthropic(base_url=ROOT_URL, max_tokens=100, **shared),
    }


def each(expected, get):
    """Compares what `get` finds with the model of each API."""
    for api, model in models().items():
        same(get(model), expected, api)


@check
def invoke():
    each("Hello there", lambda model: model.invoke('say "Hello there"').text)


@check
def conversation():
    turns = [SystemMessage("Be brief."), HumanMessage("one"), AIMessage("two"), HumanMessage("repeat the conversation")]
    each("system: Be brief. | user: one | assistant: two | user: repeat the conversation", lambda model: model.invoke(turns).text)


@check
def usage():
    def counts(model):
        usage = model.invoke("half is cached please now").usage_metadata
        return usage["input_tokens"], usage["output_tokens"], usage["input_token_details"]["cache_read"]

    each((5, 7, 2), counts)


@check
def stream():
    def pieces(model):
        chunks = list(model.stream("count to 4"))
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        return whole.text, len([c for c in chunks if c.text]) > 1

    each(("1 2 3 4", True), pieces)


@check
def tools():
    def loop(model):
        model = model.bind_tools([get_weather])
        messages = [HumanMessage('call get_weather with {"city": "Paris"} and call get_weather with {"city": "Rome"}')]
        first = model.invoke(messages)
        results = [get_weather.invoke(call) for call in first.tool_calls]
        return [c["args"]["city"] for c in first.tool_calls], model.invoke([*messages, first, *results]).text

    each((["Paris", "Rome"], "The tool said: sunny in Paris; sunny in Rome"), loop)


@check
def tools_streamed():
    def calls(model):
        chunks = list(model.bind_tools([get_weather]).stream('call get_weather with {"city": "Paris"}'))
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        return [(c["name"], c["args"]) for c in whole.tool_calls]

    each([("get_weather", {"city": "Paris"})], calls)


@check
def tool_choice():
    each("get_weather", lambda model: model.bind_tools([get_weather], tool_choice="get_weather").invoke("hello").tool_calls[0]["name"])
    each("get_weather", lambda model: model.bind_tools([get_weather], tool_choice="any").invoke("hello").tool_calls[0]["name"])


@check
def tool_error():
    def said(model):
        model = model.bind_tools([get_weather])
        ask = HumanMessage('call get_weather with {"city": "X"}')
        first = model.invoke([ask])
        result = ToolMessage("no such city", tool_call_id=first.tool_calls[0]["id"], status="error")
        return "no such city" in model.invoke([ask, first, result]).text

    each(True, said)


@check
def structured_output():
    each(Event(name="text", participants=["text"]), lambda model: model.with_structured_output(Event).invoke("A fair."))


@check
def structured_output_by_method():
    for method in ("function_calling", "json_schema"):
        each(Event(name="text", participants=["text"]), lambda model, m=method: model.with_structured_output(Event, method=m).invoke("A fair."))


@check
def image():
    parts = [{"type": "text", "text": "describe the images"}, {"type": "image", "base64": PNG, "mime_type": "image/png"}]
    each(f"I see {PNG_SEEN}", lambda model: model.invoke([HumanMessage(parts)]).text)


@check
def stop():
    for api in ("chat", "messages"):
        same(models()[api].invoke("count to 5", stop=["3"]).text.strip(), "1 2", api)


@check
def errors():
    broken = models(failing("429"))
    for api, kind in (("chat", openai.RateLimitError), ("responses", openai.RateLimitError), ("messages", anthropic.RateLimitError)):
        try:
            broken[api].invoke("fail with 429")
        except kind:
            continue
        raise AssertionError(f"{api}: no error")


@check
async def asynchronous():
    for api, model in models().items():
        same("".join([chunk.text async for chunk in model.astream("count to 2")]), "1 2", api)


run()
