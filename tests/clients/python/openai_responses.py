"""OpenAI's Python SDK at /v1/responses."""

import json

import openai
import pydantic
from suite import API_KEY, BASE_URL, MODEL, PNG, PNG_SEEN, REASONING, check, failing, ordered, raises, run, same

client = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0, timeout=20)
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False},
    "strict": True,
}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Applies a patch."}


class Event(pydantic.BaseModel):
    name: str
    participants: list[str]
    count: int


def ask(given, **more):
    return client.responses.create(model=MODEL, input=given, store=False, **more)


@check
def text():
    answer = ask('say "Hello there"')
    same(answer.output_text, "Hello there")
    same((answer.status, answer.object, answer.error, answer.incomplete_details), ("completed", "response", None, None), "state")
    same([(item.type, item.role, item.status) for item in answer.output], [("message", "assistant", "completed")], "output")
    same((answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens), (3, 2, 5), "usage")


@check
def ids():
    answer = ask('say "Hello"')
    assert answer.id.startswith("resp_"), answer.id
    assert answer.output[0].id.startswith("msg_"), answer.output[0].id


@check
def instructions():
    same(ask("repeat the instructions", instructions="Talk like a pirate.").output_text, "Talk like a pirate.")


@check
def echo_of_the_request():
    answer = ask(
        "hello", instructions="Be brief.", temperature=0.5, top_p=0.9, max_output_tokens=50, metadata={"a": "b"}, tools=[WEATHER], tool_choice="none"
    )
    got = (answer.instructions, answer.temperature, answer.top_p, answer.max_output_tokens, answer.metadata, answer.tool_choice, answer.tools[0].name)
    same(got, ("Be brief.", 0.5, 0.9, 50, {"a": "b"}, "none", "get_weather"))


@check
def history():
    turns = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "two"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "repeat the conversation"}]},
    ]
    same(ask(turns).output_text, "system: Be brief. | user: one | assistant: two | user: repeat the conversation")


@check
def usage_details():
    usage = ask("half is cached please now").usage
    same((usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens), (5, 2, 0))


@check
def stream():
    events = list(ask("count to 4", stream=True))
    kinds = [event.type for event in events]
    ordered(
        kinds, "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added", "response.output_text.delta"
    )
    ordered(kinds, "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed")
    same(kinds[-1], "response.completed", "last event")
    same("".join(e.delta for e in events if e.type == "response.output_text.delta"), "1 2 3 4")
    same([e.sequence_number for e in events], list(range(len(events))), "sequence numbers")
    final = events[-1].response
    same((final.output_text, final.usage.total_tokens), ("1 2 3 4", 7), "final response")
    same({e.item_id for e in events if e.type == "response.output_text.delta"}, {final.output[0].id}, "item ids")


@check
def stream_helper():
    with client.responses.stream(model=MODEL, input="count to 3", store=False) as events:
        texts = [event.delta for event in events if event.type == "response.output_text.delta"]
        final = events.get_final_response()
    same(("".join(texts), final.output_text), ("1 2 3", "1 2 3"))


@check
def tool_loop():
    turns = [{"role": "user", "content": 'call get_weather with {"city": "Paris"}'}]
    first = ask(turns, tools=[WEATHER])
    call = first.output[0]
    same((call.type, call.name, json.loads(call.arguments), call.status), ("function_call", "get_weather", {"city": "Paris"}, "completed"))
    turns += [*first.output, {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}]
    same(ask(turns, tools=[WEATHER]).output_text, "The tool said: 18 degrees")


@check
def parallel_tools():
    turns = [{"role": "user", "content": 'call get_weather with {"city": "Paris"} and call get_weather with {"city": "Rome"}'}]
    first = ask(turns, tools=[WEATHER])
    same([json.loads(call.arguments)["city"] for call in first.output], ["Paris", "Rome"])
    same((len({call.call_id for call in first.output}), len({call.id for call in first.output})), (2, 2), "ids")
    turns += first.output
    turns += [{"type": "function_call_output", "call_id": call.call_id, "output": f"result {i}"} for i, call in enumerate(first.output)]
    same(ask(turns, tools=[WEATHER]).output_text, "The tool said: result 0; result 1")
    same(len(ask(turns[:1], tools=[WEATHER], parallel_tool_calls=False).output), 1, "calls when parallel ones are off")


@check
def tools_streamed():
    events = list(ask('call get_weather with {"city": "Paris"} and call get_weather with {"city": "Rome"}', tools=[WEATHER], stream=True))
    kinds = [event.type for event in events]
    one = (
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    )
    ordered(kinds, *one, *one, "response.completed")
    deltas = {0: "", 1: ""}
    for event in events:
        if event.type == "response.function_call_arguments.delta":
            deltas[event.output_index] += event.delta
    same([json.loads(text)["city"] for text in deltas.values()], ["Paris", "Rome"], "arguments")
    same([json.loads(e.arguments)["city"] for e in events if e.type == "response.function_call_arguments.done"], ["Paris", "Rome"], "done events")


@check
def tool_choice():
    same(ask("hello", tools=[WEATHER], tool_choice="required").output[0].type, "function_call")
    same(ask("hello", tools=[WEATHER], tool_choice={"type": "function", "name": "get_weather"}).output[0].type, "function_call")
    same(ask('call get_weather with {"city": "x"} and say "no"', tools=[WEATHER], tool_choice="none").output_text, "no")


