"""OpenAI Responses: reads requests, writes answers and streams."""

import itertools

from .conversation import Conversation, Item, Tool, image_url, need, pieces, slices

# Request fields that the answer repeats, with their defaults.
ECHOED = {
    "instructions": None, "max_output_tokens": None, "max_tool_calls": None, "metadata": {}, "parallel_tool_calls": True, "previous_response_id": None,
    "prompt_cache_key": None, "reasoning": {"effort": None, "summary": None}, "safety_identifier": None, "service_tier": "default", "store": True,
    "temperature": 1.0, "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0,
    "truncation": "disabled", "presence_penalty": 0.0, "frequency_penalty": 0.0, "background": False,
}  # fmt: skip


def read(body):
    """A request's conversation."""
    need("input" in body, "input is required", "input")
    need(not body.get("previous_response_id"), "previous_response_id: responses are not stored here", "previous_response_id")
    conversation = Conversation(system=body.get("instructions") or "")
    given = body["input"]
    open_calls = []
    for at, item in enumerate([{"role": "user", "content": given}] if isinstance(given, str) else given):
        conversation.items += read_item(item, open_calls, f"input[{at}]")
    need(not open_calls, f"No tool output found for function call {open_calls}", "input")
    if not conversation.system and conversation.items and conversation.items[0].role == "system":
        conversation.system = conversation.items.pop(0).text
    options(body, conversation)
    return conversation


def read_item(item, open_calls, where):
    """The items of one of the input's."""
    kind = item.get("type", "message")
    if kind == "message":
        role = {"developer": "system"}.get(item["role"], item["role"])
        content = item["content"]
        parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
        return [read_part(part, role, where) for part in parts]
    if kind in ("function_call", "custom_tool_call"):
        open_calls.append(item["call_id"])
        return [Item("call", "assistant", item.get("arguments") or item.get("input") or "", item["call_id"], item["name"])]
    if kind in ("function_call_output", "custom_tool_call_output"):
        need(item["call_id"] in open_calls, f"{where}: no call has the id {item['call_id']!r}", "input")
        open_calls.remove(item["call_id"])
        output = item["output"]
        parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
        read_parts = [read_part(part, "user", where) for part in parts]
        text = "".join(part.text for part in read_parts if part.kind == "text")
        return [Item("result", "tool", text, item["call_id"]), *(part for part in read_parts if part.kind == "image")]
    if kind == "reasoning":
        return [Item("reasoning", "assistant", "".join(part["text"] for part in item.get("content") or item.get("summary") or []))]
    need(kind in ("item_reference", "additional_tools"), f"{where}: an item of type {kind!r}", "input")
    return []


def read_part(part, role, where):
    """A part of a message's content."""
    if part["type"] == "input_image":
        return Item("image", role, image_url(part["image_url"]))
    need(part["type"] in ("input_text", "output_text", "text"), f"{where}: a part of type {part['type']!r}", "input")
    return Item("text", role, part["text"])


def options(body, conversation):
    """Tools, formats and limits."""
    for tool in body.get("tools") or []:
        if tool["type"] in ("function", "custom"):
            conversation.tools.append(Tool(tool["name"], tool.get("parameters") or {}, tool["type"] == "custom"))
    choice = body.get("tool_choice") or "auto"
    conversation.choice = choice if isinstance(choice, str) else choice.get("name", "auto")
    conversation.parallel = body.get("parallel_tool_calls") is not False
    wanted = (body.get("text") or {}).get("format") or {"type": "text"}
    conversation.json_object = wanted["type"] == "json_object"
    conversation.schema = wanted["schema"] if wanted["type"] == "json_schema" else None
    conversation.max_tokens = body.get("max_output_tokens")


