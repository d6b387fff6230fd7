"""LangChain's chat models of OpenAI (both APIs), Azure OpenAI and Anthropic."""

import anthropic
import openai
from features import Event, features, sunny
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from suite import API_KEY, BASE_URL, MODEL, PNG, ROOT_URL


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return sunny(city)


def whole(chunks):
    """The sum of a stream's chunks."""
    first, *rest = chunks
    for chunk in rest:
        first += chunk
    return first


class Chat:
    """A chat model that `connect(model, key)` makes."""

    ERRORS = (openai.APIStatusError, anthropic.APIStatusError)

    def __init__(self, connect):
        self.connect, self.model = connect, connect(MODEL, API_KEY)

    def text(self, prompt):
        return self.model.invoke(prompt).text

    def stream(self, prompt):
        return [chunk.text for chunk in self.model.stream(prompt)]

    def loop(self, prompt, stream):
        bound, messages, cities = self.model.bind_tools([get_weather]), [HumanMessage(prompt)], []
        while True:
            answer = whole(bound.stream(messages)) if stream else bound.invoke(messages)
            if not answer.tool_calls:
                return cities, answer.text
            cities += [call["args"]["city"] for call in answer.tool_calls]
            messages += [answer, *(get_weather.invoke(call) for call in answer.tool_calls)]

    def structured(self):
        return self.model.with_structured_output(Event).invoke("An event.")

    def image(self, prompt):
        return self.text([HumanMessage([{"type": "text", "text": prompt}, {"type": "image", "base64": PNG, "mime_type": "image/png"}])])

    def usage(self, prompt, stream):
        usage = (whole(self.model.stream(prompt)) if stream else self.model.invoke(prompt)).usage_metadata
        return usage["input_tokens"], usage["input_token_details"]["cache_read"], usage["output_tokens"]

    def status(self, model, prompt, key):
        return self.connect(model, key).invoke(prompt)

    def cancel(self, prompt):
        chunks = self.model.stream(prompt)
        next(chunk for chunk in chunks if chunk.text)
        chunks.close()


class Reasoning(Chat):
    """A chat model that shows its reasoning if it is connected with `thinking`."""

    def __init__(self, connect, **thinking):
        super().__init__(connect)
        self.thinking = thinking

    def reasoning(self, prompt):
        answer = self.connect(MODEL, API_KEY, **self.thinking).invoke(prompt)
        return "".join(block["reasoning"] for block in answer.content_blocks if block["type"] == "reasoning"), answer.text


def chat(model, key):
    return ChatOpenAI(model=model, api_key=key, base_url=BASE_URL, use_responses_api=False, max_retries=0, stream_usage=True)


def responses(model, key, **more):
    return ChatOpenAI(model=model, api_key=key, base_url=BASE_URL, use_responses_api=True, max_retries=0, **more)


def messages(model, key, **more):
    return ChatAnthropic(model=model, api_key=key, base_url=ROOT_URL, max_tokens=2000, max_retries=0, **more)


def azure(model, key):
    return AzureChatOpenAI(
        azure_deployment=model, api_key=key, azure_endpoint=ROOT_URL, api_version="2024-10-21", max_retries=0, stream_usage=True, use_responses_api=False
    )


features(
    {
        "chat": Chat(chat),
        "responses": Reasoning(responses, reasoning={"effort": "low", "summary": "auto"}),
        "messages": Reasoning(messages, thinking={"type": "enabled", "budget_tokens": 1024}),
        "azure-deployment": Chat(azure),
    }
)
