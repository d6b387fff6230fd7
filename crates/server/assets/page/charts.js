// Charts over time, drawn by uPlot (© 2022 Leon Sorokin, MIT licence): one cursor and one set of event markers for all of them, values of the cursor in their legends.

const COLOURS = 6;
const SHOWN_POOLS = 6; // more are drawn when they are asked for
const chosen = new Map(); // by legend and name, whether it is drawn: what somebody chose
const charts = {};
const dress = () => `${document.documentElement.dataset.theme} ${matchMedia("(prefers-color-scheme: dark)").matches}`;
const painted = new Map();
/** A colour that canvas understands: `light-dark()` is resolved by an element. */
function paint(name) {
  const key = `${dress()} ${name}`;
  if (!painted.has(key)) {
    const probe = document.body.appendChild(el("i"));
    probe.style.color = `var(${name})`;
    painted.set(key, getComputedStyle(probe).color);
    probe.remove();
  }
  return painted.get(key);
}
const EVENT_TONE = { backend_down: "--stop", breaker_opened: "--stop", reload_failed: "--stop", backend_up: "--go", breaker_closed: "--go" };
const EVENT_WORD = { started: "Started", reloaded: "Reloaded", reload_failed: "Reload failed", backend_down: "Down", backend_up: "Up", breaker_opened: "Left out", breaker_closed: "Back", action: "Action" };

const EVENT_TEXT = { backend_down: "does not answer", backend_up: "answers again", breaker_opened: "failed: requests avoid it", breaker_closed: "serves again" };
const eventText = (it) => (it.backend && EVENT_TEXT[it.kind] ? `${it.backend} ${EVENT_TEXT[it.kind]}` : it.text);

/** `write` writes a value; `of` gives what is drawn now: `[{ name, help, column, objective, shown }]`. */
function defineChart(id, write, of, { stacked = false, counts = false, smooth = 1, top = 0, least = 1e-9 } = {}) {
  const plot = $(`${id}-plot`);
  plot.tabIndex = 0;
  plot.setAttribute("role", "group");
  const chart = { id, plot, write, of, stacked, counts, smooth, top, least, u: null, like: "", lines: [], said: plot.appendChild(el("span", "unseen")), note: plot.appendChild(el("span", "mark-note")) };
  chart.said.setAttribute("aria-live", "polite");
  charts[id] = chart;
  new ResizeObserver(() => chart.u && plot.clientWidth && chart.u.setSize(size(plot))).observe(plot);
  plot.addEventListener("keydown", (event) => step(chart, event));
  plot.addEventListener("blur", () => chart.u?.setCursor({ left: -10, top: -10 }));
}
const size = (plot) => ({ width: plot.clientWidth, height: plot.clientHeight });
const lineColour = (at) => paint(`--s${at % COLOURS}`);

