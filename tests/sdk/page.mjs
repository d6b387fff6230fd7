// Looks at the operators' page with a real browser. PAGE is its address, and traffic must be flowing there. FAILING is the page
// of another gateway, whose three engines die one by one, whenever somebody connects to the port KILLER. CHROMIUM is the browser's binary, SHOTS a folder
// for screenshots (none are taken without, as it takes a while until there is something to see). One line is printed per check.
import assert from "node:assert/strict";
import net from "node:net";
import { chromium } from "playwright-core";

const { PAGE, FAILING, KILLER, CHROMIUM, SHOTS } = process.env;
/** How soon a dead backend is to be seen, in milliseconds. */
const SOON = 3_000;
const browser = await chromium.launch({
  executablePath: CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const troubles = [];
const asked = [];

/** The page in a fresh window; what goes wrong in it is kept in `troubles`, unless that is what is looked for. */
async function open(options, { url = PAGE, quiet = false } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.on("request", (request) => asked.push(request.url()));
  const page = await context.newPage();
  if (!quiet) {
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && troubles.push(message.text()));
    page.on("pageerror", (error) => troubles.push(String(error)));
    page.on("requestfailed", (request) => {
      const why = request.failure()?.errorText;
      // A page that is closed lets its stream of updates go.
      if (why !== "net::ERR_ABORTED") troubles.push(`${request.url()}: ${why}`);
    });
  }
  await page.goto(url);
  await page.waitForSelector(".link.live");
  return page;
}

async function shoot(page, name, whole = false) {
  if (SHOTS) await page.screenshot({ path: `${SHOTS}/page-${name}.png`, fullPage: whole });
}

/** Waits until `holds`, a function of the page, is true of it. */
const until = (page, what, holds, ...arg) =>
  page.waitForFunction(holds, ...arg, { timeout: 20_000 })
    .catch(async () => assert.fail(`in vain: ${what}; the page says: ${await page.locator("#verdict").innerText()}`));

/** Texts of the page that stand out too little from what is behind them, by WCAG's contrast ratio. */
function faint() {
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
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const words = walker.currentNode.textContent.trim();
    if (!words || node.closest("script, style") || !node.checkVisibility({ checkVisibilityCSS: true })) continue;
    const style = getComputedStyle(node);
    const behind = ground(node);
    const [one, other] = [light(over(rgba(style.color), behind)), light(behind)].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (one + .05) / (other + .05);
    if (ratio < (large ? 3 : 4.5)) found.push(`${words.slice(0, 30)}: ${ratio.toFixed(2)} (${style.color} on ${behind})`);
  }
  return found;
}

/** A way to the page that can be cut and laid again. */
function relay(to) {
  const { hostname, port } = new URL(to);
  const open = new Set();
  const server = net.createServer((near) => {
    const far = net.connect(Number(port), hostname);
    for (const [one, other] of [[near, far], [far, near]]) {
      open.add(one);
      one.pipe(other);
      one.on("error", () => other.destroy()).on("close", () => {
        other.destroy();
        open.delete(one);
      });
    }
  });
  const listen = (port) => new Promise((done) => server.listen(port, "127.0.0.1", () => done(server.address().port)));
  const cut = () => new Promise((done) => {
    server.close(done);
    open.forEach((socket) => socket.destroy());
  });
  return { listen, cut };
}

const light = await open({ colorScheme: "light" });
const soFar = () => document.querySelector("#facts small").textContent;

