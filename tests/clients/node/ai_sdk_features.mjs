// Vercel's AI SDK, the version given, with its providers: OpenAI (Responses is its default), OpenAI-compatible, Azure and Anthropic.

import { features, schema, sunny } from "./features.mjs";
import { z } from "zod";
import { API_KEY, BASE_URL, MODEL, PNG, ROOT_URL } from "./suite.mjs";

const version = process.argv[2];
const load = (provider) => import(version === "7" ? (provider ? `@ai-sdk/${provider}` : "ai") : `ai-${version}${provider ? `-${provider}` : ""}`);
const [ai, openai, anthropic, compatible, azure] = await Promise.all(["", "openai", "anthropic", "openai-compatible", "azure"].map(load));
globalThis.AI_SDK_LOG_WARNINGS = false;

const stopWhen = (ai.isStepCount ?? ai.stepCountIs)(5);
const file = version === "5" ? (data) => ({ type: "image", image: data }) : (data) => ({ type: "file", data, mediaType: "image/png" });
const providerOptions = {
  anthropic: { thinking: { type: "enabled", budgetTokens: 1024 } },
  gateway: { reasoningEffort: "low" },
  openai: { reasoningEffort: "low", reasoningSummary: "auto", forceReasoning: true },
  azure: { reasoningEffort: "low", reasoningSummary: "auto", forceReasoning: true },
};

/** The adapter of a provider; `provide(key)` returns a function from names to models. */
function adapter(provide, { reasons = true, apart = false } = {}) {
  const on = (model = MODEL, key = API_KEY) => ({ model: provide(key)(model), maxRetries: 0, maxOutputTokens: 2000 });
  const text = async (prompt) => (await ai.generateText({ ...on(), prompt })).text;
  return {
    text,
    async stream(prompt) {
      const pieces = [];
      for await (const piece of ai.streamText({ ...on(), prompt }).textStream) pieces.push(piece);
      return pieces;
    },
    async loop(prompt, stream) {
      const cities = [];
      const execute = async ({ city }) => (cities.push(city), sunny(city));
      const tools = { get_weather: ai.tool({ description: "The weather.", inputSchema: z.object({ city: z.string() }), execute }) };
      const result = await (stream ? ai.streamText : ai.generateText)({ ...on(), prompt, tools, stopWhen });
      return [cities, await result.text];
    },
    ...(reasons && {
      async reasoning(prompt) {
        // Version 5 asks for reasoning only of models whose names it knows.
        const result = await ai.generateText({ ...on(version === "5" ? "gpt-5" : MODEL), providerOptions, prompt });
        return [result.reasoningText, result.text];
      },
    }),
    async structured() {
      if (version === "5") return (await ai.generateObject({ ...on(), prompt: "An event.", schema })).object;
      return (await ai.generateText({ ...on(), prompt: "An event.", output: ai.Output.object({ schema }) })).output;
    },
    async image(prompt) {
      const content = [{ type: "text", text: prompt }, file(Buffer.from(PNG, "base64"))];
      return (await ai.generateText({ ...on(), messages: [{ role: "user", content }] })).text;
    },
    async usage(prompt, stream) {
      const result = await (stream ? ai.streamText : ai.generateText)({ ...on(), prompt });
      if (stream) await result.consumeStream();
      const usage = await result.usage;
      const cached = usage.inputTokenDetails?.cacheReadTokens ?? usage.cachedInputTokens;
      return [usage.inputTokens + (apart ? cached : 0), cached, usage.outputTokens];
    },
    async status({ model, prompt, key }) {
      try {
        await ai.generateText({ ...on(model, key), prompt });
      } catch (error) {
        return ai.APICallError.isInstance(error) ? [error.statusCode, error.message] : [error.name, error.message];
      }
    },
    async cancel(prompt) {
      const leave = new AbortController();
      const result = ai.streamText({ ...on(), prompt, abortSignal: leave.signal });
      for await (const part of result.fullStream) if (part.type === "text-delta") break;
      leave.abort();
    },
  };
}

const openaiBy = (apiKey) => openai.createOpenAI({ baseURL: BASE_URL, apiKey });
const azureBy = (apiKey, more) => azure.createAzure({ baseURL: `${ROOT_URL}/openai`, apiKey, ...more });
const deployment = { apiVersion: "2024-10-21", useDeploymentBasedUrls: true };
const silent = { reasons: false };
await features({
  responses: adapter(openaiBy),
  chat: adapter((key) => openaiBy(key).chat, silent),
  // Version 5 counts cached tokens beside the others, as the API does.
  messages: adapter((apiKey) => anthropic.createAnthropic({ baseURL: BASE_URL, apiKey }), { apart: version === "5" }),
  compatible: adapter((apiKey) =>
    compatible.createOpenAICompatible({ name: "gateway", baseURL: BASE_URL, apiKey, includeUsage: true, supportsStructuredOutputs: true })),
  "azure-responses": adapter((key) => azureBy(key).responses),
  "azure-chat": adapter((key) => azureBy(key).chat, silent),
  "azure-deployment": adapter((key) => azureBy(key, deployment).chat, silent),
});