function drawCharts() {
  if (document.hidden || $("view-overview").hidden) return;
  const times = allTimes();
  for (const chart of Object.values(charts)) if (chart.plot.clientWidth) drawChart(chart, times);
  drawEvents();
  rangeNote();
}
function drawChart(chart, times) {
  const lines = chart.of().map((line, at) => ({ ...line, at, on: chosen.get(`${chart.id} ${line.name}`) ?? at < SHOWN_POOLS }));
  chart.lines = lines;
  const columns = lines.map((line) => (line.on ? column(line.column, chart.smooth) : times.map(() => null)));
  chart.values = columns;
  chart.isEmpty = !columns.some((values) => values.some(known));
  const drawn = chart.stacked ? stack(columns) : columns;
  const like = JSON.stringify([lines.map(({ name, on }) => [name, on]), dress(), rangeS() > 86_400]);
  if (chart.like !== like) {
    chart.u?.destroy();
    chart.like = like;
    chart.u = new uPlot(options(chart, lines), [times, ...drawn], chart.plot);
  } else chart.u.setData([times, ...drawn]);
  keys(chart);
  const { width, height } = size(chart.plot); // which a legend of more lines may have changed
  if (chart.u.width !== width || chart.u.height !== height) chart.u.setSize({ width, height });
}
/** Each column on top of those before it. */
function stack(columns) {
  const sum = [];
  return columns.map((column) => column.map((x, i) => (x === null && sum[i] === undefined ? null : (sum[i] = (sum[i] ?? 0) + (x ?? 0)))));
}
function options(chart, lines) {
  const [soft, grid] = [paint("--soft"), paint("--line")];
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: soft, font, ticks: { show: false } };
  const dash = (at) => (at >= COLOURS ? [5, 3] : undefined);
  const series = lines.map((line, at) => {
    const colour = lineColour(at);
    return { label: line.name, show: line.on, stroke: colour, width: chart.stacked ? 1 : 1.6, dash: dash(at), fill: chart.stacked ? colour.replace("rgb(", "rgba(").replace(")", ", .7)") : undefined,
      paths: chart.counts ? uPlot.paths.stepped({ align: 1 }) : undefined, points: { show: false } };
  });
  // Of a stack the ground is drawn between each line and the one below it.
  const bands = chart.stacked ? lines.slice(1).map((_, at) => ({ series: [at + 2, at + 1] })) : undefined;
  const within = (u, min, max) => {
    const limits = chart.lines.filter((it) => it.on && known(it.objective) && it.objective < 3 * max).map((it) => it.objective);
    return [0, chart.top || Math.max(chart.least, 1.08 * Math.max(max, ...limits))];
  };
  return {
    ...size(chart.plot), legend: { show: false }, series: [{}, ...series], bands, padding: [8, 18, 0, 0],
    cursor: { drag: { x: false, y: false }, y: false, sync: { key: "time" }, points: { size: 6, show: !chart.stacked } },
    scales: { x: { range: () => [viewS() - rangeS(), viewS()] }, y: { range: (u, min, max) => (known(max) ? within(u, min, max) : [0, chart.top || 1]) } },
    axes: [{ ...axis, grid: { show: false }, size: 22, gap: 4, space: 64, values: (u, all) => all.map((s) => (rangeS() > 86_400 ? dayAndClock(s) : clock(s))), ...(rangeS() > 86_400 ? { space: 96 } : {}) },
      { ...axis, grid: { stroke: grid, width: 1 }, size: 52, gap: 6, space: 30, values: (u, all) => all.map((x) => (chart.isEmpty ? "" : x === 0 ? "0" : chart.counts && !Number.isInteger(x) ? "" : chart.write(x))) }],
    hooks: { draw: [(u) => marks(chart, u)], setCursor: [(u) => keys(chart, u)] },
  };
}

/** Objectives as dashed lines of their pool's colour, events as thin vertical ones. */
function marks(chart, u) {
  const { ctx, bbox } = u, px = devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top - 6 * px, bbox.width, bbox.height + 6 * px);
  ctx.clip();
  chart.lines.forEach((line, at) => {
    if (!line.on || !known(line.objective) || line.objective > u.scales.y.max) return;
    const y = u.valToPos(line.objective, "y", true);
    ctx.strokeStyle = lineColour(at);
    ctx.fillStyle = paint("--ink");
    ctx.lineWidth = px;
    ctx.setLineDash([6 * px, 4 * px]);
    rule(ctx, bbox.left, y, bbox.left + bbox.width, y);
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.font = `${10.5 * px}px system-ui, sans-serif`;
    ctx.fillText(`objective ${line.name} ${chart.write(line.objective)}`, bbox.left + 4 * px, y - 3 * px); // to the left, as most marks are recent
  });
  for (const event of allEvents()) {
    const x = Math.round(u.valToPos(event.time_s, "x", true));
    ctx.strokeStyle = ctx.fillStyle = paint(EVENT_TONE[event.kind] ?? "--soft");
    ctx.lineWidth = px;
    ctx.setLineDash([2 * px, 3 * px]);
    rule(ctx, x, bbox.top, x, bbox.top + bbox.height);
    ctx.beginPath();
    const up = EVENT_TONE[event.kind] === "--stop" ? 1 : -1; // a shape besides the colour
    ctx.moveTo(x - 4 * px, bbox.top - 3 * px * up);
    ctx.lineTo(x + 4 * px, bbox.top - 3 * px * up);
    ctx.lineTo(x, bbox.top + 4 * px * up);
    ctx.fill();
  }
  ctx.restore();
}
function rule(ctx, x1, y1, x2, y2) {
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
}

