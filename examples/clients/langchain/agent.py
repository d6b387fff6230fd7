"""A LangChain agent with a tool, through Signalbox: pip install langchain-openai, then python agent.py "your question"."""

import os
import sys

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"18 degrees and sunny in {city}"


model = ChatOpenAI(
    base_url=os.environ.get("SIGNALBOX_URL", "http://127.0.0.1:4100/v1"),
    api_key=os.environ.get("SIGNALBOX_KEY", "unused"),  # any text will do where the policy lists no keys
    model=os.environ.get("SIGNALBOX_MODEL", "agent"),
).bind_tools([get_weather])

messages = [HumanMessage(" ".join(sys.argv[1:]) or "What is the weather in Paris?")]
for _ in range(5):
    answer = model.invoke(messages)
    messages.append(answer)
    if not answer.tool_calls:
        break
    messages += [get_weather.invoke(call) for call in answer.tool_calls]
print(answer.text)
