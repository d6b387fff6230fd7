// Views by the address' hash, the line to the gateway, and the colours.

const SILENCE = 4_000; // updates come every second
const AGAIN = 1_500; // pause before the gateway is asked again
const UNSEEN = 60_000; // a page that nobody looks at stops listening
let lastSeen = 0, source = null, retry = 0, unseen = 0;
const began = performance.now();

// === Views: #/decisions and so on; any other hash is the id of a request.

const VIEWS = { "": "overview", decisions: "decisions", policy: "policy", playground: "playground", keys: "keys" };
const ENTER = { decisions: askDecisions, policy: enterPolicy, playground: enterPlayground, keys: enterKeys };
let view = "", leaving = false;
function route() {
  const hash = decodeURIComponent(location.hash.slice(1));
  const isId = hash && !hash.startsWith("/");
  const wanted = isId ? view || "decisions" : VIEWS[hash.slice(1)] ?? "overview";
  if (wanted !== view) {
    view = wanted;
    for (const name of Object.values(VIEWS)) $(`view-${name}`).hidden = name !== view;
    for (const link of $("views").children) {
      if ((VIEWS[link.hash.slice(2)] ?? "") === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    scrollTo(0, 0);
    if (last) show(last);
    ENTER[view]?.();
    drawCharts();
  }
  if (isId) openDecision(hash);
  else if ($("detail").open) $("detail").close();
}
addEventListener("hashchange", route);
$("detail").addEventListener("close", () => {
  if (location.hash && !location.hash.startsWith("#/")) history.replaceState(null, "", view === "overview" ? "#/" : `#/${view}`);
  look(false)();
});
$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});

// === The line to the gateway

function show(state, how = "live") {
  [last, lastSeen] = [state, performance.now()];
  const isPoint = record(state);
  link("live", how);
  if (document.hidden || paused) return;
  verdict(state);
  about(state);
  choices(state);
  tryIt(state);
  if (view !== "overview") return;
  facts(state);
  budgets(state);
  speed(state);
  tiers(state);
  reuse(state);
  callers(state);
  if (isPoint || !charts.ttft.u) drawCharts();
}
function about(state) {
  text($("hash"), state.hash);
  text($("loaded"), `${ago(state.loaded_s)} ago`);
  text($("version"), state.version);
  text($("uptime"), ago(state.uptime_s));
  $("simulated").hidden = !state.simulated;
  $("draining").hidden = !state.draining;
}
function link(name, word) {
  cls($("link"), `link ${name}`);
  text($("link").lastElementChild, word);
  document.body.classList.toggle("stale", name === "lost" && lastSeen > 0);
  $("lost").hidden = name !== "lost";
}
function lost() {
  link("lost", "no connection");
  const since = ago((performance.now() - (lastSeen || began)) / 1e3);
  text($("lost"), lastSeen ? `The gateway cannot be reached. What you see is ${since} old; trying again.` : `The gateway has not answered for ${since}; trying again.`);
}
function connect() {
  disconnect();
  source = new EventSource("/admin/events");
  source.onmessage = (event) => show(JSON.parse(event.data));
  source.onerror = () => {
    disconnect();
    askState();
  };
}
/** Where the stream is refused, as to one watcher too many, the state is to be had all the same. */
function askState() {
  fetch("/admin/state").then((answer) => answer.json()).then((state) => show(state, "live, at times"), lost);
  retry = setTimeout(connect, AGAIN);
}
function disconnect() {
  clearTimeout(retry);
  source?.close();
  source = null;
}
setInterval(() => {
  if (document.hidden) return;
  if ($("link").classList.contains("lost")) lost();
  else if (performance.now() - (lastSeen || began) > SILENCE) {
    lost();
    connect(); // open, but nothing comes
  }
}, 1000);
document.addEventListener("visibilitychange", () => {
  clearTimeout(unseen);
  if (document.hidden) unseen = setTimeout(disconnect, UNSEEN);
  else {
    if (source) last && show(last);
    else connect();
    askHistorySoon();
  }
});

// === Colours

const THEMES = ["auto", "light", "dark"];
function theme(name) {
  document.documentElement.dataset.theme = name;
  text($("theme-name"), name);
  drawCharts();
}
$("theme").addEventListener("click", () => {
  theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]);
  memory.set("theme", document.documentElement.dataset.theme);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);

foldPanels();
theme(THEMES.includes(memory.get("theme")) ? memory.get("theme") : "auto");
explains($("simulated"), "No real engine is behind this gateway: answers and timings are made up.");
explains($("draining"), "No new requests are taken; the ones under way are finished.");
$("theme").dataset.help = "Colours: as the system has them, light, or dark";
addEventListener("resize", () => last && view === "overview" && speed(last));
route();
askHistory();
connect();
