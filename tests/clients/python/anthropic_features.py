"""Anthropic's Python SDK over Messages."""

import anthropic
from features import Event, features, sunny
from suite import API_KEY, MODEL, PNG, ROOT_URL

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


def connect(key):
    return anthropic.Anthropic(base_url=ROOT_URL, api_key=key, max_retries=0, timeout=20)


def request(content, **more):
    return {"model": MODEL, "max_tokens": 2000, "messages": [{"role": "user", "content": content}]} | more


def words(message):
    return "".join(block.text for block in message.content if block.type == "text")


class Messages:
    """Messages, with the SDK's own loop for tools."""

    ERRORS = anthropic.APIStatusError

    def __init__(self):
        self.client = connect(API_KEY)

    def text(self, prompt):
        return words(self.client.messages.create(**request(prompt)))

    def stream(self, prompt):
        with self.client.messages.stream(**request(prompt)) as stream:
            return list(stream.text_stream)

    def loop(self, prompt, stream):
        cities = []

        @anthropic.beta_tool
        def get_weather(city: str) -> str:
            """The weather.

            Args:
                city: Its name.
            """
            cities.append(city)
            return sunny(city)

        runner = self.client.beta.messages.tool_runner(**request(prompt), tools=[get_weather], stream=stream)
        final = [turn.get_final_message() for turn in runner][-1] if stream else runner.until_done()
        return cities, words(final)

    def reasoning(self, prompt):
        answer = self.client.messages.create(**request(prompt, thinking={"type": "enabled", "budget_tokens": 1024}))
        return next(block.thinking for block in answer.content if block.type == "thinking"), words(answer)

    def structured(self):
        return self.client.messages.parse(**request("An event."), output_format=Event).parsed_output

    def image(self, prompt):
        return self.text([{"type": "text", "text": prompt}, IMAGE])

    def usage(self, prompt, stream):
        if stream:
            with self.client.messages.stream(**request(prompt)) as events:
                usage = events.get_final_message().usage
        else:
            usage = self.client.messages.create(**request(prompt)).usage
        # The API counts cached tokens beside the others.
        return usage.input_tokens + usage.cache_read_input_tokens, usage.cache_read_input_tokens, usage.output_tokens

    def status(self, model, prompt, key):
        return connect(key).messages.create(**request(prompt, model=model))

    def cancel(self, prompt):
        with self.client.messages.stream(**request(prompt)) as stream:
            next(iter(stream.text_stream))


features({"messages": Messages()})
