// Anthropic's Node SDK at /v1/messages.

import Anthropic from "@anthropic-ai/sdk";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import assert from "node:assert/strict";
import { z } from "zod";
import { API_KEY, failing, MODEL, PNG, PNG_SEEN, raises, REASONING, ROOT_URL, run, same } from "./suite.mjs";

const client = new Anthropic({ baseURL: ROOT_URL, apiKey: API_KEY, maxRetries: 0, timeout: 20_000 });
const tool = { name: "get_weather", description: "The weather.", input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } };
const CITIES = 'call get_weather with {"city": "Paris"} and call get_weather with {"city": "Rome"}';
const IMAGE = { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } };
const Event = z.object({ name: z.string(), participants: z.array(z.string()) });
const user = (content) => [{ role: "user", content }];
const ask = (content, more) => client.messages.create({ model: MODEL, max_tokens: 200, messages: user(content), ...more });
const stream = (content, more) => client.messages.stream({ model: MODEL, max_tokens: 200, messages: user(content), ...more });

await run({
  async text() {
    const answer = await ask('say "Hello there"', { system: "Be brief." });
    same([answer.content[0].text, answer.stop_reason, answer.usage.output_tokens], ["Hello there", "end_turn", 2]);
  },
  async system_list() {
    const system = [{ type: "text", text: "Be brief." }, { type: "text", text: "Be kind.", cache_control: { type: "ephemeral" } }];
    same((await ask("repeat the instructions", { system })).content[0].text, "Be brief. Be kind.");
  },
  async text_stream() {
    const texts = [];
    const running = stream("count to 4").on("text", (text) => texts.push(text));
    const final = await running.finalMessage();
    same([texts.join(""), final.content[0].text, final.stop_reason, final.usage.output_tokens], ["1 2 3 4", "1 2 3 4", "end_turn", 4]);
    same(await running.finalText(), "1 2 3 4");
  },
  async raw_events() {
    const kinds = [];
    for await (const event of await ask("count to 1", { stream: true })) if (event.type !== "ping") kinds.push(event.type);
    same(kinds, ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]);
  },
  async tool_loop() {
    const messages = user(CITIES);
    const first = await client.messages.create({ model: MODEL, max_tokens: 100, messages, tools: [tool] });
    same([first.stop_reason, first.content.map((use) => use.input.city)], ["tool_use", ["Paris", "Rome"]]);
    const results = first.content.map((use, i) => ({ type: "tool_result", tool_use_id: use.id, content: use.input.city, is_error: i === 1 }));
    messages.push({ role: "assistant", content: first.content }, { role: "user", content: results });
    const { text } = (await client.messages.create({ model: MODEL, max_tokens: 100, messages, tools: [tool] })).content[0];
    assert.match(text, /^The tool said: Paris; .*Rome/);
  },
  async tools_streamed() {
    const partial = [];
    const final = await stream(CITIES, { tools: [tool] }).on("inputJson", (json) => partial.push(json)).finalMessage();
    same(final.content.map((use) => use.input.city), ["Paris", "Rome"]);
    same(partial.join("").replaceAll(" ", ""), '{"city":"Paris"}{"city":"Rome"}');
  },
  async tool_runner() {
    const seen = [];
    const run = ({ city }) => (seen.push(city), `sunny in ${city}`);
    const weather = betaZodTool({ name: "get_weather", description: "The weather.", inputSchema: z.object({ city: z.string() }), run });
    const final = await client.beta.messages.toolRunner({ model: MODEL, max_tokens: 100, messages: user(CITIES), tools: [weather] }).runUntilDone();
    same([final.content[0].text, seen], ["The tool said: sunny in Paris; sunny in Rome", ["Paris", "Rome"]]);
  },
  async tool_choice() {
    same((await ask("hello", { tools: [tool], tool_choice: { type: "any" } })).stop_reason, "tool_use");
    same((await ask("hello", { tools: [tool], tool_choice: { type: "tool", name: "get_weather" } })).content[0].name, "get_weather");
    same((await ask(`${CITIES} say "no"`, { tools: [tool], tool_choice: { type: "none" } })).content[0].text, "no");
  },
  async images() {
    same((await ask([{ type: "text", text: "describe the images" }, IMAGE])).content[0].text, `I see ${PNG_SEEN}`);
  },
  async thinking() {
    const final = await stream("think first, then count to 2", { max_tokens: 2000, thinking: { type: "enabled", budget_tokens: 1024 } }).finalMessage();
    same(final.content.map((block) => block.thinking ?? block.text), [REASONING, "1 2"]);
  },
  async parse() {
    const answer = await client.messages.parse({ model: MODEL, max_tokens: 100, messages: user("An event."), output_config: { format: zodOutputFormat(Event) } });
    same(answer.parsed_output, { name: "text", participants: ["text"] });
  },
  async stop_and_length() {
    const stopped = await ask("count to 9", { stop_sequences: ["5"] });
    same([stopped.stop_reason, stopped.stop_sequence], ["stop_sequence", "5"]);
    same((await ask("count to 9", { max_tokens: 3 })).stop_reason, "max_tokens");
  },
  async count_tokens() {
    const { input_tokens } = await client.messages.countTokens({ model: MODEL, messages: user("one two three") });
    assert.ok(input_tokens > 0 && input_tokens < 50, `${input_tokens}`);
  },
  async errors() {
    await raises(Anthropic.BadRequestError, 400, () => ask([{ type: "tool_result", tool_use_id: "x", content: "y" }]));
    await raises(Anthropic.RateLimitError, 429, () => ask("fail with 429", { model: failing("429") }));
    await assert.rejects(ask("fail with 500", { model: failing("500") }), Anthropic.InternalServerError);
    await assert.rejects(stream("break the stream, count to 20", { model: failing("broken") }).finalMessage(), Anthropic.APIError);
  },
});
