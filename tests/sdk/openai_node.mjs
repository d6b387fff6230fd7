// Exercises an OpenAI-compatible gateway with the official Node SDK; BASE_URL says where, one line is printed per check.
// The models `chat`, `embed` and `err-400`, `err-422`, `err-429`, `err-503` are expected there, `no-such-model` is not.
import assert from "node:assert/strict";
import OpenAI from "openai";

const { BASE_URL, API_KEY = "sk-test", SKIP = "" } = process.env;
const client = new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY, maxRetries: 0, timeout: 30_000 });
const messages = [{ role: "user", content: "hello" }];
const tools = [{
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather in a city.",
    parameters: { type: "object", properties: { city: { type: "string", maxLength: 8 } }, required: ["city"] },
  },
}];
const schema = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"], additionalProperties: false };

// Temperature 0 throughout: a model of random weights ends one answer in a hundred before its first word.
const chat = (more) => client.chat.completions.create({ model: "chat", messages, temperature: 0, max_tokens: 16, ...more });
const all = async (stream) => {
  const chunks = [];
  for await (const chunk of await stream) chunks.push(chunk);
  return chunks;
};
const expectError = async (kind, status, call) => {
  const error = await call().then(() => assert.fail(`no ${kind.name}`), (error) => error);
  assert.equal(error.constructor, kind, String(error));
  assert.equal(error.status, status);
  assert.ok(error.error?.message, `no message in ${JSON.stringify(error.error)}`);
};
const refused = (model, kind, status) => async () => {
  await expectError(kind, status, () => chat({ model }));
  await expectError(kind, status, () => all(chat({ model, stream: true })));
};

const checks = {
  async list_models() {
    const names = (await all(client.models.list())).map((model) => model.id);
    assert.ok(names.includes("chat") && names.includes("embed"), String(names));
  },
  async retrieve_model() {
    assert.equal((await client.models.retrieve("chat")).id, "chat");
  },
  async retrieve_unknown_model() {
    await expectError(OpenAI.NotFoundError, 404, () => client.models.retrieve("no-such-model"));
  },
  async chat() {
    const answer = await chat();
    assert.equal(answer.choices[0].message.role, "assistant");
    assert.ok(answer.choices[0].message.content);
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  },
  async stream() {
    const chunks = await all(chat({ stream: true }));
    assert.ok(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""));
    assert.ok(["stop", "length"].includes(chunks.at(-1).choices[0]?.finish_reason), JSON.stringify(chunks.at(-1)));
    assert.ok(chunks.every((chunk) => !chunk.usage), "usage that was not asked for");
  },
  async stream_with_usage() {
    const chunks = await all(chat({ stream: true, stream_options: { include_usage: true } }));
    assert.equal(chunks.filter((chunk) => chunk.usage).length, 1, "usage comes once");
    assert.ok(chunks.at(-1).usage.completion_tokens > 0);
  },
  async stream_left_early() {
    for await (const _ of await chat({ stream: true, max_tokens: 64 })) break;
  },
  async tools() {
    const { choices: [choice] } = await chat({ max_tokens: 300, tools, tool_choice: "required" });
    assert.equal(choice.finish_reason, "tool_calls");
    assert.equal(choice.message.tool_calls[0].function.name, "get_weather");
    assert.ok("city" in JSON.parse(choice.message.tool_calls[0].function.arguments));
  },
  async tools_streamed() {
    let [name, args, finish] = ["", "", null];
    for (const { choices: [choice] } of await all(chat({ max_tokens: 300, tools, tool_choice: "required", stream: true }))) {
      finish = choice.finish_reason ?? finish;
      for (const call of choice.delta.tool_calls ?? []) {
        name += call.function.name ?? "";
        args += call.function.arguments ?? "";
      }
    }
    assert.deepEqual([name, finish], ["get_weather", "tool_calls"]);
    assert.ok("city" in JSON.parse(args), args);
  },
  async json_schema() {
    const response_format = { type: "json_schema", json_schema: { name: "verdict", strict: true, schema } };
    const answer = await chat({ max_tokens: 200, response_format });
    assert.equal(typeof JSON.parse(answer.choices[0].message.content).ok, "boolean");
  },
  async embeddings() {
    for (const form of [{}, { encoding_format: "float" }]) {
      const answer = await client.embeddings.create({ model: "embed", input: ["one", "two"], ...form });
      assert.deepEqual(answer.data.map((item) => item.index), [0, 1]);
      assert.ok(answer.data.every((item) => item.embedding.every((x) => typeof x === "number")), JSON.stringify(form));
    }
  },
  async completions() {
    const answer = await client.completions.create({ model: "chat", prompt: "once upon a time", temperature: 0, max_tokens: 8 });
    assert.ok(answer.choices[0].text);
  },
  async completions_streamed() {
    const chunks = await all(client.completions.create({ model: "chat", prompt: "once", temperature: 0, max_tokens: 8, stream: true }));
    assert.ok(chunks.map((chunk) => chunk.choices[0]?.text ?? "").join(""));
  },
  async request_id() {
    const { response } = await chat().withResponse();
    assert.ok(response.headers.get("x-request-id"), "no x-request-id");
  },
  error_400: refused("err-400", OpenAI.BadRequestError, 400),
  error_422: refused("err-422", OpenAI.UnprocessableEntityError, 422),
  error_404: refused("no-such-model", OpenAI.NotFoundError, 404),
  error_429: refused("err-429", OpenAI.RateLimitError, 429),
  error_503: refused("err-503", OpenAI.InternalServerError, 503),
};

// SKIP names checks that this target cannot meet, separated by commas.
let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  if (SKIP.split(",").includes(name)) {
    console.log("skip", name);
    continue;
  }
  try {
    await check();
    console.log("ok  ", name);
  } catch (problem) {
    failed += 1;
    console.log("FAIL", name, "-", String(problem).slice(0, 600));
  }
}
console.log(`openai for Node: ${failed} failed`);
process.exit(failed ? 1 : 0);
