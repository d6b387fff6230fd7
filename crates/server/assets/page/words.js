"use strict";
// Values as text. Text only ever reaches the page as text, never as markup.

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
  const known = { ttft: "TTFT", tpot: "TPOT", e2e: "Whole answer", gap: "Largest gap", error: "Error" }[what] ?? what[0].toUpperCase() + what.slice(1);
  return /under|from/.test(words) ? `${known} ${words} tokens` : `${known} ${words}`.trim();
}
const clock = (s, long = false) => new Date(s * 1e3).toLocaleTimeString("en-GB", long ? {} : { hour: "2-digit", minute: "2-digit" });
const dayAndClock = (s) => new Date(s * 1e3).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

// === Terms, explained where they are hovered or focused (`data-help`).

const TERMS = {
  ttft: "TTFT, the time to the first token: from the request's arrival until the answer begins. Callers wait this long before they see anything.",
  tpot: "TPOT, the time per output token after the first one: how fast an answer is written.",
  p50: "p50: half of the requests took no longer than this.",
  p95: "p95: 95 of 100 requests took no longer than this; 5 took longer.",
  p99: "p99: 99 of 100 requests took no longer than this; one took longer.",
  kv: "KV: how much of its KV cache, the memory for attention keys and values, the engine has in use. Near 100 % it evicts or preempts.",
  flight: "In flight: requests of this gateway that run there now.",
  waiting: "Waiting: of a pool, requests that wait in the gateway for room, or are held while its engines compute others; of a backend, requests in its engine's own queue.",
  share: "Share: of a pool, its part of all answers of the last minute; of a backend, its part of its pool's requests since the start.",
  tokens: "Output tokens per second, over ten seconds.",
  failed: "Attempts that failed since the start. A failed attempt may still have become a good answer elsewhere.",
  burn: "Burn rate: how many times as fast as it may last the error budget is used up, over this time; window: over that of the budget. Above 1 it will not last.",
  budget: "Error budget: the share of requests that may miss the objective. 100 % means that none has been used.",
  exact: "Exact: a request equal to an earlier one, answered from memory.",
  semantic: "Semantic: a request that means the same as an earlier one, answered from memory after checks.",
  prefix: "Prefix: the part of prompt tokens that engines did not compute, because they had the same beginning in memory.",
  foreseen: "Predicted: the median time to first token that was expected when the backend was chosen, from dispatch on.",
};
