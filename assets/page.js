"use strict";
const $ = (id) => document.getElementById(id);
const SPAN = 300_000; // how far traces go back
const STEP = 2_000; // time between two of their points: with SPAN it bounds what is remembered
const SHORTEST = 20_000; // what a young trace is stretched over
const SILENCE = 4_000; // updates come every second
const AGAIN = 1_500; // pause before the gateway is asked again
const UNSEEN = 60_000; // a page that nobody looks at stops listening

// === How values are written. Text only ever reaches the page as text, never as markup.

const none = "–";
const known = (x) => x !== null && x !== undefined && Number.isFinite(Number(x));
const digits = (x, n) => Number(x).toLocaleString("en", { minimumFractionDigits: n, maximumFractionDigits: n });
const count = (x) => !known(x) ? none : x >= 1e6 ? `${digits(x / 1e6, 1)} M` : x >= 1e4 ? `${digits(x / 1e3, 1)} k` : digits(x, 0);
const rate = (x) => !known(x) ? none : digits(x, x < 10 ? 1 : 0);
const percent = (x, n = x > 0 && x < .1 ? 1 : 0) => !known(x) ? none : `${digits(x * 100, n)} %`;
const ms = (x) => !known(x) ? none : x < 10 ? `${digits(x, 1)} ms` : x < 999.5 ? `${digits(x, 0)} ms` : x < 59_500 ? `${digits(x / 1e3, 2)} s` : ago(x / 1e3);
const seconds = (x) => known(x) ? ms(x * 1e3) : none;
const money = (x) => !known(x) ? none : x === 0 ? "$0" : x < .001 ? "< $0.001" : `$${digits(x, x < 1 ? 3 : 2)}`;
const bytes = (x) => !known(x) ? none : x >= 1e9 ? `${digits(x / 1e9, 1)} GB` : x >= 1e6 ? `${digits(x / 1e6, 1)} MB` : `${digits(x / 1e3, 0)} kB`;
const times = (x) => !known(x) ? none : `${digits(x, x < 10 ? 1 : 0)}×`;
const plain = (word) => String(word).replaceAll("_", " ");
const several = (n, one, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;
function ago(s) {
  if (!known(s)) return none;
  if (s < 60) return `${digits(s, 0)} s`;
  if (s < 3600) return `${digits(s / 60, 0)} min`;
  return s < 86_400 ? `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min` : `${Math.floor(s / 86_400)} d ${Math.floor(s % 86_400 / 3600)} h`;
}
/** `ttft_p95_under_512` as people say it. */
function objective(name) {
  const [what, rest] = name.split(/_(.*)/s);
  const words = (rest ?? "").replace("under_", "under ").replace("from_", "from ").replaceAll("_", ", ");
  const known = { ttft: "TTFT", tpot: "TPOT" }[what] ?? what[0].toUpperCase() + what.slice(1);
  return /under|from/.test(words) ? `${known} ${words} tokens` : `${known} ${words}`.trim();
}

// === A page that is changed in place, so that focus, selection and scrolling survive.

function el(tag, cls, ...children) {
  const node = document.createElement(tag);
  if (cls) node.className = cls;
  node.append(...children);
  return node;
}
function svg(tag, attrs = {}) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attrs)) node.setAttribute(key, value);
  return node;
}
function text(node, value) {
  if (node.textContent !== value) node.textContent = value;
}
function cls(node, value) {
  if (node.className !== value) node.className = value;
}
/** A number and its unit, the unit smaller. */
function figure(node, value) {
  if (node.dataset.shown === value) return;
  node.dataset.shown = value;
  const [, number, unit] = /^(.*?) (ms|s|M|k|%|min)$/.exec(value) ?? [null, value, ""];
  node.replaceChildren(number, ...(unit ? [el("span", "unit", unit)] : []));
}
function width(node, share) {
  node.style.width = `${Math.min(100, Math.max(0, (share ?? 0) * 100))}%`;
}
function keyed(parent, items, keyOf, create, update) {
  const old = new Map([...parent.children].filter((node) => node.dataset.key).map((node) => [node.dataset.key, node]));
  let at = parent.firstElementChild;
  while (at && !at.dataset.key) at = at.nextElementSibling;
  items.forEach((item, place) => {
    const key = keyOf(item);
    let node = old.get(key);
    old.delete(key);
    if (!node) {
      node = create(item);
      node.dataset.key = key;
    }
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
    update(node, item, place);
  });
  for (const node of old.values()) node.remove();
}
function cell(cls, label, ...children) {
  const node = el("td", cls, ...children);
  if (label) node.dataset.label = label;
  return node;
}
function heads(row, columns) {
  row.replaceChildren(...columns.map(([name, cls, title]) => {
    const head = el("th", cls, name);
    head.scope = "col";
    if (title) head.title = title;
    return head;
  }));
}

// === Traces: a point every two seconds, for five minutes.

