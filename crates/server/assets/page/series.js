// What is drawn over time: the gateway's history of a range, and after its end what this page has seen itself. Columns as GET /admin/history has them.

const RANGES = [["15m", 900, "15 min"], ["1h", 3600, "1 h"], ["6h", 21_600, "6 h"], ["3d", 259_200, "3 d"]];
const STEP_S = 5; // between two points of this page's own
const OWN_POINTS = 720; // an hour of them
const BREAK_S = 20; // a pause after which the line is broken
const EVENTS = 200;

const series = { range: "15m", history: null, missing: false, own: [], events: [], skew: 0, before: null, counted: null };
const nowS = () => Date.now() / 1e3 + series.skew;
let paused = 0; // when somebody stopped the page, in Unix seconds
const viewS = () => paused || nowS();
const rangeS = () => RANGES.find(([name]) => name === series.range)[1];

/** The state as one point of time. Ratios of caches are those since the last point, as the state counts from the start. */
function pointOf(state) {
  const counted = Object.fromEntries((state.cache?.tiers ?? []).map((it) => [it.tier, { hits: it.hits, lookups: it.lookups }]));
  const ratio = (tier) => {
    const lookups = counted[tier].lookups - (series.counted?.[tier]?.lookups ?? Infinity);
    return lookups > 0 ? (counted[tier].hits - series.counted[tier].hits) / lookups : null;
  };
  const cache = Object.fromEntries(Object.keys(counted).map((tier) => [tier, { hit_ratio: ratio(tier) }]));
  if (state.prefix) cache.prefix = { hit_ratio: state.prefix.reported };
  series.counted = counted;
  const milli = (of) => Object.fromEntries(["p50", "p95", "p99"].map((p) => [p, known(of?.[p]) ? of[p] * 1e3 : null]));
  const pools = Object.fromEntries(state.pools.map((pool) => [pool.name, {
    requests_per_s: known(pool.recent_share) ? pool.recent_share * (state.requests.per_second ?? 0) : null,
    ttft_ms: milli(pool.ttft), tpot_ms: milli(pool.tpot), queue: pool.queue?.depth ?? 0,
  }]));
  return { time: nowS(), pools, cache };
}
/** Records the state; true if it made a point. */
function record(state) {
  noticed(state);
  const last = series.own.at(-1);
  if (last && nowS() - last.time < STEP_S - .5) return false;
  if (last && nowS() - last.time > BREAK_S) series.own.push({ time: last.time + STEP_S, pools: {}, cache: {} });
  series.own.push(pointOf(state));
  while (series.own.length > OWN_POINTS) series.own.shift();
  return true;
}

/** Events that this page notices between two states, until the gateway's history tells them. */
function noticed(state) {
  const now = { hash: state.hash, backends: new Map(state.pools.flatMap((pool) => pool.backends.map((b) => [`${pool.name}\n${b.name}`, { pool: pool.name, backend: b.name, state: b.state, breaker: b.breaker }]))) };
  const { before } = series;
  series.before = now;
  if (!before) return;
  const add = (kind, text, more = {}) => {
    series.events.push({ time_s: nowS(), kind, text, ...more });
    series.events.splice(0, series.events.length - EVENTS);
    askHistorySoon();
  };
  if (before.hash !== now.hash) add("reloaded", `policy ${now.hash} is in force`);
  for (const [key, b] of now.backends) {
    const old = before.backends.get(key);
    if (!old) continue;
    const where = { pool: b.pool, backend: b.backend };
    if (b.state === "down" && old.state !== "down") add("backend_down", b.backend, where);
    if (b.state === "up" && old.state === "down") add("backend_up", b.backend, where);
    if (b.breaker === "open" && old.breaker !== "open") add("breaker_opened", b.backend, where);
    if (b.breaker === "closed" && old.breaker && old.breaker !== "closed") add("breaker_closed", b.backend, where);
  }
}

// === Asking the gateway

let historyTimer = 0, historySoon = 0;
async function askHistory() {
  clearTimeout(historyTimer);
  const { range } = series;
  try {
    const answer = await fetch(`/admin/history?range=${range}`);
    if (answer.ok) {
      const skew = Date.parse(answer.headers.get("date")) - Date.now();
      series.skew = Math.abs(skew) > 2_500 ? skew / 1e3 : 0;
      const history = await answer.json();
      if (series.range === range) series.history = history;
    }
    series.missing = [404, 405].includes(answer.status);
  } catch { /* the line to the gateway says so already */ }
  if (!series.missing) historyTimer = setTimeout(askHistory, range.endsWith("m") || range === "1h" ? 60_000 : 300_000);
  drawCharts();
}
function askHistorySoon() {
  if (series.missing) return;
  clearTimeout(historySoon);
  historySoon = setTimeout(askHistory, 1_200);
}
function setRange(range) {
  series.range = range;
  series.history = null;
  drawCharts();
  askHistory();
}

// === Columns for the charts

/** Points that the history does not have yet. */
function ownAfter() {
  const end = series.history?.times.at(-1) ?? 0, begin = viewS() - rangeS();
  return series.own.filter((point) => point.time > end + 1 && point.time >= begin);
}
const allTimes = () => [...(series.history?.times ?? []), ...ownAfter().map((point) => point.time)];
/** The column at `path`, such as `["pools", "small", "queue"]`, each value the mean of the last `smooth` where steps are short. A short pause is bridged (undefined), a long one is a gap (null). */
function column(path, smooth = 1) {
  const at = (from) => path.reduce((it, key) => it?.[key], from);
  const { times = [], step_s: step = STEP_S } = series.history ?? {};
  const past = at(series.history) ?? times.map(() => null);
  const all = [...past.map((x) => [x, step]), ...ownAfter().map((point) => [at(point) ?? null, STEP_S])].map(([x, step]) => [known(x) ? Number(x) : null, step]);
  if (smooth > 1 && step <= STEP_S) return means(all.map(([x]) => x), smooth);
  let from = 0, empty = 0;
  const out = all.map(([x]) => x);
  all.forEach(([x, step], i) => {
    if (x === null) empty += step;
    else {
      if (i > from && empty <= Math.max(60, 2 * step)) out.fill(undefined, from, i);
      from = i + 1;
      empty = 0;
    }
  });
  return out;
}
function means(all, over) {
  return all.map((x, i) => {
    const near = all.slice(Math.max(0, i - over + 1), i + 1).filter(known);
    return x === null || !near.length ? null : near.reduce((sum, it) => sum + it, 0) / near.length;
  });
}
function allEvents() {
  const told = series.history?.events ?? [];
  const last = Math.max(0, ...told.map((it) => it.time_s));
  const same = (it) => told.some((old) => old.kind === it.kind && old.backend === it.backend && Math.abs(old.time_s - it.time_s) < 15);
  const begin = viewS() - rangeS();
  return [...told, ...series.events.filter((it) => it.time_s > last - 15 && !same(it))].filter((it) => it.time_s >= begin).sort((a, b) => a.time_s - b.time_s);
}
