// Turn every dial of a page by its steps: node tests/dials.mjs CHROMIUM PAGE.html; prints JSON with a row for each step: the milliseconds
// of evaluating it, those of the page's main thread until it is painted (both CPU time), those on the clock, and how far the centre of a cell of
// the map moved. A cell is a tensor of a run of layers with the same tensors before and after.
import { chromium } from "playwright-core";

const [, , executablePath, file] = process.argv;
const STEPS = 4;  // to each side
const MANY = 20;  // times that a setting is evaluated
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
await page.goto(`file://${file}`);
await page.waitForFunction(() => window.explorer);

const session = await page.context().newCDPSession(page);
await session.send("Performance.enable", { timeDomain: "threadTicks" });
const spent = async () => 1000 * (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;

/** Return the centres of the cells, by run with its tensors, and by tensor. */
function centres() {
  const found = {};
  for (const run of window.explorer.shown()) {
    const inside = run.parts.flatMap((part) => part.cells.map((cell) => cell.tensor)).join(" ");
    for (const cell of document.querySelectorAll(`[data-at=map] .cell[data-k="${CSS.escape(run.key)}"]`)) {
      const [x, y, w, h] = ["x", "y", "width", "height"].map((name) => Number(cell.getAttribute(name)));
      found[`${run.key}|${inside}|${cell.dataset.t}`] = [x + w / 2, y + h / 2];
    }
  }
  return found;
}

/** Evaluate what a step of a dial evaluates, some times. */
function evaluate(many) {
  const { explorer } = window, { running, model, changes, run } = explorer;
  for (let k = 0; k < many; k++) {
    const state = explorer.evaluate(model, changes);
    if (!running || running.renew(state.entries).refused(state.entries, run)) continue;
    running.flops("forward", run); running.flops("backward", run); running.moments(run, state.entries, state.total, false);
    if (running.has("stepped")) running.serving(run, state.total);
  }
}

/** Turn a dial to a place, and return the milliseconds until the frame after it. */
function turn([id, place]) {
  const input = document.getElementById(id), before = performance.now();
  input.value = String(place);
  input.dispatchEvent(new Event("input", { bubbles: true }));
  return new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now() - before), 0)));
}

const rows = [], rest = () => page.waitForTimeout(150);
for (const dial of await page.$$eval("input[type=range]", (inputs) => inputs.map(({ id, value, max }) => ({ id, start: Number(value), most: Number(max) }))))
  for (const way of [1, -1]) {
    for (let at = dial.start + way; at >= 0 && at <= dial.most && Math.abs(at - dial.start) <= STEPS; at += way) {
      const before = await page.evaluate(centres), began = await spent();
      const painted = await page.evaluate(turn, [dial.id, at]), cpu = (await spent()) - began, after = await page.evaluate(centres);
      const far = Object.keys(after).filter((key) => key in before).map((key) => Math.hypot(after[key][0] - before[key][0], after[key][1] - before[key][1]));
      const ready = await spent();
      await page.evaluate(evaluate, MANY);
      rows.push({ dial: dial.id, evaluated: ((await spent()) - ready) / MANY, cpu, painted, moved: Math.max(0, ...far) });
    }
    await page.evaluate(turn, [dial.id, dial.start]);
    await page.evaluate(() => document.querySelector("[data-do=reset]").hidden || document.querySelector("[data-do=reset]").click());
    await rest();
  }
console.log(JSON.stringify(rows));
await browser.close();
