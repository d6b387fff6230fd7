// A page that is changed in place, so that focus, selection and scrolling survive.

let last = null; // the state that was heard last
const $ = (id) => document.getElementById(id);
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
/** Heads of columns: `[name, class, help]`; `help` is one of TERMS or the text itself. */
function heads(row, columns) {
  row.replaceChildren(...columns.map(([name, cls, help]) => {
    const head = el("th", cls, help ? explains(el("span", "term", name), help) : name);
    head.scope = "col";
    return head;
  }));
}
function button(words, does, cls = "") {
  const node = el("button", cls, words);
  node.type = "button";
  node.addEventListener("click", does);
  return node;
}
/** Names and values, those without a value left out. */
function list(pairs) {
  const node = el("dl", "details");
  for (const [name, value] of pairs) if (value) node.append(el("dt", "", name), el("dd", "", value));
  return node;
}
/** A table in a region that scrolls by keyboard too. */
function scrolling(label, table) {
  const node = el("div", "scroll", table);
  node.tabIndex = 0;
  node.setAttribute("role", "region");
  node.setAttribute("aria-label", label);
  return node;
}
/** What one panel looks like where it is made here. */
function panel(title, ...children) {
  return el("section", "panel", el("div", "bar", el("h2", "", title)), ...children);
}

// === Panels fold; which are folded is remembered, and a phone begins with most of them folded.

const NARROW = 820;
const memory = {
  get(key) {
    try {
      return JSON.parse(localStorage.getItem(key));
    } catch {
      return null; // a browser may forbid it
    }
  },
  set(key, value) {
    try {
      localStorage.setItem(key, JSON.stringify(value));
    } catch { /* then it lasts as long as the page */ }
  },
};
function foldPanels() {
  const folded = memory.get("folded") ?? {};
  for (const panel of document.querySelectorAll("[data-fold]")) {
    const { fold, phone } = panel.dataset, head = panel.querySelector("h2"), body = panel.querySelector(".body");
    const toggle = button(head.textContent, () => {
      panel.classList.toggle("folded");
      memory.set("folded", { ...memory.get("folded"), [fold]: panel.classList.contains("folded") });
      toggle.setAttribute("aria-expanded", !panel.classList.contains("folded"));
      drawCharts();
      if (last) speed(last);
    }, "fold");
    if (!body.id) body.id = `${fold}-body`;
    toggle.setAttribute("aria-controls", body.id);
    panel.classList.toggle("folded", folded[fold] ?? (phone === "closed" && innerWidth <= NARROW));
    toggle.setAttribute("aria-expanded", !panel.classList.contains("folded"));
    head.replaceChildren(toggle);
  }
}
