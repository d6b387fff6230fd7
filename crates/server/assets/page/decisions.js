// Decisions: the gateway's search over those it remembers, or, where it has none, a filter over the last ones.

heads($("log-head"), [["Ended", "number"], ["Model"], ["Way"], ["Why", "wide"], ["Outcome"], ["TTFT", "number", "ttft"], ["Predicted", "number", "foreseen"],
  ["TPOT", "number wide", "tpot"], ["Whole", "number"], ["Tokens in → out", "number wide"], ["Cost", "number wide"]]);
const PAGE = 100; // decisions of one answer
const LISTED = 500; // at most in the list
const log = { all: [], at: 0, more: false, searches: true, held: false, looking: false, older: false, timer: 0, turn: 0 };

/** One form for a line of the state and for a whole decision. */
function briefly(d, now = nowS() * 1e3) {
  if (!d.explained && !Array.isArray(d.attempts)) return d;
  const answered = d.attempts?.[d.answered ?? d.attempts.length - 1];
  return {
    id: d.id, age_s: Math.max(0, (now - d.time_ms) / 1e3), model: d.model, key: d.key, route: d.route, pool: answered?.pool, backend: answered?.backend, reason: answered?.reason, cache: d.reused?.result,
    status: d.status, outcome: d.outcome, attempts: d.attempts?.length ?? 0, ttft_ms: d.ttft_ms, predicted_ttft_ms: answered?.predicted?.ttft_ms, tpot_ms: d.tpot_ms, e2e_ms: d.e2e_ms,
    prompt_tokens: d.usage?.prompt_tokens, completion_tokens: d.usage?.completion_tokens, cost_usd: d.cost_usd,
  };
}
function wantedDecisions() {
  const [q, pool, outcome, least] = ["filter", "filter-pool", "filter-outcome", "filter-ms"].map((id) => $(id).value.trim());
  return { q, pool, outcome, min_ms: least };
}
function matches(d, wanted) {
  const hay = [d.id, d.model, d.key, d.route, d.pool, d.backend, d.reason, d.cache, d.status, d.outcome, plain(d.reason ?? ""), plain(d.outcome)].join(" ").toLowerCase();
  return wanted.q.toLowerCase().split(/\s+/).every((word) => hay.includes(word)) && (!wanted.pool || d.pool === wanted.pool)
    && (!wanted.outcome || d.outcome === wanted.outcome) && (!wanted.min_ms || d.e2e_ms >= Number(wanted.min_ms));
}
async function askDecisions({ before } = {}) {
  clearTimeout(log.timer);
  if ($("view-decisions").hidden) return;
  const wanted = wantedDecisions(), query = new URLSearchParams(Object.entries({ ...wanted, before: before ?? "", limit: PAGE }).filter(([, value]) => value !== ""));
  const turn = log.turn; // what was asked before a hold does not change the list after it
  if (log.searches) {
    const { body, status } = await ask(`/admin/decisions?${query}`);
    if (status === 400 || status === 404 || Array.isArray(body)) log.searches = false;
    else if (body && JSON.stringify(wanted) === JSON.stringify(wantedDecisions()) && turn === log.turn) took(body.decisions.map((d) => briefly(d)), body.more, before);
  }
  if (!log.searches && last && turn === log.turn) {
    const old = new Map(log.all.map((d) => [d.id, { ...d, age_s: d.age_s + (performance.now() - log.at) / 1e3 }]));
    took([...last.decisions, ...[...old.values()].filter((d) => !last.decisions.some((it) => it.id === d.id))].slice(0, LISTED), false);
  }
  log.timer = setTimeout(() => !log.held && !log.looking && !log.older && !paused && askDecisions(), 2_000);
}
function took(all, more, before) {
  log.all = before ? [...log.all, ...all].slice(0, LISTED) : all;
  log.older = Boolean(before);
  log.more = more && log.all.length < LISTED;
  log.at = performance.now();
  showDecisions();
}

