"""Sends the same requests to a model that speaks an API natively and to a gateway that translates it; prints where the answers differ.

    python3 scripted_model.py --port 18201 --speaks chat,messages,responses
    python3 compare.py --native http://127.0.0.1:18201/v1 --base http://127.0.0.1:4100/v1 [--samples FOLDER] [--json out.json]

FOLDER may hold recorded bodies in messages/*.json and responses/*.json (`agents.py --keep` writes some). Ids, times and fields that say nothing are
left out, null is the same as missing, and deltas are joined.
"""

import argparse
import json
import pathlib
import sys
import urllib.error
import urllib.request

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mP4z8CAFTEMLQkAKP8/wc53yE8AAAAASUVORK5CYII="
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
CALLS = 'call get_weather with {"city": "Paris"} and call get_weather with {"city": "Rome"}'
IGNORED = set(
    "id item_id call_id tool_use_id created_at completed_at signature encrypted_content obfuscation service_tier inference_geo cache_creation"
    " server_tool_use citations caller container stop_details logprobs sequence_number store safety_identifier prompt_cache_key background".split()
)

# Differences that a translator cannot avoid, or chooses.
KNOWN = {
    "messages: system in between": "chat templates refuse a system message between turns, so it becomes a part of the user's",
    "messages: result with image": "tool results of chat hold text alone: the image follows in a user message, with a note",
    "messages: no limit": "a request without max_tokens is served",
    "responses: instructions and developer": "they become one system message",
    "responses: output with image": "tool results of chat hold text alone: the image follows in a user message, with a note",
}


def turns(calls, results):
    """A conversation of Messages: a question, calls, their results."""
    return [{"role": "user", "content": CALLS}, {"role": "assistant", "content": calls}, {"role": "user", "content": results}]


def use(ident, city):
    return {"type": "tool_use", "id": ident, "name": "get_weather", "input": {"city": city}}


def result(ident, content, **more):
    return {"type": "tool_result", "tool_use_id": ident, "content": content, **more}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
TOOLS = {"tools": [{"name": "get_weather", "description": "The weather.", "input_schema": CITY}]}
THINK = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048}
MESSAGES = {
    "text": {"messages": "count to 3"},
    "system": {"system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}], "messages": "repeat the instructions"},
    "system in between": {
        "messages": [
            {"role": "user", "content": "one"},
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "repeat the conversation"},
        ]
    },
    "two users": {"messages": [{"role": "user", "content": "one"}, {"role": "user", "content": "repeat the conversation"}]},
    "prefill": {"messages": [{"role": "user", "content": "repeat the conversation"}, {"role": "assistant", "content": "It is"}]},
    "unicode": {"messages": 'say "Zoë „Ω“ 東京 🦀 \\ \t end"'},
    "empty answer": {"messages": 'say ""'},
    "cached": {"messages": "half is cached please now"},
    "limit": {"messages": "count to 9", "max_tokens": 3},
    "stop": {"messages": "count to 9", "stop_sequences": ["7", "5"]},
    "calls": {"messages": CALLS, **TOOLS},
    "one call": {"messages": CALLS, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}, **TOOLS},
    "any": {"messages": "hello", "tool_choice": {"type": "any"}, **TOOLS},
    "no tool": {"messages": CALLS, "tool_choice": {"type": "none"}, **TOOLS},
    "results": {
        "messages": turns(
            [{"type": "text", "text": "I look."}, use("a", "Paris"), use("b", "Rome")],
            [result("b", "25"), result("a", [{"type": "text", "text": "18"}])],
        ),
        **TOOLS,
    },
    "empty result": {"messages": turns([use("a", "Paris")], [{"type": "tool_result", "tool_use_id": "a"}]), **TOOLS},
    "result and text": {"messages": turns([use("a", "Paris")], [result("a", "18"), {"type": "text", "text": "repeat the conversation"}]), **TOOLS},
    "result with image": {"messages": turns([use("a", "Paris")], [result("a", [{"type": "text", "text": "see"}, IMAGE])]), **TOOLS},
    "images": {"messages": [{"role": "user", "content": [{"type": "text", "text": "describe the images"}, IMAGE]}]},
    "thinking": {"messages": "think first, then count to 2", **THINK},
    "thinking and call": {"messages": f"think first, then {CALLS}", **THINK, **TOOLS},
    "schema": {"messages": "Where?", "output_config": {"format": {"type": "json_schema", "schema": CITY}}},
    "orphan result": {"messages": [{"role": "user", "content": [result("x", "y")]}]},
    "no messages": {"messages": []},
    "no limit": {"messages": "count to 3", "max_tokens": None},
    "thread": {"messages": "count to 3", "thread": {"type": "create"}},
}