const traces = new Map();
function trace(key, now, ...values) {
  const points = traces.get(key) ?? [];
  traces.set(key, points);
  if (!points.length || now - points.at(-1)[0] >= STEP - 250) points.push([now, ...values.map((x) => known(x) ? Number(x) : null)]);
  while (points.length && points[0][0] < now - SPAN) points.shift();
  return points;
}
function forgetTraces(now) {
  for (const [key, points] of traces) if (!points.length || points.at(-1)[0] < now - SPAN) traces.delete(key);
}
function sparkline() {
  const node = svg("svg", { class: "spark", viewBox: "0 0 100 26", preserveAspectRatio: "none", role: "img" });
  node.append(svg("line", { x1: 0, x2: 100, y1: 25, y2: 25 }));
  return node;
}
/** Draws the first values of `points` as a line, the second as a shade from the ground (or a dashed line, where they are predictions). */
function draw(node, points, now, what, predicted = false, write = seconds) {
  const top = Math.max(1e-9, ...points.flatMap((point) => point.slice(1)).filter(known));
  const span = Math.min(SPAN, Math.max(SHORTEST, now - (points[0]?.[0] ?? now)));
  const runs = (which) => {
    const all = [[]];
    for (const point of points) {
      if (point[which] === null || point[which] === undefined) all.push([]);
      else all.at(-1).push([100 - (now - point[0]) / span * 100, 25 - point[which] / top * 23].map((x) => x.toFixed(1)));
    }
    return all.filter((run) => run.length > 1);
  };
  const shade = (run) => svg("polygon", { points: `${run[0][0]},25 ${run.join(" ")} ${run.at(-1)[0]},25` });
  const line = (name) => (run) => svg("polyline", { points: run.join(" "), class: name });
  node.replaceChildren(node.firstChild, ...runs(2).map(predicted ? line("predicted") : shade), ...runs(1).map(line("seen")));
  node.setAttribute("aria-label", top > 1e-9 ? `${what}, last minutes: up to ${write(top)}` : `${what}: nothing yet`);
}

// === Is it well?

function verdict(state) {
  const { level, troubles } = state.health;
  cls($("verdict"), `verdict ${level}`);
  const backends = state.pools.reduce((sum, pool) => sum + pool.backends.length, 0);
  const well = state.requests.total ? `All is well: ${several(backends, "backend")} up, every budget holds` : `Ready: ${several(backends, "backend")}, no traffic yet`;
  text($("verdict-title"), troubles.length ? `${level === "bad" ? "Not well: " : ""}${several(troubles.length, "thing")} to look at` : well);
  keyed($("troubles"), troubles, (it) => it.words, () => el("li", "", el("b"), " ", el("span")), (node, it) => {
    cls(node, it.level);
    text(node.firstChild, it.level === "bad" ? "Bad" : "Look");
    text(node.lastChild, it.words);
  });
  document.title = `${troubles.length ? `(${troubles.length}) ` : ""}Signalbox${state.simulated ? " (simulated)" : ""}`;
}

const WORST = { exhausted: 0, burning: 1, ok: 2 };
const SHOWN = 5;
let allObjectives = false;
function objectives(state) {
  const of = (kind, all) => (all ?? []).flatMap((it) => (it.slo ?? []).map((slo) => ({ ...slo, where: `${kind} ${it.name}` })));
  const all = [...of("pool", state.pools), ...of("route", state.routes)];
  all.sort((a, b) => WORST[a.state] - WORST[b.state] || b.burn["1h"] - a.burn["1h"]);
  $("objectives-table").hidden = !all.length;
  $("objectives-none").hidden = all.length > 0;
  const asked = all.filter((it) => it.total);
  const kept = asked.filter((it) => it.state === "ok").length;
  text($("objectives-note"), asked.length ? `${kept} of ${asked.length} within budget` : "");
  $("objectives-all").hidden = all.length <= SHOWN;
  text($("objectives-all"), allObjectives ? "The worst alone" : `All ${all.length}`);
  const shown = allObjectives ? all : all.slice(0, SHOWN);
  keyed($("objectives"), shown, (it) => `${it.where} ${it.objective}`, objectiveNode, objectiveUpdate);
}
function objectiveNode() {
  const burn = (label, more = "") => cell(`number ${more}`, label);
  return el("tr", "", cell("whole", "", el("span"), " ", el("small")), cell("", "State"), cell("number", "Kept · target"), burn("Burn 5 m", "wide"), burn("Burn 1 h"),
    burn("Burn 6 h", "wide"), burn("Burn 3 d", "wide"), cell("number", "Left", el("span"), el("span", "budget", el("i"))));
}
function objectiveUpdate(row, it) {
  const [who, state, kept, five, hour, six, days, left] = row.children;
  text(who.firstChild, objective(it.objective));
  text(who.lastChild, it.where);
  const tone = it.total ? { exhausted: "bad", burning: "warn", ok: "good" }[it.state] ?? "" : "soft";
  cls(state, tone);
  text(state, it.total ? it.state : "no traffic");
  text(kept, `${it.total ? percent(it.good / it.total, 1) : none} · ${percent(it.target, it.target > .99 ? 1 : 0)}`);
  for (const [node, span] of [[five, "5m"], [hour, "1h"], [six, "6h"], [days, "3d"]]) {
    text(node, it.total ? times(it.burn[span]) : none);
    cls(node, `number ${span === "1h" ? "" : "wide"} ${it.burn[span] > 1 && tone !== "good" ? tone : ""}`);
  }
  text(left.firstChild, it.total ? percent(it.budget_left, 0) : none);
  left.lastChild.hidden = !it.total;
  width(left.querySelector("i"), it.budget_left);
  cls(left.querySelector("i"), tone === "good" ? "" : tone);
}
$("objectives-all").addEventListener("click", () => {
  allObjectives = !allObjectives;
  $("objectives-all").setAttribute("aria-expanded", allObjectives);
  if (last) objectives(last);
});

