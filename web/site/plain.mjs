// Opens the site by steps on stdin, as drive.mjs does: {goto} and {files: [paths]}. Chromium alone, without Playwright: for that, the
// browser records the network, and keeps in the page's process each file that is fetched a second time, in base64.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { FLAGS } from "./flags.mjs";

const { browser, steps, profile } = JSON.parse(readFileSync(0, "utf8"));
const flags = [...FLAGS, "--window-size=1280,900", `--user-data-dir=${profile}`, "--remote-debugging-pipe", "about:blank"];
const chromium = spawn(browser, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
const [, , , requests, answers] = chromium.stdio;
const waiting = new Map();
let last = 0, rest = "";
answers.setEncoding("utf8").on("data", (piece) => {
  const whole = (rest + piece).split("\0");
  rest = whole.pop();
  for (const { id, result, error } of whole.map((text) => JSON.parse(text))) {
    const one = waiting.get(id);
    waiting.delete(id);
    if (error) one?.reject(new Error(error.message));
    else one?.resolve(result);
  }
});
const ask = (method, params = {}, sessionId = undefined) => new Promise((resolve, reject) => {
  waiting.set(++last, { resolve, reject });
  requests.write(`${JSON.stringify({ id: last, method, params, sessionId })}\0`);
});
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const LIMIT_MS = 120_000;
const { targetInfos } = await ask("Target.getTargets");
const { targetId } = targetInfos.find(({ type }) => type === "page");
const { sessionId } = await ask("Target.attachToTarget", { targetId, flatten: true });
const inPage = (method, params) => ask(method, params, sessionId);
const evaluate = async (expression) => (await inPage("Runtime.evaluate", { expression, returnByValue: true })).result.value;
async function until(question) {
  for (const end = Date.now() + LIMIT_MS; ; await pause(20)) {
    const found = await evaluate(question);
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain for ${question}`);
  }
}
const answered = async () => ({ status: await until("document.getElementById('panel')?.dataset.done"), line: await evaluate("document.getElementById('line').textContent") });
const actions = {
  goto: async (url) => {
    await inPage("Page.navigate", { url: "about:blank" });
    await until("location.href === 'about:blank'");
    const from = Date.now();
    await inPage("Page.navigate", { url });
    return { ...(await answered()), ms: Date.now() - from };
  },
  files: async (files) => {
    await evaluate("delete document.getElementById('panel').dataset.done");
    const { root } = await inPage("DOM.getDocument");
    const { nodeId } = await inPage("DOM.querySelector", { nodeId: root.nodeId, selector: "#files" });
    await inPage("DOM.setFileInputFiles", { files, nodeId });
    return answered();
  },
};
const seen = [];
for (const step of steps) {
  const [[name, given]] = Object.entries(step);
  seen.push(await actions[name](given));
}
await Promise.all([new Promise((done) => chromium.on("exit", done)), ask("Browser.close")]);
console.log(JSON.stringify({ seen }));
