"""Anthropic's Python SDK at /v1/messages."""

import json

import anthropic
import pydantic
from suite import API_KEY, MODEL, PNG, PNG_SEEN, REASONING, ROOT_URL, check, failing, raises, run, same

client = anthropic.Anthropic(base_url=ROOT_URL, api_key=API_KEY, max_retries=0, timeout=20)
WEATHER = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
TWO_CITIES = 'call get_weather with {"city": "Paris"} and call get_weather with {"city": "Rome"}'


class Event(pydantic.BaseModel):
    name: str
    participants: list[str]
    count: int


def user(content):
    return [{"role": "user", "content": content}]


def ask(content, model=MODEL, **more):
    return client.messages.create(model=model, messages=user(content), **{"max_tokens": 200} | more)


@check
def text():
    answer = ask('say "Hello there"')
    same([(block.type, block.text) for block in answer.content], [("text", "Hello there")], "content")
    same((answer.type, answer.role, answer.stop_reason, answer.stop_sequence), ("message", "assistant", "end_turn", None), "state")
    same((answer.usage.input_tokens, answer.usage.output_tokens), (3, 2), "usage")
    same(answer.model, MODEL, "model")


@check
def ids():
    assert ask('say "Hello"').id.startswith("msg_"), "id of the message"
    assert ask("hello", tools=[WEATHER], tool_choice={"type": "any"}).content[0].id, "id of the call"


@check
def system_text_and_list():
    same(ask("repeat the instructions", system="Be brief.").content[0].text, "Be brief.")
    blocks = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]
    same(ask("repeat the instructions", system=blocks).content[0].text, "Be brief. Be kind.")


@check
def history():
    turns = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": [{"type": "text", "text": "two"}]},
        {
            "role": "user",
            "content": [{"type": "text", "text": "repeat the"}, {"type": "text", "text": "conversation", "cache_control": {"type": "ephemeral"}}],
        },
    ]
    # The phrase is split over two blocks: how they are joined is the translator's business, so both halves are looked for.
    turns[2]["content"][0]["text"] = "repeat the conversation, please"
    answer = client.messages.create(model=MODEL, max_tokens=100, system="Be brief.", messages=turns)
    same(answer.content[0].text, "system: Be brief. | user: one | assistant: two | user: repeat the conversation, please conversation")


@check
def cached_tokens():
    usage = ask("half is cached please now").usage
    same((usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens), (3, 2, 7))


@check
def text_stream():
    with client.messages.stream(model=MODEL, max_tokens=100, messages=user("count to 4")) as stream:
        texts = list(stream.text_stream)
        final = stream.get_final_message()
    same(("".join(texts), final.content[0].text, final.stop_reason), ("1 2 3 4", "1 2 3 4", "end_turn"))
    assert len(texts) > 1, f"the text came in {len(texts)} piece"
    same((final.usage.input_tokens, final.usage.output_tokens), (3, 4), "usage")


@check
def raw_events():
    kinds = [e.type for e in ask("count to 2", stream=True) if e.type != "ping"]
    deltas = kinds.count("content_block_delta")
    expected = ["message_start", "content_block_start", *["content_block_delta"] * deltas, "content_block_stop", "message_delta", "message_stop"]
    same(kinds, expected)
    assert deltas >= 1, kinds


@check
def tool_loop():
    messages = user('call get_weather with {"city": "Paris"}')
    first = client.messages.create(model=MODEL, max_tokens=100, messages=messages, tools=[WEATHER])
    same(
        (first.stop_reason, first.content[0].type, first.content[0].name, first.content[0].input),
        ("tool_use", "tool_use", "get_weather", {"city": "Paris"}),
    )
    result = {"type": "tool_result", "tool_use_id": first.content[0].id, "content": "18 degrees"}
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    same(client.messages.create(model=MODEL, max_tokens=100, messages=messages, tools=[WEATHER]).content[0].text, "The tool said: 18 degrees")


def second_turn(results, prompt=TWO_CITIES):
    """Calls tools, answers with `results` (fields of each tool_result), returns what the model then says."""
    first = ask(prompt, tools=[WEATHER])
    blocks = [{"type": "tool_result", "tool_use_id": use.id} | fields for use, fields in zip(first.content, results, strict=True)]
    messages = user(prompt) + [{"role": "assistant", "content": first.content}, {"role": "user", "content": blocks}]
    return client.messages.create(model=MODEL, max_tokens=100, messages=messages, tools=[WEATHER]).content[0].text


