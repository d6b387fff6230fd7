// Looks at the operators' page with a real browser. PAGE is its address, and traffic must be flowing there. FAILING is the page
// of another gateway, whose three engines die one by one, whenever somebody connects to the port KILLER. CHROMIUM is the browser's binary, SHOTS a folder
// for screenshots (none are taken without, as it takes a while until there is something to see), API the API of the gateway whose engines die, POLICY its policy file. ONLY is a part of the name of the checks to run. One line is printed per check.
import assert from "node:assert/strict";
import { appendFileSync, readFileSync } from "node:fs";
import net from "node:net";
import { chromium } from "playwright-core";
import { barriers, crowded, faint } from "./looks.mjs";

const { PAGE, FAILING, KILLER, CHROMIUM, SHOTS, API, POLICY, ONLY } = process.env;
const AXE = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
/** How soon a dead backend is to be seen, in milliseconds. */
const SOON = 2_000;
const WIDTHS = [360, 390, 820, 1280, 1440];
const VIEWS = ["#/", "#/decisions", "#/policy", "#/playground", "#/keys"];
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
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && troubles.push(`${message.text()} ${message.location().url}`));
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
const view = (page, hash) => page.evaluate((hash) => { location.hash = hash; }, hash);
/** Opens what is folded: panels and pools. */
const unfold = (page) => page.evaluate(() => {
  document.querySelectorAll(".fold[aria-expanded=false]").forEach((fold) => fold.click());
  if (document.querySelector("#speed-all").textContent.startsWith("Open")) document.querySelector("#speed-all").click();
});
const rowOf = (name) => [...document.querySelectorAll("#speed-rows tr")].find((row) => row.querySelector(".name").textContent === name);