FUNCTIONS = {"tools": [{"type": "function", "name": "get_weather", "description": "The weather.", "parameters": CITY, "strict": True}]}


def call(ident, city):
    return {"type": "function_call", "call_id": ident, "name": "get_weather", "arguments": json.dumps({"city": city})}


def output(ident, content):
    return {"type": "function_call_output", "call_id": ident, "output": content}


def said(role, content):
    return {"role": role, "content": content}


PICTURE = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}], "encrypted_content": None}
RESPONSES = {
    "text": {"input": "count to 3"},
    "instructions": {"input": "repeat the instructions", "instructions": "Be brief."},
    "instructions and developer": {"input": [said("developer", "Be kind."), said("user", "repeat the conversation")], "instructions": "Be brief."},
    "turns": {"input": [said("user", "one"), said("assistant", [{"type": "output_text", "text": "two"}]), said("user", "repeat the conversation")]},
    "unicode": {"input": 'say "Zoë „Ω“ 東京 🦀 \\ \t end"'},
    "cached": {"input": "half is cached please now"},
    "limit": {"input": "count to 9", "max_output_tokens": 3},
    "calls": {"input": CALLS, **FUNCTIONS},
    "one call": {"input": CALLS, "parallel_tool_calls": False, **FUNCTIONS},
    "required": {"input": "hello", "tool_choice": "required", **FUNCTIONS},
    "outputs": {"input": [said("user", CALLS), call("a", "Paris"), call("b", "Rome"), output("b", "25"), output("a", "18")], **FUNCTIONS},
    "output with image": {
        "input": [said("user", CALLS), call("a", "Paris"), output("a", [{"type": "input_text", "text": "see"}, PICTURE])],
        **FUNCTIONS,
    },
    "image": {"input": [said("user", [{"type": "input_text", "text": "describe the images"}, PICTURE])]},
    "reasoning": {"input": "think first, then count to 2", "reasoning": {"effort": "low"}},
    "reasoning and call": {"input": f"think first, then {CALLS}", **FUNCTIONS},
    "reasoning given back": {"input": [said("user", CALLS), THOUGHT, call("a", "Paris"), output("a", "18")], **FUNCTIONS},
    "freeform tool": {"input": "hello", "tools": [{"type": "custom", "name": "apply_patch", "description": "Patches."}], "tool_choice": "required"},
    "schema": {"input": "Where?", "text": {"format": {"type": "json_schema", "name": "place", "schema": CITY, "strict": True}}},
    "json object": {"input": "JSON, please", "text": {"format": {"type": "json_object"}}},
    "orphan output": {"input": [output("x", "y")]},
    "no input": {},
}

CASES = {"messages": MESSAGES, "responses": RESPONSES}


def bodies(model, samples):
    """Every (API, name, body), streamed and not."""
    for api, cases in CASES.items():
        for name, case in cases.items():
            body = {"model": model, "max_tokens": 200} | case if api == "messages" else {"model": model, "store": False} | case
            if isinstance(body.get("messages"), str):
                body["messages"] = [{"role": "user", "content": body["messages"]}]
            body = {key: value for key, value in body.items() if value is not None}
            yield api, name, body
            yield api, f"{name}, streamed", body | {"stream": True}
        for file in sorted(pathlib.Path(samples, api).glob("*.json")) if samples else ():
            if not file.name.endswith(".headers.json"):
                yield api, file.stem, json.loads(file.read_text()) | {"model": model}


def without_usage(value):
    """Without the counts of tokens."""
    if isinstance(value, dict):
        return {key: without_usage(part) for key, part in value.items() if key != "usage"}
    return [without_usage(part) for part in value] if isinstance(value, (list, tuple)) else value


