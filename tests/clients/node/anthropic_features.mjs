// Anthropic's Node SDK over Messages.

import Anthropic from "@anthropic-ai/sdk";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { z } from "zod";
import { features, schema, sunny } from "./features.mjs";
import { API_KEY, MODEL, PNG, ROOT_URL } from "./suite.mjs";

const connect = (apiKey) => new Anthropic({ baseURL: ROOT_URL, apiKey, maxRetries: 0, timeout: 20_000 });
const client = connect(API_KEY);
const body = (content, more) => ({ model: MODEL, max_tokens: 2000, messages: [{ role: "user", content }], ...more });
const ask = (content, more) => client.messages.create(body(content, more));
const words = (answer) => answer.content.filter(({ type }) => type === "text").map(({ text }) => text).join("");
const thinking = { type: "enabled", budget_tokens: 1024 };

await features({
  messages: {
    text: async (prompt) => words(await ask(prompt)),
    async stream(prompt) {
      const pieces = [];
      const stream = client.messages.stream(body(prompt)).on("text", (piece) => pieces.push(piece));
      await stream.finalMessage();
      return pieces;
    },
    async loop(prompt, stream) {
      const cities = [];
      const run = ({ city }) => (cities.push(city), sunny(city));
      const tool = betaZodTool({ name: "get_weather", description: "The weather.", inputSchema: z.object({ city: z.string() }), run });
      const runner = client.beta.messages.toolRunner({ ...body(prompt), tools: [tool], stream });
      if (!stream) return [cities, words(await runner.runUntilDone())];
      let final;
      for await (const turn of runner) final = await turn.finalMessage();
      return [cities, words(final)];
    },
    async reasoning(prompt) {
      const answer = await ask(prompt, { thinking });
      return [answer.content.find(({ type }) => type === "thinking")?.thinking, words(answer)];
    },
    structured: async () => (await client.messages.parse(body("An event.", { output_config: { format: zodOutputFormat(schema) } }))).parsed_output,
    image: async (prompt) => words(await ask([{ type: "text", text: prompt }, { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } }])),
    async usage(prompt, stream) {
      const { usage } = stream ? await client.messages.stream(body(prompt)).finalMessage() : await ask(prompt);
      // The API counts cached tokens beside the others.
      return [usage.input_tokens + usage.cache_read_input_tokens, usage.cache_read_input_tokens, usage.output_tokens];
    },
    async status({ model, prompt, key }) {
      try {
        await connect(key).messages.create(body(prompt, { model }));
      } catch (error) {
        return [error instanceof Anthropic.APIError ? error.status : error.name, error.message];
      }
    },
    async cancel(prompt) {
      const stream = await ask(prompt, { stream: true });
      for await (const event of stream) if (event.type === "content_block_delta") break;
      stream.controller.abort();
    },
  },
});
