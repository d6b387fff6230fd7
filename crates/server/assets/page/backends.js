// Pools and backends: pools open and close, a search or an order lists backends of all pools, and only rows that can be seen are drawn.

const FEW = 8; // so many backends are listed at once
const PLAIN = 40; // so many rows are drawn without windowing
const opened = new Map(); // by pool, what somebody chose
const isNarrow = () => innerWidth <= NARROW;
const rowHeight = () => (isNarrow() ? 66 : 33);

const COLUMNS = [["Pool, backend", ""], ["Share", "number", "share"], ["In flight", "number", "flight"], ["Waiting", "number", "waiting"],
  ["TTFT p50", "number wide", "ttft"], ["p95", "number", "p95"], ["p99", "number wide", "p99"], ["TPOT p50", "number wide", "tpot"], ["p95", "number wide", "p95"],
  ["Tokens/s", "number wide", "tokens"], ["KV", "number wide", "kv"], ["Failed", "number", "failed"]];
heads($("speed-head"), COLUMNS);

const ORDERS = {
  policy: ["By pool", null], worst: ["Worst first", badness], name: ["By name", null], flight: ["Most in flight", (b) => b.in_flight], waiting: ["Most waiting", (b) => b.signals?.waiting ?? 0],
  ttft: ["Slowest TTFT p95", (b) => b.ttft?.p95 ?? -1], tpot: ["Slowest TPOT p95", (b) => b.tpot?.p95 ?? -1], kv: ["Fullest KV cache", (b) => b.signals?.kv_usage ?? -1], failed: ["Most failed", (b) => b.errors],
};
$("speed-sort").append(...Object.entries(ORDERS).map(([value, [words]]) => Object.assign(el("option", "", words), { value })));

/** True if no account of its can be used: its key is refused, so that it is not well though it answers. */
const isShut = (b) => Boolean(b.credential) && b.credential.refused === b.credential.of;
function badness(b) {
  const state = b.state === "down" ? 8 : isShut(b) ? 7 : b.breaker === "open" ? 6 : b.breaker === "half_open" ? 5 : b.credential ? 4 : b.state !== "up" ? 3 : 0;
  return state * 1e6 + Math.min(9e5, (b.errors ?? 0) / Math.max(1, b.requests + b.errors) * 1e5) + Math.min(9e3, (b.ttft?.p95 ?? 0) * 100);
}
const BREAKER = { open: "left out after failures", half_open: "being tried again" };
/** Where a backend comes from, unless the policy names it. */
const origin = (b) => (!b.origin || b.origin === "policy" ? "" : b.origin === "admin" ? "added by an operator" : b.origin);
const stale = (b) => (b.signals?.age_s > 5 ? `gauges ${ago(b.signals.age_s)} old` : "");
function refused(b) {
  const c = b.credential;
  return c ? `${isShut(b) ? "KEY REFUSED" : `${c.refused} of ${c.of} keys refused`} (${c.status}) for ${ago(c.for_s)}` : "";
}
/** What is out of the ordinary, in words: never by a colour alone. */
function stateWords(b) {
  if (b.leaves) return `${{ draining: "DRAINING", drained: "drained by an operator", removed: "removed" }[b.state] ?? b.state}${known(b.for_s) ? ` for ${ago(b.for_s)}` : ""}`;
  return [b.state === "up" ? "" : b.state === "down" ? "DOWN" : "not heard of yet", refused(b), BREAKER[b.breaker], stale(b)].filter(Boolean).join(" · ");
}
/** The model of all its backends, where they have the same. */
function oneModel(pool) {
  const models = new Set(pool.backends.map((backend) => backend.model));
  return models.size === 1 ? [...models][0] : null;
}

// === Which rows there are

