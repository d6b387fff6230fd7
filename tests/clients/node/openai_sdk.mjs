// OpenAI's Node SDK at /v1/chat/completions and /v1/responses.

import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { API_KEY, BASE_URL, failing, MODEL, ordered, PNG, PNG_SEEN, raises, REASONING, run, same } from "./suite.mjs";

const client = new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY, maxRetries: 0, timeout: 20_000 });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const chatTool = { type: "function", function: { name: "get_weather", description: "The weather.", parameters, strict: true } };
const tool = { type: "function", name: "get_weather", description: "The weather.", parameters, strict: true };
const Event = z.object({ name: z.string(), participants: z.array(z.string()) });
const EVENT = { name: "text", participants: ["text"] };
const CITIES = 'call get_weather with {"city": "Paris"} and call get_weather with {"city": "Rome"}';
const user = (content) => [{ role: "user", content }];
const chat = (content, more) => client.chat.completions.create({ model: MODEL, messages: user(content), ...more });
const respond = (input, more) => client.responses.create({ model: MODEL, input, store: false, ...more });
const city = (call) => JSON.parse((call.function ?? call).arguments).city;

await run({
  async chat_text() {
    const answer = await chat('say "Hello there"');
    same([answer.choices[0].message.content, answer.choices[0].finish_reason, answer.usage.total_tokens], ["Hello there", "stop", 5]);
  },
  async chat_stream() {
    let text = "";
    for await (const chunk of await chat("count to 4", { stream: true })) text += chunk.choices[0]?.delta?.content ?? "";
    same(text, "1 2 3 4");
  },
  async chat_stream_helper() {
    const runner = client.chat.completions.stream({ model: MODEL, messages: user("count to 4") });
    const deltas = [];
    runner.on("content", (delta) => deltas.push(delta));
    same([await runner.finalContent(), deltas.join("")], ["1 2 3 4", "1 2 3 4"]);
  },
  async chat_run_tools() {
    const seen = [];
    const get_weather = { ...chatTool.function, parse: JSON.parse, function: ({ city }) => (seen.push(city), `sunny in ${city}`) };
    const runner = client.chat.completions.runTools({ model: MODEL, messages: user(CITIES), tools: [{ type: "function", function: get_weather }] });
    same([await runner.finalContent(), seen], ["The tool said: sunny in Paris; sunny in Rome", ["Paris", "Rome"]]);
  },
  async chat_tools_streamed() {
    const final = await client.chat.completions.stream({ model: MODEL, messages: user(CITIES), tools: [chatTool] }).finalMessage();
    same(final.tool_calls.map(city), ["Paris", "Rome"]);
  },
  async chat_parse() {
    const answer = await client.chat.completions.parse({ model: MODEL, messages: user("An event."), response_format: zodResponseFormat(Event, "event") });
    same(answer.choices[0].message.parsed, EVENT);
  },
  async chat_image() {
    const parts = [{ type: "text", text: "describe the images" }, { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } }];
    same((await chat(parts)).choices[0].message.content, `I see ${PNG_SEEN}`);
  },
  async chat_errors() {
    const messages = [{ role: "tool", tool_call_id: "x", content: "y" }];
    await raises(OpenAI.BadRequestError, 400, () => client.chat.completions.create({ model: MODEL, messages }));
    await raises(OpenAI.RateLimitError, 429, () => chat("fail with 429", { model: failing("429") }));
    await raises(OpenAI.InternalServerError, undefined, () => chat("fail with 500", { model: failing("500") }));
  },
  async responses_text() {
    const answer = await respond('say "Hello there"', { instructions: "Be brief." });
    same([answer.output_text, answer.status, answer.instructions, answer.usage.output_tokens], ["Hello there", "completed", "Be brief.", 2]);
  },
  async responses_stream() {
    const kinds = [];
    let text = "";
    for await (const event of await respond("count to 4", { stream: true })) {
      kinds.push(event.type);
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    ordered(kinds, "response.created", "response.output_item.added", "response.content_part.added", "response.output_text.delta");
    ordered(kinds, "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed");
    same([text, kinds.at(-1)], ["1 2 3 4", "response.completed"]);
  },
  async responses_stream_helper() {
    const stream = client.responses.stream({ model: MODEL, input: "count to 4", store: false });
    let snapshot = "";
    stream.on("response.output_text.delta", (event) => (snapshot = event.snapshot));
    const final = await stream.finalResponse();
    same([final.output_text, snapshot], ["1 2 3 4", "1 2 3 4"]);
  },
  async responses_tools() {
    const input = user(CITIES);
    const first = await respond(input, { tools: [tool] });
    same(first.output.map(city), ["Paris", "Rome"]);
    input.push(...first.output, ...first.output.map((call) => ({ type: "function_call_output", call_id: call.call_id, output: city(call) })));
    same((await respond(input, { tools: [tool] })).output_text, "The tool said: Paris; Rome");
  },
  async responses_parse() {
    const answer = await client.responses.parse({ model: MODEL, input: "An event.", store: false, text: { format: zodTextFormat(Event, "event") } });
    same(answer.output_parsed, EVENT);
  },
  async responses_image() {
    const content = [{ type: "input_text", text: "describe the images" }, { type: "input_image", image_url: `data:image/png;base64,${PNG}`, detail: "auto" }];
    same((await respond([{ role: "user", content }])).output_text, `I see ${PNG_SEEN}`);
  },
  async responses_reasoning() {
    const answer = await respond("think first, then count to 2", { reasoning: { effort: "low" } });
    same(answer.output.map((item) => item.type), ["reasoning", "message"]);
    same([...(answer.output[0].content ?? []), ...answer.output[0].summary].map((part) => part.text), [REASONING]);
  },
  async responses_errors() {
    await raises(OpenAI.BadRequestError, 400, () => respond([{ type: "function_call_output", call_id: "x", output: "y" }]));
    await raises(OpenAI.RateLimitError, 429, () => respond("fail with 429", { model: failing("429") }));
    await raises(OpenAI.InternalServerError, undefined, () => respond("fail with 500", { model: failing("500") }));
  },
});
