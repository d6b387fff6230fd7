"""The model's behaviour: phrases in the user's last text decide the answer, so that every check can expect exact words.

    say "X"                     answers X
    count to N                  answers 1 2 … N
    repeat the instructions     answers with the system prompt
    repeat the conversation     answers with everything it was sent, in one line
    describe the images         names the type and size of each image
    call NAME with {…}          calls that tool; several in one text are parallel calls, those after `and then` follow once results are there
    think first                 reasons before it answers
    answer with {…}             answers with that JSON, for structured outputs of given content
    half is cached              reports half of the prompt as read from a cache
    fail with 429               answers with that status
    cut the stream              closes the connection in the middle; `break the stream` sends an error event
    drip TAG                    streams a word every 50 ms, for five seconds; `did the caller of TAG leave?` says if it was read to its end
    read F, replace "A" by "B", run `C`    the task of an agent, see agent.py

A schema gets an instance of it, tool results are answered with what they said, anything else with "You said: …".
"""

import json
import re

from . import agent
from .conversation import Answer, Call, Refused, compact, need, pieces

REASONING = "The user wants an answer, so I will give one."
# Tags of slow streams whose reader left.
LEFT = set()


def respond(conversation):
    """Decides the answer to a conversation."""
    asked = conversation.asked()
    refused = re.search(r"\bfail with (\d{3})\b", asked)
    if refused:
        raise Refused(int(refused[1]), f"scripted failure {refused[1]}")
    answer = Answer(prompt_tokens=conversation.prompt_tokens())
    if "think first" in asked and conversation.reasoning:
        answer.reasoning = REASONING
    if "half is cached" in asked:
        answer.cached_tokens = answer.prompt_tokens // 2
    answer.fault = "cut" if "cut the stream" in asked else "error" if "break the stream" in asked else ""
    slow = re.search(r"\bdrip (\S+)", asked)
    answer.slow = slow[1] if slow else ""
    calls = tool_calls(conversation, asked)
    if calls:
        answer.calls, answer.finish = number(conversation, calls), "tool_calls"
    else:
        answer.text = text(conversation, asked)
        shorten(conversation, answer)
    count(answer)
    return answer


def tool_calls(conversation, asked):
    """The (name, arguments, freeform) to call now."""
    if not conversation.tools or conversation.choice == "none":
        return []
    task = agent.next_call(conversation, asked)
    if task is not None:
        return task
    offered = {tool.name: tool for tool in conversation.tools}
    if conversation.choice not in ("auto", "required"):
        need(conversation.choice in offered, f"tool_choice names no tool: {conversation.choice}", "tool_choice")
        offered = {conversation.choice: offered[conversation.choice]}
    forced = conversation.choice != "auto"
    steps = asked.split(" and then ")
    done = conversation.rounds()
    if any(item.kind == "result" for item in conversation.tail()) and not forced and done >= len(steps):
        return []
    calls = [(name, args, False) for name, args in named_calls(steps[min(done, len(steps) - 1)]) if name in offered]
    if not calls:
        mentioned = [t for t in offered.values() if any(w in asked.lower().split() for w in t.name.split("_") if len(w) > 3)]
        chosen = mentioned or (list(offered.values()) if forced else [])
        calls = [(tool.name, "text" if tool.freeform else compact(instance(tool.schema)), tool.freeform) for tool in chosen[:1]]
    return calls if conversation.parallel else calls[:1]


def named_calls(asked):
    """Every `call NAME with {…}` of a text."""
    for match in re.finditer(r"\bcall ([\w.-]+) with (?=\{)", asked):
        value, _ = json.JSONDecoder().raw_decode(asked[match.end() :])
        yield match[1], compact(value)


def number(conversation, calls):
    """Gives calls ids that are new in their conversation."""
    before = sum(item.kind == "call" for item in conversation.items)
    return [Call(f"call_{before + i:04}", *call) for i, call in enumerate(calls, 1)]


def text(conversation, asked):
    """The words of the answer."""
    given = re.search(r"\banswer with (?=\{)", asked)
    if given:
        return compact(json.JSONDecoder().raw_decode(asked[given.end() :])[0])
    seen = [item for item in conversation.tail() if item.kind in ("result", "image")]
    if any(item.kind == "result" for item in seen):
        return "The tool said: " + "; ".join(item.text for item in seen)
    if conversation.schema is not None:
        return compact(instance(conversation.schema))
    if conversation.json_object or "JSON object only" in conversation.system:
        return '{"ok":true}'
    quoted = re.search(r'\bsay "([^"]*)"', asked)
    counted = re.search(r"\bcount to (\d+)", asked)
    if quoted:
        return quoted[1]
    if counted:
        return " ".join(str(n) for n in range(1, int(counted[1]) + 1))
    edited = agent.listing(conversation, asked)
    if edited is not None:
        return edited
    if re.search(r"\bdrip \S", asked):
        return " ".join(["drip"] * 100)
    left = re.search(r"\bdid the caller of (\S+) leave\?", asked)
    if left:
        return "yes" if left[1] in LEFT else "no"
    if "repeat the instructions" in asked:
        return flat(conversation.system)
    if "repeat the conversation" in asked:
        return transcript(conversation)
    if "describe the images" in asked:
        return "I see " + "; ".join(item.text for item in conversation.items if item.kind == "image")
    return f"You said: {flat(asked)[:200]}"


def transcript(conversation):
    """What the model was sent, in a form that is the same in every dialect."""
    lines = [f"system: {conversation.system}"] if conversation.system else []
    role = None
    for item in conversation.items:
        if item.kind == "text" and role == item.role:
            lines[-1] += " " + item.text
            continue
        role = item.role if item.kind == "text" else None
        lines.append(
            {
                "text": f"{item.role}: {item.text}",
                "image": f"image: {item.text}",
                "call": f"call {item.name}: {item.text}",
                "result": f"result: {item.text}",
                "reasoning": f"reasoning: {item.text}",
            }[item.kind]
        )
    return flat(" | ".join(lines))


def flat(value):
    """One line, one space between words: dialects join parts differently."""
    return " ".join(value.split())


def shorten(conversation, answer):
    """Applies stop sequences, then the limit of tokens."""
    found = [(answer.text.find(stop), stop) for stop in conversation.stop if stop and stop in answer.text]
    if found:
        at, answer.stopped_by = min(found)
        answer.text = answer.text[:at]
    tokens = pieces(answer.text)
    if conversation.max_tokens is not None and len(tokens) > conversation.max_tokens:
        answer.text, answer.finish, answer.stopped_by = "".join(tokens[: conversation.max_tokens]), "length", None


def count(answer):
    """Counts the tokens of an answer."""
    answer.reasoning_tokens = len(pieces(answer.reasoning))
    words = len(pieces(answer.text)) + sum(len(pieces(call.arguments)) for call in answer.calls)
    answer.completion_tokens = answer.reasoning_tokens + words


def instance(schema, root=None):
    """The simplest value that satisfies a JSON schema."""
    root = schema if root is None else root
    if "$ref" in schema:
        target = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        return instance(target, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return instance(schema[key][0], root)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: instance(part, root) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [instance(schema.get("items", {}), root)] * max(1, schema.get("minItems", 1))
    if kind in ("integer", "number"):
        return schema.get("minimum", 7)
    return {"boolean": True, "null": None}.get(kind, "text")