@check
def parallel_tools():
    first = ask(TWO_CITIES, tools=[WEATHER])
    same([block.input["city"] for block in first.content], ["Paris", "Rome"])
    same(len({block.id for block in first.content}), 2, "ids")
    same(second_turn([{"content": "18 degrees"}, {"content": [{"type": "text", "text": "25 degrees"}]}]), "The tool said: 18 degrees; 25 degrees")


@check
def tool_result_with_error():
    said = second_turn([{"content": "no such city", "is_error": True}, {"content": "25"}])
    assert "no such city" in said and said.endswith("; 25"), said


@check
def tool_result_with_image():
    said = second_turn([{"content": [{"type": "text", "text": "see"}, IMAGE]}], prompt='call get_weather with {"city": "Paris"}')
    assert said.startswith("The tool said: see") and PNG_SEEN in said, said


@check
def tool_results_then_text():
    prompt = 'call get_weather with {"city": "Paris"}'
    first = ask(prompt, tools=[WEATHER])
    blocks = [{"type": "tool_result", "tool_use_id": first.content[0].id, "content": "18"}, {"type": "text", "text": "go on"}]
    messages = user(prompt) + [{"role": "assistant", "content": first.content}, {"role": "user", "content": blocks}]
    same(client.messages.create(model=MODEL, max_tokens=100, messages=messages, tools=[WEATHER]).content[0].text, "The tool said: 18")


@check
def empty_tool_result():
    same(second_turn([{}], prompt='call get_weather with {"city": "Paris"}'), "The tool said: ")


