// The same questions to every client: one check for each API and feature, named API/feature, for the table of clients.
//
// A suite gives an adapter for each API: functions that use the client as its documentation does. A feature without its function prints SKIP, since
// the client has no such thing over that API.
//
//   text(prompt)                  the answer
//   stream(prompt)                the pieces of a streamed answer
//   loop(prompt, stream)          [cities that get_weather was called with, the final text], after all steps
//   reasoning(prompt)             [reasoning, answer]
//   structured()                  an answer by the schema `schema`
//   image(prompt)                 the answer about PNG
//   usage(prompt, stream)         [input tokens, of these cached, output tokens]
//   status({ model, prompt, key })    the status of the client's own class of error, with the text of the error
//   cancel(prompt)                reads a piece of a stream, then leaves

import assert from "node:assert/strict";
import { z } from "zod";
import { API_KEY, failing, MODEL, PNG_SEEN, REASONING, run, same } from "./suite.mjs";

export const schema = z.object({ name: z.string(), participants: z.array(z.string()) });
export const sunny = (city) => `sunny in ${city}`;
const STEPS = 'call get_weather with {"city": "Paris"} and call get_weather with {"city": "Rome"} and then call get_weather with {"city": "Oslo"}';
const LOOP = [["Paris", "Rome", "Oslo"], "The tool said: sunny in Oslo"];
const THOUGHT = "think first, then count to 2";

const FAILURES = [
  [400, { prompt: "fail with 400" }, /scripted failure 400/],
  [401, { key: "sk-wrong" }, /key/i],
  [404, { model: "no-such-model" }, /no-such-model/],
  [429, { model: failing("429"), prompt: "fail with 429" }, /scripted failure 429/],
  [503, { model: failing("503"), prompt: "fail with 503" }, /./],
];

/** Plain text of a tool's result, which some clients send as JSON. */
const plain = ([calls, text]) => [calls, text.replaceAll('"', "")];

const FEATURES = {
  text: ["text", async (api) => same(await api.text('say "Hello there"'), "Hello there")],
  stream: ["stream", async (api) => {
    const pieces = await api.stream("count to 4");
    same(pieces.join(""), "1 2 3 4");
    assert.ok(pieces.filter(Boolean).length > 1, `the text came in ${pieces.length} piece`);
  }],
  tools: ["loop", async (api) => same(plain(await api.loop(STEPS, false)), LOOP)],
  tools_streamed: ["loop", async (api) => same(plain(await api.loop(STEPS, true)), LOOP)],
  reasoning: ["reasoning", async (api) => same(await api.reasoning(THOUGHT), [REASONING, "1 2"])],
  structured: ["structured", async (api) => same(await api.structured(), { name: "text", participants: ["text"] })],
  image: ["image", async (api) => same(await api.image("describe the images"), `I see ${PNG_SEEN}`)],
  usage: ["usage", async (api) => {
    for (const stream of [false, true]) same(await api.usage("half is cached please now", stream), [5, 2, 7], stream ? "streamed" : "whole");
  }],
  errors: ["status", async (api) => {
    for (const [status, asked, words] of FAILURES) {
      const got = await api.status({ model: MODEL, prompt: "hello", key: API_KEY, ...asked });
      same(got?.[0], status, `status, ${got?.[1]}`);
      assert.match(`${got[1]}`, words);
    }
  }],
  cancel: ["cancel", async (api, name) => {
    const tag = `${name}-${process.pid}`;
    await api.cancel(`drip ${tag}`);
    // The model writes every 50 ms, so it notices within a second or so.
    const until = Date.now() + 4_000;
    while (Date.now() < until) if ((await api.text(`did the caller of ${tag} leave?`)) === "yes") return;
    assert.fail("the model still wrote 4 s after the caller had left");
  }],
};

/** Runs every feature over every API. */
export async function features(apis) {
  const checks = {};
  for (const [name, api] of Object.entries(apis))
    for (const [feature, [needed, check]] of Object.entries(FEATURES)) {
      if (api[needed]) checks[`${name}/${feature}`] = () => check(api, name);
      else console.log(`SKIP ${name}/${feature}`);
    }
  await run(checks);
}
