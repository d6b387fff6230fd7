// One decision, told in words, drawn as a waterfall, with every candidate; or two beside each other.

async function openDecision(id) {
  const ids = id.split(",").slice(0, 2);
  sheet(`Request ${ids.join(" and ")}`, [el("p", "soft", "Asking the gateway …")]);
  const lines = await Promise.all(ids.map((one) => ask(`/admin/decisions/${encodeURIComponent(one)}`)));
  if (decodeURIComponent(location.hash.slice(1)) !== id) return;
  const problem = lines.find((it) => it.problem);
  if (problem) return sheet(`Request ${ids.join(" and ")}`, [el("p", "bad", problem.problem)]);
  if (lines.length === 2) return sheet("Two decisions", compared(lines.map((it) => it.body)));
  const link = button("Copy link", () => navigator.clipboard?.writeText(location.href).then(() => toast("Link copied"), () => toast("The browser does not allow it: copy the address", "bad")));
  sheet(`Request ${id}`, told(lines[0].body), [link, button("Compare …", () => {
    $("detail").close();
    compareWith(id);
  })]);
}

/** The course of a request in sentences. */
function story(line) {
  const e = line.explained, reused = line.reused, a = line.admission, answered = line.attempts[line.answered] ?? line.attempts.at(-1);
  const said = [`${line.key ? `Key ${line.key}` : "A caller without a key"} asked for ${line.model ?? "no model"} (${plain(line.endpoint)}${line.stream ? ", streamed" : ""}), with about ${count(line.estimated_prompt_tokens)} prompt tokens.`];
  if (line.route) said.push(`Route ${line.route} took it${e?.passed_over?.length ? `, after ${e.passed_over.map((it) => `${it.route} (${it.because})`).join(", ")} did not` : ""}.`);
  if (e?.tier) said.push(`Its complexity is ${digits(e.complexity?.score ?? 0, 2)}${known(e.tier.bar) ? `, the bar of the next tier ${digits(e.tier.bar, 2)}` : ""}: tier ${e.tier.tier + 1}, by ${plain(e.tier.reason)}.`);
  if (reused) said.push(reused.result === "hit" ? `The cache had the answer${known(reused.age_s) ? `, ${ago(reused.age_s)} old` : ""}.` : `The cache did not answer it: ${plain(reused.reason ?? reused.result)}.`);
  if (a) said.push(a.queued ? `It waited ${ms(a.waited_ms)} in the queue of pool ${a.pool}.` : `Pool ${a.pool} had room at once.`);
  for (const attempt of line.attempts) {
    const c = attempt.candidates?.find((it) => it.backend === attempt.backend);
    said.push(`${attempt.backend} was chosen from ${several(attempt.candidates?.length ?? 1, "candidate")} by ${plain(attempt.reason)}${c ? `: ${count(c.uncached_tokens)} prompt tokens to compute there, ${count(c.cached_tokens)} in its cache` : ""}.`
      + (attempt.outcome === "ok" ? "" : ` It came to ${plain(attempt.outcome ?? "nothing")}.`));
  }
  if (answered && known(answered.ttft_ms)) said.push(`The first token came after ${ms(answered.ttft_ms)} upstream, where ${ms(answered.predicted.ttft_ms)} was predicted${known(line.tpot_ms) ? `; the rest followed at ${ms(line.tpot_ms)} a token${line.gaps?.long ? `, with ${several(line.gaps.long, "gap")} of up to ${ms(line.gaps.largest_ms)}` : ""}` : ""}.`);
  said.push(`It ended after ${ms(line.e2e_ms)}: ${line.status || none} ${plain(line.outcome)}${known(line.cost_usd) ? `, for $${Number(line.cost_usd).toPrecision(3)}` : ""}.`);
  return el("p", "story", said.join(" "));
}

