"""OpenAI's Python SDK over Chat Completions and Responses, and as a client of Azure OpenAI."""

import json

import openai
from features import Event, features, sunny
from suite import API_KEY, BASE_URL, MODEL, PNG, ROOT_URL

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
FUNCTION = {"name": "get_weather", "description": "The weather.", "parameters": PARAMETERS, "strict": True}
IMAGE = f"data:image/png;base64,{PNG}"


def user(content):
    return [{"role": "user", "content": content}]


def plain(key):
    return openai.OpenAI(base_url=BASE_URL, api_key=key, max_retries=0, timeout=20)


def azure(key):
    return openai.AzureOpenAI(azure_endpoint=ROOT_URL, api_key=key, api_version="2024-10-21", max_retries=0, timeout=20)


def azure_v1(key):
    return openai.OpenAI(base_url=f"{ROOT_URL}/openai/v1/", api_key=key, max_retries=0, timeout=20)


class Chat:
    """Chat Completions by a client that `connect` makes of a key."""

    ERRORS = openai.APIStatusError

    def __init__(self, connect):
        self.connect, self.client = connect, connect(API_KEY)

    def ask(self, content, **more):
        return self.client.chat.completions.create(model=MODEL, messages=user(content), **more)

    def text(self, prompt):
        return self.ask(prompt).choices[0].message.content

    def stream(self, prompt):
        return [chunk.choices[0].delta.content or "" for chunk in self.ask(prompt, stream=True) if chunk.choices]

    def loop(self, prompt, stream):
        request = {"model": MODEL, "messages": user(prompt), "tools": [{"type": "function", "function": FUNCTION}]}
        cities = []
        while True:
            if stream:
                with self.client.chat.completions.stream(**request) as events:
                    message = events.get_final_completion().choices[0].message
            else:
                message = self.client.chat.completions.create(**request).choices[0].message
            if not message.tool_calls:
                return cities, message.content
            request["messages"].append(message)
            for call in message.tool_calls:
                cities.append(json.loads(call.function.arguments)["city"])
                request["messages"].append({"role": "tool", "tool_call_id": call.id, "content": sunny(cities[-1])})

    def reasoning(self, prompt):
        message = self.ask(prompt, reasoning_effort="low").choices[0].message
        return message.reasoning_content, message.content

    def structured(self):
        return self.client.chat.completions.parse(model=MODEL, messages=user("An event."), response_format=Event).choices[0].message.parsed

    def image(self, prompt):
        return self.text([{"type": "text", "text": prompt}, {"type": "image_url", "image_url": {"url": IMAGE}}])

    def usage(self, prompt, stream):
        usage = [c.usage for c in self.ask(prompt, stream=True, stream_options={"include_usage": True})][-1] if stream else self.ask(prompt).usage
        return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens

    def status(self, model, prompt, key):
        return self.connect(key).chat.completions.create(model=model, messages=user(prompt))

    def cancel(self, prompt):
        with self.ask(prompt, stream=True) as stream:
            next(chunk for chunk in stream if chunk.choices[0].delta.content)


class Responses:
    """Responses by a client that `connect` makes of a key; earlier turns are named, as the API's guide does."""

    ERRORS = openai.APIStatusError

    def __init__(self, connect):
        self.connect, self.client = connect, connect(API_KEY)

    def ask(self, given, **more):
        return self.client.responses.create(model=MODEL, input=given, **more)

    def final(self, given, **more):
        with self.client.responses.stream(model=MODEL, input=given, **more) as events:
            return events.get_final_response()

    def text(self, prompt):
        return self.ask(prompt).output_text

    def stream(self, prompt):
        return [event.delta for event in self.ask(prompt, stream=True) if event.type == "response.output_text.delta"]

    def loop(self, prompt, stream):
        cities, more = [], {"tools": [{"type": "function"} | FUNCTION]}
        while True:
            answer = (self.final if stream else self.ask)(prompt, **more)
            calls = [item for item in answer.output if item.type == "function_call"]
            if not calls:
                return cities, answer.output_text
            prompt = []
            for call in calls:
                cities.append(json.loads(call.arguments)["city"])
                prompt.append({"type": "function_call_output", "call_id": call.call_id, "output": sunny(cities[-1])})
            more["previous_response_id"] = answer.id

    def reasoning(self, prompt):
        answer = self.ask(prompt, reasoning={"effort": "low"})
        item = next(item for item in answer.output if item.type == "reasoning")
        return "".join(part.text for part in [*(item.content or []), *item.summary]), answer.output_text

    def structured(self):
        return self.client.responses.parse(model=MODEL, input="An event.", text_format=Event).output_parsed

    def image(self, prompt):
        return self.text(user([{"type": "input_text", "text": prompt}, {"type": "input_image", "image_url": IMAGE, "detail": "auto"}]))

    def usage(self, prompt, stream):
        usage = (self.final if stream else self.ask)(prompt).usage
        return usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens

    def status(self, model, prompt, key):
        return self.connect(key).responses.create(model=model, input=prompt)

    def cancel(self, prompt):
        with self.ask(prompt, stream=True) as stream:
            next(event for event in stream if event.type == "response.output_text.delta")


features(
    {
        "chat": Chat(plain),
        "responses": Responses(plain),
        "azure-chat": Chat(azure_v1),
        "azure-responses": Responses(azure_v1),
        "azure-deployment": Chat(azure),
    }
)
