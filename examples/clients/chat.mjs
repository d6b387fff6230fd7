// Streams a chat answer through Signalbox with the OpenAI SDK: npm install openai, then node chat.mjs "your question".
import OpenAI from "openai";

const { SIGNALBOX_URL = "http://127.0.0.1:4100/v1", SIGNALBOX_KEY = "unused", SIGNALBOX_MODEL = "auto" } = process.env;
const client = new OpenAI({ baseURL: SIGNALBOX_URL, apiKey: SIGNALBOX_KEY }); // any key will do where the policy lists none
const question = process.argv.slice(2).join(" ") || "What does a signal box do?";
const { data: stream, response } = await client.chat.completions
  .create({ model: SIGNALBOX_MODEL, messages: [{ role: "user", content: question }], stream: true })
  .withResponse();

for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? "");
console.log();
// Which backend answered, and why, is in the answer's headers.
for (const name of ["x-signalbox-pool", "x-signalbox-backend", "x-signalbox-reason"]) {
  console.error(`${name}: ${response.headers.get(name)}`);
}