const checks = {
  async pools_and_backends_are_listed() {
    assert.deepEqual(await light.locator(".pool h3").allTextContents(), ["small", "large", "long"]);
    const backends = await light.locator(".backend .who strong").allTextContents();
    assert.deepEqual(backends, ["gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6"]);
  },
  async engines_come_up_and_all_is_well() {
    await until(light, "six green lamps", () => document.querySelectorAll(".backend .lamp.up").length === 6);
    await until(light, "a word that all is well", () => /^All is well: 6 backends up/.test(document.querySelector("#verdict-title").textContent));
  },
  async tiers_are_told() {
    const rows = () => [...document.querySelectorAll("#tiers tbody tr:not(.route)")].map((row) => [...row.children].map((cell) => cell.textContent));
    await until(light, "requests of both tiers", () => [...document.querySelectorAll("#tiers tbody tr:not(.route)")].filter((row) => /[1-9]/.test(row.lastChild.textContent)).length === 2);
    const [small, large] = await light.evaluate(rows);
    assert.deepEqual([small.slice(0, 2), large.slice(0, 2)], [["small", "75.0 %"], ["large", "25.0 %"]]);
    assert.ok(Math.abs(parseFloat(small[4]) + parseFloat(large[4]) - 100) < .2, `${small[4]} and ${large[4]} were sent`);
    assert.match(await light.locator("#tiers .route").innerText(), /auto.*shares of requests.*decisions.*expected quality/s);
  },
  async objectives_are_told() {
    assert.equal(await light.locator("#objectives tr").count(), 3);
    await until(light, "how they stand", () => [...document.querySelectorAll("#objectives tr")].every((row) => /ok|burning|exhausted|no traffic/.test(row.children[1].textContent)));
  },
  async simulation_is_said_plainly() {
    assert.equal(await light.locator("#simulated").innerText(), "SIMULATED");
    assert.match(await light.title(), /simulated/);
  },
  async numbers_move_with_requests() {
    await until(light, "more requests", (before) => document.querySelector("#facts small").textContent !== before, await light.evaluate(soFar));
    await until(light, "latencies of every pool", () =>
      [...document.querySelectorAll("tr.pool")].every((pool) => [4, 5, 6, 8, 9, 10].every((at) => /\d(ms|s)$/.test(pool.children[at].textContent))));
    await until(light, "what was predicted", () => /predicted .*\d (ms|s), seen .*\d (ms|s)/.test(document.querySelector(".said").textContent));
    await until(light, "traces", () => document.querySelectorAll(".spark polyline").length >= 9);
    await until(light, "shares of the pools", () => [...document.querySelectorAll("#legend li")].every((pool) => /\d %/.test(pool.children[2].textContent)));
  },
  async decisions_are_listed_and_can_be_filtered() {
    await until(light, "decisions of two pools", () =>
      ["small", "large"].every((pool) => [...document.querySelectorAll("#decisions .way")].some((way) => way.textContent.includes(pool))));
    await light.fill("#filter", "large");
    // Those of this pool may have left the list meanwhile, others must have.
    const ways = await light.locator("#decisions .way").allTextContents();
    assert.ok(ways.every((way) => way.includes("large")), String(ways));
    await light.fill("#filter", "nothing is called so");
    await until(light, "an empty list that says so", () => !document.querySelector("#none").hidden);
    await light.fill("#filter", "");
    await until(light, "the whole list again", () => document.querySelectorAll("#decisions tr").length > 3);
  },
  async a_held_list_stands_still() {
    await light.click("#hold");
    const newest = () => document.querySelector("#decisions tr").dataset.key;
    const held = await light.evaluate(newest);
    await until(light, "more requests", (before) => document.querySelector("#facts small").textContent !== before, await light.evaluate(soFar));
    assert.equal(await light.evaluate(newest), held);
    await light.click("#hold");
    await until(light, "the list to go on", (held) => document.querySelector("#decisions tr").dataset.key !== held, held);
  },
  async the_keyboard_opens_a_decision_with_all_its_candidates() {
    await light.fill("#filter", "small");
    await light.focus("#decisions button[tabindex='0']");
    await light.keyboard.press("ArrowDown");
    const id = await light.evaluate(() => document.activeElement.closest("tr").dataset.key);
    await light.keyboard.press("Enter");
    await until(light, "candidates", () => document.querySelectorAll("#detail .candidates .chosen").length > 0);
    assert.match(await light.locator("#detail-title").innerText(), new RegExp(id));
    assert.equal(await light.locator("#detail .candidates").first().locator("tbody tr").count(), 3, "three backends were weighed");
    assert.deepEqual(await light.evaluate(faint), []);
    await light.keyboard.press("Escape");
    assert.equal(await light.evaluate(() => document.activeElement.closest("tr")?.dataset.key), id, "the focus is where it was");
    await light.evaluate(() => document.activeElement.blur());
    await light.fill("#filter", "");
  },
  async the_keyboard_reaches_everything_and_shows_where_it_is() {
    await light.evaluate(() => {
      document.activeElement.blur();
      scrollTo(0, 0);
    });
    const wanted = await light.evaluate(() => {
      const all = [...document.querySelectorAll("a[href], button, input, [tabindex='0']")];
      return all.filter((node) => node.tabIndex >= 0 && node.checkVisibility()).length;
    });
    const seen = new Set();
    for (let step = 0; step < wanted + 4; step += 1) {
      await light.keyboard.press("Tab");
      const [place, outline] = await light.evaluate(() => {
        const node = document.activeElement;
        return [[...document.querySelectorAll("*")].indexOf(node), node === document.body ? "body" : getComputedStyle(node).outlineStyle];
      });
      if (outline === "body") continue;
      assert.notEqual(outline, "none", "the focus is to be seen");
      seen.add(place);
    }
    assert.ok(seen.size >= wanted, `${seen.size} of ${wanted} were reached`);
    await light.evaluate(() => document.activeElement.blur());
  },
  async an_hour_leaves_no_more_than_some_minutes() {
    const page = await open({});
    await until(page, "a state", () => last !== null);
    const [early, late, points] = await page.evaluate(() => {
      const real = performance.now.bind(performance);
      let ahead = 0;
      performance.now = () => real() + ahead;
      const nodes = () => document.querySelectorAll("*").length;
      const live = (updates, pause) => {
        for (let update = 0; update < updates; update += 1) {
          ahead += pause;
          const decisions = last.decisions.slice(0, 4).map((it, at) => ({ ...it, id: `${ahead}-${at}` }));
          show({ ...last, decisions });
        }
        return nodes();
      };
      const found = [live(170, 2_000), live(400, 9_000)];
      return [...found, Math.max(...[...traces.values()].map((points) => points.length))];
    });
    assert.ok(late <= early * 1.05, `${early} nodes at first, ${late} after an hour`);
    assert.ok(points <= 151, `${points} points in a trace`);
    await page.close();
  },
  async words_can_be_read_and_nothing_is_cut_off_in_any_dress() {
    const dark = await open({ colorScheme: "dark" });
    const phone = await open({ viewport: { width: 360, height: 780 }, deviceScaleFactor: 2, isMobile: true });
    const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.notEqual(await ground(light), await ground(dark), "a dark page for those who like it dark");
    if (SHOTS) await light.waitForTimeout(60_000);
    for (const [name, page] of Object.entries({ light, dark, phone })) {
      await until(page, "decisions", () => document.querySelectorAll("#decisions tr").length > 3);
      const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(wide <= seen, `${name}: ${wide} px wide in a window of ${seen}`);
      assert.deepEqual(await page.evaluate(faint), [], name);
      await page.evaluate(() => scrollTo(0, 0));
      await shoot(page, name);
      await shoot(page, `${name}-whole`, true);
    }
    const before = await ground(dark);
    for (const theme of ["light", "dark", "auto"]) {
      await dark.click("#theme");
      assert.equal(await ground(dark), theme === "light" ? await ground(light) : before, theme);
    }
  },
  async it_says_when_the_gateway_is_gone_and_goes_on_when_it_is_back() {
    const way = relay(PAGE);
    const port = await way.listen(0);
    const page = await open({}, { url: `http://127.0.0.1:${port}/`, quiet: true });
    await way.cut();
    await until(page, "a word that it is stale", () =>
      document.body.classList.contains("stale") && /cannot be reached/.test(document.querySelector("#lost").textContent));
    assert.deepEqual(await page.evaluate(faint), []);
    await way.listen(port);
    await until(page, "a page that is live again", () =>
      document.querySelector(".link.live") && document.querySelector("#lost").hidden && !document.body.classList.contains("stale"));
    await page.close();
    await way.cut();
  },
  async dead_backends_turn_red_at_once() {
    const page = await open({}, { url: FAILING });
    await until(page, "green lamps", () => document.querySelectorAll(".backend .lamp.up").length === 3);
    const took = [];
    for (const dead of [1, 2, 3]) {
      const killed = Date.now();
      net.connect(Number(KILLER), "127.0.0.1").on("connect", function () { this.destroy(); });
      await until(page, "a red row", (dead) => document.querySelectorAll(".backend.down .lamp.down").length === dead, dead);
      took.push(Date.now() - killed);
    }
    console.log("      it took", took.join(", "), "ms");
    // A machine that is busy with other tests may be late once.
    assert.ok(Math.min(...took) <= SOON, `the quickest took ${Math.min(...took)} ms`);
    assert.match(await page.locator("#verdict").innerText(), /down, none is left/);
    assert.match(await page.locator(".backend.down .who").first().innerText(), /DOWN/, "and not by its colour alone");
    assert.deepEqual(await page.evaluate(faint), []);
    await shoot(page, "down");
  },
  async a_page_may_ask_nobody_else() {
    const page = await open({}, { quiet: true });
    const refused = await page.evaluate(() => new Promise((done) => {
      document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
      fetch("http://127.0.0.1:1/").catch(() => {});
    }));
    assert.equal(refused, "connect-src");
    await page.close();
  },
  async nothing_went_wrong_or_elsewhere() {
    assert.deepEqual(troubles, []);
    const hosts = new Set(asked.map((url) => new URL(url)).filter((url) => url.protocol !== "data:").map((url) => url.hostname));
    assert.deepEqual([...hosts], ["127.0.0.1"]);
    const paths = new Set(asked.map((url) => new URL(url)).filter((url) => url.protocol !== "data:").map((url) => url.pathname));
    assert.ok([...paths].every((path) => /^\/(admin\/(events|state|decisions\/.*))?$/.test(path)), [...paths].join(" "));
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log("ok  ", name);
  } catch (error) {
    console.log("FAIL", name, error.stack);
    failed += 1;
    break; // what follows builds on it
  }
}
await browser.close();
process.exit(failed ? 1 : 0);
