// Keys with what is left of their limits, teams with their budgets, usage by day, and advice on prompts that defeat prefix caches.

const usage = { by: "", from: "", to: "" };
async function enterKeys() {
  const query = new URLSearchParams(Object.entries({ from: usage.from, to: usage.to }).filter(([, day]) => day));
  const [keys, used, prefixes] = await Promise.all([ask("/admin/keys"), ask(`/admin/usage?${query}`), ask("/admin/prompt-cache")]);
  if (view !== "keys") return;
  $("view-keys").replaceChildren(usagePanel(used, query), ...(keys.problem ? [panel("Keys", el("p", "empty", keys.problem))] : keyPanels(keys.body)), prefixPanel(prefixes));
}
const left = (it) => (it && known(it.limit) ? `${count(it.remaining)} of ${count(it.limit)}` : none);
function keyPanels({ keys, teams, required }) {
  const state = (key) => (key.revoked ? "revoked" : key.expired ? "expired" : key.in_policy === false ? "not in the policy" : "in use");
  const change = (key) => button(key.revoked ? "Restore …" : "Revoke …", () => act({
    title: key.revoked ? `Restore key ${key.id}?` : `Revoke key ${key.id}?`, does: key.revoked ? "Restore" : "Revoke", path: `/admin/keys/${encodeURIComponent(key.id)}/${key.revoked ? "restore" : "revoke"}`,
    words: key.revoked ? "Its requests are accepted again." : "Its requests are refused from now on. Those under way are finished.",
    said: (it) => `Key ${it.key} is ${it.revoked ? "revoked" : "restored"}${it.kept ? "" : "; a restart forgets it"}`, then: enterKeys,
  }), "small");
  const refusals = (key) => Object.entries(key.refused ?? {}).filter(([, n]) => n).map(([what, n]) => `${count(n)} ${what}`).join(", ");
  const rows = keys.map((key) => [key.id, key.team, state(key), left(key.standing?.requests), left(key.standing?.tokens), count(key.standing?.in_flight), refusals(key) || none, change(key)]);
  const money_left = (team) => (known(team.budget_usd) ? `${money(team.spent_usd)} of ${money(team.budget_usd)}` : money(team.spent_usd));
  const parts = [panel("Keys", rows.length ? scrolling("Keys", table(["Key", "Team", "State", ["Requests left", "number", "Of its limit of requests a minute, now"], ["Tokens left", "number", "Of its limit of tokens a minute, now"],
    ["In flight", "number"], ["Refused", "", "Requests refused since the start, by the limit that refused them"], [""]], rows))
    : el("p", "empty", required ? "No keys." : "The policy has no keys: requests without one are accepted."))];
  if (teams.length) parts.push(panel("Budgets", scrolling("Budgets", table(["Team or key", "Per", ["Spent", "number"], ["Tokens", "number"]],
    teams.map((team) => [team.team ?? team.key, team.per, money_left(team), known(team.budget_tokens) ? `${count(team.spent_tokens)} of ${count(team.budget_tokens)}` : count(team.spent_tokens)])))));
  return parts;
}

const GROUPS = { key: "key", team: "team", model: "model", served: "model that served", day: "day" };
function usagePanel({ body, problem }, query) {
  const day = (what) => {
    const node = Object.assign(el("input"), { type: "date", value: usage[what] });
    node.setAttribute("aria-label", what === "from" ? "From this day on (UTC)" : "To this day (UTC)");
    node.addEventListener("change", () => {
      usage[what] = node.value;
      enterKeys();
    });
    return node;
  };
  const used = usageRows(body), by = el("select");
  usage.by ||= used.some((row) => row.key) ? "key" : "model"; // a policy without keys has one row by key
  by.setAttribute("aria-label", "Group usage by");
  by.append(...Object.entries(GROUPS).map(([value, words]) => Object.assign(el("option", "", `By ${words}`), { value })));
  by.value = usage.by;
  by.addEventListener("change", () => {
    usage.by = by.value;
    enterKeys();
  });
  const link = Object.assign(el("a", "button", "CSV"), { href: `/admin/usage?${new URLSearchParams([...query, ["format", "csv"]])}`, download: "usage.csv" });
  const node = panel("Usage", problem ? el("p", "empty", problem) : usageTable(used));
  node.firstChild.append(el("div", "tools", by, day("from"), day("to"), link));
  return node;
}
const usageRows = (body) => (typeof body === "string" ? body.split("\n").filter(Boolean).map((line) => JSON.parse(line)) : [body].filter((it) => it?.day));
function usageTable(rows) {
  if (!rows.length) return el("p", "empty", "Nothing was used in this time.");
  const sums = new Map(), fields = ["requests", "failed", "reused", "prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd"];
  for (const row of [...rows, ...rows.map((row) => ({ ...row, all: true }))]) {
    const name = row.all ? "All" : row[usage.by] || none;
    const sum = sums.get(name) ?? Object.fromEntries(fields.map((field) => [field, 0]));
    for (const field of fields) sum[field] += Number(row[field] ?? 0);
    sums.set(name, sum);
  }
  const total = sums.get("All");
  sums.delete("All");
  const told = ([name, it]) => [name, count(it.requests), count(it.failed), count(it.reused), count(it.prompt_tokens), it.prompt_tokens ? percent(it.cached_tokens / it.prompt_tokens) : none, count(it.completion_tokens), money(it.cost_usd)];
  const order = ([a, x], [b, y]) => (usage.by === "day" ? b.localeCompare(a) : y.cost_usd - x.cost_usd || y.requests - x.requests);
  return scrolling("Usage", table([GROUPS[usage.by][0].toUpperCase() + GROUPS[usage.by].slice(1), ["Requests", "number"], ["Failed", "number"], ["From cache", "number", "Answered by the gateway's own caches"], ["Tokens in", "number"],
    ["Cached", "number", "prefix"], ["Tokens out", "number"], ["Cost", "number"]], [...[...sums].sort(order).map(told), ...(sums.size > 1 ? [told(["All", total])] : [])]));
}
function prefixPanel({ body, problem }) {
  if (problem) return panel("Prompts and prefix caches", el("p", "empty", problem));
  const rows = body.callers.map((it) => [it.key, count(it.requests), percent(it.predicted_cached_share), percent(it.reported_cached_share), it.advice ?? "none needed"]);
  return panel("Prompts and prefix caches", rows.length ? scrolling("Prompts and prefix caches", table(["Key", ["Requests", "number"], ["Cached: predicted", "number", "prefix"], ["Reported", "number", "As engines report it"], ["Advice", "words"]], rows))
    : el("p", "empty", "No prompts yet."));
}