/** Parts of the request's time: `[name, what, from, to]` in milliseconds. */
function parts(line) {
  const end = line.e2e_ms ?? 0, rows = [];
  const first = line.attempts[0]?.began_ms ?? end, waited = line.admission?.waited_ms ?? 0;
  rows.push(["Gateway", "gateway", 0, Math.max(0, first - waited)]);
  if (waited > 0) rows.push(["Queue", "queue", first - waited, first]);
  line.attempts.forEach((attempt, at) => {
    const name = `${line.attempts.length > 1 ? `${at + 1} ` : ""}${attempt.backend}${/hedge/.test(attempt.reason) ? " (hedge)" : ""}`;
    const to = attempt.ended_ms ?? end, token = known(attempt.ttft_ms) ? Math.min(to, attempt.began_ms + attempt.ttft_ms) : null;
    const lost = attempt.outcome !== "ok" || (line.answered !== null && line.answered !== undefined && at !== line.answered);
    if (token === null) rows.push([name, lost ? "failed" : "prefill", attempt.began_ms, to]);
    else rows.push([`${name}: prefill`, lost ? "failed" : "prefill", attempt.began_ms, token], [`${name}: decode`, lost ? "failed" : "decode", token, to]);
  });
  return rows;
}
function waterfall(line) {
  const whole = Math.max(1e-6, line.e2e_ms ?? 0, ...parts(line).map((part) => part[3]));
  return el("ol", "waterfall", ...parts(line).map(([name, kind, from, to]) => {
    const bar = el("i", kind);
    bar.style.left = `${from / whole * 100}%`;
    bar.style.width = `${Math.max(.3, (to - from) / whole * 100)}%`;
    return el("li", "", el("span", "", name), el("span", "track", bar), el("b", "", ms(to - from)), el("small", "", `at ${ms(from)}`));
  }));
}

function facets(line) {
  const e = line.explained, reused = line.reused, a = line.admission;
  const score = e?.complexity && `${digits(e.complexity.score, 3)}${Object.keys(e.complexity.reasons).length ? `: ${Object.entries(e.complexity.reasons).map(([what, by]) => `${what} ${by > 0 ? "+" : ""}${digits(by, 3)}`).join(", ")}` : ""}`;
  return [
    ["Asked for", `${line.model ?? none} · ${plain(line.endpoint)}${line.stream ? ", streamed" : ""}${line.key ? ` · key ${line.key}` : ""}`],
    ["At", new Date(line.time_ms).toLocaleString("en-GB")],
    ["Prompt", `${count(line.prompt_bytes)} bytes, about ${count(line.estimated_prompt_tokens)} tokens`],
    ["Route", line.route],
    ["Passed over", e?.passed_over?.map((it) => `${it.route} (${it.because})`).join(", ")],
    ["Too small", e?.too_small?.join(", ")],
    ["Over budget", e?.over_budget?.join(", ")],
    ["Complexity", score],
    ["Tier", e?.tier && `${e.tier.tier + 1}, by ${plain(e.tier.reason)}; bar ${known(e.tier.bar) ? digits(e.tier.bar, 3) : none}, share of the largest lately ${percent(e.tier.share)}`],
    ["By length", e?.length && `${e.length.long ? "long" : "short"}: the boundary was at ${count(e.length.boundary)} tokens`],
    ["Cache", reused && [plain(reused.result), plain(reused.reason ?? ""), known(reused.age_s) ? `${ago(reused.age_s)} old` : ""].filter(Boolean).join(", ")],
    ["Admission", a && `${plain(a.result)} to ${a.pool}${a.queued ? `, after ${ms(a.waited_ms)} in the queue` : ""}`],
    ["Cascade", line.cascade && [plain(line.cascade.result), line.cascade.check].filter(Boolean).join(": ")],
    ["Attempts", line.attempts.map((it) => `${it.pool} → ${it.backend}, ${plain(it.reason)}: ${plain(it.outcome ?? "nothing")}`).join("; ")],
    ["Outcome", `${line.status || none} ${plain(line.outcome)}`],
    ["TTFT", ms(line.ttft_ms)], ["TPOT", ms(line.tpot_ms)],
    ["Gaps", line.gaps && `the largest ${ms(line.gaps.largest_ms)}; ${count(line.gaps.long)} of ${count(line.gaps.count)} over 150 ms`],
    ["Whole", ms(line.e2e_ms)],
    ["Our own part", known(line.overhead_us) && `${digits(line.overhead_us, 0)} µs`],
    ["Tokens", line.usage && `${count(line.usage.prompt_tokens)} in (${count(line.usage.cached_tokens ?? 0)} cached), ${count(line.usage.completion_tokens)} out`],
    ["Cost", known(line.cost_usd) && `$${Number(line.cost_usd).toPrecision(3)}`],
  ];
}
function told(line) {
  const facts = list(facets(line).filter(([name]) => name !== "Attempts"));
  facts.classList.add("facets");
  return [story(line), waterfall(line), facts, ...line.attempts.flatMap((attempt, at) => attempted(attempt, at, at === line.answered))];
}
/** Two decisions; what differs is marked. */
function compared(lines) {
  const [a, b] = lines.map((line) => facets(line));
  const table = el("table", "compared", el("thead", "", el("tr")), el("tbody"));
  heads(table.querySelector("tr"), [[""], ...lines.map((line) => [line.id])]);
  a.forEach(([name, value], at) => {
    const other = b[at][1];
    if (!value && !other) return;
    table.lastChild.append(el("tr", value === other ? "" : "differs", el("th", "", name), el("td", "", value || none), el("td", "", other || none)));
  });
  return [scrolling("Two decisions", table), ...lines.flatMap((line) => [el("h3", "", line.id), story(line), waterfall(line)])];
}

