// Vercel's AI SDK with its providers for OpenAI (both APIs), OpenAI-compatible servers and Anthropic.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, isStepCount, Output, streamText, tool } from "ai";
import assert from "node:assert/strict";
import { z } from "zod";
import { API_KEY, BASE_URL, failing, MODEL, PNG, PNG_SEEN, REASONING, run, same } from "./suite.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const openai = createOpenAI({ baseURL: BASE_URL, apiKey: API_KEY });
const compatible = createOpenAICompatible({ name: "gateway", baseURL: BASE_URL, apiKey: API_KEY, includeUsage: true, supportsStructuredOutputs: true });
const anthropic = createAnthropic({ baseURL: BASE_URL, apiKey: API_KEY });
const apis = { chat: openai.chat, compatible, responses: openai.responses, messages: anthropic };
const CITIES = 'call get_weather with {"city": "Paris"} and call get_weather with {"city": "Rome"}';
const schema = z.object({ name: z.string(), participants: z.array(z.string()) });
const EVENT = { name: "text", participants: ["text"] };

function weather() {
  const execute = async ({ city }) => `sunny in ${city}`;
  return tool({ description: "The weather.", inputSchema: z.object({ city: z.string() }), execute });
}

/** Compares what `get` finds with the model of each API. */
async function each(expected, get, model = MODEL) {
  for (const [name, api] of Object.entries(apis)) same(await get({ model: api(model), maxRetries: 0, maxOutputTokens: 200 }, name), expected, name);
}

await run({
  async text() {
    await each(["Hello there", "stop"], async (on) => {
      const { text, finishReason } = await generateText({ ...on, prompt: 'say "Hello there"' });
      return [text, finishReason];
    });
  },
  async conversation() {
    const messages = [
      { role: "user", content: "one" },
      { role: "assistant", content: "two" },
      { role: "user", content: [{ type: "text", text: "repeat the conversation" }] },
    ];
    await each("system: Be brief. | user: one | assistant: two | user: repeat the conversation", async (on) =>
      (await generateText({ ...on, instructions: "Be brief.", messages })).text);
  },
  async stream() {
    await each(["1 2 3 4", "stop"], async (on) => {
      const result = streamText({ ...on, prompt: "count to 4" });
      let text = "";
      for await (const piece of result.textStream) text += piece;
      return [text, await result.finishReason];
    });
  },
  async usage() {
    await each([5, 2, 7], async (on) => {
      const { usage } = await generateText({ ...on, prompt: "half is cached please now" });
      return [usage.inputTokens, usage.inputTokenDetails.cacheReadTokens, usage.outputTokens];
    });
  },
  async tools() {
    await each([2, "The tool said: sunny in Paris; sunny in Rome"], async (on) => {
      const { text, steps } = await generateText({ ...on, prompt: CITIES, tools: { get_weather: weather() }, stopWhen: isStepCount(5) });
      return [steps.length, text.replaceAll('"', "")];
    });
  },
  async tools_streamed() {
    await each([["Paris", "Rome"], "The tool said: sunny in Paris; sunny in Rome"], async (on) => {
      const result = streamText({ ...on, prompt: CITIES, tools: { get_weather: weather() }, stopWhen: isStepCount(5) });
      const cities = [];
      for await (const part of result.fullStream) if (part.type === "tool-call") cities.push(part.input.city);
      return [cities, (await result.text).replaceAll('"', "")];
    });
  },
  async tool_choice() {
    for (const toolChoice of ["required", { type: "tool", toolName: "get_weather" }])
      await each("get_weather", async (on) => (await generateText({ ...on, prompt: "hello", tools: { get_weather: weather() }, toolChoice })).toolCalls[0].toolName);
  },
  async structured_output() {
    await each(EVENT, async (on) => (await generateText({ ...on, prompt: "An event.", output: Output.object({ schema }) })).output);
  },
  async structured_output_streamed() {
    await each(EVENT, async (on) => {
      const result = streamText({ ...on, prompt: "An event.", output: Output.object({ schema }) });
      for await (const _ of result.partialOutputStream);
      return await result.output;
    });
  },
  async image() {
    const content = [{ type: "text", text: "describe the images" }, { type: "file", data: Buffer.from(PNG, "base64"), mediaType: "image/png" }];
    await each(`I see ${PNG_SEEN}`, async (on) => (await generateText({ ...on, messages: [{ role: "user", content }] })).text);
  },
  async reasoning() {
    const providerOptions = { anthropic: { thinking: { type: "enabled", budgetTokens: 1024 } }, gateway: { reasoningEffort: "low" } };
    for (const name of ["compatible", "messages"]) {
      const result = await generateText({ model: apis[name](MODEL), providerOptions, prompt: "think first, then count to 2", maxRetries: 0 });
      same([result.reasoningText, result.text], [REASONING, "1 2"], name);
    }
  },
  async length() {
    await each(["1 2 3", "length"], async (on) => {
      const { text, finishReason } = await generateText({ ...on, prompt: "count to 9", maxOutputTokens: 3 });
      return [text, finishReason];
    });
  },
  async errors() {
    const get = async (on) => {
      try {
        await generateText({ ...on, prompt: "fail with 429" });
      } catch (error) {
        assert.ok(APICallError.isInstance(error), `${error}`);
        return [error.statusCode, error.isRetryable, /scripted failure 429/.test(error.message)];
      }
    };
    await each([429, true, true], get, failing("429"));
  },
});