// === Where does traffic go?

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
const trend = $("trend").appendChild(sparkline());
function traffic(state, now) {
  const { pools } = state;
  draw(trend, trace("requests", now, state.requests.per_second, state.requests.per_second), now, "Requests per second", false, rate);
  const tone = (at) => at ? `tone-${Math.min(3, at)}` : "";
  const part = (pool) => pool.recent_share ?? 0;
  keyed($("stack"), pools, (pool) => pool.name, () => el("i"), (node, pool, at) => {
    cls(node, tone(at));
    width(node, part(pool));
    node.hidden = part(pool) === 0;
  });
  $("stack").setAttribute("aria-label", pools.map((pool) => `${pool.name} ${percent(pool.recent_share)}`).join(", "));
  keyed($("legend"), pools, (pool) => pool.name, () => el("li", "", el("i"), el("b"), el("span"), el("span", "soft"), el("span", "soft")), (node, pool, at) => {
    const [swatch, name, now, ever, cost] = node.children;
    cls(swatch, tone(at));
    text(name, pool.name);
    text(now, percent(pool.recent_share));
    text(ever, known(pool.share) ? `${percent(pool.share)} ever` : "");
    text(cost, pool.cost ? `${money(pool.cost.usd_per_hour)} / h` : "");
  });
}

// === How fast is it?

const COLUMNS = [["Pool, backend"], ["Share", "number", "Of a pool: of all answers of the last minute; of a backend: of its pool's requests since the start"],
  ["In flight", "number", "Requests of ours under way there"],
  ["Waiting", "number", "Of a pool: requests that wait here for room; of a backend: in its engine's own queue, and prompt tokens of ours not computed yet"],
  ["p50", "number"], ["p95", "number"], ["p99", "number"], ["trace", "trace"], ["p50", "number"], ["p95", "number"], ["p99", "number"], ["trace", "trace wide"],
  ["Tokens/s", "number", "Output tokens a second, over ten seconds"], ["KV used", "number", "Of the engine's KV cache"], ["Failed", "number", "Attempts that failed, since the start"]];
heads($("speed-head"), COLUMNS);
$("speed-columns").append(...COLUMNS.map(() => el("col")));