const CANDIDATE = [
  ["Backend", (c) => c.backend], ["Cost", (c) => known(c.cost) ? Number(c.cost).toPrecision(4) : none, "What it would have cost there, in the strategy's unit: the lowest is taken"],
  ["TTFT · p90", (c) => `${ms(c.ttft_ms)} · ${ms(c.ttft_p90_ms)}`, "Predicted: the median, and what 9 of 10 would not exceed"], ["Kept", (c) => percent(c.attainment, 0), "The chance that the request's limits are kept there"],
  ["In flight", (c) => c.foreign ? `${c.in_flight} + ${c.foreign}` : count(c.in_flight), "Ours, and those of others"], ["Decoding", (c) => count(c.decoding), "Requests there that are past their first token"],
  ["Queued", (c) => count(c.queued_tokens), "Prompt tokens waiting there"], ["To compute", (c) => count(c.uncached_tokens), "Prompt tokens of this request that are not cached there"],
  ["Cached", (c) => count(c.cached_tokens), "prefix"], ["Over", (c) => count(c.overflow_tokens), "Tokens by which its KV cache will be too small, and the wait for one of its slots, in prompt tokens"],
  ["Busy", (c) => percent(c.utilisation, 0), "The share of its time that prompts take"], ["Speed", (c) => times(c.speed), "How many times as long as elsewhere things take"],
  ["", (c) => [known(c.weight) ? `fixed ${percent(c.weight)}` : "", c.avoided ? "avoided" : ""].filter(Boolean).join(", ")],
];
function candidates(attempt, label) {
  const table = el("table", "candidates", el("thead", "", el("tr")), el("tbody"));
  heads(table.querySelector("tr"), CANDIDATE.map(([name, , help], at) => [name, at ? "number" : "", help]));
  const order = (c) => known(c.cost) ? c.cost : Infinity;
  for (const c of [...(attempt.candidates ?? [])].sort((a, b) => order(a) - order(b))) {
    const isChosen = c.backend === attempt.backend;
    table.lastChild.append(el("tr", isChosen ? "chosen" : "", ...CANDIDATE.map(([, of], at) => el("td", at ? "number" : "", `${of(c)}${isChosen && !at ? " ◂ chosen" : ""}`))));
  }
  return scrolling(label, table);
}
function attempted(attempt, at, answered) {
  const p = attempt.predicted;
  return [
    el("h3", "", `Attempt ${at + 1}: ${attempt.pool} → ${attempt.backend}, ${plain(attempt.reason)}${answered ? "; it answered" : ""}`),
    list([
      ["Came to", attempt.outcome && `${plain(attempt.outcome)}${known(attempt.ttft_ms) ? `, first token after ${ms(attempt.ttft_ms)}` : ""} (predicted ${ms(p.ttft_ms)}, p90 ${ms(p.ttft_p90_ms)})`],
      ["Expected", `${count(p.prompt_tokens)} prompt tokens, ${count(p.cached_tokens)} of them cached; ${count(p.output_tokens)} out (p90 ${count(p.output_tokens_p90)}), each in ${ms(p.tpot_ms)}`],
      ["Had no room", attempt.full?.join(", ")],
    ]),
    candidates(attempt, `Candidates of attempt ${at + 1}`),
  ];
}
