// The policy in force, what its file has become since, changes since the start, and the audit log. Reading only, but for the reload.

async function enterPolicy() {
  const [policy, audit] = await Promise.all([ask("/admin/policy"), ask("/admin/audit?limit=100")]);
  const p = policy.body, reload = button("Reload …", () => act({
    title: "Read the policy again?", does: "Reload", path: "/admin/reload", words: "The file is checked first. Where it has a problem, the policy in force stays.",
    said: (it) => `Policy ${it.hash} is in force`, then: enterPolicy,
  }));
  const roll = (last?.tiered ?? []).filter((it) => it.learned?.promotions > 0).map((it) => button(`Roll ${it.route} back …`, () => act({
    title: `Take back the last learned weights of ${it.route}?`, does: "Roll back", path: `/admin/complexity/rollback?route=${encodeURIComponent(it.route)}`,
    words: "The route uses the weights again that it had before its last promotion.", said: () => `${it.route} uses its earlier weights`,
  })));
  const head = panel("Policy in force", list([
    ["Hash", p?.hash ?? last?.hash], ["File", p?.path], ["Loaded", `${ago(p?.loaded_s ?? last?.loaded_s)} ago`],
    ["The file now", p?.file && (p.file.problems?.length ? `${several(p.file.problems.length, "problem")}: it cannot be loaded` : p.file.changed ? "differs from what is in force, and can be loaded" : "is what is in force")],
  ]));
  head.firstChild.append(el("div", "tools", ...roll, reload));
  const parts = [head];
  if (policy.problem) parts.push(el("p", "empty", `The policy cannot be shown: ${policy.problem}.`));
  if (p?.file?.problems?.length) parts.push(panel("Problems of the file", problems(p.file.problems)));
  if (p?.file?.diff) parts.push(panel("From what is in force to the file", scrolling("Difference", diff(p.file.diff))));
  if (p?.text) {
    const text = p.file?.text ?? (p.file?.changed ? null : p.text);
    parts.push(panel(text && p.file?.text ? "The file" : "Text", scrolling("Text of the policy", sourceOf(text ?? p.text, text ? p.file?.problems ?? [] : []))));
  }
  const log = panel("Changes since the start", p?.history?.length ? scrolling("Changes", table(["When", "Hash", ""], p.history.map((it) => [dayAndClock(it.time_s), it.hash, it.what]))) : el("p", "empty", "None."));
  const acts = audit.problem ? el("p", "empty", `The audit log cannot be read: ${audit.problem}.`)
    : audit.body.length ? scrolling("Audit log", table(["When", "Who", "From", "Action", "Target", "Result"], audit.body.map((it) => [dayAndClock(it.time_s), it.who, it.peer, plain(it.action), it.target ?? "", it.unlogged ? `${it.result}, and ${count(it.unlogged)} before` : it.result]))) : el("p", "empty", "Nobody has changed anything since the start.");
  $("view-policy").replaceChildren(...parts, el("div", "pair even", log, panel("Audit log", acts)));
}
/** A plain table of texts; columns in `numbers` are aligned as figures. */
function table(names, rows, numbers = []) {
  const node = el("table", "plain-table", el("thead", "", el("tr")), el("tbody"));
  heads(node.querySelector("tr"), names.map((name, at) => (Array.isArray(name) ? name : [name, numbers.includes(at) ? "number" : ""])));
  const align = (at) => (Array.isArray(names[at]) ? names[at][1] : numbers.includes(at) ? "number" : "");
  node.lastChild.append(...rows.map((row) => el("tr", "", ...row.map((value, at) => el("td", align(at), value ?? none)))));
  return node;
}
function problems(all) {
  return el("ul", "problems", ...all.map((it) => el("li", "", el("b", "bad", known(it.line) ? `${it.line}:${it.column ?? 1}` : "File"), " ", el("span", "", it.message), it.help ? el("small", "", it.help) : "")));
}
function diff(words) {
  const kind = (line) => (/^(\+\+\+|---|@@)/.test(line) ? "soft" : line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "");
  return el("pre", "source", ...words.split("\n").map((line) => el("span", kind(line), `${line}\n`)));
}
/** The text with numbered lines, and each problem below its line. */
function sourceOf(words, all) {
  return el("pre", "source numbered", ...words.replace(/\n$/, "").split("\n").flatMap((line, at) => {
    const here = all.filter((it) => it.line === at + 1);
    const shown = el("span", here.length ? "faulty" : "", `${line}\n`);
    return [shown, ...here.map((it) => el("span", "remark", `${" ".repeat(Math.max(0, (it.column ?? 1) - 1))}▲ ${it.message}${it.help ? `: ${it.help}` : ""}\n`))];
  }));
}
