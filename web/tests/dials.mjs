// Turn every dial of a page by its steps, there and back: node tests/dials.mjs CHROMIUM PAGE.html; prints JSON with the milliseconds of
// evaluating and of painting each step, and how far the centre of a cell of the map moved in one step.
import { chromium } from "playwright-core";

const [, , executablePath, file] = process.argv;
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
await page.goto(`file://${file}`);
await page.waitForFunction(() => window.explorer);

const found = await page.evaluate(async () => {
  const { explorer } = window, steps = [], frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  const centres = () => new Map([...document.querySelectorAll("[data-at=map] .cell")].map((cell) => {
    const [x, y, w, h] = ["x", "y", "width", "height"].map((name) => Number(cell.getAttribute(name)));
    return [`${cell.dataset.k}|${cell.dataset.t}`, [x + w / 2, y + h / 2]];
  }));
  const evaluated = () => {
    const before = performance.now(), { running, model, changes } = explorer, state = explorer.evaluate(model, changes);
    if (running?.renew(state.entries) && !running.refused(state.entries)) {
      running.flops("forward", explorer.run); running.flops("backward", explorer.run); running.moments(explorer.run, state.entries, state.total, false);
      if (running.has("stepped")) running.serving(explorer.run, state.total);
    }
    return performance.now() - before;
  };
  for (const input of document.querySelectorAll("input[type=range]")) {
    const start = Number(input.value), dial = input.dataset.dial ?? input.dataset.run;
    const walk = [];
    for (const way of [1, -1]) for (let k = 1; k <= 6; k++) walk.push(start + way * k);
    let last = start;
    for (const to of walk) {
      if (to < 0 || to > Number(input.max)) continue;
      if (Math.abs(to - last) > 1) { input.value = String(start); input.dispatchEvent(new Event("input", { bubbles: true })); await frame(); }
      const was = centres(), from = Number(input.value);
      input.value = String(to);
      const before = performance.now();
      input.dispatchEvent(new Event("input", { bubbles: true }));
      const script = performance.now() - before;
      await frame();
      const painted = performance.now() - before, now = centres();
      let moved = 0, cell = "";
      for (const [key, [x, y]] of now) if (was.has(key)) { const far = Math.hypot(x - was.get(key)[0], y - was.get(key)[1]); if (far > moved) { moved = far; cell = key; } }
      steps.push({ dial, from: explorer.at, evaluated: evaluated(), script, painted, moved, cell });
      last = Number(input.value);
    }
    input.value = String(start);
    input.dispatchEvent(new Event("input", { bubbles: true }));
    document.querySelector("[data-do=reset]").hidden || document.querySelector("[data-do=reset]").click();
    await frame();
  }
  return steps;
});
console.log(JSON.stringify(found));
await browser.close();
