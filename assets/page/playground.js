// Shows what a request would meet: route, tier, cache, candidates and cost, under the policy in force or under another one that is pasted in.

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
  trial.policy = Object.assign(el("textarea", "code"), { rows: 8, spellcheck: false, placeholder: "Empty: the policy in force, as the gateway stands now." });
  trial.answer = el("div", "answer");
  trial.answer.setAttribute("aria-live", "polite");
  trial.form = el("form", "trial", field("API", trial.api), field("Model", trial.model), field("Output tokens at most", trial.most), field("System prompt", trial.system), field("Prompt", trial.prompt),
    field("Another policy, to try", trial.policy), el("div", "choices", button("Explain", explainIt, "primary"), button("Copy as curl", copyCommand)), el("datalist"));
  trial.form.lastChild.id = "models";
  trial.form.addEventListener("submit", (event) => {
    event.preventDefault();
    explainIt();
  });
  const result = panel("What would happen", trial.answer);
  trial.answer.append(el("p", "empty", "Explain asks the gateway where this request would go now, and why. Nothing is sent to an engine, nothing is counted."));
  $("view-playground").replaceChildren(el("div", "pair even", panel("Request", trial.form), result));
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
      ["Cache", it.cache && [plain(it.cache.result ?? it.cache.verdict ?? ""), plain(it.cache.reason ?? "")].filter(Boolean).join(", ")],
      ["Expected", p && `first token after ${ms(p.ttft_ms)} (p90 ${ms(p.ttft_p90_ms)}), then ${ms(p.tpot_ms)} a token, about ${count(p.output_tokens)} of them`],
      ["Cost", known(price) && `about $${Number(price).toPrecision(2)}`],
      ["Passed over", e?.passed_over?.map((one) => `${one.route} (${one.because})`).join(", ")],
      ["Without backends", it.without_backends?.join(", ")],
    ]),
    ...(it.pools ?? []).flatMap((attempt, at) => [el("h3", "", `${at ? `If that fails or is full: ${attempt.pool}` : attempt.pool} → ${attempt.backend ?? none}`), candidates(attempt, `Candidates in ${attempt.pool}`)]),
  ];
}
