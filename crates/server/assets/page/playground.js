// Shows what a request would meet: route, tier, cache, candidates and cost, under the policy in force or under another one that is pasted in.
// Then sends it through the API, and shows the answer as it comes and the decision that was made.

const APIS = { chat: ["Chat Completions", "/v1/chat/completions"], messages: ["Messages", "/v1/messages"], responses: ["Responses", "/v1/responses"] };
function field(label, input) {
  input.id = `try-${label.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  return el("label", "field", el("span", "", label), input);
}
const trial = {};
function enterPlayground() {
  if (trial.form) return offerModels();
  const select = (all) => {
    const node = el("select");
    node.append(...all.map(([value, words]) => Object.assign(el("option", "", words), { value })));
    return node;
  };
  trial.api = select(Object.entries(APIS).map(([value, [words]]) => [value, words]));
  trial.model = Object.assign(el("input"), { value: last?.model ?? "auto", autocomplete: "off" });
  trial.model.setAttribute("list", "models");
  trial.system = Object.assign(el("textarea"), { rows: 2 });
  trial.prompt = Object.assign(el("textarea"), { rows: 6, value: "Explain in two sentences why the sky is blue." });
  trial.most = Object.assign(el("input"), { type: "number", min: 1, value: 200 });
  trial.key = Object.assign(el("input"), { type: "password", autocomplete: "off", placeholder: last?.asks_keys ? "one of the policy's" : "not needed" });
  trial.policy = Object.assign(el("textarea", "code"), { rows: 8, spellcheck: false, placeholder: "Empty: the policy in force, as the gateway stands now." });
  trial.answer = el("div", "answer");
  trial.answer.setAttribute("aria-live", "polite");
  trial.form = el("form", "trial", field("API", trial.api), field("Model", trial.model), field("Output tokens", trial.most), field("API key", trial.key), field("System prompt", trial.system), field("Prompt", trial.prompt),
    field("Another policy, to explain by", trial.policy), el("div", "choices", trial.send = button("Explain and send", sendIt, "primary"), button("Explain only", explainIt), button("Copy as curl", copyCommand)), el("datalist"));
  trial.form.lastChild.id = "models";
  trial.form.addEventListener("submit", (event) => {
    event.preventDefault();
    sendIt();
  });
  trial.result = el("div", "answer");
  trial.answer.append(el("p", "empty", "Explain asks the gateway where this request would go now, and why. Nothing is sent to an engine, nothing is counted."));
  trial.result.append(el("p", "empty", "Send passes the request through the API as any client's: it is answered by an engine or the cache, counted, and paid for."));
  const results = el("div", "results", panel("Before: what would happen", trial.answer), panel("After: the answer", trial.result));
  $("view-playground").replaceChildren(el("div", "pair even", panel("Request", trial.form), results));
  offerModels();
}
function offerModels() {
  trial.form.lastChild.replaceChildren(...(last?.routes ?? []).map((it) => Object.assign(el("option"), { value: it.name })));
}
function trialRequest() {
  const { api, model, system, prompt, most } = trial, limit = Number(most.value) || 200, said = system.value.trim();
  if (api.value === "responses") return { model: model.value, ...(said ? { instructions: said } : {}), input: prompt.value, max_output_tokens: limit };
  const messages = [{ role: "user", content: prompt.value }];
  if (api.value === "messages") return { model: model.value, max_tokens: limit, ...(said ? { system: said } : {}), messages };
  return { model: model.value, max_tokens: limit, messages: said ? [{ role: "system", content: said }, ...messages] : messages };
}
function copyCommand() {
  const key = last?.asks_keys ? " -H 'Authorization: Bearer YOUR-KEY'" : "";
  const words = `curl ${last?.api}${APIS[trial.api.value][1]}${key} -H 'Content-Type: application/json' -d '${JSON.stringify(trialRequest()).replaceAll("'", "'\\''")}'`;
  navigator.clipboard?.writeText(words).then(() => toast("Copied"), () => trial.answer.replaceChildren(el("pre", "source", words)));
}
async function explainIt() {
  const policy = trial.policy.value.trim();
  const { body, problem, problems: found } = await post("/admin/explain", { api: trial.api.value, request: trialRequest(), ...(policy ? { policy: trial.policy.value } : {}) });
  trial.answer.replaceChildren(...(found ? [el("p", "bad", "The pasted policy has problems:"), problems(found)] : problem ? [el("p", "bad pre", problem)] : explained(body, policy)));
}
function explained(it, policy) {
  const e = it.explained, first = it.pools?.[0], p = first?.predicted;
  const price = it.expected_cost_usd ?? first?.expected_cost_usd;
  return [
    list([
      ["Under", policy ? "the pasted policy, with engines that stand idle" : "the policy in force, as the gateway stands now"],
      ["Route", it.route], ["Goes to", first && `${first.backend} in pool ${first.pool}, by ${plain(first.reason)}`],
      ["Complexity", e?.complexity && `${digits(e.complexity.score, 3)}; a small model's answer is expected to be ${percent(e.complexity.quality, 0)} good, a larger one adds ${digits(e.complexity.gap * 100, 0)} points`],
      ["Raised by", e?.complexity && Object.entries(e.complexity.reasons).map(([what, by]) => `${plain(what)} ${by > 0 ? "+" : ""}${digits(by, 3)}`).join(", ")],
      ["Tier", e?.tier && `${e.tier.tier + 1}, by ${plain(e.tier.reason)}; the next begins at ${known(e.tier.bar) ? digits(e.tier.bar, 3) : none}`],
      ["Cache", it.cache && [["equal requests", it.cache.exact], ["by meaning", it.cache.semantic]].filter(([, tier]) => tier).map(([name, tier]) => `${name}: ${tier.reason ? `no (${plain(tier.reason)})` : "yes, if an answer is kept"}`).join("; ")],
      ["Expected", p && `first token after ${ms(p.ttft_ms)} (p90 ${ms(p.ttft_p90_ms)}), then ${ms(p.tpot_ms)} a token, about ${count(p.output_tokens)} of them`],
      ["Cost", known(price) && `about $${Number(price).toPrecision(2)}`],
      ["Passed over", e?.passed_over?.map((one) => `${one.route} (${one.because})`).join(", ")],
      ["Without backends", it.without_backends?.join(", ")],
    ]),
    ...(it.pools ?? []).flatMap((attempt, at) => [el("h3", "", `${at ? `If that fails or is full: ${attempt.pool}` : attempt.pool} → ${attempt.backend ?? none}`), candidates(attempt, `Candidates in ${attempt.pool}`)]),
  ];
}