@check
def tool_choice():
    same(ask("hello", tools=[WEATHER], tool_choice={"type": "any"}).stop_reason, "tool_use", "any")
    same(ask("hello", tools=[WEATHER], tool_choice={"type": "tool", "name": "get_weather"}).content[0].name, "get_weather", "tool")
    same(ask('say "no"', tools=[WEATHER], tool_choice={"type": "auto"}).content[0].text, "no", "auto")
    same(ask('call get_weather with {"city": "x"} and say "no"', tools=[WEATHER], tool_choice={"type": "none"}).content[0].text, "no", "none")
    one = ask(TWO_CITIES, tools=[WEATHER], tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    same(len(one.content), 1, "calls when parallel ones are off")


@check
def tools_streamed():
    with client.messages.stream(model=MODEL, max_tokens=100, messages=user(TWO_CITIES), tools=[WEATHER]) as stream:
        partial = {}
        for event in stream:
            if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                partial[event.index] = partial.get(event.index, "") + event.delta.partial_json
        final = stream.get_final_message()
    same([json.loads(partial[i])["city"] for i in sorted(partial)], ["Paris", "Rome"], "partial JSON")
    same([block.input["city"] for block in final.content], ["Paris", "Rome"], "final message")
    same(final.stop_reason, "tool_use")


@check
def tool_runner():
    seen = []

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """The weather in a city.

        Args:
            city: Its name.
        """
        seen.append(city)
        return f"sunny in {city}"

    runner = client.beta.messages.tool_runner(model=MODEL, max_tokens=100, tools=[get_weather], messages=user(TWO_CITIES))
    same(runner.until_done().content[0].text, "The tool said: sunny in Paris; sunny in Rome")
    same(sorted(seen), ["Paris", "Rome"])


@check
def stop_sequences():
    answer = ask("count to 9", stop_sequences=["5"])
    same(answer.content[0].text.strip(), "1 2 3 4")
    same((answer.stop_reason, answer.stop_sequence), ("stop_sequence", "5"))


@check
def stop_sequences_streamed():
    with client.messages.stream(model=MODEL, max_tokens=100, messages=user("count to 9"), stop_sequences=["5"]) as stream:
        final = stream.get_final_message()
    same((final.content[0].text.strip(), final.stop_reason, final.stop_sequence), ("1 2 3 4", "stop_sequence", "5"))


@check
def max_tokens():
    answer = ask("count to 9", max_tokens=3)
    same((answer.content[0].text, answer.stop_reason), ("1 2 3", "max_tokens"))
    with client.messages.stream(model=MODEL, max_tokens=3, messages=user("count to 9")) as stream:
        same(stream.get_final_message().stop_reason, "max_tokens", "streamed")


@check
def images():
    parts = [
        {"type": "text", "text": "describe the images"},
        IMAGE,
        {"type": "image", "source": {"type": "url", "url": "https://example.com/cat.png"}},
    ]
    same(ask(parts).content[0].text, f"I see {PNG_SEEN}; image at https://example.com/cat.png")


@check
def thinking():
    answer = ask("think first, then count to 2", max_tokens=2000, thinking={"type": "enabled", "budget_tokens": 1024})
    same([block.type for block in answer.content], ["thinking", "text"], "blocks")
    same(answer.content[0].thinking, REASONING, "thinking")
    same(answer.content[1].text, "1 2", "text")
    turns = user("think first, then count to 2") + [{"role": "assistant", "content": answer.content}, {"role": "user", "content": 'say "again"'}]
    again = client.messages.create(model=MODEL, max_tokens=2000, thinking={"type": "enabled", "budget_tokens": 1024}, messages=turns)
    same([block.text for block in again.content if block.type == "text"], ["again"], "next turn")


@check
def thinking_streamed():
    request = {
        "model": MODEL,
        "max_tokens": 2000,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": user("think first, then count to 2"),
    }
    with client.messages.stream(**request) as stream:
        thoughts = "".join(event.thinking for event in stream if event.type == "thinking")
        final = stream.get_final_message()
    same((thoughts, [block.type for block in final.content]), (REASONING, ["thinking", "text"]))


@check
def thinking_not_asked_for():
    same([block.type for block in ask("think first, then count to 2").content], ["text"])


@check
def parse():
    prompt = 'answer with {"name": "Fair", "participants": ["Ann", "Bob"], "count": 2}'
    answer = client.messages.parse(model=MODEL, max_tokens=100, messages=user(prompt), output_format=Event)
    same(answer.parsed_output, Event(name="Fair", participants=["Ann", "Bob"], count=2))


@check
def parse_from_schema():
    answer = client.messages.parse(model=MODEL, max_tokens=100, messages=user("An event."), output_format=Event)
    same(answer.parsed_output, Event(name="text", participants=["text"], count=7))


@check
def count_tokens():
    short = client.messages.count_tokens(model=MODEL, messages=user("one two three")).input_tokens
    long = client.messages.count_tokens(model=MODEL, system="Be brief.", tools=[WEATHER], messages=user("one two three " * 100)).input_tokens
    assert 0 < short < 50 and 200 < long < 1000, (short, long)


@check
def models():
    found = {model.id: model for model in client.models.list()}
    assert MODEL in found, list(found)
    same((found[MODEL].type, bool(found[MODEL].display_name)), ("model", True))


@check
def error_400():
    result = {"type": "tool_result", "tool_use_id": "none", "content": "x"}
    error = raises(anthropic.BadRequestError, lambda: ask([result]), 400)
    same((error.body["type"], error.body["error"]["type"]), ("error", "invalid_request_error"))


@check
def error_429():
    error = raises(anthropic.RateLimitError, lambda: ask("fail with 429", model=failing("429")), 429)
    same(error.body["error"]["type"], "rate_limit_error")


@check
def error_500():
    try:
        ask("fail with 500", model=failing("500"))
    except anthropic.InternalServerError as error:
        assert error.body["error"]["type"] in ("api_error", "overloaded_error"), error.body
        return
    raise AssertionError("no error")


@check
def error_in_stream():
    try:
        for _ in ask("break the stream, count to 20", model=failing("broken"), stream=True):
            pass
    except anthropic.APIError as error:
        assert error.body["error"]["type"] in ("api_error", "overloaded_error"), error.body
        return
    raise AssertionError("the stream ended without an error")


@check
def cut_stream():
    kinds = []
    try:
        kinds += [event.type for event in ask("cut the stream, count to 20", model=failing("cut"), stream=True)]
    except Exception as error:
        kinds.append(type(error).__name__)
    assert "message_stop" not in kinds and kinds[-1:] not in (["content_block_delta"], ["message_start"]), kinds


@check
async def asynchronous():
    async with anthropic.AsyncAnthropic(base_url=ROOT_URL, api_key=API_KEY, max_retries=0) as other:
        async with other.messages.stream(model=MODEL, max_tokens=100, messages=user("count to 2")) as stream:
            same("".join([text async for text in stream.text_stream]), "1 2")


run()