const checks = {
  async the_page_is_small_and_drawn_at_once() {
    const answer = await fetch(PAGE);
    const size = (await answer.arrayBuffer()).byteLength;
    assert.ok(size <= 200_000, `${size} bytes`);
    const painted = await light.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
    console.log(`      ${size} bytes, first paint after ${painted.toFixed(0)} ms`);
    assert.ok(painted < 3_000, `first paint after ${painted} ms, on a machine that is busy with other tests`);
  },
  async pools_and_backends_are_listed() {
    assert.deepEqual(await light.locator("tr.pool .name").allTextContents(), ["small", "large", "long"]);
    assert.deepEqual(await light.locator("tr.backend .name").allTextContents(), ["gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6"]);
  },
  async engines_come_up_and_all_is_well() {
    await until(light, "six green lamps", () => document.querySelectorAll(".backend .lamp.up").length === 6);
    await until(light, "a word that all is well", () => /^All is well: 6 backends up/.test(document.querySelector("#verdict-title").textContent));
  },
  async the_first_screen_needs_no_scrolling() {
    const below = await light.evaluate(() => ["#verdict", "#facts", "#ttft-plot", "#hits-plot", "#rate-plot", "#queue-plot", "#budgets"]
      .filter((it) => document.querySelector(it).getBoundingClientRect().bottom > innerHeight || !document.querySelector(it).checkVisibility()));
    assert.deepEqual(below, []);
  },
  async tiers_are_told() {
    const rows = () => [...document.querySelectorAll("#tiers tbody tr:not(.route)")].map((row) => [...row.children].map((cell) => cell.textContent));
    await until(light, "requests of both tiers", () => [...document.querySelectorAll("#tiers tbody tr:not(.route)")].filter((row) => /[1-9]/.test(row.lastChild.textContent)).length === 2);
    const [small, large] = await light.evaluate(rows);
    assert.deepEqual([small.slice(0, 2), large.slice(0, 2)], [["small", "75.0 %"], ["large", "25.0 %"]]);
    assert.ok(Math.abs(parseFloat(small[4]) + parseFloat(large[4]) - 100) < .2, `${small[4]} and ${large[4]} were sent`);
    assert.match(await light.locator("#tiers .route").innerText(), /auto.*shares of requests.*decisions.*expected quality/s);
  },
  async objectives_and_budgets_are_told() {
    assert.equal(await light.locator("#objectives tr").count(), 3);
    assert.equal(await light.locator("#budgets li").count(), 3);
    await until(light, "how they stand", () => [...document.querySelectorAll("#objectives tr")].every((row) => /ok|burning|exhausted|no traffic/.test(row.children[1].textContent)));
  },
  async simulation_is_said_plainly() {
    assert.equal(await light.locator("#simulated").innerText(), "SIMULATED");
    assert.match(await light.title(), /simulated/);
  },
  async numbers_move_with_requests() {
    await until(light, "more requests", (before) => document.querySelector("#facts small").textContent !== before, await light.evaluate(soFar));
    await until(light, "latencies of every pool", () => [...document.querySelectorAll("tr.pool")].every((pool) => [4, 5, 6, 7, 8].every((at) => /\d(ms|s)$/.test(pool.children[at].textContent))));
    await until(light, "shares in the legend", () => [...document.querySelectorAll("#rate-keys b")].every((it) => /\d %/.test(it.textContent)));
  },
  async charts_show_every_pool_and_values_where_they_are_pointed_at() {
    await until(light, "lines of three pools", () => charts.ttft.u?.data.length === 4 && charts.ttft.u.data.slice(1).every((column) => column.some((x) => x > 0)));
    await light.hover("#ttft-plot", { position: { x: 300, y: 80 } });
    assert.match(await light.locator("#ttft-plot .mark-note").innerText(), /^\d\d:\d\d/);
    await light.mouse.move(5, 5);
    await light.focus("#ttft-plot");
    await light.keyboard.press("ArrowLeft");
    assert.match(await light.locator("#ttft-plot .unseen").innerText(), /\d\d:\d\d:\d\d: small/);
    await light.evaluate(() => document.activeElement.blur());
    for (const range of ["1h", "6h", "3d", "15m"]) {
      await light.click(`[data-range="${range}"]`);
      const [from, to] = await light.evaluate(() => [charts.rate.u.scales.x.min, charts.rate.u.scales.x.max]);
      assert.ok(Math.abs(to - from - { "15m": 900, "1h": 3600, "6h": 21600, "3d": 259200 }[range]) < 2, `${range}: ${to - from} s`);
    }
  },
  async a_pause_keeps_everything_as_it_is() {
    await light.click("#pause");
    const [then, pressed] = await light.evaluate(() => [document.querySelector("#facts").innerText, document.querySelector("#pause").getAttribute("aria-pressed")]);
    assert.equal(pressed, "true");
    const heard = await light.evaluate(() => last.uptime_s);
    await until(light, "another state", (heard) => last.uptime_s > heard + 1, heard);
    assert.equal(await light.evaluate(() => document.querySelector("#facts").innerText), then);
    await light.click("#pause");
  },
  async terms_are_explained_on_focus() {
    await light.focus("#quantile button:nth-child(2)");
    assert.match(await light.locator("#tip").innerText(), /95 of 100/);
    await light.keyboard.press("Escape");
    assert.ok(await light.locator("#tip").isHidden());
    await light.evaluate(() => document.activeElement.blur());
  },
  async backends_are_searched_sorted_and_folded() {
    await light.fill("#speed-search", "gpu-4 large");
    await until(light, "one row", () => document.querySelectorAll("#speed-rows tr").length === 1 && document.querySelector("#speed-rows .name").textContent === "gpu-4");
    await light.fill("#speed-search", "");
    await light.selectOption("#speed-sort", "worst");
    await until(light, "backends alone", () => document.querySelectorAll("#speed-rows tr.backend").length === 6 && !document.querySelector("#speed-rows tr.pool"));
    await light.selectOption("#speed-sort", "policy");
    await light.locator("tr.pool .chevron").first().click();
    await until(light, "a closed pool", () => document.querySelectorAll("#speed-rows tr.backend").length === 3);
    await light.locator("tr.pool .chevron").first().click();
  },
  async two_hundred_backends_have_rows_where_somebody_looks() {
    const page = await open({});
    await until(page, "a state", () => last !== null);
    const [drawn, scrolled, took] = await page.evaluate(async () => {
      disconnect();
      window.connect = () => {}; // Silence connects again, which would show the true state.
      const [pool] = last.pools, [first] = pool.backends;
      const named = (at) => `llm-inference-gpu-node-${String(at).padStart(3, "0")}.cluster-eu-west-1b.internal.example.com:80${String(at % 100).padStart(2, "0")}`;
      const many = { ...last, pools: [{ ...pool, backends: Array.from({ length: 200 }, (_, at) => ({ ...first, name: named(at), engine: named(at), state: at === 150 ? "down" : "up" })) }] };
      opened.set(pool.name, true);
      const began = performance.now();
      show(many);
      const took = performance.now() - began;
      const drawn = document.querySelectorAll("#speed-rows tr").length;
      document.querySelector("#speed-scroll").scrollTop = 1e6;
      await new Promise((done) => setTimeout(done, 200));
      return [drawn, document.querySelector("#speed-rows tr:last-child .name").textContent, took];
    });
    assert.ok(drawn < 60, `${drawn} rows`);
    assert.match(scrolled, /node-199/);
    console.log(`      200 backends: ${drawn} rows in ${took.toFixed(0)} ms`);
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 800 });
      await page.waitForTimeout(150);
      assert.deepEqual(await page.evaluate(crowded), [], `${width} px`);
    }
    await page.selectOption("#speed-sort", "worst");
    assert.match(await page.locator("#speed-rows tr").first().innerText(), /node-150[^]*DOWN/);
    await page.close();
  },
  async decisions_are_listed_and_can_be_searched() {
    await view(light, "#/decisions");
    await until(light, "decisions of two pools", () => ["small", "large"].every((pool) => [...document.querySelectorAll("#decisions .way")].some((way) => way.textContent.includes(pool))));
    await light.selectOption("#filter-pool", "large");
    await until(light, "those of one pool", () => [...document.querySelectorAll("#decisions .way")].length > 0 && [...document.querySelectorAll("#decisions .way")].every((way) => way.textContent.includes("large")));
    await light.selectOption("#filter-pool", "");
    await light.fill("#filter", "nothing is called so");
    await until(light, "an empty list that says so", () => !document.querySelector("#none").hidden);
    await light.fill("#filter", "");
    await until(light, "the whole list again", () => document.querySelectorAll("#decisions tr").length > 3);
  },
  async a_held_list_stands_still() {
    await light.click("#hold");
    await light.mouse.move(5, 5);
    const newest = () => document.querySelector("#decisions tr").dataset.key;
    const held = await light.evaluate(newest), before = await light.evaluate(() => last.requests.total);
    await until(light, "more requests", (before) => last.requests.total > before + 2, before);
    assert.equal(await light.evaluate(newest), held);
    await light.click("#hold");
    await until(light, "the list to go on", (held) => document.querySelector("#decisions tr").dataset.key !== held, held);
  },
  async the_keyboard_opens_a_decision_with_all_its_candidates() {
    await light.selectOption("#filter-pool", "small");
    await until(light, "those of one pool", () => [...document.querySelectorAll("#decisions .way")].length > 3 && [...document.querySelectorAll("#decisions .way")].every((way) => way.textContent.includes("small")));
    await light.focus("#decisions button[tabindex='0']");
    await light.keyboard.press("ArrowDown");
    const id = await light.evaluate(() => document.activeElement.closest("tr").dataset.key);
    await light.keyboard.press("Enter");
    await until(light, "candidates", () => document.querySelectorAll("#detail .candidates .chosen").length > 0);
    assert.match(await light.locator("#detail-title").innerText(), new RegExp(id));
    assert.match(light.url(), new RegExp(`#${id}$`));
    assert.match(await light.locator("#detail .story").innerText(), /asked for .* was chosen from 3 candidates .* It ended after/);
    assert.ok(await light.locator("#detail .waterfall li").count() >= 2, "a waterfall");
    assert.equal(await light.locator("#detail .candidates").first().locator("tbody tr").count(), 3, "three backends were weighed");
    assert.deepEqual(await light.evaluate(faint), []);
    assert.deepEqual(await light.evaluate(crowded), []);
    assert.deepEqual(await barriers(light, AXE), []);
    await shoot(light, "decision");
    await light.keyboard.press("Escape");
    await until(light, "the focus where it was", (id) => document.activeElement.closest("tr")?.dataset.key === id, id);
    // A link opens the same, and a second one beside it.
    const other = await light.evaluate((id) => [...document.querySelectorAll("#decisions tr")].map((row) => row.dataset.key).find((key) => key !== id), id);
    await light.evaluate(() => document.activeElement.blur());
    await view(light, `#${id},${other}`);
    await until(light, "two beside each other", () => document.querySelectorAll("#detail .compared thead th").length === 3);
    await light.keyboard.press("Escape");
    await light.selectOption("#filter-pool", "");
    await view(light, "#/");
  },
  async the_keyboard_reaches_everything_and_shows_where_it_is() {
    await light.evaluate(() => {
      document.activeElement.blur();
      scrollTo(0, 0);
    });
    const wanted = await light.evaluate(() => {
      const all = [...document.querySelectorAll("a[href], button, input, select, [tabindex='0']")];
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
  async a_prompt_is_explained_and_then_sent_through_each_api() {
    await view(light, "#/playground");
    for (const [at, api] of ["messages", "responses", "chat"].entries()) {
      await light.selectOption("#try-api", api);
      await light.fill("#try-prompt", `Name ${at + 3} signals that a train driver sees at night.`);
      await light.click(".choices .primary");
      await until(light, `an answer by ${api}`, () => !trial.stop && trial.result.querySelector("a[href^='#']"));
      const [before, after] = await light.evaluate(() => [trial.answer.innerText, trial.result.innerText]);
      for (const word of ["Route", "Goes to", "Cache", "Expected", "Cost"]) assert.ok(before.includes(word), `${word}: ${before}`);
      for (const word of ["Decision", "Answered by", "TTFT", "Tokens", "Cost"]) assert.ok(after.includes(word), `${word}: ${after}`);
      assert.ok((await light.locator(".said").innerText()).length > 20, "an answer");
    }
    assert.deepEqual([...await light.evaluate(faint), ...await light.evaluate(crowded), ...await barriers(light, AXE)], []);
    await shoot(light, "playground");
    await light.locator(".results a[href^='#']").click();
    await until(light, "its decision", () => document.querySelector("#detail[open] .waterfall"));
    await light.keyboard.press("Escape");
    await view(light, "#/policy");
    await until(light, "the audit log", () => /send prompt/.test(document.querySelector("#view-policy").innerText));
    await view(light, "#/");
  },
  async a_change_is_confirmed_first() {
    await view(light, "#/policy");
    await light.click("text=Reload …");
    assert.ok(await light.locator("#confirm").isVisible());
    assert.equal(await light.evaluate(() => document.activeElement.id), "confirm-no", "the focus is on what changes nothing");
    await light.keyboard.press("Escape");
    assert.ok(await light.locator("#confirm").isHidden());
    await view(light, "#/");
  },
  async an_hour_leaves_no_more_than_an_hours_points() {
    const page = await open({});
    await until(page, "a state", () => last !== null);
    const [early, late, points] = await page.evaluate(() => {
      disconnect();
      window.connect = () => {};
      const real = Date.now.bind(Date);
      let ahead = 0;
      Date.now = () => real() + ahead;
      const nodes = () => document.querySelectorAll("*").length;
      const live = (updates, pause) => {
        for (let update = 0; update < updates; update += 1) {
          ahead += pause;
          const decisions = last.decisions.slice(0, 4).map((it, at) => ({ ...it, id: `${ahead}-${at}` }));
          show({ ...last, decisions });
        }
        return nodes();
      };
      return [live(170, 5_000), live(800, 9_000), series.own.length];
    });
    assert.ok(late <= early * 1.05, `${early} nodes at first, ${late} after two hours`);
    assert.ok(points <= 720, `${points} points`);
    await page.close();
  },
  async words_can_be_read_and_nothing_overlaps_at_any_width() {
    if (SHOTS) await light.waitForTimeout(60_000);
    for (const [width, colorScheme] of [...WIDTHS.map((width) => [width, "light"]), [1280, "dark"]]) {
      const page = await open({ viewport: { width, height: 800 }, colorScheme, isMobile: width < 500, bypassCSP: true });
      for (const hash of VIEWS) {
        await view(page, hash);
        await until(page, hash, (hash) => !document.querySelector(`#view-${hash.slice(2) || "overview"}`).hidden && (hash !== "#/decisions" || document.querySelectorAll("#decisions tr").length > 3), hash);
        if (hash === "#/") await unfold(page);
        await page.waitForTimeout(250);
        assert.deepEqual([...await page.evaluate(faint), ...await page.evaluate(crowded)], [], `${hash} at ${width} px, ${colorScheme}`);
        if (width === 1280 || width === 390) assert.deepEqual(await barriers(page, AXE), [], `${hash} at ${width} px, ${colorScheme}`);
      }
      await page.close();
    }
    const phone = await open({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true });
    await until(phone, "pools", () => document.querySelectorAll("tr.pool").length === 3);
    const tall = await phone.evaluate(() => document.documentElement.scrollHeight);
    assert.ok(tall < 2_000, `${tall} px tall on a phone`);
    await phone.close();
  },
  async colours_follow_the_system_or_the_switch() {
    const dark = await open({ colorScheme: "dark" });
    const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const before = await ground(dark);
    assert.notEqual(await ground(light), before, "a dark page for those who like it dark");
    for (const theme of ["light", "dark", "auto"]) {
      await dark.click("#theme");
      assert.equal(await ground(dark), theme === "light" ? await ground(light) : before, theme);
    }
    await dark.close();
  },
  async it_says_when_the_gateway_is_gone_and_goes_on_when_it_is_back() {
    const way = relay(PAGE);
    const port = await way.listen(0);
    const page = await open({}, { url: `http://127.0.0.1:${port}/`, quiet: true });
    await way.cut();
    await until(page, "a word that it is stale", () =>
      document.body.classList.contains("stale") && /cannot be reached/.test(document.querySelector("#lost").textContent));
    assert.deepEqual(await page.evaluate(faint), []);
    await shoot(page, "disconnected");
    await way.listen(port);
    await until(page, "a page that is live again", () =>
      document.querySelector(".link.live") && document.querySelector("#lost").hidden && !document.body.classList.contains("stale"));
    await page.close();
    await way.cut();
  },
  async dead_engines_are_told_at_once_and_their_marks_survive() {
    const page = await open({}, { url: FAILING });
    const ask = async () => {
      const answer = await fetch(`${API}/v1/chat/completions`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ model: "auto", stream: true, messages: [{ role: "user", content: "Hello" }] }) });
      await answer.arrayBuffer();
      return answer.headers.get("x-signalbox-id");
    };
    let busy = true;
    const ids = [];
    const loop = async () => {
      while (busy) {
        ids.push(await ask().catch(() => null));
        await new Promise((done) => setTimeout(done, 20));
      }
    };
    const load = Promise.all(Array.from({ length: 8 }, loop));
    await until(page, "green lamps", () => document.querySelectorAll(".backend .lamp.up").length === 3);
    const began = Date.now() / 1e3, took = [], killing = () => new Promise((done) => net.connect(Number(KILLER), "127.0.0.1").on("connect", function () { this.destroy(); done(); }));
    for (const dead of [1, 2]) {
      const killed = Date.now();
      await killing();
      await until(page, "a red row", (dead) => document.querySelectorAll(".backend.down .lamp.down").length === dead, dead);
      took.push(Date.now() - killed);
    }
    console.log("      it took", took.join(", "), "ms");
    assert.match(await page.locator("tr.down .who").first().innerText(), /DOWN/, "and not by its colour alone");
    // The chart has its mark, and those whose attempt failed over are found by id.
    await until(page, "marks", (began) => allEvents().filter((it) => it.kind === "backend_down" && it.time_s >= began - 1).length === 2, began);
    const ways = new Map();
    const failedOver = async () => {
      for (const id of ids.filter(Boolean).slice(-4_000)) {
        const line = await (await fetch(new URL(`/admin/decisions/${id}`, FAILING))).json();
        if (line.attempts?.length > 1 && line.outcome === "ok") return id;
        const way = [line.attempts?.map((it) => it.outcome).join(", "), line.outcome ?? line.error?.message].join(": ");
        ways.set(way, (ways.get(way) ?? 0) + 1);
      }
      return null;
    };
    const id = await failedOver();
    assert.ok(id, `a request that failed over, among ${JSON.stringify([...ways])}`);
    await view(page, "#/decisions");
    await page.fill("#filter", id);
    await until(page, "the decision", (id) => document.querySelectorAll("#decisions tr").length === 1 && document.querySelector("#decisions tr").dataset.key === id, id);
    await page.click("#decisions button");
    await until(page, "its failed attempt", () => document.querySelectorAll("#detail .waterfall .failed").length > 0);
    await page.keyboard.press("Escape");
    // The policy is changed, and is in force; then it is read again by hand, confirmed; nothing is lost by loading the page anew.
    const hash = await page.evaluate(() => last.hash);
    appendFileSync(POLICY, "timeouts: { connect: 900ms }\n");
    await until(page, "another policy", (hash) => last.hash !== hash && document.querySelector("#hash").textContent === last.hash, hash);
    await until(page, "its mark", () => allEvents().some((it) => it.kind === "reloaded"));
    await view(page, "#/policy");
    await until(page, "the new text", () => /connect: 900ms/.test(document.querySelector("#view-policy").innerText));
    await page.click("text=Reload …");
    await page.click("#confirm-yes");
    await until(page, "a word of it", () => /in force/.test(document.querySelector("#toast").textContent));
    await page.goto(new URL("/", FAILING).href);
    await page.reload();
    await until(page, "marks that survived", () => ["backend_down", "reloaded"].every((kind) => allEvents().some((it) => it.kind === kind)));
    await page.click("#events-open");
    assert.match(await page.locator("#events").innerText(), /does not answer/);
    await page.click("#events-open");
    await killing();
    await until(page, "a last red row", () => document.querySelectorAll(".backend.down .lamp.down").length === 3);
    assert.match(await page.locator("#verdict").innerText(), /down, none is left/);
    assert.deepEqual([...await page.evaluate(faint), ...await page.evaluate(crowded)], []);
    await shoot(page, "down");
    busy = false;
    await load;
    // A machine that is busy with other tests may be late once.
    assert.ok(Math.min(...took) <= SOON, `the quickest took ${Math.min(...took)} ms`);
    await page.close();
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
    const urls = asked.map((url) => new URL(url)).filter((url) => url.protocol !== "data:");
    assert.deepEqual([...new Set(urls.map((url) => url.hostname))], ["127.0.0.1"]);
    const paths = new Set(urls.map((url) => url.pathname));
    assert.ok([...paths].every((path) => /^\/(admin\/.*)?$/.test(path)), [...paths].join(" "));
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks).filter(([name]) => name.includes(ONLY ?? ""))) {
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