// === Sending

/** The text that an event of one of the three APIs adds to the answer. */
const added = (event) => event.choices?.[0]?.delta?.content ?? event.choices?.[0]?.message?.content ?? event.delta?.text ?? (event.type === "response.output_text.delta" ? event.delta : "") ?? "";
async function sendIt() {
  if (trial.stop) return trial.stop.abort();
  const stop = trial.stop = new AbortController(), { result } = trial;
  text(trial.send, "Stop");
  const shown = el("pre", "source said"), after = el("div");
  shown.tabIndex = 0;
  result.replaceChildren(after, shown);
  try {
    await explainIt();
    await sent(stop.signal, shown, after);
  } catch (problem) {
    after.append(el("p", "bad", stop.signal.aborted ? "Stopped: the gateway cancels what the engine was doing." : `The answer broke off: ${problem.message}`));
  }
  trial.stop = null;
  text(trial.send, "Explain and send");
}
async function sent(signal, shown, after) {
  const began = performance.now(), key = trial.key.value.trim();
  const body = JSON.stringify({ api: trial.api.value, request: { ...trialRequest(), stream: true }, ...(key ? { key } : {}) });
  const answer = await fetch("/admin/playground", { method: "POST", headers: { "Content-Type": "application/json" }, body, signal });
  const id = answer.headers.get("x-signalbox-id"), decode = new TextDecoder(), reader = answer.body.getReader();
  let raw = "", first = null;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    raw += decode.decode(part.value, { stream: true });
    if (!answer.ok) continue;
    const lines = raw.split("\n");
    raw = lines.pop();
    for (const line of lines) {
      let words = "";
      try {
        words = added(JSON.parse(line.slice(line.indexOf(":") + 1)));
      } catch { /* a name, a comment, the end */ }
      if (words && first === null) first = performance.now() - began;
      shown.append(words);
    }
  }
  const took = performance.now() - began;
  if (!answer.ok) {
    shown.remove();
    let why = raw;
    try {
      why = JSON.parse(raw).error.message;
    } catch { /* as it is */ }
    after.append(el("p", "bad pre", `${id ? "The API answered" : "Not sent:"} ${answer.status}: ${why}`));
  }
  let line = null; // written just after the answer has ended
  for (let at = 0; id && !line?.id && at < 5; at += 1) {
    if (at) await new Promise((done) => setTimeout(done, 150));
    line = (await ask(`/admin/decisions/${id}`)).body;
  }
  const attempt = line?.attempts?.[line.answered], link = id && Object.assign(el("a", "", id), { href: `#${id}` });
  after.append(list([
    ["Decision", link], ["Route", line?.route], ["Answered by", attempt ? `${attempt.backend} in pool ${attempt.pool}` : line?.reused?.pool && `the cache, with an answer of pool ${line.reused.pool}`],
    ["Tier", line?.explained?.tier && `${line.explained.tier.tier + 1}, by ${plain(line.explained.tier.reason)}`], ["Cache", line?.reused && [plain(line.reused.result), plain(line.reused.reason ?? "")].filter(Boolean).join(", ")],
    ["TTFT", known(line?.ttft_ms) && `${ms(line.ttft_ms)} in the gateway${first === null ? "" : `, ${ms(first)} in this page`}`], ["TPOT", known(line?.tpot_ms) && ms(line.tpot_ms)],
    ["Whole", ms(line?.e2e_ms ?? took)], ["Tokens", line?.usage && `${count(line.usage.prompt_tokens)} in (${count(line.usage.cached_tokens ?? 0)} cached), ${count(line.usage.completion_tokens)} out`],
    ["Cost", known(line?.cost_usd) && (line.cost_usd ? `$${Number(line.cost_usd).toPrecision(3)}` : "$0")],
  ]));
}
