"""Pydantic AI over Chat Completions, Responses and Messages."""

import asyncio
import base64

from anthropic import AsyncAnthropic
from features import Event, features, sunny
from openai import AsyncAzureOpenAI, AsyncOpenAI
from pydantic_ai import Agent, BinaryContent, ModelHTTPError, NativeOutput, ToolOutput
from pydantic_ai.messages import ThinkingPart
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from suite import API_KEY, BASE_URL, MODEL, PNG, ROOT_URL


class Model:
    """Agents with the model that `connect(name, key)` makes. `settings` ask for reasoning."""

    ERRORS = ModelHTTPError

    def __init__(self, connect, output=NativeOutput, **settings):
        self.connect, self.output, self.settings = connect, output, settings

    def run(self, prompt, name=MODEL, key=API_KEY, **agent):
        return asyncio.run(Agent(self.connect(name, key), **agent).run(prompt))

    def text(self, prompt):
        return self.run(prompt).output

    def stream(self, prompt):
        return asyncio.run(self.pieces(prompt))[0]

    async def pieces(self, prompt, tools=()):
        async with Agent(self.connect(MODEL, API_KEY), tools=list(tools)).run_stream(prompt) as result:
            found = [text async for text in result.stream_text(delta=True, debounce_by=None)]
            return found, result.usage if not callable(result.usage) else result.usage()

    def loop(self, prompt, stream):
        cities = []

        def get_weather(city: str) -> str:
            """The weather in a city."""
            cities.append(city)
            return sunny(city)

        said = "".join(asyncio.run(self.pieces(prompt, [get_weather]))[0]) if stream else self.run(prompt, tools=[get_weather]).output
        # Calls of one step run in threads.
        return sorted(cities[:2]) + cities[2:], said

    def reasoning(self, prompt):
        result = self.run(prompt, model_settings=self.settings)
        parts = [part for message in result.all_messages() for part in message.parts]
        return "".join(part.content for part in parts if isinstance(part, ThinkingPart)), result.output

    def structured(self):
        return self.run("An event.", output_type=self.output(Event)).output

    def image(self, prompt):
        return self.run([prompt, BinaryContent(base64.b64decode(PNG), media_type="image/png")]).output

    def usage(self, prompt, stream):
        if stream:
            usage = asyncio.run(self.pieces(prompt))[1]
        else:
            usage = self.run(prompt).usage
            usage = usage() if callable(usage) else usage
        return usage.input_tokens, usage.cache_read_tokens, usage.output_tokens

    def status(self, model, prompt, key):
        return self.run(prompt, model, key)

    def cancel(self, prompt):
        async def leave():
            async with Agent(self.connect(MODEL, API_KEY)).run_stream(prompt) as result:
                async for _ in result.stream_text(delta=True, debounce_by=None):
                    break
                # Leaving the block reads the stream to its end.
                raise TimeoutError

        try:
            asyncio.run(leave())
        except TimeoutError:
            pass


def openai(key):
    return OpenAIProvider(openai_client=AsyncOpenAI(base_url=BASE_URL, api_key=key, max_retries=0))


def azure(key):
    return OpenAIProvider(openai_client=AsyncAzureOpenAI(azure_endpoint=ROOT_URL, api_key=key, api_version="2024-10-21", max_retries=0))


def anthropic(key):
    return AnthropicProvider(anthropic_client=AsyncAnthropic(base_url=ROOT_URL, api_key=key, max_retries=0))


features(
    {
        "chat": Model(lambda name, key: OpenAIChatModel(name, provider=openai(key)), openai_reasoning_effort="low"),
        "responses": Model(
            lambda name, key: OpenAIResponsesModel(name, provider=openai(key)), openai_reasoning_effort="low", openai_reasoning_summary="auto"
        ),
        "messages": Model(
            lambda name, key: AnthropicModel(name, provider=anthropic(key)),
            # It has a schema only for Claude's own names.
            ToolOutput,
            anthropic_thinking={"type": "enabled", "budget_tokens": 1024},
            max_tokens=2000,
        ),
        "azure-deployment": Model(lambda name, key: OpenAIChatModel(name, provider=azure(key)), openai_reasoning_effort="low"),
    }
)
