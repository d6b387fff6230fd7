// The first screen: verdict, totals, what the charts draw, and error budgets.

const TROUBLES = 2; // on the first screen; the rest when asked for
let allTroubles = false;
function verdict(state) {
  const { level, troubles } = state.health;
  cls($("verdict"), `verdict ${level}`);
  const backends = state.pools.reduce((sum, pool) => sum + pool.backends.length, 0);
  const well = state.requests.total ? `All is well: ${several(backends, "backend")} up, every budget holds` : `Ready: ${several(backends, "backend")}, no traffic yet`;
  text($("verdict-title"), troubles.length ? `${level === "bad" ? "Not well: " : ""}${several(troubles.length, "thing")} to look at` : well);
  keyed($("troubles"), allTroubles ? troubles : troubles.slice(0, TROUBLES), (it) => it.words, () => el("li", "", el("b"), " ", el("span")), (node, it) => {
    cls(node, it.level);
    text(node.firstChild, it.level === "bad" ? "Bad" : "Look");
    text(node.lastChild, it.words);
  });
  const more = $("troubles-more");
  more.hidden = troubles.length <= TROUBLES;
  text(more, allTroubles ? "The worst alone" : `${troubles.length - TROUBLES} more`);
  document.title = `${troubles.length ? `(${troubles.length}) ` : ""}Signalbox${state.simulated ? " (simulated)" : ""}`;
}
$("troubles-more").addEventListener("click", () => {
  allTroubles = !allTroubles;
  if (last) verdict(last);
});

function facts(state) {
  const backends = state.pools.flatMap((pool) => pool.backends);
  const sum = (all, of) => all.reduce((total, it) => total + (of(it) ?? 0), 0);
  const queued = sum(state.pools, (pool) => pool.queue?.depth);
  const oldest = Math.max(0, ...state.pools.map((pool) => pool.queue?.oldest_s ?? 0));
  const shown = [
    ["Requests per second", rate(state.requests.per_second), `${count(state.requests.total)} so far`],
    ["In flight", count(state.in_flight), `${count(sum(backends, (b) => b.decoding))} past the first token`],
    ["Waiting here", count(queued), queued ? `oldest ${seconds(oldest)}` : `${count(sum(backends, (b) => b.signals?.waiting))} at engines`],
    ["Output tokens per second", rate(sum(backends, (b) => b.tokens_per_s)), ""],
    ["Cost per hour", money(state.cost?.usd_per_hour), state.cost ? "" : "no prices set"],
    ["Per million output tokens", money(state.cost?.usd_per_million_output), ""],
  ];
  keyed($("facts"), shown, (fact) => fact[0], (fact) => el("div", "", el("dt", "", fact[0]), el("dd", "", el("span"), el("small"))), (node, fact) => {
    text(node.lastChild.firstChild, fact[1]);
    text(node.lastChild.lastChild, fact[2]);
  });
}

// === What the charts draw

let percentile = "p95";
const poolNames = () => [...new Set([...(last?.pools ?? []).map((pool) => pool.name), ...Object.keys(series.history?.pools ?? {})])];
const stateOf = (name) => last?.pools.find((pool) => pool.name === name);
/** The objective on the percentile that is drawn, where the pool has one. */
function objectiveOf(pool) {
  const target = pool?.objective_ttft_target ?? .95;
  return percentile === (target >= .97 ? "p99" : target >= .75 ? "p95" : "p50") ? pool?.objective_ttft_ms : null;
}
defineChart("ttft", ms, () => poolNames().map((name) => ({
  name, column: ["pools", name, "ttft_ms", percentile], objective: objectiveOf(series.history?.pools?.[name]),
  help: `Pool ${name}: ${percentile} of the time to first token. A click draws it or leaves it out.`,
})));
const CACHES = { exact: "Exact", semantic: "Semantic", prefix: "Prefix" };
defineChart("hits", (x) => percent(known(x) ? x : null, 0), () => {
  const told = new Set([...(last?.cache?.tiers ?? []).map((it) => it.tier), ...(last?.prefix ? ["prefix"] : []), ...Object.keys(series.history?.cache ?? {})]);
  return [...told].map((name) => ({ name, title: CACHES[name] ?? name, column: ["cache", name, "hit_ratio"], help: TERMS[name] }));
}, { top: 1 });
defineChart("rate", (x) => (known(x) ? `${rate(x)}/s` : none), () => poolNames().map((name) => ({
  name, column: ["pools", name, "requests_per_s"], now: percent(stateOf(name)?.recent_share), help: `Pool ${name}: requests per second, where there are points every five seconds as the mean of half a minute; and now its share of the answers of the last minute.`,
})), { stacked: true, smooth: 6, least: 1 });
defineChart("queue", (x) => count(known(x) ? Math.round(x * 10) / 10 : null), () => poolNames().map((name) => ({
  name, column: ["pools", name, "queue"], help: `Pool ${name}: requests that wait in the gateway for room.`,
})), { counts: true, least: 2 });
for (const p of ["p50", "p95", "p99"]) {
  const button = explains(el("button", "", p), p);
  button.type = "button";
  button.setAttribute("aria-pressed", p === percentile);
  button.addEventListener("click", () => {
    percentile = p;
    for (const other of $("quantile").children) other.setAttribute("aria-pressed", other === button);
    drawCharts();
  });
  $("quantile").append(button);
}

