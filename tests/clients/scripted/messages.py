"""Anthropic Messages: reads requests, writes answers, streams and counts."""

import json

from .conversation import Conversation, Item, Refused, Tool, image_bytes, need, pieces, slices

SIGNATURE = "c2NyaXB0ZWQ="
# What the published schema requires and this model has no use for.
UNUSED_USAGE = {"cache_creation": None, "inference_geo": None, "server_tool_use": None, "service_tier": "standard"}
UNUSED = {"stop_details": None, "container": None}


def read(body, counting=False):
    """A request's conversation."""
    need(isinstance(body.get("messages"), list) and body["messages"], "messages: at least one message is required")
    need(counting or isinstance(body.get("max_tokens"), int), "max_tokens: Field required")
    if body.get("thread"):
        # Clients then send the whole conversation.
        details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
        raise Refused(400, "thread: conversations are not stored here", details=details)
    system = body.get("system") or ""
    conversation = Conversation(system=system if isinstance(system, str) else "\n".join(block["text"] for block in system))
    open_calls = []
    for at, message in enumerate(body["messages"]):
        role = message.get("role")
        need(role in ("user", "assistant", "system"), f"messages.{at}: role {role!r}")
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            conversation.items += read_block(block, role, open_calls, f"messages.{at}")
        need(role == "assistant" or not open_calls, f"messages.{at}: tool_use ids without tool_result: {open_calls}")
    options(body, conversation)
    return conversation


def read_block(block, role, open_calls, where):
    """The items of a content block."""
    kind = block.get("type")
    if kind == "text":
        return [Item("text", role, block["text"])]
    if kind == "image":
        return [Item("image", role, image(block["source"]))]
    if kind == "thinking":
        need(block.get("signature") == SIGNATURE, f"{where}: invalid signature in thinking block")
        return [Item("reasoning", role, block["thinking"])]
    if kind == "tool_use":
        open_calls.append(block["id"])
        return [Item("call", role, json.dumps(block["input"]), block["id"], block["name"])]
    need(kind == "tool_result", f"{where}: a block of type {kind!r}")
    need(block["tool_use_id"] in open_calls, f"{where}: unexpected tool_use_id {block['tool_use_id']!r}")
    open_calls.remove(block["tool_use_id"])
    content = block.get("content") or ""
    inner = [{"type": "text", "text": content}] if isinstance(content, str) else content
    text = "".join(part["text"] for part in inner if part["type"] == "text")
    images = [Item("image", role, image(part["source"])) for part in inner if part["type"] == "image"]
    return [Item("result", "tool", text, block["tool_use_id"], error=bool(block.get("is_error"))), *images]


def image(source):
    """Describes an image source."""
    return f"image at {source['url']}" if source["type"] == "url" else image_bytes(source["media_type"], source["data"])


def options(body, conversation):
    """Tools, formats and limits."""
    for tool in body.get("tools") or []:
        if "input_schema" in tool:
            conversation.tools.append(Tool(tool["name"], tool["input_schema"]))
    choice = body.get("tool_choice") or {"type": "auto"}
    need(choice["type"] in ("auto", "none", "any", "tool"), f"tool_choice: type {choice['type']!r}")
    conversation.choice = {"any": "required", "tool": choice.get("name")}.get(choice["type"], choice["type"])
    conversation.parallel = not choice.get("disable_parallel_tool_use")
    wanted = (body.get("output_config") or {}).get("format") or body.get("output_format")
    conversation.schema = wanted["schema"] if wanted else None
    conversation.stop = body.get("stop_sequences") or []
    conversation.max_tokens = body.get("max_tokens")
    conversation.reasoning = (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")


def usage(answer):
    """Token counts: the cached ones are beside the input's."""
    return UNUSED_USAGE | {
        "input_tokens": answer.prompt_tokens - answer.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": answer.cached_tokens,
        "output_tokens": answer.completion_tokens,
        "output_tokens_details": {"thinking_tokens": answer.reasoning_tokens},
    }


def reason(answer):
    """The stop reason."""
    if answer.stopped_by is not None:
        return "stop_sequence"
    return {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}[answer.finish]


def blocks(answer):
    """The content blocks."""
    content = []
    if answer.reasoning:
        content.append({"type": "thinking", "thinking": answer.reasoning, "signature": SIGNATURE})
    if answer.text:
        content.append({"type": "text", "text": answer.text, "citations": []})
    for call in answer.calls:
        content.append(
            {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": json.loads(call.arguments), "caller": {"type": "direct"}}
        )
    return content


def write(answer, body, ident):
    """The whole answer."""
    head = {"id": f"msg_{ident}", "type": "message", "role": "assistant", "model": body["model"]}
    return UNUSED | head | {"content": blocks(answer), "stop_reason": reason(answer), "stop_sequence": answer.stopped_by, "usage": usage(answer)}


def stream(answer, body, ident):
    """The events of a stream as (name, data)."""
    head = write(answer, body, ident) | {"content": [], "stop_reason": None, "stop_sequence": None}
    head["usage"] = head["usage"] | {"output_tokens": 1}
    yield event("message_start", message=head)
    yield event("ping")
    for index, block in enumerate(blocks(answer)):
        empty = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}, "tool_use": {"input": {}}}[block["type"]]
        yield event("content_block_start", index=index, content_block=block | empty)
        for delta in deltas(block):
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    yield event("message_delta", delta={"stop_reason": reason(answer), "stop_sequence": answer.stopped_by}, usage=usage(answer))
    yield event("message_stop")


def deltas(block):
    """The deltas that build up a block."""
    if block["type"] == "tool_use":
        return [{"type": "input_json_delta", "partial_json": part} for part in slices(json.dumps(block["input"]))]
    if block["type"] == "text":
        return [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    thinking = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
    return [*thinking, {"type": "signature_delta", "signature": block["signature"]}]


def event(name, **data):
    """One event."""
    return name, {"type": name, **data}


KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 529: "overloaded_error"}


def error(status, message, _param=None, details=None):
    """The body of an error."""
    more = {"details": details} if details else {}
    return {"type": "error", "error": {"type": KINDS.get(status, "api_error"), "message": message, **more}}


def stream_error():
    """The event of an error inside a stream."""
    return "error", error(500, "scripted failure in the stream")