function rowsOf(state) {
  const wanted = $("speed-search").value.toLowerCase().split(/\s+/).filter(Boolean), order = $("speed-sort").value;
  const all = state.pools.flatMap((pool) => [...pool.backends, ...(pool.leaving ?? []).map((it) => ({ ...it, leaves: true }))].map((b) => ({ b, pool, key: `${pool.name}\n${b.leaves ? "leaves\n" : ""}${b.name}` })));
  const hay = ({ b, pool }) => [b.name, b.model, b.engine, pool.name, b.state, origin(b), stateWords(b)].join(" ").toLowerCase();
  const found = wanted.length ? all.filter((row) => wanted.every((word) => hay(row).includes(word))) : all;
  const flat = wanted.length > 0 || order !== "policy";
  text($("speed-note"), wanted.length ? `${found.length} of ${several(all.length, "backend")}` : `${several(state.pools.length, "pool")}, ${several(all.length, "backend")}`);
  if (flat) {
    const value = ORDERS[order][1];
    if (value) found.sort((x, y) => (y.b.leaves ? -1 : value(y.b)) - (x.b.leaves ? -1 : value(x.b)));
    else if (order === "name") found.sort((x, y) => x.b.name.localeCompare(y.b.name, "en", { numeric: true }));
    return found.map((row) => ({ ...row, flat }));
  }
  const isOpen = (pool) => opened.get(pool.name) ?? (all.length <= FEW && !isNarrow());
  return state.pools.flatMap((pool) => [{ pool, key: pool.name, isOpen: isOpen(pool) }, ...(isOpen(pool) ? found.filter((row) => row.pool === pool) : [])]);
}

