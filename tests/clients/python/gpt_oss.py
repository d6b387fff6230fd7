"""The questions of gpt-oss's compatibility test, asked in our own words: the shape of answers, reasoning and tool calls over both APIs.

The original (compatibility-test in openai/gpt-oss) runs an agent of the Agents SDK per case, streamed or not, and looks for: a call of the right
tool, arguments that satisfy its schema, raw reasoning in answers (Responses: `reasoning` items with `reasoning_text`; Chat: `reasoning` or
`reasoning_content`), and reasoning deltas and their end in streams.
"""

import json

import openai
from suite import API_KEY, BASE_URL, MODEL, REASONING, check, run, same

client = openai.OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0, timeout=20)
EFFORT = {"effort": "low"}
STRING, NUMBER = {"type": "string"}, {"type": "number"}
CASES = [
    ("get_system_health", {}, {}),
    ("lookup_product", {"sku": STRING, "currency": {"type": "string", "enum": ["EUR", "USD"]}}, {"sku": "A-1", "currency": "USD"}),
    (
        "make_invoice",
        {"items": {"type": "array", "items": {"type": "object", "properties": {"sku": STRING, "qty": NUMBER}}}},
        {"items": [{"sku": "B", "qty": 2}]},
    ),
    ("unicode_name", {"name": STRING}, {"name": 'Zoë „Ω“ 東京 \\ \n " 🦀'}),
    ("convert", {"amount": NUMBER, "exact": {"type": "boolean"}}, {"amount": -1.5e-7, "exact": False}),
]


def cases():
    """The prompt, name, schema and arguments of each case."""
    for name, properties, arguments in CASES:
        schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
        yield f"think first, then call {name} with {json.dumps(arguments)}", name, schema, arguments


@check
def responses_calls():
    for prompt, name, schema, arguments in cases():
        tool = {"type": "function", "name": name, "parameters": schema, "strict": True}
        answer = client.responses.create(model=MODEL, input=prompt, tools=[tool], store=False, reasoning=EFFORT)
        same([item.type for item in answer.output], ["reasoning", "function_call"], name)
        same((answer.output[1].name, json.loads(answer.output[1].arguments)), (name, arguments), name)


@check
def responses_calls_streamed():
    for prompt, name, schema, arguments in cases():
        tool = {"type": "function", "name": name, "parameters": schema, "strict": True}
        events = list(client.responses.create(model=MODEL, input=prompt, tools=[tool], store=False, reasoning=EFFORT, stream=True))
        deltas = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
        same(json.loads(deltas), arguments, name)
        same(json.loads(events[-1].response.output[1].arguments), arguments, name)


@check
def responses_reasoning_is_raw_text():
    answer = client.responses.create(model=MODEL, input="think first, then count to 2", store=False, reasoning=EFFORT)
    item = answer.output[0]
    same(item.type, "reasoning")
    same([(part.type, part.text) for part in item.content or []], [("reasoning_text", REASONING)], "content")


@check
def responses_reasoning_events():
    kinds = [e.type for e in client.responses.create(model=MODEL, input="think first, then count to 2", store=False, reasoning=EFFORT, stream=True)]
    assert "response.reasoning_text.delta" in kinds and "response.reasoning_text.done" in kinds, sorted(set(kinds))


@check
def chat_calls():
    for prompt, name, schema, arguments in cases():
        tool = {"type": "function", "function": {"name": name, "parameters": schema, "strict": True}}
        for message in (whole(prompt, [tool]), streamed(prompt, [tool])):
            same([(c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls], [(name, arguments)], name)


def whole(prompt, tools):
    messages = [{"role": "user", "content": prompt}]
    return client.chat.completions.create(model=MODEL, messages=messages, tools=tools, reasoning_effort="low").choices[0].message


def streamed(prompt, tools):
    with client.chat.completions.stream(model=MODEL, messages=[{"role": "user", "content": prompt}], tools=tools, reasoning_effort="low") as events:
        return events.get_final_completion().choices[0].message


@check
def chat_reasoning():
    message = whole("think first, then count to 2", openai.NOT_GIVEN).model_dump()
    same(message.get("reasoning") or message.get("reasoning_content"), REASONING)


run()
