// The OpenAI Agents SDK for JavaScript, over Responses and over Chat Completions.

import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";
import { API_KEY, BASE_URL, MODEL, run, same } from "./suite.mjs";

setTracingDisabled(true);
const client = new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY, maxRetries: 0 });
const models = { responses: new OpenAIResponsesModel(client, MODEL), chat: new OpenAIChatCompletionsModel(client, MODEL) };
const execute = async ({ city }) => `sunny in ${city}`;
const weather = tool({ name: "get_weather", description: "The weather.", parameters: z.object({ city: z.string() }), execute });
const CITIES = 'call get_weather with {"city": "Paris"} and call get_weather with {"city": "Rome"}';
const Event = z.object({ name: z.string(), participants: z.array(z.string()) });

/** Runs an agent over both APIs and compares the final output. */
async function each(expected, prompt, agent) {
  for (const [api, model] of Object.entries(models))
    same((await new Runner({ model }).run(new Agent({ name: "A", ...agent }), prompt)).finalOutput, expected, api);
}

await run({
  text_and_instructions: () => each("Be kind.", "repeat the instructions", { instructions: "Be kind." }),
  tools: () => each("The tool said: sunny in Paris; sunny in Rome", CITIES, { tools: [weather] }),
  structured_output: () => each({ name: "text", participants: ["text"] }, "An event.", { outputType: Event }),
  async streamed() {
    for (const [api, model] of Object.entries(models)) {
      const result = await new Runner({ model }).run(new Agent({ name: "A", tools: [weather] }), CITIES, { stream: true });
      let text = "";
      for await (const piece of result.toTextStream()) text += piece;
      await result.completed;
      same(text, "The tool said: sunny in Paris; sunny in Rome", api);
    }
  },
  async handoff() {
    for (const [api, model] of Object.entries(models)) {
      const poet = new Agent({ name: "Poet", model });
      const result = await new Runner({ model }).run(Agent.create({ name: "First", handoffs: [poet] }), "call transfer_to_Poet with {}");
      same(result.lastAgent.name, "Poet", api);
    }
  },
});