@check
def tool_output_with_image():
    turns = [{"role": "user", "content": 'call get_weather with {"city": "Paris"}'}]
    first = ask(turns, tools=[WEATHER])
    output = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}]
    turns += [*first.output, {"type": "function_call_output", "call_id": first.output[0].call_id, "output": output}]
    said = ask(turns, tools=[WEATHER]).output_text
    assert said.startswith("The tool said: see") and PNG_SEEN in said, said


@check
def custom_tool():
    first = ask("hello", tools=[PATCH], tool_choice="required").output[0]
    same((first.type, first.name), ("custom_tool_call", "apply_patch"))


@check
def parse():
    prompt = 'answer with {"name": "Fair", "participants": ["Ann", "Bob"], "count": 2}'
    answer = client.responses.parse(model=MODEL, input=prompt, text_format=Event, store=False)
    same(answer.output_parsed, Event(name="Fair", participants=["Ann", "Bob"], count=2))


@check
def parse_from_schema():
    answer = client.responses.parse(model=MODEL, input="An event.", text_format=Event, store=False)
    same(answer.output_parsed, Event(name="text", participants=["text"], count=7))


@check
def parse_streamed():
    with client.responses.stream(model=MODEL, input="An event.", text_format=Event, store=False) as events:
        same(events.get_final_response().output_parsed, Event(name="text", participants=["text"], count=7))


@check
def json_object():
    same(json.loads(ask("JSON please", text={"format": {"type": "json_object"}}).output_text), {"ok": True})


@check
def image():
    parts = [
        {"type": "input_text", "text": "describe the images"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
        {"type": "input_image", "image_url": "https://example.com/cat.png", "detail": "auto"},
    ]
    same(ask([{"role": "user", "content": parts}]).output_text, f"I see {PNG_SEEN}; image at https://example.com/cat.png")


@check
def incomplete():
    answer = ask("count to 9", max_output_tokens=3)
    same((answer.output_text, answer.status, answer.incomplete_details.reason), ("1 2 3", "incomplete", "max_output_tokens"))
    same(list(ask("count to 9", max_output_tokens=3, stream=True))[-1].type, "response.incomplete", "last event")


@check
def reasoning():
    answer = ask("think first, then count to 2", reasoning={"effort": "low"})
    same([item.type for item in answer.output], ["reasoning", "message"], "output")
    texts = [part.text for part in [*(answer.output[0].content or []), *answer.output[0].summary]]
    same(texts, [REASONING], "reasoning")
    same(answer.usage.output_tokens_details.reasoning_tokens, 10, "reasoning tokens")
    turns = [{"role": "user", "content": "think first, then count to 2"}, *answer.output, {"role": "user", "content": 'say "again"'}]
    same(ask(turns).output_text, "again", "next turn")


@check
def reasoning_streamed():
    events = list(ask("think first, then count to 2", reasoning={"effort": "low"}, stream=True))
    deltas = [e.delta for e in events if e.type in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")]
    same("".join(deltas), REASONING)
    same([e.item.type for e in events if e.type == "response.output_item.done"], ["reasoning", "message"], "items")


@check
def reasoning_summary():
    events = list(ask("think first, then count to 2", reasoning={"effort": "low", "summary": "auto"}, stream=True))
    kinds = [event.type for event in events]
    ordered(kinds, "response.reasoning_summary_part.added", "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done")
    ordered(kinds, "response.reasoning_summary_text.done", "response.reasoning_summary_part.done", "response.output_item.done")
    same([part.text for part in events[-1].response.output[0].summary], [REASONING])


@check
def stored_conversations_are_refused():
    """A server that stores nothing has to say so: an answer without the earlier turns would be wrong."""
    error = raises(openai.BadRequestError, lambda: ask("and then?", previous_response_id="resp_1"), 400)
    assert "previous_response_id" in f"{error} {error.body}", error.body


@check
def error_400():
    error = raises(openai.BadRequestError, lambda: ask([{"type": "function_call_output", "call_id": "none", "output": "x"}]), 400)
    assert error.body["message"], error.body


@check
def error_429():
    raises(openai.RateLimitError, lambda: client.responses.create(model=failing("429"), input="fail with 429", store=False), 429)


@check
def error_500():
    raises(openai.InternalServerError, lambda: client.responses.create(model=failing("500"), input="fail with 500", store=False))


@check
def error_in_stream():
    """A broken stream ends with `error` or `response.failed`, never with `response.completed`; the SDK may raise."""
    kinds = []
    try:
        for event in client.responses.create(model=failing("broken"), input="break the stream, count to 20", stream=True, store=False):
            kinds.append(event.type)
    except openai.APIError:
        kinds.append("error")
    assert kinds[-1] in ("error", "response.failed") and "response.completed" not in kinds, kinds


@check
def cut_stream():
    """A stream that ends in the middle is no complete answer."""
    kinds = []
    try:
        for event in client.responses.create(model=failing("cut"), input="cut the stream, count to 20", stream=True, store=False):
            kinds.append(event.type)
    except Exception as error:
        kinds.append(type(error).__name__)
    assert "response.completed" not in kinds and kinds[-1] not in ("response.output_text.delta", "response.created"), kinds


@check
async def asynchronous():
    async with openai.AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0) as other:
        stream = await other.responses.create(model=MODEL, input="count to 2", stream=True, store=False)
        same("".join([event.delta async for event in stream if event.type == "response.output_text.delta"]), "1 2")


run()
