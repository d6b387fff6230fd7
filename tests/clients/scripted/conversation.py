"""The request of any dialect as one flat conversation, and the answer to it, which every dialect can write."""

import base64
import dataclasses
import json
import re


@dataclasses.dataclass
class Item:
    """One piece of a conversation: `kind` is text, image, call, result or reasoning."""

    kind: str
    role: str
    text: str = ""
    id: str = ""
    name: str = ""
    error: bool = False


@dataclasses.dataclass
class Tool:
    """A tool the caller offers; `freeform` tools take plain text instead of JSON."""

    name: str
    schema: dict
    freeform: bool = False


@dataclasses.dataclass
class Conversation:
    """Everything the script looks at. `choice` is auto, none, required, or the name of a tool."""

    system: str = ""
    items: list = dataclasses.field(default_factory=list)
    tools: list = dataclasses.field(default_factory=list)
    choice: str = "auto"
    parallel: bool = True
    schema: dict | None = None
    json_object: bool = False
    stop: list = dataclasses.field(default_factory=list)
    max_tokens: int | None = None
    reasoning: bool = True

    def tail(self):
        """The items after the model's last own words."""
        last = max((i for i, item in enumerate(self.items) if item.role == "assistant"), default=-1)
        return self.items[last + 1 :]

    def rounds(self):
        """How many rounds of tool calls follow the user's last text."""
        last = max((i for i, item in enumerate(self.items) if item.role == "user" and item.kind == "text"), default=-1)
        kinds = [item.kind for item in self.items[last + 1 :] if item.kind in ("call", "result")]
        return sum(kind == "result" and before == "call" for before, kind in zip(kinds, kinds[1:], strict=False))

    def asked(self):
        """The text of the last turn of the user that has text and no tool results."""
        texts = []
        for item in reversed(self.items):
            if item.role == "user" and item.kind == "text":
                texts.insert(0, item.text)
            elif texts and item.kind != "image":
                break
        return "\n".join(texts)

    def prompt_tokens(self):
        """One token a word, over all texts."""
        return len(self.system.split()) + sum(len(item.text.split()) for item in self.items)


@dataclasses.dataclass
class Call:
    """A tool call of the model; `arguments` is JSON text, or the input of a freeform tool."""

    id: str
    name: str
    arguments: str
    freeform: bool = False


@dataclasses.dataclass
class Answer:
    """The model's turn. `finish` is stop, length, or tool_calls; `fault` is "", cut or error; `slow` names a slow stream."""

    text: str = ""
    reasoning: str = ""
    calls: list = dataclasses.field(default_factory=list)
    finish: str = "stop"
    stopped_by: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    fault: str = ""
    slow: str = ""


class Refused(Exception):
    """An HTTP error in place of an answer."""

    def __init__(self, status, message, param=None, details=None):
        super().__init__(message)
        self.status, self.message, self.param, self.details = status, message, param, details


def pieces(text):
    """Splits a text into tokens: words with the whitespace before them."""
    return re.findall(r"\s*\S+|\s+$", text)


def slices(text, size=7):
    """Splits JSON text as engines stream it, regardless of its grammar."""
    return [text[i : i + size] for i in range(0, len(text), size)] or [""]


def image_url(url):
    """Describes an image so that a test sees whether its bytes arrived."""
    match = re.fullmatch(r"data:([\w/+.-]+);base64,(.*)", url, re.S)
    return image_bytes(match[1], match[2]) if match else f"image at {url}"


def image_bytes(media_type, data):
    """Describes an image given as base64."""
    return f"{media_type} of {len(base64.b64decode(data, validate=True))} bytes"


def need(condition, message, param=None):
    """Refuses a malformed request, as strict engines do."""
    if not condition:
        raise Refused(400, message, param)


def compact(value):
    """JSON in one line with a fixed order of keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
