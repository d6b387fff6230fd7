"""LlamaIndex's model of OpenAI-compatible servers. Its class for Anthropic fails with each SDK of Anthropic that it admits."""

import gc

import openai
from features import Event, features, sunny
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from suite import API_KEY, BASE_URL, MODEL, PNG


def get_weather(city: str) -> str:
    """The weather in a city."""
    return sunny(city)


TOOL = FunctionTool.from_defaults(get_weather)


class Model:
    """A model that `connect(name, key)` makes."""

    ERRORS = openai.APIStatusError

    def __init__(self, connect):
        self.connect, self.model = connect, connect(MODEL, API_KEY)

    def chat(self, *blocks):
        return self.model.chat([ChatMessage(role="user", blocks=list(blocks))])

    def text(self, prompt):
        return self.chat(TextBlock(text=prompt)).message.content

    def stream(self, prompt):
        return [piece.delta or "" for piece in self.model.stream_chat([ChatMessage(role="user", content=prompt)])]

    def loop(self, prompt, stream):
        history, cities = [ChatMessage(role="user", content=prompt)], []
        while True:
            asked = {"tools": [TOOL], "chat_history": history, "allow_parallel_tool_calls": True}
            answer = list(self.model.stream_chat_with_tools(**asked))[-1] if stream else self.model.chat_with_tools(**asked)
            calls = self.model.get_tool_calls_from_response(answer, error_on_no_tool_call=False)
            if not calls:
                return cities, answer.message.content
            history.append(answer.message)
            for call in calls:
                cities.append(call.tool_kwargs["city"])
                result = str(TOOL(**call.tool_kwargs))
                history.append(ChatMessage(role="tool", content=result, additional_kwargs={"tool_call_id": call.tool_id}))

    def structured(self):
        return self.model.as_structured_llm(Event).complete("An event.").raw

    def image(self, prompt):
        return self.chat(TextBlock(text=prompt), ImageBlock(image=PNG.encode(), image_mimetype="image/png")).message.content

    def status(self, model, prompt, key):
        return self.connect(model, key).chat([ChatMessage(role="user", content=prompt)])

    def cancel(self, prompt):
        pieces = self.model.stream_chat([ChatMessage(role="user", content=prompt)])
        next(piece for piece in pieces if piece.delta)
        pieces.close()
        # Its inner stream is closed by the collector, which waits for a lock of its own if it runs in a later request.
        gc.collect()


def chat(model, key):
    return OpenAILike(
        model=model, api_base=BASE_URL, api_key=key, is_chat_model=True, is_function_calling_model=True, should_use_structured_outputs=True, max_retries=0
    )


features({"chat": Model(chat)})