function speed(state) {
  const scroll = $("speed-scroll"), rows = rowsOf(state), height = rowHeight();
  const windowed = rows.length > PLAIN;
  scroll.classList.toggle("windowed", windowed);
  let [from, to] = [0, rows.length];
  if (windowed) {
    from = Math.max(0, Math.floor(scroll.scrollTop / height) - 6);
    to = Math.min(rows.length, from + Math.ceil((scroll.clientHeight || 600) / height) + 12);
  }
  const [above, below] = document.querySelectorAll("#pools .space");
  above.firstChild.style.height = `${from * height}px`;
  below.firstChild.style.height = `${(rows.length - to) * height}px`;
  $("pools").setAttribute("aria-rowcount", rows.length + 1);
  keyed($("speed-rows"), rows.slice(from, to), (row) => row.key, rowNode, (node, row, at) => {
    node.setAttribute("aria-rowindex", from + at + 2);
    if (row.b) backendUpdate(node, row);
    else poolUpdate(node, row);
  });
  const all = state.pools.every((pool) => opened.get(pool.name));
  text($("speed-all"), all ? "Close all pools" : "Open all pools");
}
function rowNode(row) {
  const number = (label, more = "") => cell(`number ${more}`, label);
  const who = el("div", "who", row.b ? el("span", "lamp", el("i"), el("i"), el("i")) : button("", () => toggle(row.pool.name), "chevron"), nameButton(row), el("small"));
  if (row.b) who.firstChild.setAttribute("aria-hidden", "true");
  return el("tr", row.b ? "backend" : "pool", cell("whole", "", who), cell("number", "Share", el("span")), number("In flight"), number("Waiting"),
    number("TTFT p50", "wide"), number("TTFT p95"), number("TTFT p99", "wide"), number("TPOT p50", "wide"), number("TPOT p95", "wide"), number("Tokens/s", "wide"), number("KV", "wide"), number("Failed"));
}
/** The name in three parts: where there is too little room the domain is cut short first, as a host's own name and its port tell names apart. */
function nameButton(row) {
  const name = row.b?.name ?? row.pool.name;
  const [, host, domain, port] = (name.length > 16 && /^([^.:/]+)(\..*?)?(:\d+)?$/.exec(name)) || [null, name, "", ""];
  const node = button("", () => (row.b ? openBackend(row.pool.name, row.b.name) : openPool(row.pool.name)), "name");
  node.append(el("span", "", host), el("span", "domain", domain ?? ""), el("span", "port", port ?? ""));
  node.title = name;
  return node;
}
function toggle(pool) {
  opened.set(pool, !rowsOf(last).find((row) => !row.b && row.pool.name === pool).isOpen);
  speed(last);
}
function quantiles(row, of, of2) {
  [[4, of?.p50], [5, of?.p95], [6, of?.p99], [7, of2?.p50], [8, of2?.p95]].forEach(([at, x]) => figure(row.children[at], seconds(x)));
}
function poolUpdate(node, { pool, isOpen }) {
  const [who, share, flight, waiting, , , , , , tokens, kv, failed] = node.children;
  const sum = (of) => pool.backends.reduce((total, backend) => total + (of(backend) ?? 0), 0);
  const down = pool.backends.filter((b) => b.state === "down" || isShut(b)).length;
  const [chevron, , small] = who.firstChild.children;
  chevron.setAttribute("aria-expanded", isOpen);
  chevron.setAttribute("aria-label", `Backends of ${pool.name}`);
  const kind = [down ? `${down} of ${pool.backends.length} down` : several(pool.backends.length, "backend"), oneModel(pool), pool.diagnosis?.state].filter(Boolean);
  text(small, kind.join(" · "));
  small.title = poolWords(pool).join(" · ");
  cls(small, down ? "bad" : "");
  figure(share.firstChild, percent(pool.recent_share));
  text(flight, count(sum((b) => b.in_flight)));
  text(waiting, count(pool.queue?.depth));
  cls(waiting, `number ${pool.queue?.depth > 0 ? "warn" : ""}`);
  quantiles(node, pool.ttft, pool.tpot);
  text(tokens, rate(sum((b) => b.tokens_per_s)));
  text(kv, "");
  failures(failed, sum((b) => b.errors), sum((b) => b.requests));
}
function failures(node, failed, all) {
  text(node, count(failed));
  cls(node, `number ${failed > 0 ? "bad" : ""}`);
  node.title = `${count(failed)} attempts failed; ${count(all)} requests ended here`;
}
function backendUpdate(node, { b, pool, flat }) {
  const [who, share, flight, waiting, , , , , , tokens, kv, failed] = node.children;
  const bad = b.state === "down" || isShut(b), tried = BREAKER[b.breaker];
  const warn = b.leaves || b.credential || tried || stale(b) || b.state !== "up";
  cls(node, `backend ${bad ? "down" : ""} ${b.leaves ? "leaving" : ""} ${flat ? "flat" : ""}`);
  cls(who.querySelector(".lamp"), `lamp ${bad ? "down" : warn ? "unknown" : "up"}`);
  const small = who.querySelector("small");
  text(small, [stateWords(b), flat ? pool.name : "", b.model === b.name || (!flat && oneModel(pool)) ? "" : b.model, !b.engine || b.engine === b.name ? "" : `on ${b.engine}`, origin(b)].filter(Boolean).join(" · "));
  small.title = small.textContent;
  cls(small, bad ? "bad" : warn ? "warn" : "");
  figure(share.firstChild, b.leaves ? none : percent(b.share));
  text(flight, count(b.in_flight));
  text(waiting, count(b.signals?.waiting));
  cls(waiting, `number ${b.signals?.waiting > 0 ? "warn" : ""}`);
  quantiles(node, b.ttft, b.tpot);
  text(tokens, b.leaves ? none : rate(b.tokens_per_s));
  figure(kv, percent(b.signals?.kv_usage, 0));
  cls(kv, `number wide ${b.signals?.kv_usage > .9 ? "warn" : ""}`);
  if (b.leaves) text(failed, none);
  else failures(failed, b.errors, b.requests);
}
for (const [id, kind] of [["speed-search", "input"], ["speed-sort", "change"]]) $(id).addEventListener(kind, () => {
  $("speed-scroll").scrollTop = 0;
  if (last) speed(last);
});
$("speed-form").addEventListener("submit", (event) => event.preventDefault());
$("speed-scroll").addEventListener("scroll", () => last && $("speed-scroll").classList.contains("windowed") && requestAnimationFrame(() => speed(last)), { passive: true });
$("speed-all").addEventListener("click", () => {
  const close = last.pools.every((pool) => opened.get(pool.name));
  for (const pool of last.pools) opened.set(pool.name, !close);
  speed(last);
});

// === One pool, one backend

