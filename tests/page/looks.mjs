// Faults of a page's looks. Each function runs in the page and returns its findings in words.

/** Texts that stand out too little from what is behind them, by WCAG's contrast ratio. */
export function faint() {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((x, at) => x * a + below[at] * (1 - a)).concat(1);
  const ground = (node) => {
    if (!node) return [255, 255, 255, 1];
    const own = rgba(getComputedStyle(node).backgroundColor);
    return own[3] > .99 ? own : over(own, ground(node.parentElement));
  };
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((x) => (x / 255 <= .04045 ? x / 255 / 12.92 : ((x / 255 + .055) / 1.055) ** 2.4));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const contrast = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + .05) / (low + .05);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const words = walker.currentNode.textContent.trim();
    if (!words || node.closest("script, style, option") || !node.checkVisibility({ checkVisibilityCSS: true })) continue;
    const style = getComputedStyle(node), behind = ground(node), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = contrast(over(rgba(style.color), behind), behind);
    if (ratio < (large ? 3 : 4.5)) found.push(`${words.slice(0, 30)}: ${ratio.toFixed(2)} (${style.color} on ${behind})`);
  }
  // Lines and bars: 3 is asked of what carries meaning.
  for (const node of document.querySelectorAll(".swatch, .lamp")) {
    const style = getComputedStyle(node);
    if (!node.checkVisibility() || rgba(style.backgroundColor)[3] < .5) continue;
    const ratio = contrast(rgba(style.backgroundColor), ground(node.parentElement));
    if (node.matches(".swatch") && ratio < 3) found.push(`${node.className}: ${ratio.toFixed(2)}`);
  }
  return found;
}

/** What is wider than its window, texts that lie over each other, and words that are cut in two. */
export function crowded() {
  const found = [];
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) found.push(`the page is ${wide} px wide in a window of ${innerWidth}`);
  const visible = (node) => node.checkVisibility({ checkVisibilityCSS: true });
  const texts = [];
  const walker = document.createTreeWalker(document.querySelector("dialog[open]") ?? document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.textContent.trim() || parent.closest("option, select, textarea, .unseen, .mark-note, thead, [aria-hidden=true]") || !visible(parent)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    // What an ancestor cuts off is not seen.
    let clip = { left: -1e9, top: -1e9, right: 1e9, bottom: 1e9 };
    for (let up = parent; up && up !== document.body; up = up.parentElement) {
      if (getComputedStyle(up).overflow === "visible") continue;
      const box = up.getBoundingClientRect();
      clip = { left: Math.max(clip.left, box.left), top: Math.max(clip.top, box.top), right: Math.min(clip.right, box.right), bottom: Math.min(clip.bottom, box.bottom) };
    }
    for (const box of range.getClientRects()) {
      const seen = { left: Math.max(box.left, clip.left), top: Math.max(box.top, clip.top), right: Math.min(box.right, clip.right), bottom: Math.min(box.bottom, clip.bottom) };
      if (seen.right - seen.left < 1 || seen.bottom - seen.top < 1) continue;
      if (box.bottom - clip.bottom > 3 && seen.bottom - seen.top > 3 && !parent.closest(".scroll, .events, .keys, .sheet, nav")) found.push(`cut off below: ${node.textContent.trim().slice(0, 30)}`);
      texts.push({ ...seen, words: node.textContent.trim().slice(0, 30), node });
    }
  }
  texts.sort((a, b) => a.top - b.top);
  for (let i = 0; i < texts.length; i += 1) {
    for (let j = i + 1; j < texts.length && texts[j].top < texts[i].bottom - 3; j += 1) {
      const [a, b] = [texts[i], texts[j]];
      if (a.node === b.node) continue; // the browser counts a text that it shortened twice
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - b.top > 3) found.push(`"${a.words}" lies over "${b.words}"`);
    }
  }
  // A name of a backend stands on one line, and shows its end.
  for (const name of document.querySelectorAll(".who .name")) {
    if (!visible(name)) continue;
    if (name.getBoundingClientRect().height > 32) found.push(`${name.textContent} stands on two lines`);
    const end = (name.querySelector(".port:not(:empty)") ?? name).getBoundingClientRect(), cell = name.closest("td").getBoundingClientRect();
    if (end.right > cell.right + 1) found.push(`${name.textContent}: its end is cut off`);
  }
  return [...new Set(found)].slice(0, 20);
}

/** Violations that axe-core calls serious or critical. */
export async function barriers(page, axe) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.filter((it) => ["serious", "critical"].includes(it.impact)).map((it) => `${it.id}: ${it.nodes.slice(0, 4).map((node) => node.target.join(" ")).join(", ")}`);
}