def output(answer, body, ident):
    """The output items. Whoever asks for a summary of the reasoning gets one in place of its text."""
    items = []
    if answer.reasoning:
        summary = bool((body.get("reasoning") or {}).get("summary"))
        parts = [{"type": "summary_text" if summary else "reasoning_text", "text": answer.reasoning}]
        more = {"summary": parts} if summary else {"summary": [], "content": parts}
        items.append({"type": "reasoning", "id": f"rs_{ident}", "status": "completed", **more})
    if answer.text or not answer.calls:
        content = [{"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}]
        status = "incomplete" if answer.finish == "length" else "completed"
        items.append({"type": "message", "id": f"msg_{ident}", "status": status, "role": "assistant", "content": content})
    for call in answer.calls:
        kind, field = ("custom_tool_call", "input") if call.freeform else ("function_call", "arguments")
        items.append(
            {"type": kind, "id": f"fc_{ident}_{call.id}", "call_id": call.id, "name": call.name, field: call.arguments, "status": "completed"}
        )
    return items


def write(answer, body, ident):
    """The whole answer."""
    cut = answer.finish == "length"
    head = {"id": f"resp_{ident}", "object": "response", "created_at": 1, "completed_at": None if cut else 2, "model": body["model"]}
    state = {"status": "incomplete" if cut else "completed", "error": None, "incomplete_details": {"reason": "max_output_tokens"} if cut else None}
    counts = {
        "input_tokens": answer.prompt_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": answer.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
    }
    echoed = {name: default if body.get(name) is None else body[name] for name, default in ECHOED.items()}
    echoed["reasoning"] = ECHOED["reasoning"] | echoed["reasoning"]
    wanted = echoed["text"].get("format") or ECHOED["text"]["format"]
    echoed["text"] = echoed["text"] | {"format": ({"description": None, "strict": False} if wanted["type"] == "json_schema" else {}) | wanted}
    echoed["tools"] = [({"description": None, "strict": True} if tool["type"] == "function" else {}) | tool for tool in echoed["tools"]]
    return head | state | echoed | {"output": output(answer, body, ident), "usage": counts}


def stream(answer, body, ident):
    """The events of a stream as (name, data), numbered."""
    numbers = itertools.count()

    def event(kind, **data):
        return kind, {"type": kind, "sequence_number": next(numbers), **data}

    whole = write(answer, body, ident)
    started = whole | {"status": "in_progress", "output": [], "usage": None, "incomplete_details": None, "completed_at": None}
    yield event("response.created", response=started)
    yield event("response.in_progress", response=started)
    for index, item in enumerate(whole["output"]):
        yield from item_events(event, item, {"output_index": index, "item_id": item["id"]})
    yield event(f"response.{whole['status']}", response=whole)
    yield None, None


def item_events(event, item, place):
    """The events that build up an output item."""
    field = {"message": "content", "reasoning": "content", "function_call": "arguments", "custom_tool_call": "input"}[item["type"]]
    if item["type"] == "reasoning" and item["summary"]:
        field = "summary"
    yield event(
        "response.output_item.added",
        output_index=place["output_index"],
        item=item | {field: [] if isinstance(item[field], list) else "", "status": "in_progress"},
    )
    if field == "content":
        yield from part_events(event, item["content"][0], place | {"content_index": 0})
    elif field == "summary":
        yield from part_events(event, item["summary"][0], place | {"summary_index": 0})
    else:
        prefix = "response.function_call_arguments" if field == "arguments" else "response.custom_tool_call_input"
        for piece in slices(item[field]):
            yield event(f"{prefix}.delta", **place, delta=piece)
        yield event(f"{prefix}.done", **place, **({"name": item["name"]} if field == "arguments" else {}), **{field: item[field]})
    yield event("response.output_item.done", output_index=place["output_index"], item=item)


def part_events(event, part, place):
    """The events that build up a part of a message or of reasoning."""
    outer = "response.reasoning_summary_part" if part["type"] == "summary_text" else "response.content_part"
    names = {"output_text": "output_text", "reasoning_text": "reasoning_text", "summary_text": "reasoning_summary_text"}
    inner = f"response.{names[part['type']]}"
    more = {"logprobs": []} if part["type"] == "output_text" else {}
    yield event(f"{outer}.added", **place, part=part | {"text": ""})
    for piece in pieces(part["text"]):
        yield event(f"{inner}.delta", **place, delta=piece, **more)
    yield event(f"{inner}.done", **place, text=part["text"], **more)
    yield event(f"{outer}.done", **place, part=part)


KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


def error(status, message, param=None, _details=None):
    """The body of an error."""
    return {"error": {"message": message, "type": KINDS.get(status, "server_error"), "param": param, "code": None}}


def stream_error():
    """The event of an error inside a stream."""
    return "error", {"type": "error", "sequence_number": 99, "code": "server_error", "message": "scripted failure in the stream", "param": None}
