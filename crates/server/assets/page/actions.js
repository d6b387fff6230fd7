// Changes to the gateway: each is confirmed first, and its result is said. The gateway asks for the operator's credential and keeps the audit log.

let confirming = null;
/** Asks, then sends `method` (POST) to `path`; `said` words the answer; `then` follows a success. */
function act({ title, words, does, path, method = "POST", said, then }) {
  confirming = async () => {
    $("confirm").close();
    const answer = await ask(path, { method });
    if (answer.problem) toast(`Not done: ${answer.problem}`, "bad");
    else {
      toast(said?.(answer.body) ?? "Done");
      askHistorySoon();
      then?.(answer.body);
    }
  };
  text($("confirm-title"), title);
  text($("confirm-words"), words);
  text($("confirm-yes"), does);
  $("confirm").showModal();
  $("confirm-no").focus();
}
$("confirm-yes").addEventListener("click", () => confirming?.());
$("confirm-no").addEventListener("click", () => $("confirm").close());

/** `{ body }`, or `{ problem, status }` in words. */
async function ask(path, options = {}) {
  try {
    const answer = await fetch(path, options);
    const raw = await answer.text();
    let body = null;
    try {
      body = JSON.parse(raw);
    } catch { /* words, lines or nothing */ }
    if (answer.ok) return { body: body ?? raw, status: answer.status };
    const why = { 401: "this needs an operator's credential", 403: "this credential may not do it", 404: "this gateway does not know it" }[answer.status];
    return { problem: body?.error?.message ?? why ?? `status ${answer.status}`, problems: body?.problems, status: answer.status };
  } catch {
    return { problem: "the gateway did not answer", status: 0 };
  }
}
const post = (path, body) => ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

let toastTimer = 0;
function toast(words, tone = "") {
  const node = $("toast");
  (document.querySelector("dialog[open]") ?? document.body).append(node);
  cls(node, `shown ${tone}`);
  text(node, words);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => cls(node, ""), tone === "bad" ? 12_000 : 6_000);
}

// === The sheet at the side, for one thing at a time

function sheet(title, children, tools = []) {
  text($("detail-title"), title);
  $("detail-tools").replaceChildren(...tools);
  $("detail-body").replaceChildren(...children);
  $("detail-body").scrollTop = 0;
  if (!$("detail").open) $("detail").showModal();
}
$("detail-close").addEventListener("click", () => $("detail").close());
$("detail").addEventListener("click", (event) => event.target === $("detail") && $("detail").close());
