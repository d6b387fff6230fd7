// Explanations of terms: `data-help` names one of TERMS or is the text itself; it is shown on hover and on focus.

let helped = null;
function explains(node, words) {
  node.dataset.help = words;
  if (!node.matches("a, button, input, select")) node.tabIndex = 0;
  return node;
}
function showTip(node) {
  const tip = $("tip");
  helped = node;
  text(tip, TERMS[node.dataset.help] ?? node.dataset.help);
  tip.hidden = false;
  const open = document.querySelector("dialog[open]");
  (open ?? document.body).append(tip); // a modal dialog is above everything outside it
  const at = node.getBoundingClientRect(), own = tip.getBoundingClientRect();
  const below = at.bottom + own.height + 10 < innerHeight;
  tip.style.top = `${below ? at.bottom + 6 : Math.max(4, at.top - own.height - 6)}px`;
  tip.style.left = `${Math.max(6, Math.min(at.left, innerWidth - own.width - 6))}px`;
  node.setAttribute("aria-describedby", "tip");
}
function hideTip() {
  $("tip").hidden = true;
  helped?.removeAttribute("aria-describedby");
  helped = null;
}
for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, (event) => {
  const node = event.target.closest?.("[data-help]");
  if (node) showTip(node);
  else if (kind === "pointerover" && helped && !helped.contains(document.activeElement)) hideTip();
});
document.addEventListener("focusout", hideTip);
document.addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
addEventListener("scroll", hideTip, { capture: true, passive: true });