/** The legend, with the values under the cursor, or else the last ones. */
function keys(chart, u = chart.u) {
  if (!u || !chart.values) return;
  const hovered = u.cursor.left >= 0 && known(u.cursor.idx);
  const at = hovered ? u.cursor.idx : u.data[0].length - 1;
  const valueOf = (line) => {
    if (!hovered && line.now !== undefined) return line.now;
    const column = chart.values[line.at], [times] = u.data;
    let i = at; // a short pause is bridged: the value before it
    while (i > 0 && (hovered ? column[i] === undefined : !known(column[i]) && times[at] - times[i] < 60)) i -= 1;
    return chart.write(column[i]);
  };
  keyed($(`${chart.id}-keys`), chart.lines, (line) => line.name, () => keyNode(chart), (node, line, place) => {
    const button = node.firstChild, [swatch, name, value] = button.children;
    button.setAttribute("aria-pressed", line.on);
    if (line.help) button.dataset.help = line.help;
    cls(swatch, `swatch s${place % COLOURS} ${place >= COLOURS ? "dashed" : ""}`);
    text(name, line.title ?? line.name);
    text(value, line.on ? valueOf(line) : "off");
  });
  const near = hovered ? allEvents().filter((it) => Math.abs(u.valToPos(it.time_s, "x") - u.cursor.left) < 6).at(-1) : null;
  text(chart.note, near ? `${clock(near.time_s, true)} ${EVENT_WORD[near.kind] ?? plain(near.kind)}: ${eventText(near)}` : hovered ? clock(u.data[0][at], rangeS() <= 3600) : chart.isEmpty ? "nothing measured in this time" : "");
  const last = chart.lines.filter((line) => line.on).map((line) => `${line.name} ${valueOf(line)}`).join(", ");
  chart.plot.setAttribute("aria-label", `${$(`${chart.id}-title`).textContent} over ${RANGES.find(([name]) => name === series.range)[2]}. Now: ${last || "nothing yet"}. The arrow keys move through time.`);
  return [hovered ? clock(u.data[0][at], true) : "", last];
}
function keyNode(chart) {
  const button = el("button", "key", el("i"), el("span"), el("b"));
  button.type = "button";
  button.addEventListener("click", () => {
    const line = chart.lines.find((it) => it.name === button.parentNode.dataset.key);
    chosen.set(`${chart.id} ${line.name}`, !line.on);
    drawCharts();
  });
  return el("li", "", button);
}
function step(chart, event) {
  const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -12, PageDown: 12, Home: -Infinity, End: Infinity }[event.key];
  if (!by || !chart.u) return;
  event.preventDefault();
  const u = chart.u, [times] = u.data, end = times.length - 1;
  const from = u.cursor.left >= 0 && known(u.cursor.idx) ? u.cursor.idx : end - (by < 0 ? 0 : 1);
  const to = Math.max(0, Math.min(end, from + by));
  u.setCursor({ left: u.valToPos(times[to], "x"), top: 10 });
  text(chart.said, keys(chart).join(": "));
}

// === Events, range and pause

function drawEvents() {
  const all = allEvents().reverse();
  const button = $("events-open");
  button.hidden = !all.length;
  if (all.length) text(button, `${several(all.length, "event")}, the last at ${clock(all[0].time_s)}: ${eventText(all[0])}`);
  keyed($("events"), all.slice(0, 50), (it) => `${it.time_s} ${it.kind} ${it.text}`, () => el("li", "", el("time"), el("b"), el("span")), (node, it) => {
    const [time, kind, words] = node.children;
    text(time, rangeS() > 86_400 ? dayAndClock(it.time_s) : clock(it.time_s, true));
    text(kind, EVENT_WORD[it.kind] ?? plain(it.kind));
    cls(kind, { "--stop": "bad", "--go": "good" }[EVENT_TONE[it.kind]] ?? "");
    text(words, it.pool ? `${eventText(it)} (pool ${it.pool})` : it.text);
  });
}
function rangeNote() {
  text($("range-note"), paused ? `Paused at ${clock(paused, true)}` : series.missing ? "This gateway keeps no history: seen by this page only" : "");
}
for (const [range, , words] of RANGES) {
  const button = el("button", "", words);
  button.type = "button";
  button.dataset.range = range;
  button.addEventListener("click", () => {
    setRange(range);
    pressed();
  });
  $("ranges").append(button);
}
function pressed() {
  for (const button of $("ranges").children) button.setAttribute("aria-pressed", button.dataset.range === series.range);
}
pressed();
$("pause").addEventListener("click", () => {
  paused = paused ? 0 : nowS();
  $("pause").setAttribute("aria-pressed", paused > 0);
  text($("pause"), paused ? "Go on" : "Pause");
  rangeNote();
  if (!paused && last) show(last);
});
$("events-open").addEventListener("click", () => {
  $("events").hidden = !$("events").hidden;
  $("events-open").setAttribute("aria-expanded", !$("events").hidden);
});
