// Drives the site in a browser by steps on stdin (JSON), and prints what was seen (JSON): node site/drive.mjs < steps.json.
// Steps: {goto}, {files: [paths]}, {type}, {paste: {text, html}}, {copied: html and {goto} and {pasted: true}}, {tab}, {target}, {verify}, {kill}, {axe}, {shot, width}, {evaluate}, {press}.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium, firefox } from "playwright-core";
import { misfits } from "../tests/misfits.mjs";
import { FLAGS } from "./flags.mjs";

const { browser: executablePath, proxy, steps, profile } = JSON.parse(readFileSync(0, "utf8"));
const viewport = { width: 1280, height: 900 };
// Firefox is driven over WebDriver BiDi. It asks for 127.0.0.1 itself, whatever its proxy is.
const context = /firefox/.test(executablePath)
  ? await firefox.launchPersistentContext(profile, { channel: "moz-firefox", executablePath, viewport, proxy: { server: proxy } })
  : await chromium.launchPersistentContext(profile, { executablePath, args: [...FLAGS, `--proxy-server=${proxy}`, "--proxy-bypass-list=127.0.0.1"], viewport });
const page = await context.newPage();
const errors = [];
const seen = [];
const requests = [];
context.on("request", (request) => requests.push(request.url()));
page.on("pageerror", (error) => errors.push(String(error)));
page.on("console", (message) => message.type() === "error" && errors.push(`console: ${message.text()}`));

const LIMIT_MS = 120_000;
// Playwright's wait_for_function is eval, which the page's policy forbids: poll.
async function until(question) {
  const end = Date.now() + LIMIT_MS;
  for (;;) {
    const found = await page.evaluate(question);
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain for ${question}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
async function answered() {
  const done = await until("document.getElementById('panel').dataset.done");
  return page.evaluate(`({ status: ${JSON.stringify(done)}, line: document.getElementById('line').textContent,
    messages: [...document.querySelectorAll('#panel .message')].map((place) => place.textContent).join('\\n'),
    alert: document.getElementById('alert').textContent, out: document.getElementById('out')?.textContent ?? '',
    shown: document.querySelector('.answer')?.textContent ?? '', slips: document.querySelectorAll('mark.slip').length,
    bytes: Number(document.getElementById('reading').dataset.bytes ?? 0), restarts: desk.restarts,
    wide: document.documentElement.scrollWidth, url: location.href, lang: document.documentElement.lang })`);
}
const forget = () => page.evaluate("delete document.getElementById('panel').dataset.done");
const actions = {
  goto: async (address) => {
    const from = Date.now();
    await page.goto("about:blank");
    await page.goto(address);
    return { ...(await answered()), ms: Date.now() - from };
  },
  files: async (paths) => (await forget(), await page.setInputFiles("#files", paths), answered()),
  type: async (text) => (await forget(), await page.fill("#search", text), await page.press("#search", "Enter"), answered()),
  press: async (keys) => {
    await forget();
    for (const key of keys) key.length > 1 && /^[A-Z]/.test(key) ? await page.keyboard.press(key) : await page.keyboard.type(key);
    return answered();
  },
  paste: async (given) => {
    await forget();
    await page.evaluate((clip) => {
      const data = new DataTransfer();
      for (const [type, text] of Object.entries(clip)) data.setData(type, text);
      const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
      const area = document.getElementById("pasted");
      if (area.dispatchEvent(event)) {
        area.value = clip["text/plain"];
        area.dispatchEvent(new Event("input"));
      }
    }, given);
    await page.click("#paste-form button[type=submit]");
    return answered();
  },
  // A real clipboard: a selection of a page is copied by keyboard, and pasted into the site's.
  copied: async (html) => {
    await page.goto("about:blank");
    await page.evaluate((text) => {
      document.body.innerHTML = text;
      getSelection().selectAllChildren(document.body);
    }, html);
    await page.keyboard.press("Control+c");
    return {};
  },
  pasted: async () => {
    await forget();
    await page.click("#pasted");
    await page.keyboard.press("Control+v");
    await page.click("#paste-form button[type=submit]");
    return answered();
  },
  tab: async (key) => (await forget(), await page.click(`#tab-${key}`), answered()),
  target: async (name) => (await forget(), await page.selectOption("#target", name), answered()),
  verify: async (model) => (await forget(), await page.fill("#against", model), await page.click("#verify-form button"), answered()),
  click: async (selector) => (await forget(), await page.click(selector), answered()),
  // The worker's own request, nested so deep that Python's parser ends the interpreter.
  kill: async () => {
    const killed = await page.evaluate(`desk.ask({ deep: JSON.parse("[".repeat(5000) + "]".repeat(5000)) }).then(() => "", (error) => error.why)`);
    return { killed, alert: await page.evaluate("document.getElementById('alert').textContent") };
  },
  // In the page and in the explorer's frame, in each theme.
  axe: async (themes) => {
    const source = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"), seen = { violations: [], passes: 0, dressed: {} };
    for (const theme of themes) {
      await page.selectOption("#theme", theme);
      await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
      seen.dressed[theme] = await Promise.all(page.frames().map((frame) => frame.evaluate("document.documentElement.dataset.theme")));
      for (const frame of page.frames()) {
        if (!(await frame.evaluate("Boolean(window.axe)"))) await frame.evaluate(source);
        const { violations, passes } = await frame.evaluate("axe.run({ exclude: ['iframe'] }, { resultTypes: ['violations'], preload: false }).then(({ violations, passes }) => ({ violations: violations.map((one) => `${one.id}: ${one.nodes[0].html}`), passes: passes.length }))");
        seen.violations.push(...violations.map((one) => `${theme}: ${one}`));
        seen.passes += passes;
      }
    }
    return { ...seen, frames: page.frames().length };
  },
  width: async (width) => (await page.setViewportSize({ width, height: 900 }), ({ wide: await page.evaluate("document.documentElement.scrollWidth"), misfits: await page.evaluate(`(${misfits})()`) })),
  scheme: async (colorScheme) => (await page.emulateMedia({ colorScheme }), {}),
  shot: async (path) => (await page.screenshot({ path, fullPage: true }), {}),
  until: async (code) => ({ value: await until(code) }),
  evaluate: async (code) => ({ value: await page.evaluate(code) }),
};
try {
  for (const step of steps) {
    const [[name, given]] = Object.entries(step);
    seen.push(await actions[name](given));
  }
} catch (error) {
  errors.push(`step ${seen.length}: ${String(error).slice(0, 600)}`);
}
await context.close();
console.log(JSON.stringify({ seen, errors, requests }));
