// The frame of every Node suite: checks are functions, each prints one line, PASS or FAIL with the reason.
//
// BASE_URL (with /v1), API_KEY and MODEL come from the runner. MARK_URL, if set, is told the name of each check, for the record of its traffic.

import assert from "node:assert/strict";

export const BASE_URL = process.env.BASE_URL.replace(/\/$/, "");
export const ROOT_URL = BASE_URL.replace(/\/v1$/, "");
export const API_KEY = process.env.API_KEY ?? "sk-test";
export const MODEL = process.env.MODEL;
// A red square of 8 × 8 pixels.
export const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mP4z8CAFTEMLQkAKP8/wc53yE8AAAAASUVORK5CYII=";
export const PNG_SEEN = "image/png of 74 bytes";
export const REASONING = "The user wants an answer, so I will give one.";

/** The model for failures of a kind: a gateway gives it backends of its own, so that its breakers spare the other checks. */
export const failing = (kind) => `${MODEL}-${kind}`;

/** Fails unless both are equal. */
export const same = (got, expected, about = "result") =>
  assert.deepEqual(got, expected, `${about}: got ${JSON.stringify(got)}, expected ${JSON.stringify(expected)}`);

/** Fails unless the expected values appear in this order, others between them allowed. */
export function ordered(got, ...expected) {
  let at = 0;
  for (const value of expected) {
    at = got.indexOf(value, at) + 1;
    assert.ok(at, `${value} is missing or out of order in ${got}`);
  }
}

/** Fails unless the promise is rejected with exactly this class (no subclass), and this status. */
export async function raises(kind, status, run) {
  try {
    await run();
  } catch (error) {
    assert.equal(error.constructor, kind, `got ${error.constructor.name} (${error.message}), expected ${kind.name}`);
    if (status !== undefined) same(error.status, status, "status");
    return error;
  }
  assert.fail(`no error, expected ${kind.name}`);
}

/** Runs the checks named in ONLY, or all. */
export async function run(checks) {
  for (const [name, check] of Object.entries(checks)) {
    if (process.env.ONLY && !name.includes(process.env.ONLY)) continue;
    if (process.env.MARK_URL) await (await fetch(`${process.env.MARK_URL}/${name}`)).text();
    try {
      await Promise.race([check(), new Promise((_, reject) => setTimeout(reject, 60_000, new Error("no end after 60 s")).unref())]);
      console.log(`PASS ${name}`);
    } catch (error) {
      process.exitCode = 1;
      const place = /([\w.]+\.mjs:\d+):\d+/.exec(error.stack?.split("suite.mjs").pop() ?? "")?.[1] ?? "";
      console.log(`FAIL ${name}: ${`${error.name}: ${error.message}`.replace(/\s+/g, " ").slice(0, 600)} [${place}]`);
    }
  }
}
