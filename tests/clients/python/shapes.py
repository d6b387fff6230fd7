"""Checks that hold for any model, also one whose weights are random: forms, order of events, forced calls, schemas and limits."""

import json

import anthropic
import openai
from responses_schema import EVENTS, events, follow, problems
from suite import API_KEY, BASE_URL, MODEL, ROOT_URL, check, ordered, run, same

claude = anthropic.Anthropic(base_url=ROOT_URL, api_key=API_KEY, max_retries=0, timeout=60)
client = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0, timeout=60)
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"name": "get_weather", "description": "The weather.", "input_schema": SCHEMA}
FUNCTION = {"type": "function", "name": "get_weather", "description": "The weather.", "parameters": SCHEMA, "strict": True}
USER = [{"role": "user", "content": "What is the weather like?"}]
LIMIT = 48
# The SDK has no argument for it, as new models take none; the API still does.
COLD = {"temperature": 0}


# Constrained output of a model with random weights has much white space.
ROOM = 400


def message(limit=LIMIT, **more):
    return claude.messages.create(model=MODEL, max_tokens=limit, **{"messages": USER, "extra_body": COLD} | more)


def respond(given="What is the weather like?", limit=LIMIT, **more):
    return client.responses.create(model=MODEL, input=given, max_output_tokens=limit, temperature=0, store=False, **more)


@check
def message_text():
    answer = message()
    assert all(block.type in ("text", "thinking") for block in answer.content) and answer.content, answer.content
    assert answer.stop_reason in ("end_turn", "max_tokens"), answer.stop_reason
    assert 0 < answer.usage.output_tokens <= LIMIT and answer.usage.input_tokens > 0, answer.usage


@check
def message_stream():
    with claude.messages.stream(model=MODEL, max_tokens=LIMIT, messages=USER, extra_body=COLD) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    ordered(kinds, "message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop")
    same(kinds[-1], "message_stop", "last event")
    same([b.text for b in final.content if b.type == "text"], [b.text for b in message().content if b.type == "text"], "text, streamed or not")
    assert final.usage.input_tokens > 0 and final.usage.output_tokens > 0, final.usage


@check
def message_tool_loop():
    first = message(ROOM, tools=[TOOL], tool_choice={"type": "any"})
    uses = [block for block in first.content if block.type == "tool_use"]
    same((first.stop_reason, uses[0].name, set(uses[0].input)), ("tool_use", "get_weather", {"city"}))
    results = [{"type": "tool_result", "tool_use_id": use.id, "content": "18 degrees"} for use in uses]
    turns = [*USER, {"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    assert message(tools=[TOOL], messages=turns).content, "no answer to the result"


@check
def message_tool_streamed():
    request = {
        "model": MODEL,
        "max_tokens": ROOM,
        "messages": USER,
        "extra_body": COLD,
        "tools": [TOOL],
        "tool_choice": {"type": "tool", "name": "get_weather"},
    }
    with claude.messages.stream(**request) as stream:
        final = stream.get_final_message()
    uses = [block for block in final.content if block.type == "tool_use"]
    assert uses and uses[0].input["city"] in ("Paris", "Rome"), final.content


@check
def message_schema():
    answer = message(ROOM, output_config={"format": {"type": "json_schema", "schema": SCHEMA}})
    assert json.loads(answer.content[-1].text)["city"] in ("Paris", "Rome"), answer.content


@check
def message_system_and_stop():
    answer = message(
        system=[{"type": "text", "text": "Be brief."}],
        stop_sequences=["zzzz"],
        metadata={"user_id": "u"},
        extra_body={"temperature": 0, "top_p": 0.9, "top_k": 5},
    )
    assert answer.stop_reason in ("end_turn", "max_tokens"), answer.stop_reason


@check
def token_count():
    turn = [{"role": "user", "content": "The quick brown fox jumps over the lazy dog. " * 40}]
    count = claude.messages.count_tokens(model=MODEL, messages=turn, system="Be brief.").input_tokens
    usage = message(system="Be brief.", messages=turn).usage
    whole = usage.input_tokens + (usage.cache_read_input_tokens or 0)
    assert whole / 2 < count < whole * 2, f"counted {count}, the model {whole}"


@check
def response_text():
    answer = respond()
    assert answer.status in ("completed", "incomplete") and answer.output, answer
    same(problems(json.loads(answer.model_dump_json(by_alias=True, exclude_unset=True)), "ResponseResource"), [], "problems")
    assert answer.usage.input_tokens > 0 and 0 < answer.usage.output_tokens <= LIMIT, answer.usage


@check
def response_events():
    for more in ({}, {"tools": [FUNCTION], "tool_choice": "required"}):
        found = events({"input": "What is the weather like?", "max_output_tokens": ROOM if more else LIMIT, "temperature": 0} | more)[0]
        follow(found)
        same([p for _, d in found if d["type"] in EVENTS for p in problems(d, EVENTS[d["type"]])], [], "problems")
        assert found[-1][1]["type"] in ("response.completed", "response.incomplete"), found[-1]


@check
def response_tool_loop():
    first = respond(limit=ROOM, tools=[FUNCTION], tool_choice="required")
    calls = [item for item in first.output if item.type == "function_call"]
    assert json.loads(calls[0].arguments)["city"] in ("Paris", "Rome"), first.output
    turns = [{"role": "user", "content": "What is the weather like?"}, *first.output]
    turns += [{"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"} for call in calls]
    assert respond(turns, tools=[FUNCTION]).output, "no answer to the result"


@check
def response_schema():
    answer = respond(limit=ROOM, text={"format": {"type": "json_schema", "name": "place", "schema": SCHEMA, "strict": True}})
    assert json.loads(answer.output_text)["city"] in ("Paris", "Rome"), answer.output_text


run()