def ask(base, api, body):
    """The status and the answer: JSON, or the events of a stream with deltas joined."""
    headers = {"content-type": "application/json", "authorization": "Bearer sk-test", "anthropic-version": "2023-06-01"}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{base}/{api}", json.dumps(body).encode(), headers), timeout=30) as response:
            status, text = response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        # Messages are the server's own words; what kind of error it is must agree.
        found = json.loads(error.read())
        return error.code, {"type": found.get("type"), "error": {"type": found["error"]["type"], "details": found["error"].get("details")}}
    return status, clean(stream(text) if body.get("stream") else json.loads(text))


def stream(text):
    """The events of a stream; deltas in a row become one."""
    events = []
    for block in text.split("\n\n"):
        lines = [line[5:].strip() for line in block.splitlines() if line.startswith("data:")]
        if not lines or lines[0] == "[DONE]":
            continue
        event = json.loads(lines[0])
        last = events[-1] if events else {}
        if event["type"] == "ping":
            continue
        if event["type"] == last.get("type") == "content_block_delta" and event["delta"]["type"] == last["delta"]["type"]:
            for field in ("text", "thinking", "partial_json"):
                if field in event["delta"]:
                    last["delta"][field] += event["delta"][field]
        elif event["type"] == last.get("type") and event["type"].endswith(".delta"):
            last["delta"] += event["delta"]
        else:
            events.append(event)
    return events


def clean(value):
    """Without what may differ. JSON inside of strings is compared as JSON."""
    if isinstance(value, dict):
        kept = {key: clean(part) for key, part in value.items() if key not in IGNORED}
        # How many tokens the first event reports is not known to a server that learns it last.
        if kept.get("type") == "message_start":
            kept["message"].pop("usage", None)
        return {key: part for key, part in kept.items() if part is not None and part != {}}
    if isinstance(value, list):
        return [clean(part) for part in value]
    if isinstance(value, str) and value[:1] == "{":
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def differences(native, translated, path=""):
    """The paths at which two values differ, with both."""
    if isinstance(native, dict) and isinstance(translated, dict):
        for key in dict.fromkeys([*native, *translated]):
            yield from differences(native.get(key), translated.get(key), f"{path}.{key}")
    elif isinstance(native, list) and isinstance(translated, list) and len(native) == len(translated):
        for index, (one, other) in enumerate(zip(native, translated, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif isinstance(native, list) and isinstance(translated, list) and all(isinstance(e, dict) and "type" in e for e in native + translated):
        yield path, [event["type"] for event in native], [event["type"] for event in translated]
    elif native != translated:
        yield path, native, translated


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--native", required=True, help="the model's URL with /v1")
    parser.add_argument("--base", required=True, help="the gateway's URL with /v1")
    parser.add_argument("--model", default="scripted")
    parser.add_argument("--samples", help="a folder of recorded bodies")
    parser.add_argument("--only", default="", help="a part of a case's name, such as `messages: stop`")
    parser.add_argument("--json", help="a file for the requests and both answers of cases that differ")
    options = parser.parse_args()
    found, total = [], 0
    for api, name, body in bodies(options.model, options.samples):
        if options.only not in f"{api}: {name}":
            continue
        total += 1
        native, translated = ask(options.native, api, body), ask(options.base, api, body)
        if name not in CASES[api] and not name.endswith(", streamed"):
            # Arguments in another JSON spacing and left-out metadata have other lengths.
            native, translated = without_usage(native), without_usage(translated)
        different = list(differences({"status": native[0], "body": native[1]}, {"status": translated[0], "body": translated[1]}))
        known = KNOWN.get(f"{api}: {name.removesuffix(', streamed')}")
        if different and known:
            print(f"KNOWN {api}: {name}: {known}")
            continue
        print(
            f"{'DIFF' if different else 'SAME'} {api}: {name}"
            + "".join(f"\n       {path}: {str(a)[:150]} ≠ {str(b)[:150]}" for path, a, b in different[:6])
        )
        if different:
            found.append({"api": api, "case": name, "request": body, "native": native, "translated": translated})
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found, indent=1, ensure_ascii=False))
    print(f"\n{total - len(found)} as expected, {len(found)} differ")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
