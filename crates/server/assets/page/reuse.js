// Tiers by complexity, and what caches have reused since the start.

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

function reuse(state) {
  const cards = (state.cache?.tiers ?? []).map((it) => ({
    name: { exact: "Equal requests", semantic: "Requests that mean the same" }[it.tier] ?? it.tier,
    value: percent(it.hit_rate, 1), words: `of ${several(it.lookups, "look-up")}`, more: `${several(it.entries, "answer")} kept, ${bytes(it.bytes)}`,
  }));
  const f = state.cache?.false_hits;
  if (f) cards.push(falseHits(f));
  if (state.prefix) cards.push({ name: "Prompt tokens from engines' prefix caches", value: percent(state.prefix.reported, 1), words: "as engines report", more: `${percent(state.prefix.predicted, 1)} were foreseen` });
  if (state.cache) cards.push({ name: "Saved by kept answers", value: money(state.cache.saved_usd), words: known(state.cache.saved_s) ? `and ${digits(state.cache.saved_s, 1)} s of answering` : "", more: state.cache.embedder ? `compared by ${state.cache.embedder}` : "" });
  else cards.unshift({ name: "Kept answers", value: "off", words: "", more: "the policy has no cache: section" });
  keyed($("reuse"), cards, (card) => card.name, reuseNode, reuseUpdate);
}
function falseHits(f) {
  const name = "False among those that mean the same";
  if (f.labels < 1) return { name, value: "unknown", words: "", more: "none has been verified yet" };
  return { name, value: percent(f.rate, 1), words: `${percent(f.lower, 1)} to ${percent(f.upper, 1)}`, more: `95 % bounds, from ${several(Math.round(f.labels), "label")}`, range: f };
}

// === What callers waited, by route and by the source of the answer

heads($("callers-head"), [["Route"], ["Answers", "number"], ["TTFT p50", "number", "ttft"], ["p90", "number wide"], ["p95", "number", "p95"], ["p99", "number wide", "p99"],
  ["Whole p50", "number", "From the request to the end of its answer"], ["p90", "number wide"], ["p95", "number", "p95"], ["p99", "number wide", "p99"], ["Spared p95", "number wide", "What kept and shared answers take off the 95th percentile of whole answers"]]);
function callers(state) {
  const rows = (state.callers ?? []).flatMap((it) => [{ ...it, key: it.route, name: it.route, more: "" },
    ...(it.sources.length > 1 ? it.sources.map((source) => ({ ...source, key: `${it.route} ${source.source}`, name: it.route, more: source.source })) : [])]);
  $("callers-panel").hidden = !rows.length;
  keyed($("callers"), rows, (row) => row.key, callersNode, callersUpdate);
}
function callersNode() {
  const number = (label, more = "") => cell(`number ${more}`, label);
  const four = (of) => [number(`${of} p50`), number("p90", "wide"), number("p95"), number("p99", "wide")];
  return el("tr", "", cell("whole", "", el("span"), " ", el("small")), number("Answers"), ...four("TTFT"), ...four("Whole"), number("Spared p95", "wide"));
}
function callersUpdate(row, it) {
  const [who, answers, ...rest] = row.children;
  text(who.firstChild, it.name);
  text(who.lastChild, it.more);
  text(answers, count(it.e2e?.count ?? 0));
  const times = [it.ttft, it.e2e].flatMap((of) => ["p50", "p90", "p95", "p99"].map((p) => ms(known(of?.[p]) ? of[p] * 1e3 : null)));
  [...times, known(it.spared_p95_s) ? ms(it.spared_p95_s * 1e3) : none].forEach((words, at) => text(rest[at], words));
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