function decisionNode() {
  const number = (label, more = "") => cell(`number ${more}`, label);
  const open = el("button");
  open.type = "button";
  open.tabIndex = -1;
  return el("tr", "", cell("number age", "Ended"), cell("", "Model", open), cell("way whole", ""), cell("why wide", ""), cell("", "Outcome", el("span")), number("TTFT"), number("Predicted"),
    number("TPOT", "wide"), number("Whole"), number("Tokens", "wide"), number("Cost", "wide"));
}
function decisionUpdate(row, d) {
  const [age, model, way, why, outcome, ttft, predicted, tpot, whole, tokens, cost] = row.children;
  text(age, `${ago(Math.max(0, d.age_s - (d.e2e_ms ?? 0) / 1e3 + (performance.now() - log.at) / 1e3))} ago`);
  text(model.firstChild, d.model ?? none);
  model.firstChild.title = `Request ${d.id}: all candidates and their terms`;
  const stops = [d.route, d.pool, d.backend].filter((stop, at, all) => stop && stop !== all[at - 1]);
  text(way, stops.join(" → ") || none);
  way.title = way.textContent;
  text(why, [d.reason ?? d.cache, d.attempts > 1 ? `${d.attempts} attempts` : "", d.key ? `key ${d.key}` : ""].filter(Boolean).map(plain).join(", "));
  text(outcome.firstChild, d.status === 200 && d.outcome === "ok" ? "ok" : `${d.status || none} ${plain(d.outcome)}`);
  cls(outcome.firstChild, d.outcome === "ok" ? "good" : d.outcome === "client_gone" ? "warn" : "bad");
  figure(ttft, ms(d.ttft_ms));
  figure(predicted, ms(d.predicted_ttft_ms));
  figure(tpot, ms(d.tpot_ms));
  figure(whole, ms(d.e2e_ms));
  text(tokens, `${count(d.prompt_tokens)} → ${count(d.completion_tokens)}`);
  text(cost, known(d.cost_usd) ? `$${Number(d.cost_usd).toPrecision(2)}` : none);
}
function showDecisions() {
  const wanted = wantedDecisions();
  const shown = log.searches ? log.all : log.all.filter((d) => matches(d, wanted));
  keyed($("decisions"), shown, (d) => d.id, decisionNode, decisionUpdate);
  // One row is a stop for Tab; the arrows go on from there.
  const buttons = [...$("decisions").querySelectorAll("button")];
  if (buttons.length && !buttons.some((it) => it.tabIndex === 0)) buttons[0].tabIndex = 0;
  const filtered = Object.values(wanted).some(Boolean);
  $("none").hidden = shown.length > 0;
  text($("none-words"), filtered ? "No decision that is remembered matches." : "No requests yet. Send one:");
  $("try").hidden = filtered;
  $("older").hidden = !log.more;
  text($("log-note"), log.held ? "held" : log.older ? "stands still: older ones are listed" : log.looking ? "stands still while you are in it" : `${several(shown.length, "decision")}; Enter or a click opens one`);
}
function tryIt(state) {
  const key = state.asks_keys ? " -H 'Authorization: Bearer YOUR-KEY'" : "";
  const body = JSON.stringify({ model: state.model ?? "auto", stream: true, messages: [{ role: "user", content: "Hello!" }] });
  text($("try"), `curl -N ${state.api}/v1/chat/completions${key} -H 'Content-Type: application/json' -d '${body}'`);
}
/** The pools to choose from; what was chosen stays. */
function choices(state) {
  const options = (id, all) => {
    if ($(id).dataset.of === all.join()) return;
    const old = $(id).value;
    $(id).dataset.of = all.join();
    $(id).replaceChildren(...all.map((it) => Object.assign(el("option", "", it === "" ? { "filter-pool": "Any pool", "filter-outcome": "Any outcome" }[id] : plain(it)), { value: it })));
    $(id).value = all.includes(old) ? old : "";
  };
  options("filter-pool", ["", ...state.pools.map((pool) => pool.name)]);
  options("filter-outcome", ["", ...new Set(["ok", "client_gone", "upstream_error", "timeout", "refused", ...log.all.map((d) => d.outcome)])]);
}
function walk(event) {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, Home: -Infinity, End: Infinity }[event.key];
  if (!step || !event.target.matches("button")) return;
  event.preventDefault();
  const buttons = [...$("decisions").querySelectorAll("button")];
  const to = Math.min(buttons.length - 1, Math.max(0, buttons.indexOf(event.target) + step));
  event.target.tabIndex = -1;
  buttons[to].tabIndex = 0;
  buttons[to].focus();
}
const look = (value) => () => {
  log.looking = value || $("decisions").contains(document.activeElement) || $("decisions").matches(":hover") || $("detail").open;
  showDecisions();
  if (!log.looking && !log.held && !log.older) askDecisions();
};
$("decisions").addEventListener("keydown", walk);
$("decisions").addEventListener("focusin", look(true));
$("decisions").addEventListener("pointerenter", look(true));
$("decisions").addEventListener("focusout", () => setTimeout(look(false)));
$("decisions").addEventListener("pointerleave", look(false));
$("decisions").addEventListener("click", (event) => {
  const row = event.target.closest("tr");
  if (row) location.hash = log.compared && log.compared !== row.dataset.key ? `${log.compared},${row.dataset.key}` : row.dataset.key;
});
let typing = 0;
for (const [id, kind] of [["filter", "input"], ["filter-ms", "input"], ["filter-pool", "change"], ["filter-outcome", "change"]]) $(id).addEventListener(kind, () => {
  clearTimeout(typing);
  if (!log.searches) showDecisions();
  typing = setTimeout(askDecisions, 150);
});
$("filter-form").addEventListener("submit", (event) => event.preventDefault());
$("older").addEventListener("click", () => askDecisions({ before: log.all.at(-1)?.id }));
$("hold").addEventListener("click", () => {
  log.held = !log.held;
  log.turn += 1;
  $("hold").setAttribute("aria-pressed", log.held);
  text($("hold"), log.held ? "Go on" : "Hold");
  showDecisions();
  if (!log.held) {
    log.older = false;
    askDecisions();
  }
});
function compareWith(id) {
  log.compared = id;
  $("compare").hidden = !id;
  if (!id) return;
  text($("compare").firstChild, `Comparing with ${id}: open another decision.`);
  location.hash = "#/decisions";
}
$("compare").lastElementChild.addEventListener("click", () => compareWith(null));