function speed(state, now) {
  keyed($("pools"), state.pools, (pool) => pool.name, poolNode, (body, pool) => {
    const [row, said] = body.children;
    poolUpdate(row, said.firstChild, pool, now);
    const rows = [...pool.backends, ...(pool.leaving ?? []).map((it) => ({ ...it, leaves: true }))];
    keyed(body, rows, (it) => (it.leaves ? `leaves\n${it.name}` : it.name), backendNode,
      (node, it) => (it.leaves ? leavingUpdate(node, it, pool) : backendUpdate(node, it, pool, now)));
  });
}
function speedRow(name) {
  const number = (label, more = "") => cell(`number ${more}`, label);
  return el("tr", name, cell("whole", "", el("div", "who")), cell("number", "Share", el("span"), el("span", "meter", el("i"))), number("In flight"), number("Waiting"),
    ...["p50", "p95", "p99"].map((p) => number(`TTFT ${p}`)), cell("trace", "", sparkline()), ...["p50", "p95", "p99"].map((p) => number(`TPOT ${p}`)),
    cell("trace wide", "", sparkline()), number("Tokens/s"), number("KV used"), number("Failed"));
}
function poolNode(pool) {
  const row = speedRow("pool");
  row.querySelector(".who").append(el("h3", "", pool.name));
  const said = cell("whole");
  said.colSpan = COLUMNS.length;
  return el("tbody", "", row, el("tr", "said", said));
}
function quantiles(cells, of) {
  ["p50", "p95", "p99"].forEach((p, at) => figure(cells[at], seconds(of?.[p])));
}
function poolUpdate(row, said, pool, now) {
  const [who, share, flight, waiting, t50, t95, t99, ttft, o50, o95, o99, tpot, tokens, , failed] = row.children;
  const sum = (of) => pool.backends.reduce((total, backend) => total + (of(backend) ?? 0), 0);
  figure(share.firstChild, percent(pool.recent_share));
  width(share.querySelector("i"), pool.recent_share);
  text(flight, count(sum((b) => b.in_flight)));
  text(waiting, count(pool.queue?.depth));
  cls(waiting, `number ${pool.queue?.depth > 0 ? "warn" : ""}`);
  quantiles([t50, t95, t99], pool.ttft);
  quantiles([o50, o95, o99], pool.tpot);
  draw(ttft.firstChild, trace(pool.name, now, pool.foreseen?.seen_s ?? pool.ttft?.p50, pool.foreseen?.predicted_s), now, "TTFT seen and predicted", true);
  draw(tpot.firstChild, trace(`${pool.name}\ntpot`, now, pool.tpot?.p50, pool.tpot?.p95), now, "TPOT");
  text(tokens, rate(sum((b) => b.tokens_per_s)));
  failures(failed, sum((b) => b.errors), sum((b) => b.requests));
  keyed(said, sayings(pool), (words) => words, () => el("span"), (node, words) => text(node, words));
}
/** Where a backend comes from, unless the policy names it. */
function origin(b) {
  return !b.origin || b.origin === "policy" ? "" : b.origin === "admin" ? "added by an operator" : b.origin;
}
/** A backend that gets no new requests. */
function leavingUpdate(row, b, pool) {
  const [who, share, flight] = row.children;
  cls(row, "backend leaving");
  width(share.querySelector("i"), 0);
  cls(who.querySelector(".lamp"), "lamp unknown");
  text(who.querySelector("strong"), b.name);
  const state = { draining: "DRAINING", drained: "drained by an operator", removed: "removed" }[b.state] ?? b.state;
  const since = known(b.for_s) ? `for ${ago(b.for_s)}` : "";
  const small = who.querySelector("small");
  text(small, [`${state} ${since}`.trim(), origin(b), b.model === b.name || oneModel(pool) ? "" : b.model].filter(Boolean).join(" · "));
  cls(small, b.state === "draining" ? "warn" : "");
  text(flight, count(b.in_flight));
}
/** The model of all its backends, where they have the same. */
function oneModel(pool) {
  const models = new Set(pool.backends.map((backend) => backend.model));
  return models.size === 1 ? [...models][0] : null;
}
/** What else there is to say of a pool, in words. */
function sayings(pool) {
  const { foreseen: f, diagnosis, cost } = pool;
  const kind = [oneModel(pool), pool.balance ? plain(pool.balance) : ""].filter(Boolean).join(", ");
  const native = (pool.speaks ?? []).filter((name) => name === "messages" || name === "responses");
  return [
    kind,
    native.length ? `serves ${native.join(" and ")} too` : "",
    diagnosis ? [diagnosis.state, diagnosis.words].filter(Boolean).join(": ") : "",
    known(pool.saturation) ? `saturation ${percent(pool.saturation, 0)}` : "",
    f ? `TTFT predicted ${seconds(f.predicted_s)}, seen ${seconds(f.seen_s)} upstream` : "",
    known(f?.error) ? `off by ${percent(f.error, 0)} on average, ${percent(f.coverage, 0)} within p90` : "",
    pool.hidden_queue_ms > 1 ? `hidden queue ${ms(pool.hidden_queue_ms)}` : "",
    cost ? `${money(cost.usd_per_hour)} per hour` : "",
    pool.backends.length ? "" : "no backends",
    known(cost?.usd_per_million_output) ? `${money(cost.usd_per_million_output)} per million output tokens` : "",
  ].filter(Boolean).concat(f || diagnosis || cost ? [] : ["nothing measured yet"]);
}
function failures(node, failed, all) {
  text(node, count(failed));
  cls(node, `number ${failed > 0 ? "bad" : ""}`);
  node.title = `${count(failed)} attempts failed; ${count(all)} requests ended here`;
}
function backendNode() {
  const row = speedRow("backend");
  row.querySelector(".who").append(el("span", "lamp", el("i"), el("i"), el("i")), el("div", "", el("strong"), el("small")));
  row.querySelector(".lamp").setAttribute("aria-hidden", "true");
  return row;
}
const BREAKER = { open: "left out after failures", half_open: "being tried again" };
function backendUpdate(row, b, pool, now) {
  const key = `${pool.name}\n${b.name}`;
  const [who, share, flight, waiting, t50, t95, t99, ttft, o50, o95, o99, tpot, tokens, kv, failed] = row.children;
  const state = ["up", "down"].includes(b.state) ? b.state : "unknown";
  const denied = b.credential, shut = denied && denied.refused === denied.of;
  const bad = state === "down" || shut;
  cls(row, `backend ${bad ? "down" : ""}`);
  cls(who.querySelector(".lamp"), `lamp ${bad ? "down" : denied ? "unknown" : state}`);
  text(who.querySelector("strong"), b.name);
  who.title = b.endpoints ? `its engine serves ${b.endpoints.join(", ") || "no known endpoint"}` : "";
  const s = b.signals;
  const stale = s?.age_s > 5 ? `gauges ${ago(s.age_s)} old` : "";
  const refused = denied ? `${shut ? "KEY REFUSED" : `${denied.refused} of ${denied.of} keys refused`} (${denied.status}) for ${ago(denied.for_s)}` : "";
  const words = [state === "up" ? "" : state === "down" ? "DOWN" : "not heard of yet", refused, BREAKER[b.breaker], b.model === b.name || oneModel(pool) ? "" : b.model, b.engine === b.name ? "" : `on ${b.engine}`, origin(b), stale];
  const small = who.querySelector("small");
  text(small, words.filter(Boolean).join(" · "));
  cls(small, bad ? "bad" : stale || denied || state === "unknown" || BREAKER[b.breaker] ? "warn" : "");
  figure(share.firstChild, percent(b.share));
  share.title = known(b.weight) ? `fixed at ${percent(b.weight)}` : "";
  width(share.querySelector("i"), b.share);
  text(flight, count(b.in_flight));
  text(waiting, `${count(s?.waiting)} · ${count(b.queued_tokens)} t`);
  cls(waiting, `number ${s?.waiting > 0 ? "warn" : ""}`);
  const gauges = s ? `${s.kind}: ${count(s.running)} running, ${count(s.waiting)} waiting, ${percent(s.prefix_hits)} of prompt tokens from its prefix cache; ${ago(s.age_s)} ago` : "the engine publishes no gauges";
  const g = b.gpus, d = s?.drafting;
  const more = [
    `${count(b.queued_tokens)} prompt tokens of ours queued`,
    g ? `${several(g.count, "GPU")} ${percent(g.utilisation, 0)} busy, memory ${percent(g.memory, 0)} full` : "",
    d ? `${percent(d.accept_ratio, 0)} of drafted tokens accepted` : "",
    known(b.round_trip_ms) ? `${ms(b.round_trip_ms)} there and back` : "",
  ].filter(Boolean);
  waiting.title = kv.title = [gauges, ...more].join("; ");
  quantiles([t50, t95, t99], b.ttft);
  quantiles([o50, o95, o99], b.tpot);
  t50.title = b.ttft ? `${several(b.ttft.count, "request")} in the last minute; the whole answer: p95 ${seconds(b.e2e?.p95)}` : "";
  draw(ttft.firstChild, trace(`${key}\nttft`, now, b.ttft?.p50, b.ttft?.p95), now, "TTFT");
  draw(tpot.firstChild, trace(`${key}\ntpot`, now, b.tpot?.p50, b.tpot?.p95), now, "TPOT");
  text(tokens, rate(b.tokens_per_s));
  figure(kv, percent(s?.kv_usage, 0));
  cls(kv, `number ${s?.kv_usage > .9 ? "warn" : ""}`);
  failures(failed, b.errors, b.requests);
}

