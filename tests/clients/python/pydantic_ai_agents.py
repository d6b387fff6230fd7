"""Pydantic AI over Chat Completions, Responses and Messages."""

import base64

import pydantic
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import Agent, BinaryContent, ModelHTTPError, ModelRetry, NativeOutput, ToolOutput, UsageLimits
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from suite import API_KEY, BASE_URL, MODEL, PNG, PNG_SEEN, ROOT_URL, check, failing, run, same


class Event(pydantic.BaseModel):
    name: str
    participants: list[str]


def models(name=MODEL):
    """The model behind each API, by the API's name."""
    openai = OpenAIProvider(openai_client=AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0))
    anthropic = AnthropicProvider(anthropic_client=AsyncAnthropic(base_url=ROOT_URL, api_key=API_KEY, max_retries=0))
    return {
        "chat": OpenAIChatModel(name, provider=openai),
        "responses": OpenAIResponsesModel(name, provider=openai),
        "messages": AnthropicModel(name, provider=anthropic),
    }


async def each(expected, prompt, get=lambda result: result.output, tools=(), **agent):
    """Runs an agent over each API and compares what `get` finds."""
    for api, model in models().items():
        got = await Agent(model, tools=list(tools), **agent).run(prompt)
        same(get(got), expected, api)


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@check
async def text_and_instructions():
    await each("Be kind.", "repeat the instructions", instructions="Be kind.")


@check
async def tools():
    prompt = 'call get_weather with {"city": "Paris"} and call get_weather with {"city": "Rome"}'
    await each("The tool said: sunny in Paris; sunny in Rome", prompt, tools=[get_weather])


@check
async def tool_that_fails():
    def flaky(city: str) -> str:
        """Fails."""
        raise ModelRetry("try again")

    await each(True, 'call flaky with {"city": "X"}', lambda result: "try again" in result.output, tools=[flaky])


@check
async def output_by_tool():
    await each(Event(name="text", participants=["text"]), "An event.", output_type=ToolOutput(Event))


@check
async def output_by_schema():
    for api in ("chat", "responses"):
        result = await Agent(models()[api], output_type=NativeOutput(Event)).run("An event.")
        same(result.output, Event(name="text", participants=["text"]), api)


@check
async def streamed():
    for api, model in models().items():
        async with Agent(model).run_stream("count to 4") as result:
            same("".join([text async for text in result.stream_text(delta=True)]), "1 2 3 4", api)
            await result.get_output()


@check
async def image():
    picture = BinaryContent(base64.b64decode(PNG), media_type="image/png")
    await each(f"I see {PNG_SEEN}", ["describe the images", picture])


@check
async def history():
    for api, model in models().items():
        agent = Agent(model, tools=[get_weather])
        first = await agent.run('call get_weather with {"city": "Paris"}')
        second = await agent.run('say "again"', message_history=first.all_messages())
        same(second.output, "again", api)


@check
async def usage():
    for api, model in models().items():
        result = await Agent(model).run("half is cached please now", usage_limits=UsageLimits(request_limit=2))
        usage = result.usage if not callable(result.usage) else result.usage()
        same((usage.input_tokens, usage.cache_read_tokens, usage.output_tokens), (5, 2, 7), api)


@check
async def errors():
    for api, model in models(failing("429")).items():
        try:
            await Agent(model).run("fail with 429")
        except ModelHTTPError as error:
            same(error.status_code, 429, api)
            continue
        raise AssertionError(f"{api}: no error")


run()
