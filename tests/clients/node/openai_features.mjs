// OpenAI's Node SDK over Chat Completions and Responses, and as a client of Azure OpenAI.

import OpenAI, { AzureOpenAI } from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { features, schema, sunny } from "./features.mjs";
import { API_KEY, BASE_URL, MODEL, PNG, ROOT_URL } from "./suite.mjs";

const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const IMAGE = `data:image/png;base64,${PNG}`;
const user = (content) => [{ role: "user", content }];

/** The status of a client's error. */
async function status(ask) {
  try {
    await ask();
  } catch (error) {
    return [error instanceof OpenAI.APIError ? error.status : error.name, error.message];
  }
}

/** Chat Completions by a client of the given key. */
function chat(connect) {
  const client = connect(API_KEY);
  const ask = (content, more, model = MODEL, by = client) => by.chat.completions.create({ model, messages: user(content), ...more });
  return {
    text: async (prompt) => (await ask(prompt)).choices[0].message.content,
    async stream(prompt) {
      const pieces = [];
      for await (const chunk of await ask(prompt, { stream: true })) pieces.push(chunk.choices[0]?.delta?.content ?? "");
      return pieces;
    },
    async loop(prompt, stream) {
      const cities = [];
      const run = ({ city }) => (cities.push(city), sunny(city));
      const tool = { name: "get_weather", description: "The weather.", parameters, parse: JSON.parse, function: run };
      const runner = client.chat.completions.runTools({ model: MODEL, messages: user(prompt), stream, tools: [{ type: "function", function: tool }] });
      return [cities, await runner.finalContent()];
    },
    async reasoning(prompt) {
      const { message } = (await ask(prompt, { reasoning_effort: "low" })).choices[0];
      return [message.reasoning_content, message.content];
    },
    structured: async () =>
      (await client.chat.completions.parse({ model: MODEL, messages: user("An event."), response_format: zodResponseFormat(schema, "event") })).choices[0]
        .message.parsed,
    image: async (prompt) => (await ask([{ type: "text", text: prompt }, { type: "image_url", image_url: { url: IMAGE } }])).choices[0].message.content,
    async usage(prompt, stream) {
      let { usage } = stream ? {} : await ask(prompt);
      if (stream) for await (const chunk of await ask(prompt, { stream, stream_options: { include_usage: true } })) usage = chunk.usage ?? usage;
      return [usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens];
    },
    status: ({ model, prompt, key }) => status(() => ask(prompt, {}, model, connect(key))),
    async cancel(prompt) {
      const stream = await ask(prompt, { stream: true });
      for await (const chunk of stream) if (chunk.choices[0]?.delta?.content) break;
      stream.controller.abort();
    },
  };
}

/** Responses by a client of the given key; earlier turns are named, as the API's guide does. */
function responses(connect) {
  const client = connect(API_KEY);
  const ask = (input, more, model = MODEL, by = client) => by.responses.create({ model, input, ...more });
  const tools = [{ type: "function", name: "get_weather", description: "The weather.", parameters, strict: true }];
  return {
    text: async (prompt) => (await ask(prompt)).output_text,
    async stream(prompt) {
      const pieces = [];
      for await (const event of await ask(prompt, { stream: true })) if (event.type === "response.output_text.delta") pieces.push(event.delta);
      return pieces;
    },
    async loop(prompt, stream) {
      const cities = [];
      let [input, previous_response_id] = [prompt, undefined];
      for (;;) {
        const more = { tools, previous_response_id };
        const answer = stream ? await client.responses.stream({ model: MODEL, input, ...more }).finalResponse() : await ask(input, more);
        const calls = answer.output.filter((item) => item.type === "function_call");
        if (!calls.length) return [cities, answer.output_text];
        const found = calls.map((call) => JSON.parse(call.arguments).city);
        cities.push(...found);
        previous_response_id = answer.id;
        input = calls.map((call, at) => ({ type: "function_call_output", call_id: call.call_id, output: sunny(found[at]) }));
      }
    },
    async reasoning(prompt) {
      const answer = await ask(prompt, { reasoning: { effort: "low" } });
      const item = answer.output.find(({ type }) => type === "reasoning");
      return [[...(item.content ?? []), ...item.summary].map((part) => part.text).join(""), answer.output_text];
    },
    structured: async () => (await client.responses.parse({ model: MODEL, input: "An event.", text: { format: zodTextFormat(schema, "event") } })).output_parsed,
    image: async (prompt) =>
      (await ask(user([{ type: "input_text", text: prompt }, { type: "input_image", image_url: IMAGE, detail: "auto" }]))).output_text,
    async usage(prompt, stream) {
      const { usage } = stream ? await client.responses.stream({ model: MODEL, input: prompt }).finalResponse() : await ask(prompt);
      return [usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens];
    },
    status: ({ model, prompt, key }) => status(() => ask(prompt, {}, model, connect(key))),
    async cancel(prompt) {
      const stream = await ask(prompt, { stream: true });
      for await (const event of stream) if (event.type === "response.output_text.delta") break;
      stream.controller.abort();
    },
  };
}

const plain = (apiKey) => new OpenAI({ baseURL: BASE_URL, apiKey, maxRetries: 0, timeout: 20_000 });
const azure = (apiKey) => new AzureOpenAI({ endpoint: ROOT_URL, apiKey, apiVersion: "2024-10-21", maxRetries: 0, timeout: 20_000 });
const azureV1 = (apiKey) => new OpenAI({ baseURL: `${ROOT_URL}/openai/v1/`, apiKey, maxRetries: 0, timeout: 20_000 });
await features({
  chat: chat(plain),
  responses: responses(plain),
  "azure-chat": chat(azureV1),
  "azure-responses": responses(azureV1),
  "azure-deployment": chat(azure),
});
