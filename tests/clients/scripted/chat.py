"""OpenAI Chat Completions: reads strictly, as engines that refuse what they do not know, and writes answers and streams."""

import json

from .conversation import Conversation, Item, Tool, image_url, need, pieces, slices

# What vLLM, SGLang and llama.cpp take; a field of another dialect is refused by name.
FIELDS = set(
    "model messages stream stream_options tools tool_choice parallel_tool_calls response_format stop max_tokens max_completion_tokens temperature"
    " top_p top_k min_p n seed user logprobs top_logprobs logit_bias presence_penalty frequency_penalty repetition_penalty reasoning_effort metadata"
    " store service_tier safety_identifier prompt_cache_key chat_template_kwargs include_reasoning functions function_call verbosity modalities".split()
)


def read(body):
    """A request's conversation; refuses what a strict engine refuses."""
    for field in body:
        need(field in FIELDS, f"unrecognized field: {field}", field)
    need(isinstance(body.get("messages"), list) and body["messages"], "messages must be a list that is not empty", "messages")
    conversation = Conversation()
    open_calls = []
    for at, message in enumerate(body["messages"]):
        role = message.get("role")
        where = f"messages[{at}]"
        need(role in ("system", "developer", "user", "assistant", "tool"), f"{where}: role {role!r}", "messages")
        if role == "tool":
            need(message.get("tool_call_id") in open_calls, f"{where}: no call has the id {message.get('tool_call_id')!r}", "messages")
            open_calls.remove(message["tool_call_id"])
            text = "".join(part.text for part in parts(message, where, {"text"}))
            conversation.items.append(Item("result", "tool", text, id=message["tool_call_id"]))
            continue
        need(not open_calls, f"{where}: calls without a result: {open_calls}", "messages")
        if role in ("system", "developer"):
            text = "".join(part.text for part in parts(message, where, {"text"}))
            if at == 0:
                conversation.system = text
            else:
                conversation.items.append(Item("text", "system", text))
            continue
        if role == "assistant" and message.get("reasoning_content"):
            conversation.items.append(Item("reasoning", role, message["reasoning_content"]))
        conversation.items += parts(message, where, {"text", "image_url"} if role == "user" else {"text"})
        for call in message.get("tool_calls") or []:
            json.loads(call["function"]["arguments"])
            open_calls.append(call["id"])
            conversation.items.append(Item("call", role, call["function"]["arguments"], call["id"], call["function"]["name"]))
    need(not open_calls, f"calls without a result: {open_calls}", "messages")
    options(body, conversation)
    return conversation


def parts(message, where, allowed):
    """The content of a message: text, or a list of parts."""
    content = message.get("content")
    role = message["role"]
    need(content is not None or role == "assistant", f"{where}: no content", "messages")
    if isinstance(content, str):
        return [Item("text", role, content)] if content else []
    items = []
    for part in content or []:
        need(part.get("type") in allowed, f"{where}: a part of type {part.get('type')!r} in a message of role {role}", "messages")
        image = part["type"] == "image_url"
        items.append(Item("image", role, image_url(part["image_url"]["url"])) if image else Item("text", role, part["text"]))
    return items


def options(body, conversation):
    """Tools, formats and limits."""
    for tool in body.get("tools") or []:
        need(tool.get("type") == "function", f"tools: type {tool.get('type')!r}", "tools")
        conversation.tools.append(Tool(tool["function"]["name"], tool["function"].get("parameters") or {}))
    choice = body.get("tool_choice") or "auto"
    need(choice in ("auto", "none") or conversation.tools, "tool_choice without tools", "tool_choice")
    if isinstance(choice, dict):
        need(choice.get("type") == "function", f"tool_choice: type {choice.get('type')!r}", "tool_choice")
        choice = choice["function"]["name"]
    else:
        need(choice in ("auto", "none", "required"), f"tool_choice: {choice!r}", "tool_choice")
    conversation.choice = choice
    conversation.parallel = body.get("parallel_tool_calls") is not False
    wanted = body.get("response_format") or {"type": "text"}
    need(wanted["type"] in ("text", "json_object", "json_schema"), f"response_format: type {wanted['type']!r}", "response_format")
    conversation.json_object = wanted["type"] == "json_object"
    conversation.schema = wanted["json_schema"]["schema"] if wanted["type"] == "json_schema" else None
    stop = body.get("stop") or []
    conversation.stop = [stop] if isinstance(stop, str) else stop
    conversation.max_tokens = body.get("max_completion_tokens") or body.get("max_tokens")


def usage(answer):
    """Token counts: the cached ones are part of the prompt's."""
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
    }


def tool_call(call):
    """A call as a message holds it."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def write(answer, body, ident):
    """The whole answer."""
    message = {"role": "assistant", "content": answer.text or (None if answer.calls else ""), "refusal": None, "annotations": []}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [tool_call(call) for call in answer.calls]
    # `stop_reason` is vLLM's: the stop sequence that ended the answer.
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish, "stop_reason": answer.stopped_by}
    return {"id": f"chatcmpl-{ident}", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice], "usage": usage(answer)}


def stream(answer, body, ident):
    """The events of a stream as (name, data); a data of None is the end marker."""
    head = {"id": f"chatcmpl-{ident}", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}

    def chunk(delta, finish=None, **more):
        return None, head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(answer.reasoning):
        yield chunk({"reasoning_content": piece})
    for piece in pieces(answer.text):
        yield chunk({"content": piece})
    for index, call in enumerate(answer.calls):
        yield chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}]})
        for part in slices(call.arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, answer.finish, stop_reason=answer.stopped_by)
    if (body.get("stream_options") or {}).get("include_usage"):
        yield None, head | {"choices": [], "usage": usage(answer)}
    yield None, None


KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


def error(status, message, param=None, _details=None):
    """The body of an error."""
    return {"error": {"message": message, "type": KINDS.get(status, "server_error"), "param": param, "code": None}}


def stream_error():
    """The event of an error inside a stream."""
    return None, error(500, "scripted failure in the stream")