// === Which tier, and is it what was wanted?

const TIER_COLUMNS = [["Route, tier"], ["Wanted", "number", "The share of requests that the policy wants here"],
  ["Belong here", "number", "By their prompts and their sessions: what shares are held on"], ["By prompt", "number wide", "By their prompts alone"],
  ["Sent", "number", "Where a tier fails, is full or has no budget left, its requests go elsewhere"], ["Up to", "number wide", "Where the next tier begins: a score with shares, else the quality that a dollar has to buy"],
  ["Requests", "number", "Sent here since the start"]];
heads($("tiers-head"), TIER_COLUMNS);
function tiers(state) {
  const routes = state.tiered ?? [];
  $("tiers-panel").hidden = !routes.length;
  keyed($("tiers"), routes, (it) => it.route, tieredNode, (body, it) => {
    const [head, said] = body.firstChild.firstChild.children;
    text(head, it.route);
    text(said, tieredWords(it));
    const tiers = it.standing.tiers.map((tier, at) => ({ ...tier, pool: it.pools[at], wanted: it.wanted[at], bar: it.standing.bars[at] })).filter((tier) => tier.pool);
    keyed(body, tiers, (tier) => tier.pool, tierNode, tierUpdate);
  });
}
function tieredNode() {
  const said = cell("whole", "", el("h3"), el("span", "soft"));
  said.colSpan = TIER_COLUMNS.length;
  return el("tbody", "", el("tr", "route", said));
}
function tieredWords({ aim, standing: s, learned }) {
  const labels = learned.feedback + learned.re_ask + learned.pairs;
  return [
    aim, several(s.decisions, "decision"), `expected quality ${digits(s.quality, 3)}${s.unreachable ? ", which is all there is" : ""}`, s.spend_hour > 0 ? `${money(s.spend_hour)} in the last hour` : "",
    s.sessions ? `${several(s.sessions, "session")}, moved ${several(s.flips, "time")}` : "", s.spilled ? `${count(s.spilled)} sent elsewhere` : "",
    labels ? `learned from ${several(labels, "label")}, weights bettered ${several(learned.promotions, "time")}` : "",
  ].filter(Boolean).join(" · ");
}
function tierNode() {
  const number = (label, more = "") => cell(`number ${more}`, label);
  return el("tr", "", cell("whole"), number("Wanted"), cell("number", "Belong here", el("span"), el("span", "meter", el("i"))), number("By prompt", "wide"), number("Sent"), number("Up to", "wide"), number("Requests"));
}
function tierUpdate(row, tier) {
  const [name, wanted, belongs, prompt, sent, bar, requests] = row.children;
  text(name, tier.pool);
  text(wanted, percent(tier.wanted, 1));
  text(belongs.firstChild, percent(tier.settled_share, 1));
  width(belongs.querySelector("i"), tier.settled_share);
  text(prompt, percent(tier.intended_share, 1));
  text(sent, percent(tier.served_share, 1));
  text(bar, known(tier.bar) ? Number(tier.bar).toPrecision(3) : none);
  text(requests, count(tier.served));
}

// === What is reused?