// === Objectives and their error budgets

const WORST = { exhausted: 0, burning: 1, missing: 2, ok: 3 };
const BUDGETS = 5; // on the first screen
function standings(state) {
  const of = (kind, all) => (all ?? []).flatMap((it) => (it.slo ?? []).map((slo) => ({ ...slo, where: it.name, kind })));
  const all = [...of("pool", state.pools), ...of("route", state.routes)];
  return all.sort((a, b) => WORST[a.state] - WORST[b.state] || a.budget_left - b.budget_left || b.burn["1h"] - a.burn["1h"]);
}
const budgetTone = (it) => (it.total ? { exhausted: "bad", burning: "warn", missing: "warn", ok: "good" }[it.state] ?? "" : "soft");
function budgets(state) {
  const all = standings(state), asked = all.filter((it) => it.total);
  text($("budgets-note"), asked.length ? `${asked.filter((it) => it.state === "ok").length} of ${asked.length} hold` : "");
  $("budgets-none").hidden = all.length > 0;
  $("objectives-panel").hidden = !all.length;
  const key = (it) => `${it.kind} ${it.where} ${it.objective}`;
  keyed($("budgets"), all.slice(0, BUDGETS), key, budgetNode, budgetUpdate);
  keyed($("objectives"), all, key, objectiveNode, objectiveUpdate);
}
const budgetNode = () => el("li", "", el("span", "name", el("b"), " ", el("span")), el("span", "number"), el("span", "budget", el("i")), el("small"));
function budgetUpdate(node, it) {
  const [name, left, bar, small] = node.children;
  text(name.firstChild, it.where);
  text(name.lastChild, objective(it.objective));
  name.title = `${it.kind} ${it.where}: ${objective(it.objective)}`;
  text(left, it.total ? `${percent(Math.max(0, it.budget_left), 0)} left` : "no traffic");
  cls(left, `number ${it.state === "ok" ? "" : budgetTone(it)}`);
  width(bar.firstChild, it.total ? it.budget_left : 0);
  cls(bar.firstChild, it.state === "ok" ? "" : budgetTone(it));
  text(small, it.total ? `kept ${percent(it.good / it.total, 1)} of ${percent(it.target, it.target > .99 ? 1 : 0)} · burn 1 h ${times(it.burn["1h"])}${it.state === "ok" ? "" : ` · ${it.state}`}` : `to keep: ${percent(it.target, it.target > .99 ? 1 : 0)}`);
}
heads($("objectives-head"), [["Objective"], ["State"], ["Kept · target", "number", "The share of requests that kept it, since the gateway counts; and the share that is to"],
  ["Burn 5 min", "number wide", "burn"], ["1 h", "number", "burn"], ["6 h", "number wide", "burn"], ["Window", "number wide", "burn"], ["Budget left", "number", "budget"]]);
function objectiveNode() {
  const burn = (label, more = "") => cell(`number ${more}`, label);
  return el("tr", "", cell("whole", "", el("span"), " ", el("small")), cell("", "State"), cell("number", "Kept · target"), burn("Burn 5 min", "wide"), burn("Burn 1 h"),
    burn("Burn 6 h", "wide"), burn("Burn window", "wide"), cell("number", "Left"));
}
function objectiveUpdate(row, it) {
  const [who, state, kept, five, hour, six, days, left] = row.children;
  text(who.firstChild, objective(it.objective));
  text(who.lastChild, `${it.kind} ${it.where}`);
  cls(state, budgetTone(it));
  text(state, it.total ? it.state : "no traffic");
  text(kept, `${it.total ? percent(it.good / it.total, 1) : none} · ${percent(it.target, it.target > .99 ? 1 : 0)}`);
  for (const [node, span] of [[five, "5m"], [hour, "1h"], [six, "6h"], [days, Object.keys(it.burn).at(-1)]]) {
    text(node, it.total ? times(it.burn[span]) : none);
    cls(node, `number ${span === "1h" ? "" : "wide"} ${it.burn[span] > 1 && it.state !== "ok" ? budgetTone(it) : ""}`);
  }
  text(left, it.total ? percent(it.budget_left, 0) : none);
}
