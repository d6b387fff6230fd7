"""The OpenAI Agents SDK, over Responses and over Chat Completions."""

import agents
import openai
import pydantic
from openai.types.shared import Reasoning
from suite import API_KEY, BASE_URL, MODEL, REASONING, check, failing, raises, run, same

agents.set_tracing_disabled(True)
CLIENT = {"base_url": BASE_URL, "api_key": API_KEY, "max_retries": 0}
seen = []


class Event(pydantic.BaseModel):
    name: str
    participants: list[str]


@agents.function_tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    seen.append(city)
    return f"sunny in {city}"


@agents.function_tool
def broken_tool(city: str) -> str:
    """Fails."""
    raise ValueError(f"no such city: {city}")


def models(name=MODEL):
    """The model behind each API."""
    client = openai.AsyncOpenAI(**CLIENT)
    return [agents.OpenAIResponsesModel(name, client), agents.OpenAIChatCompletionsModel(name, client)]


async def each(expected, prompt, get=lambda result: result.final_output, **agent):
    """Runs an agent over both APIs and compares what `get` finds."""
    for model in models():
        result = await agents.Runner.run(agents.Agent(name="A", model=model, **agent), prompt)
        same(get(result), expected, type(model).__name__)


@check
async def text_and_instructions():
    await each("Be kind.", "repeat the instructions", instructions="Be kind.")


@check
async def tools():
    seen.clear()
    await each("The tool said: sunny in Paris", 'call get_weather with {"city": "Paris"}', tools=[get_weather])
    same(seen, ["Paris", "Paris"], "calls")


@check
async def parallel_tools():
    prompt = 'call get_weather with {"city": "Paris"} and call get_weather with {"city": "Rome"}'
    await each("The tool said: sunny in Paris; sunny in Rome", prompt, tools=[get_weather])


@check
async def tool_that_fails():
    await each(True, 'call broken_tool with {"city": "X"}', lambda result: "error" in result.final_output, tools=[broken_tool])


@check
async def structured_output():
    await each(Event(name="text", participants=["text"]), "An event.", output_type=Event)


@check
async def handoff():
    for model in models():
        poet = agents.Agent(name="Poet", model=model, instructions="I am the poet.")
        first = agents.Agent(name="First", model=model, handoffs=[poet])
        result = await agents.Runner.run(first, "call transfer_to_poet with {}")
        same(result.last_agent.name, "Poet", type(model).__name__)


@check
async def streamed():
    for model in models():
        result = agents.Runner.run_streamed(agents.Agent(name="A", model=model, tools=[get_weather]), 'call get_weather with {"city": "Paris"}')
        texts, items = "", []
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                texts += event.data.delta
            if event.type == "run_item_stream_event":
                items.append(event.name)
        same(texts, "The tool said: sunny in Paris", type(model).__name__)
        same([i for i in items if i != "reasoning_item_created"], ["tool_called", "tool_output", "message_output_created"], type(model).__name__)


@check
async def two_turns():
    for model in models():
        agent = agents.Agent(name="A", model=model, tools=[get_weather])
        first = await agents.Runner.run(agent, 'call get_weather with {"city": "Paris"}')
        second = await agents.Runner.run(agent, [*first.to_input_list(), {"role": "user", "content": 'say "again"'}])
        same(second.final_output, "again", type(model).__name__)


@check
async def reasoning():
    settings = agents.ModelSettings(reasoning=Reasoning(effort="low"))
    agent = agents.Agent(name="A", model=models()[0], tools=[get_weather], model_settings=settings)
    result = await agents.Runner.run(agent, 'think first, then call get_weather with {"city": "Paris"}')
    items = [item.raw_item for item in result.new_items if item.type == "reasoning_item"]
    assert items and REASONING in str(items[0].model_dump()), items
    same(result.final_output, "The tool said: sunny in Paris")


@check
async def usage():
    for model in models():
        result = await agents.Runner.run(agents.Agent(name="A", model=model), "half is cached please now")
        usage = result.context_wrapper.usage
        same((usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens), (5, 2, 7), type(model).__name__)


@check
def errors():
    for model in models(failing("429")):
        raises(openai.RateLimitError, lambda model=model: agents.Runner.run_sync(agents.Agent(name="A", model=model), "fail with 429"), 429)


run()
