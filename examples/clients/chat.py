"""Streams a chat answer through Signalbox with the OpenAI SDK: pip install openai, then python chat.py "your question"."""

import os
import sys

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("SIGNALBOX_URL", "http://127.0.0.1:4100/v1"),
    api_key=os.environ.get("SIGNALBOX_KEY", "unused"),  # any text will do where the policy lists no keys
)
question = " ".join(sys.argv[1:]) or "What does a signal box do?"
stream = client.chat.completions.with_raw_response.create(
    model=os.environ.get("SIGNALBOX_MODEL", "auto"), messages=[{"role": "user", "content": question}], stream=True
)
for chunk in stream.parse():
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
# Which backend answered, and why, is in the answer's headers.
for name in ("x-signalbox-pool", "x-signalbox-backend", "x-signalbox-reason"):
    print(f"{name}: {stream.headers.get(name)}", file=sys.stderr)
