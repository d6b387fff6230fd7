// Looks at the operators' page with a real browser. PAGE is its address, CHROMIUM the browser's binary, SHOTS a folder for
// screenshots (none are taken without, as it takes a while until there is something to see). Traffic must be flowing; one
// line is printed per check.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const { PAGE, CHROMIUM, SHOTS } = process.env;
const browser = await chromium.launch({
  executablePath: CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const troubles = [];

/** The page in a fresh window; what goes wrong in it, or leaves its host, is kept in `troubles`. */
async function open(options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && troubles.push(message.text()));
  page.on("pageerror", (error) => troubles.push(String(error)));
  page.on("requestfailed", (request) => troubles.push(`${request.url()}: ${request.failure()?.errorText}`));
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol !== "data:" && url.origin !== new URL(PAGE).origin) troubles.push(`asked elsewhere: ${url}`);
  });
  await page.goto(PAGE);
  await page.waitForSelector(".link.live");
  return page;
}

async function shoot(page, name, whole = false) {
  if (SHOTS) await page.screenshot({ path: `${SHOTS}/page-${name}.png`, fullPage: whole });
}

/** Waits until `holds`, a function of the page, is true of it. */
const until = (page, what, holds, ...arg) =>
  page.waitForFunction(holds, ...arg, { timeout: 20_000 }).catch(() => assert.fail(`in vain: ${what}`));

const light = await open({ colorScheme: "light" });

const checks = {
  async pools_and_backends_are_listed() {
    assert.deepEqual(await light.locator(".pool h2").allTextContents(), ["small", "large", "long"]);
    const backends = await light.locator(".pool .who strong").allTextContents();
    assert.deepEqual(backends, ["sim-small-1", "sim-small-2", "sim-small-3", "sim-large-1", "sim-large-2", "sim-long-1"]);
  },
  async engines_come_up() {
    await until(light, "six green lamps", () => document.querySelectorAll(".lamp.up").length === 6);
  },
  async simulation_is_said_plainly() {
    assert.equal(await light.locator("#simulated").innerText(), "SIMULATED");
    assert.match(await light.title(), /simulated/);
  },
  async numbers_move_with_requests() {
    const total = () => [...document.querySelectorAll("#totals div")]
      .find((fact) => fact.firstChild.textContent === "Requests").lastChild.textContent;
    const before = await light.evaluate(total);
    const moved = (before) => [...document.querySelectorAll("#totals div")]
      .find((fact) => fact.firstChild.textContent === "Requests").lastChild.textContent !== before;
    await until(light, "more requests", moved, before);
    await until(light, "latencies of every pool", () =>
      [...document.querySelectorAll(".pool")].every((pool) => /\d (ms|s) · \d/.test(pool.querySelector(".sum b").textContent)));
    await until(light, "traces", () => document.querySelectorAll(".spark polyline").length >= 6);
  },
  async decisions_are_listed_and_can_be_filtered() {
    await until(light, "decisions of two pools", () =>
      ["small", "large"].every((pool) => [...document.querySelectorAll("#decisions .path")].some((way) => way.textContent.includes(pool))));
    await light.fill("#filter", "large");
    // Those of this pool may have left the list meanwhile, others must have.
    const ways = await light.locator("#decisions .path").allTextContents();
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
    const count = await light.locator("#totals div:nth-child(4) dd").innerText();
    await until(light, "more requests", (count) => document.querySelector("#totals div:nth-child(4) dd").innerText !== count, count);
    assert.equal(await light.evaluate(newest), held);
    await light.click("#hold");
    await until(light, "the list to go on", (held) => document.querySelector("#decisions tr").dataset.key !== held, held);
  },
  async nothing_is_cut_off_in_any_dress() {
    const dark = await open({ colorScheme: "dark" });
    const phone = await open({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true });
    const [bright, dim] = await Promise.all([light, dark].map((page) =>
      page.evaluate(() => getComputedStyle(document.body).backgroundColor)));
    assert.notEqual(bright, dim, "a dark page for those who like it dark");
    if (SHOTS) await light.waitForTimeout(45_000);
    for (const [name, page] of Object.entries({ light, dark, phone })) {
      await until(page, "decisions", () => document.querySelectorAll("#decisions tr").length > 3);
      const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(wide <= seen, `${name}: ${wide} px wide in a window of ${seen}`);
      await page.evaluate(() => scrollTo(0, 0));
      await shoot(page, name);
      await shoot(page, `${name}-whole`, true);
    }
  },
  async nothing_went_wrong_or_elsewhere() {
    assert.deepEqual(troubles, []);
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