function reuse(state) {
  const cards = (state.cache?.tiers ?? []).map((it) => ({
    name: { exact: "Equal requests", semantic: "Requests that mean the same" }[it.tier] ?? it.tier,
    value: percent(it.hit_rate, 1), words: `of ${several(it.lookups, "look-up")}`, more: `${several(it.entries, "answer")} kept, ${bytes(it.bytes)}`,
  }));
  const f = state.cache?.false_hits;
  if (f) cards.push(falseHits(f));
  if (state.prefix) cards.push({ name: "Prompt tokens from engines' prefix caches", value: percent(state.prefix.reported, 1), words: "as engines report", more: `${percent(state.prefix.predicted, 1)} were foreseen` });
  if (state.cache) cards.push({ name: "Saved by kept answers", value: money(state.cache.saved_usd), words: "", more: state.cache.embedder ? `compared by ${state.cache.embedder}` : "" });
  else cards.unshift({ name: "Kept answers", value: "off", words: "", more: "the policy has no cache: section" });
  keyed($("reuse"), cards, (card) => card.name, reuseNode, reuseUpdate);
}
function falseHits(f) {
  const name = "False among those that mean the same";
  if (f.labels < 1) return { name, value: "unknown", words: "", more: "none has been verified yet" };
  return { name, value: percent(f.rate, 1), words: `${percent(f.lower, 1)} to ${percent(f.upper, 1)}`, more: `95 % bounds, from ${several(Math.round(f.labels), "label")}`, range: f };
}
const reuseNode = () => el("li", "", el("span", "name"), el("b"), el("span", "soft"), el("span", "range", el("i"), el("i")), el("small"));
function reuseUpdate(node, card) {
  const [name, value, words, range, more] = node.children;
  text(name, card.name);
  text(value, card.value);
  text(words, card.words);
  text(more, card.more);
  range.hidden = !card.range;
  if (!card.range) return;
  const { lower, rate, upper } = card.range;
  const scale = Math.max(.02, upper * 1.25);
  range.firstChild.style.left = `${lower / scale * 100}%`;
  range.firstChild.style.width = `${Math.max(1, (upper - lower) / scale * 100)}%`;
  range.lastChild.style.left = `${rate / scale * 100}%`;
}

// === What was decided lately, and why?

heads($("log-head"), [["Ended", "number"], ["Model"], ["Way"], ["Why", "wide"], ["Outcome"], ["TTFT", "number"], ["predicted", "number", "The median that was predicted when its backend was chosen, from dispatch on"],
  ["TPOT", "number wide"], ["Whole", "number"], ["Tokens in → out", "number wide"], ["Cost", "number wide"]]);
