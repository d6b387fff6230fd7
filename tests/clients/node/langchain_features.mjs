// LangChain for JavaScript: chat models of OpenAI (both APIs), Azure OpenAI and Anthropic.

import { ChatAnthropic } from "@langchain/anthropic";
import { HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { AzureChatOpenAI, ChatOpenAI } from "@langchain/openai";
import { z } from "zod";
import { features, schema, sunny } from "./features.mjs";
import { API_KEY, BASE_URL, MODEL, PNG, ROOT_URL } from "./suite.mjs";

const weather = tool(({ city }) => sunny(city), { name: "get_weather", description: "The weather.", schema: z.object({ city: z.string() }) });

/** The adapter of a chat model; `connect(model, key, more)` makes one, `thought` finds the reasoning in a message. */
function adapter(connect, reasons) {
  const model = connect(MODEL, API_KEY);
  const whole = async (runnable, messages) => {
    let sum;
    for await (const chunk of await runnable.stream(messages)) sum = sum ? sum.concat(chunk) : chunk;
    return sum;
  };
  return {
    text: async (prompt) => (await model.invoke(prompt)).text,
    async stream(prompt) {
      const pieces = [];
      for await (const chunk of await model.stream(prompt)) pieces.push(chunk.text);
      return pieces;
    },
    async loop(prompt, stream) {
      const [bound, messages, cities] = [model.bindTools([weather]), [new HumanMessage(prompt)], []];
      for (;;) {
        const answer = stream ? await whole(bound, messages) : await bound.invoke(messages);
        if (!answer.tool_calls?.length) return [cities, answer.text];
        cities.push(...answer.tool_calls.map((call) => call.args.city));
        messages.push(answer, ...(await Promise.all(answer.tool_calls.map((call) => weather.invoke(call)))));
      }
    },
    ...(reasons && {
      async reasoning(prompt) {
        const answer = await connect(MODEL, API_KEY, reasons).invoke(prompt);
        return [answer.contentBlocks.filter(({ type }) => type === "reasoning").map(({ reasoning }) => reasoning).join(""), answer.text];
      },
    }),
    structured: () => model.withStructuredOutput(schema, { name: "event" }).invoke("An event."),
    image: async (prompt) => {
      const image = { type: "image", mimeType: "image/png", data: PNG };
      return (await model.invoke([new HumanMessage({ contentBlocks: [{ type: "text", text: prompt }, image] })])).text;
    },
    async usage(prompt, stream) {
      const usage = (stream ? await whole(model, prompt) : await model.invoke(prompt)).usage_metadata;
      return [usage.input_tokens, usage.input_token_details.cache_read, usage.output_tokens];
    },
    async status({ model: name, prompt, key }) {
      try {
        await connect(name, key).invoke(prompt);
      } catch (error) {
        return [error.status, error.message];
      }
    },
    async cancel(prompt) {
      const leave = new AbortController();
      try {
        for await (const chunk of await model.stream(prompt, { signal: leave.signal })) if (chunk.text) leave.abort();
      } catch (error) {
        if (!leave.signal.aborted) throw error;
      }
    },
  };
}

const openai = (useResponsesApi) => (model, apiKey, more) =>
  new ChatOpenAI({ model, apiKey, useResponsesApi, maxRetries: 0, configuration: { baseURL: BASE_URL }, ...more });
const azure = (model, key) =>
  new AzureChatOpenAI({
    model, azureOpenAIApiKey: key, azureOpenAIApiVersion: "2024-10-21", azureOpenAIEndpoint: ROOT_URL, azureOpenAIApiDeploymentName: model, maxRetries: 0,
  });
const anthropic = (model, apiKey, more) => new ChatAnthropic({ model, apiKey, anthropicApiUrl: ROOT_URL, maxTokens: 2000, maxRetries: 0, ...more });
await features({
  chat: adapter(openai(false)),
  // It asks for reasoning only of models whose names it knows.
  responses: adapter(openai(true), { model: "gpt-5", reasoning: { effort: "low", summary: "auto" } }),
  messages: adapter(anthropic, { thinking: { type: "enabled", budget_tokens: 1024 } }),
  "azure-deployment": adapter(azure),
});