/** What else there is to say of a pool, in words. */
function poolWords(pool) {
  const { foreseen: f, diagnosis, cost } = pool;
  const native = (pool.speaks ?? []).filter((name) => name === "messages" || name === "responses");
  return [
    [oneModel(pool), pool.balance ? plain(pool.balance) : ""].filter(Boolean).join(", "),
    native.length ? `serves ${native.join(" and ")} too` : "",
    diagnosis ? [diagnosis.state, diagnosis.words].filter(Boolean).join(": ") : "",
    known(pool.saturation) ? `saturation ${percent(pool.saturation, 0)}` : "",
    f ? `TTFT predicted ${seconds(f.predicted_s)}, seen ${seconds(f.seen_s)} upstream` : "",
    known(f?.error) ? `off by ${percent(f.error, 0)} on average, ${percent(f.coverage, 0)} within p90` : "",
    pool.hidden_queue_ms > 1 ? `hidden queue ${ms(pool.hidden_queue_ms)}` : "",
    cost ? `${money(cost.usd_per_hour)} per hour` : "",
    known(cost?.usd_per_million_output) ? `${money(cost.usd_per_million_output)} per million output tokens` : "",
  ].filter(Boolean).concat(f || diagnosis || cost ? [] : ["nothing measured yet"]);
}
const three = (of) => (of ? `p50 ${seconds(of.p50)}, p95 ${seconds(of.p95)}, p99 ${seconds(of.p99)} (${several(of.count, "request")} of the last minute)` : "");
function openPool(name) {
  const pool = stateOf(name);
  sheet(`Pool ${name}`, [list([["In words", poolWords(pool).join(". ")], ["TTFT", three(pool.ttft)], ["TPOT", three(pool.tpot)], ["Share", `${percent(pool.recent_share)} of the last minute, ${percent(pool.share)} since the start`],
    ["Queue", `${count(pool.queue?.depth)} waiting${pool.queue?.held ? `, held: ${count(pool.queue.held)}` : ""}${pool.queue?.depth ? `, the oldest for ${seconds(pool.queue.oldest_s)}` : ""}`], ["Backends", pool.backends.map((b) => b.name).join(", ")]])]);
}
function openBackend(poolName, name) {
  const pool = stateOf(poolName), b = [...pool.backends, ...(pool.leaving ?? [])].find((it) => it.name === name);
  const s = b.signals, g = b.gpus, d = s?.drafting, leaves = (pool.leaving ?? []).includes(b);
  sheet(`Backend ${name}`, [list([
    ["Pool", poolName], ["State", stateWords({ ...b, leaves }) || "up"], ["Model", b.model], ["Engine", b.engine], ["Origin", origin(b) || "the policy"],
    ["Key", b.credential && `${refused(b)}${b.credential.account ? `, account ${b.credential.account}` : ""}: the provider does not take it. Correct it in the policy and reload.`],
    ["In flight", `${count(b.in_flight)}, of them ${count(b.decoding)} past the first token; ${count(b.queued_tokens)} prompt tokens of ours queued`],
    ["TTFT", three(b.ttft)], ["TPOT", three(b.tpot)], ["Whole answer", three(b.e2e)],
    ["Engine's gauges", s ? `${s.kind}: ${count(s.running)} running, ${count(s.waiting)} waiting, KV cache ${percent(s.kv_usage, 0)} full, ${percent(s.prefix_hits)} of prompt tokens from its prefix cache; ${ago(s.age_s)} ago` : "the engine publishes none"],
    ["GPUs", g && `${g.count}, ${percent(g.utilisation, 0)} busy, memory ${percent(g.memory, 0)} full`],
    ["Drafting", d && `${percent(d.accept_ratio, 0)} of drafted tokens accepted`],
    ["Network", known(b.round_trip_ms) && `${ms(b.round_trip_ms)} there and back`],
    ["Serves", b.endpoints?.join(", ")], ["Does not serve", b.missing?.map((m) => `${m.endpoint} (for ${seconds(m.for_s)}: ${m.answer}; tried again in ${seconds(m.again_s)})`).join(", ")],
    ["Ended here", known(b.requests) && `${several(b.requests, "request")}, ${several(b.errors, "failed attempt")}`],
  ])], [button(leaves ? "Take back …" : "Drain …", () => act({
    title: leaves ? `Give ${name} requests again?` : `Drain ${name}?`, does: leaves ? "Take back" : "Drain",
    words: leaves ? `${name} in pool ${poolName} takes new requests again.` : `${name} in pool ${poolName} gets no new requests. Those under way there are finished.`,
    path: `/admin/backends/${encodeURIComponent(poolName)}/${encodeURIComponent(name)}/${leaves ? "undrain" : "drain"}`,
    said: (it) => `${name} ${it.drained ? `is drained, ${several(it.in_flight, "request")} under way` : "takes requests again"}`,
  }))]);
}