let decisions = [], decisionsAt = 0, held = false, looking = false;
function decisionNode() {
  const number = (label, more = "") => cell(`number ${more}`, label);
  const button = el("button");
  button.type = "button";
  button.tabIndex = -1;
  return el("tr", "", cell("number age", "Ended"), cell("", "Model", button), cell("way whole", ""), cell("why wide", ""), cell("", "Outcome", el("span")), number("TTFT"), number("predicted"),
    number("TPOT", "wide"), number("Whole"), number("Tokens", "wide"), number("Cost", "wide"));
}
function decisionUpdate(row, d) {
  const [age, model, way, why, outcome, ttft, predicted, tpot, whole, tokens, cost] = row.children;
  text(age, `${ago(Math.max(0, d.age_s - d.e2e_ms / 1e3 + (performance.now() - decisionsAt) / 1e3))} ago`);
  text(model.firstChild, d.model ?? none);
  model.firstChild.title = `Request ${d.id}: all candidates and their terms`;
  const stops = [d.route, d.pool, d.backend].filter((stop, at, all) => stop && stop !== all[at - 1]);
  text(way, stops.join(" → ") || none);
  text(why, [d.reason ?? d.cache, d.attempts > 1 ? `${d.attempts} attempts` : ""].filter(Boolean).map(plain).join(", "));
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
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const hay = (d) => [d.id, d.model, d.route, d.pool, d.backend, d.reason, d.cache, d.status, d.outcome].join(" ").toLowerCase();
  const shown = decisions.filter((d) => words.every((word) => hay(d).includes(word)));
  keyed($("decisions"), shown, (d) => d.id, decisionNode, decisionUpdate);
  // One row is a stop for Tab; the arrows go on from there.
  const buttons = [...$("decisions").querySelectorAll("button")];
  if (buttons.length && !buttons.some((button) => button.tabIndex === 0)) buttons[0].tabIndex = 0;
  $("none").hidden = shown.length > 0;
  text($("none-words"), decisions.length ? "No decision matches the filter." : "No requests yet. Send one:");
  $("try").hidden = decisions.length > 0;
  text($("log-note"), held ? "held" : looking ? "stands still while you are in it" : "Enter or a click shows every candidate");
}
function tryIt(state) {
  const key = state.asks_keys ? " -H 'Authorization: Bearer YOUR-KEY'" : "";
  const body = JSON.stringify({ model: state.model ?? "auto", stream: true, messages: [{ role: "user", content: "Hello!" }] });
  text($("try"), `curl -N ${state.api}/v1/chat/completions${key} -H 'Content-Type: application/json' -d '${body}'`);
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
const log = $("decisions");
const look = (value) => () => {
  looking = value || log.contains(document.activeElement) || log.matches(":hover") || $("detail").open;
  showDecisions();
};
log.addEventListener("keydown", walk);
log.addEventListener("focusin", look(true));
log.addEventListener("pointerenter", look(true));
log.addEventListener("focusout", () => setTimeout(look(false)));
log.addEventListener("pointerleave", look(false));
log.addEventListener("click", (event) => {
  const row = event.target.closest("tr");
  if (row) open(row.dataset.key);
});
$("filter").addEventListener("input", showDecisions);
$("filter-form").addEventListener("submit", (event) => event.preventDefault());
$("hold").addEventListener("click", () => {
  held = !held;
  $("hold").setAttribute("aria-pressed", held);
  text($("hold"), held ? "Go on" : "Hold");
  showDecisions();
});

// === One decision, whole

async function open(id) {
  text($("detail-title"), `Request ${id}`);
  $("detail-body").replaceChildren(el("p", "soft", "Asking the gateway …"));
  if (!$("detail").open) $("detail").showModal();
  try {
    const answer = await fetch(`/admin/decisions/${encodeURIComponent(id)}`);
    const line = await answer.json();
    $("detail-body").replaceChildren(...(answer.ok ? told(line) : [el("p", "bad", line.error.message)]));
  } catch {
    $("detail-body").replaceChildren(el("p", "bad", "The gateway did not answer."));
  }
}
function list(pairs) {
  const node = el("dl", "details");
  for (const [name, value] of pairs) if (value) node.append(el("dt", "", name), el("dd", "", value));
  return node;
}
function told(line) {
  const e = line.explained, reused = line.reused, a = line.admission;
  const score = e?.complexity && `${digits(e.complexity.score, 3)}, ${Object.entries(e.complexity.reasons).map(([what, by]) => `${what} ${by > 0 ? "+" : ""}${digits(by, 3)}`).join(", ")}`;
  return [
    list([
      ["Asked for", `${line.model ?? none} · ${plain(line.endpoint)}${line.stream ? ", streamed" : ""}${line.key ? ` · key ${line.key}` : ""}`],
      ["Prompt", `${count(line.prompt_bytes)} bytes, about ${count(line.estimated_prompt_tokens)} tokens`],
      ["Route", line.route],
      ["Passed over", e?.passed_over.map((it) => `${it.route} (${it.because})`).join(", ")],
      ["Too small", e?.too_small.join(", ")],
      ["Complexity", score],
      ["Tier", e?.tier && `${e.tier.tier}, by ${e.tier.reason}; bar ${known(e.tier.bar) ? digits(e.tier.bar, 3) : none}, share of the largest lately ${percent(e.tier.share)}`],
      ["By length", e?.length && `${e.length.long ? "long" : "short"}: the boundary was at ${count(e.length.boundary)} tokens`],
      ["Cache", reused && [plain(reused.result), plain(reused.reason), known(reused.age_s) ? `${ago(reused.age_s)} old` : ""].filter(Boolean).join(", ")],
      ["Admission", a && `${plain(a.result)} to ${a.pool}${a.queued ? `, after ${ms(a.waited_ms)} in the queue` : ""}`],
      ["Cascade", line.cascade && [plain(line.cascade.result), line.cascade.check].filter(Boolean).join(": ")],
      ["Outcome", `${line.status || none} ${plain(line.outcome)} · TTFT ${ms(line.ttft_ms)}, TPOT ${ms(line.tpot_ms)}, whole ${ms(line.e2e_ms)}${known(line.overhead_us) ? `, our own part ${digits(line.overhead_us, 0)} µs` : ""}`],
      ["Tokens", line.usage && `${count(line.usage.prompt_tokens)} in (${count(line.usage.cached_tokens ?? 0)} cached), ${count(line.usage.completion_tokens)} out`],
      ["Cost", known(line.cost_usd) && `$${Number(line.cost_usd).toPrecision(3)}`],
    ]),
    ...line.attempts.flatMap((attempt, at) => attempted(attempt, at, at === line.answered)),
  ];
}
const TERMS = [
  ["Backend", (c) => c.backend], ["Cost", (c) => known(c.cost) ? Number(c.cost).toPrecision(4) : none, "What it would have cost there, in the strategy's unit: the lowest is taken"],
  ["TTFT · p90", (c) => `${ms(c.ttft_ms)} · ${ms(c.ttft_p90_ms)}`, "Predicted"], ["As work", (c) => count(c.ttft_tokens), "The predicted TTFT in prompt tokens: its lateness is priced by these"], ["Kept", (c) => percent(c.attainment, 0), "The chance that the request's limits are kept there"],
  ["In flight", (c) => c.foreign ? `${c.in_flight} + ${c.foreign}` : count(c.in_flight), "Ours, and those of others"], ["Decoding", (c) => count(c.decoding), "Streams there; they weigh half by their number and half by the tokens promised there"],
  ["Queued", (c) => count(c.queued_tokens), "Prompt tokens waiting there"], ["To compute", (c) => count(c.uncached_tokens), "Prompt tokens of this request that are not cached there"],
  ["Cached", (c) => count(c.cached_tokens)], ["Over", (c) => count(c.overflow_tokens), "Tokens by which its KV cache will be too small, and the wait for one of its slots, in prompt tokens"], ["Busy", (c) => percent(c.utilisation, 0), "The share of its time that prompts take"],
  ["Speed", (c) => times(c.speed), "How many times as long as elsewhere things take"], ["Strain", (c) => digits(c.strain, 2), "How near the time per token comes to its limit; 1 is at it"],
  ["", (c) => [known(c.weight) ? `fixed ${percent(c.weight)}` : "", c.avoided ? "avoided" : ""].filter(Boolean).join(", ")],
];
function attempted(attempt, at, answered) {
  const p = attempt.predicted;
  const table = el("table", "candidates", el("thead", "", el("tr")), el("tbody"));
  heads(table.querySelector("tr"), TERMS.map(([name, , title], at) => [name, at ? "number" : "", title]));
  const order = (c) => known(c.cost) ? c.cost : Infinity;
  for (const c of [...attempt.candidates].sort((a, b) => order(a) - order(b))) {
    const chosen = c.backend === attempt.backend;
    table.lastChild.append(el("tr", chosen ? "chosen" : "", ...TERMS.map(([, of], at) => el("td", at ? "number" : "", `${of(c)}${chosen && !at ? " ◂ chosen" : ""}`))));
  }
  const scroll = el("div", "scroll", table);
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", `Candidates of attempt ${at + 1}`);
  return [
    el("h3", "", `Attempt ${at + 1}: ${attempt.pool} → ${attempt.backend}, ${plain(attempt.reason)}${answered ? "; it answered" : ""}`),
    list([
      ["Came to", attempt.outcome && `${plain(attempt.outcome)}, first token after ${ms(attempt.ttft_ms)} (predicted ${ms(p.ttft_ms)}, p90 ${ms(p.ttft_p90_ms)})`],
      ["Expected", `${count(p.prompt_tokens)} prompt tokens, ${count(p.cached_tokens)} of them cached; ${count(p.output_tokens)} out (p90 ${count(p.output_tokens_p90)}), each in ${ms(p.tpot_ms)}`],
      ["Had no room", attempt.full.join(", ")],
    ]),
    scroll,
  ];
}
$("detail-close").addEventListener("click", () => $("detail").close());
$("detail").addEventListener("close", look(false));
$("detail").addEventListener("click", (event) => event.target === $("detail") && $("detail").close());

// === The line to the gateway

let last = null, lastSeen = 0, source = null, retry = 0, unseen = 0;
const began = performance.now();
function show(state, how = "live") {
  const now = performance.now();
  [last, lastSeen] = [state, now];
  link("live", how);
  if (document.hidden) return;
  verdict(state);
  facts(state);
  objectives(state);
  traffic(state, now);
  speed(state, now);
  forgetTraces(now);
  tiers(state);
  reuse(state);
  about(state);
  if (!held && !looking) {
    [decisions, decisionsAt] = [state.decisions, now];
    tryIt(state);
    showDecisions();
  }
}
function about(state) {
  for (const at of ["", "-foot"]) {
    text($(`hash${at}`), state.hash);
    text($(`loaded${at}`), `${ago(state.loaded_s)} ago`);
  }
  text($("version"), state.version);
  text($("uptime"), ago(state.uptime_s));
  $("simulated").hidden = !state.simulated;
  $("draining").hidden = !state.draining;
}
function link(name, word) {
  cls($("link"), `link ${name}`);
  text($("link").lastElementChild, word);
  document.body.classList.toggle("stale", name === "lost" && lastSeen > 0);
  $("lost").hidden = name !== "lost";
}
function lost() {
  link("lost", "no connection");
  const since = ago((performance.now() - (lastSeen || began)) / 1e3);
  text($("lost"), lastSeen ? `The gateway cannot be reached. What you see is ${since} old; trying again.` : `The gateway has not answered for ${since}; trying again.`);
}
function connect() {
  disconnect();
  source = new EventSource("/admin/events");
  source.onmessage = (event) => show(JSON.parse(event.data));
  source.onerror = () => {
    disconnect();
    ask();
  };
}
/** Where the stream is refused, as to one watcher too many, the state is to be had all the same. */
function ask() {
  fetch("/admin/state").then((answer) => answer.json()).then((state) => show(state, "live, at times"), lost);
  retry = setTimeout(connect, AGAIN);
}
function disconnect() {
  clearTimeout(retry);
  source?.close();
  source = null;
}
setInterval(() => {
  if (document.hidden) return;
  if ($("link").classList.contains("lost")) lost();
  else if (performance.now() - (lastSeen || began) > SILENCE) {
    lost();
    connect(); // open, but nothing comes
  }
}, 1000);
document.addEventListener("visibilitychange", () => {
  clearTimeout(unseen);
  if (document.hidden) unseen = setTimeout(disconnect, UNSEEN);
  else if (source) last && show(last);
  else connect();
});

// === Colours

const THEMES = ["auto", "light", "dark"];
function theme(name) {
  document.documentElement.dataset.theme = name;
  text($("theme-name"), name);
}
const kept = () => {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null; // a browser may forbid it
  }
};
theme(THEMES.includes(kept()) ? kept() : "auto");
$("theme").addEventListener("click", () => {
  theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]);
  try {
    localStorage.setItem("theme", document.documentElement.dataset.theme);
  } catch { /* then it lasts as long as the page */ }
});
connect();
