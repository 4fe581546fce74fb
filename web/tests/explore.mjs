// Drive pages of the explorer in Chromium or Firefox: node tests/explore.mjs BROWSER PAGE.html … ; a JSON line for each, exit 1 if one fails.
// Firefox is driven over WebDriver BiDi, which has neither colour schemes nor a way for axe past the page's policy: those are Chromium's part.
import { readFileSync } from "node:fs";
import { chromium, firefox } from "playwright-core";
import { misfits } from "./misfits.mjs";

const axe = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const executablePath = process.argv[2], isFirefox = /firefox/.test(executablePath);
const browser = await (isFirefox ? firefox.launch({ channel: "moz-firefox", executablePath }) : chromium.launch({ executablePath, args: ["--no-sandbox"] }));

/** Return what is wrong with the flow: boxes that overlap or are cut off, and tensors of modules without a box. */
function flowProblems() {
  const card = document.querySelector("[data-at=flow]"), svg = card.querySelector("svg"), found = [];
  if (!svg) return card.textContent.length > 40 ? [] : ["no flow, and no reason"];
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number), outer = svg.getBoundingClientRect(), boxes = [...svg.querySelectorAll(".node, .joint, .port")];
  for (const rect of svg.querySelectorAll("rect:not(.press)")) {
    const at = rect.getBoundingClientRect(), half = parseFloat(getComputedStyle(rect).strokeWidth) / 2;
    if (at.left - half < outer.left || at.right + half > outer.right || at.top - half < outer.top || at.bottom + half > outer.bottom) found.push(`a stroke is outside: ${rect.parentElement.textContent.slice(0, 40)}`);
  }
  for (const head of svg.querySelectorAll(".head")) {
    const at = head.parentElement.querySelector(":scope > rect:not(.deck)").getBoundingClientRect();
    for (const text of head.querySelectorAll("text")) if (text.textContent.includes("…") || text.getBoundingClientRect().right > at.right - 2) found.push(`title: ${text.textContent}`);
  }
  const places = boxes.map((box) => box.querySelector("rect:not(.under)").getBoundingClientRect());
  if (outer.width < Math.min(width, svg.clientWidth) - 1 || outer.right > innerWidth || outer.height < height * 0.99 * (outer.width / width)) found.push("the picture is cut off");
  places.forEach((a, at) => {
    if (a.left < outer.left - 1 || a.right > outer.right + 1 || a.bottom > outer.bottom + 1) found.push(`outside: ${boxes[at].textContent}`);
    places.slice(at + 1).forEach((b, k) => { if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1) found.push(`overlap: ${boxes[at].textContent} ${boxes[at + 1 + k].textContent}`); });
    for (const text of boxes[at].querySelectorAll("text")) {
      if (text.textContent.includes("…")) found.push(`cut: ${text.textContent}`);
      const b = text.getBoundingClientRect();
      if (b.left < a.left + 1 || b.right > a.right - 1) found.push(`text: ${text.textContent}`);
    }
  });
  const shown = new Set(boxes.map((box) => box.dataset.box)), { data } = window.explorer;
  const modules = Object.keys(data.flow.classes).filter((path) => !data.flow.modules[path] && data.tensors.some((one) => one.name.startsWith(`${data.flow.prefix}${path}.`) && one.name.split(".").length === (data.flow.prefix + path).split(".").length + 1));
  const held = new Set(window.explorer.state.entries.map((entry) => entry.of.name.slice(data.flow.prefix.length).split(".").slice(0, -1).join(".")));
  for (const path of modules) if (held.has(path) && !(path in data.flow.unused) && ![...shown].some((one) => one === path || one?.startsWith(`${path}.`))) found.push(`no box: ${path}`);
  return found;
}

/** Return how far the areas are from what they stand for, as a share of the map. */
function areas() {
  const { explorer } = window, { drawnRuns, measure } = explorer, cells = [...document.querySelectorAll(".cell")];
  const [, , width, height] = explorer.el("map").getAttribute("viewBox").split(" ").map(Number), drawn = Math.max(...cells.map((c) => +c.getAttribute("x") + +c.getAttribute("width")));
  const total = measure === "parameters" ? Number(explorer.state.total) : drawnRuns.reduce((n, run) => n + run.each * run.many, 0);
  let worst = 0;
  for (const run of drawnRuns) {
    const own = cells.filter((cell) => cell.dataset.k === run.key), area = own.reduce((n, c) => n + c.getAttribute("width") * c.getAttribute("height"), 0);
    worst = Math.max(worst, Math.abs(area / (drawn * height) - (run.each * run.many) / total));
  }
  return worst * (width > 0 ? 1 : NaN);
}

/** Return the lines between rows of the map that hide a row. */
function hiding() {
  const bands = [...new Set([...document.querySelectorAll("[data-at=map] .cell")].map((cell) => `${cell.getAttribute("y")} ${cell.getAttribute("height")}`))].map((one) => one.split(" ").map(Number)).sort((a, b) => a[0] - b[0]);
  const heights = bands.map(([, height]) => height), tops = bands.map(([y]) => y), cuts = [...document.querySelectorAll("[data-at=map] .cut")];
  if (!cuts.length) return ["no line between rows"];
  return cuts.flatMap((cut) => {
    const y = parseFloat(cut.getAttribute("d").split(" ")[1]), at = tops.findIndex((top) => Math.abs(top - y) < 0.02);
    const room = Math.min(heights[at], heights[at - 1]) / 3 + 0.02, thick = parseFloat(getComputedStyle(cut).strokeWidth);
    return thick <= room ? [] : [`a line of ${thick} px in ${room.toFixed(2)} px at ${y}`];
  });
}

/** Return what is wrong with the page without its script, on a telephone: words that are broken, and labels below their colours. */
function plainProblems() {
  const linesOf = (of) => { const range = document.createRange(); range.selectNodeContents(of); return [...range.getClientRects()]; };
  const found = document.documentElement.scrollWidth > innerWidth ? ["sideways"] : [];
  for (const head of document.querySelectorAll("thead th")) if (new Set(linesOf(head).map(({ top }) => Math.round(top))).size > 1) found.push(`broken: ${head.textContent}`);
  for (const row of document.querySelectorAll("tbody th")) {
    const swatch = row.querySelector(".swatch")?.getBoundingClientRect() ?? { right: 0 }, texts = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) if (linesOf(texts.currentNode).some(({ left }) => left < swatch.right - 1)) found.push(`below its colour: ${row.textContent}`);
  }
  return found.concat(document.querySelectorAll("thead th").length && document.querySelectorAll("tbody th").length ? [] : ["no table"]);
}

async function without(file) {
  if (isFirefox) return []; // over BiDi its script runs all the same
  const page = await browser.newPage({ viewport: { width: 375, height: 900 }, javaScriptEnabled: false });
  await page.goto(`file://${file}`);
  const found = await page.evaluate(plainProblems);
  for (const width of [375, 768, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    found.push(...(await page.evaluate(misfits)).map((one) => `${width}: ${one}`));
  }
  await page.close();
  return found;
}

/** Each term of the formula opens the derivation of its component, which ends in the number of the table. */
async function formula(page, hold) {
  if (await page.isVisible("[data-at=why]")) await page.locator("[data-at=why] .bar button").click();
  for (const term of await page.$$(".formula .term")) {
    await term.click();
    const [component, number, why] = await page.evaluate(() => {
      const { chosen, state } = window.explorer;
      return [chosen, String(state.by.get(chosen) ?? 0), document.querySelector("[data-at=why] .sum b")?.textContent.replaceAll(",", "")];
    });
    hold(`the derivation of ${component} gives ${why}, not ${number}`, why === number);
    hold(`no tensors of ${component}`, (await page.$$("[data-at=why] tbody tr")).length > 0);
  }
  await page.locator("[data-at=why] .bar button").click();
  hold("the derivation does not close", await page.isHidden("[data-at=why]"));
}

/** The costs are those of Python as given, and others for another batch; the map may be of FLOPs and of the cache. */
async function costs(page, hold) {
  const card = () => page.textContent("[data-at=costs]"), said = await card();
  const expected = await page.evaluate(() => window.explorer.data.run?.checks[0]?.[2].forward);
  if (expected === undefined) return hold("no costs, and no reason", said.length > 60);
  hold("no forward FLOPs of Python", said.replaceAll(",", "").includes(expected));
  hold("no device", (await page.$$("[data-at=costs] .scroll tbody tr")).length > 5);
  for (const measure of await page.$$("[data-do^='by ']")) {
    await measure.click();
    hold("a map without areas", (await page.$$(".cell")).length > 0 && (await page.evaluate(areas)) < 1e-4);
  }
  await page.click("[data-do='by parameters']");
  const flops = () => page.textContent("[data-at=costs] td.n"), least = await flops();
  if (await page.$("[data-run=sequence]")) {
    await page.focus("[data-run=sequence]");
    await page.keyboard.press("ArrowLeft");
    hold("a dial of tokens that moves no FLOPs", (await flops()) !== least);
    await page.keyboard.press("ArrowRight");
  } else hold("tokens of what has none", !/tokens|词元/.test(await page.textContent("[data-at=costs] h3")));
  await page.focus("[data-run=batch]");
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction((before) => document.querySelector("[data-at=costs]").textContent !== before, said, { timeout: 5000 }).catch(() => hold("the batch changes no cost", false));
  await page.click("[data-do=reset]");
  hold("other costs after reset", (await card()) === said);
}

/** Both models are there by component, with the total of each, and the differences add up. */
async function compare(page, hold) {
  const numbers = await page.$$eval("[data-at=compare] tbody:first-of-type tr", (rows) => rows.map((row) => [...row.querySelectorAll(".n")].map((cell) => Number(cell.textContent.replaceAll(",", "").replace("−", "-").replace(/^[=–]$/, "0")))));
  const whole = numbers.pop() ?? [], totals = await page.evaluate(() => window.explorer.bases.map(({ total }) => Number(total)));
  hold("other totals side by side", whole[0] === totals[0] && whole[1] === totals[1] && whole[2] === whole[1] - whole[0]);
  hold("components do not add up", [0, 1, 2].every((at) => numbers.reduce((sum, row) => sum + row[at], 0) === whole[at]));
  hold("no field differs", (await page.$$("[data-at=compare] tbody:last-of-type tr")).length > 2);
  hold("a value that is no text", !(await page.textContent("[data-at=compare]")).includes("[object"));
}

/** The other theme and the other language are there in all views, and in the link. */
async function dress(page, hold) {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor), before = await ground();
  await page.click("[data-do=theme]");
  hold("no other theme", (await ground()) !== before);
  await page.click("[data-do=lang]");
  hold("no Chinese", (await page.getAttribute("html", "lang")) === "zh-Hans");
  for (const title of await page.$$eval("h2, h3", (all) => all.filter((one) => one.checkVisibility()).map((one) => one.textContent))) hold(`no Chinese: ${title}`, /[一-鿿]|FLOPs/.test(title));
  const other = await browser.newPage();
  await other.goto(page.url());
  await other.waitForSelector("[data-at=total]");
  hold("the link forgets theme or language", await other.evaluate(() => document.documentElement.lang === "zh-Hans" && document.documentElement.dataset.theme !== ""));
  await other.close();
}

/** What is saved is what the page shows: the table adds up, the config is one, and pictures are pictures. */
async function exports(page, hold, total) {
  const [svg, png, csv, json, flow] = [await saved(page, "svg"), await saved(page, "png"), await saved(page, "csv"), await saved(page, "json"), await saved(page, "flow")];
  const sum = csv.toString().trim().split("\r\n").slice(1).reduce((all, row) => all + Number(row.split(",").at(-1)), 0);
  hold("the table does not add up", sum.toLocaleString("en") === total);
  hold("no config", JSON.parse(json.toString()).architectures.length === 1);
  hold("no PNG", png.subarray(1, 4).toString() === "PNG" && png.length > 1000);
  for (const [name, text] of [["map", svg.toString()], ["flow", flow.toString()]])
    hold(`the ${name} is no SVG`, await page.evaluate((source) => { const root = new DOMParser().parseFromString(source, "image/svg+xml").documentElement; return root.nodeName === "svg" && root.querySelectorAll("rect").length > 3; }, text));
  return json.toString();
}

/** Return what is saved in a format. Over BiDi no download is reported, so there the bytes that the page offers are taken. */
async function saved(page, format) {
  const press = () => page.click(`[data-do='save ${format}']`);
  if (!isFirefox) return readFileSync(await (await Promise.all([page.waitForEvent("download"), press()]))[0].path());
  const offered = page.evaluate(() => new Promise((done) => {
    const { createObjectURL } = URL;
    URL.createObjectURL = (blob) => { URL.createObjectURL = createObjectURL; blob.arrayBuffer().then((bytes) => done([...new Uint8Array(bytes)])); return createObjectURL.call(URL, blob); };
  }));
  await press();
  return Buffer.from(await offered);
}

const sized = async (page, width) => {
  await page.setViewportSize({ width, height: 900 });
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
};

/** Return what is wrong with the page when the map shows one run of layers after the other. */
function inLayers(problems) {
  const { explorer } = window, found = new Set();
  Object.assign(explorer, { zoomed: "", measure: "parameters", left: new Set() }).draw();
  for (const zoomed of new Set([...document.querySelectorAll(".hit")].map((one) => one.dataset.k))) {
    explorer.zoomed = zoomed;
    explorer.draw();
    for (const one of problems()) found.add(`${zoomed}: ${one}`);
  }
  return [...found];
}

/** Return what axe finds in both languages and both themes with all open, and the map by each measure. */
async function accessible(page, hold) {
  const found = [], session = await page.context().newCDPSession(page), press = (one) => page.locator(one).first().click();
  await session.send("Runtime.evaluate", { expression: axe });
  const look = async (view) => {
    const expression = "axe.run({ resultTypes: ['violations'], preload: false }).then(({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 120)}`))";
    const { result } = await session.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    found.push(...result.value.map((one) => `${view}: ${one}`));
  };
  const measures = (await page.$$("[data-do^='by ']")).length, models = (await page.$$("[data-do^='model ']")).length;
  await look("en light, closed");
  await press(".formula .term");
  await page.focus("input[type=range]");
  await page.keyboard.press("ArrowRight");
  for (const lang of ["en", "zh"]) {
    if (models > 1) await press(`[data-do='model ${lang === "zh" ? 0 : 1}']`);
    if (await page.isHidden("[data-at=why]")) await press(".formula .term");
    for (const [at, scheme] of ["light", "dark"].entries()) {
      await page.emulateMedia({ colorScheme: scheme });
      await sized(page, (lang === "en") === (scheme === "light") ? 1440 : 375);
      if (measures > at + 1) await page.locator("[data-do^='by ']").nth(at + 1).click();
      await press("[data-do^='leave ']");
      await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
      await page.focus(".hit");
      if (scheme === "light") await page.keyboard.press("Enter");
      await look(`${lang} ${scheme}, all open`);
      for (const width of [375, 768, 1440]) {
        await sized(page, width);
        for (const problem of await page.evaluate(misfits)) hold(`${lang} ${width}: ${problem}`, false);
      }
    }
    await press("[data-do=lang]");
  }
  await page.emulateMedia({ colorScheme: "light" });
  for (const problem of await page.evaluate(`(${inLayers})(${misfits})`)) hold(`in a layer: ${problem}`, false);
  return found;
}

async function drive(file) {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } }), errors = [], requests = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) errors.push(message.text()); });
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("request", (request) => { if (!/^(file|data|blob):/.test(request.url())) requests.push(request.url()); });
  await page.goto(`file://${file}`);
  await page.waitForSelector("[data-at=total]");
  const found = { file: file.split("/").at(-1), total: await page.textContent("[data-at=total]"), problems: [] };
  const hold = (what, truth) => { if (!truth) found.problems.push(what); };
  for (const problem of await without(file)) hold(`without script: ${problem}`, false);
  hold("the page counts otherwise", !(await page.evaluate(() => document.querySelector("[data-at=checked]").classList.contains("wrong"))));
  hold("a font is refused", await page.evaluate(async () => (await document.fonts.ready, [...document.fonts].every(({ status }) => status === "loaded"))));
  found.areas = await page.evaluate(areas);
  hold("an area is not true", found.areas < 1e-4);
  for (const line of await page.evaluate(hiding)) hold(`a row is hidden: ${line}`, false);
  for (const dial of await page.$$("input[type=range]")) {
    await dial.focus();
    await page.keyboard.press("ArrowRight");
  }
  hold("no dial turned the total", (await page.textContent("[data-at=total]")) !== found.total);
  hold("the link does not hold the state", await page.evaluate(() => location.hash.includes("set=")));
  const turned = await page.textContent("[data-at=total]"), link = page.url();
  const other = await browser.newPage();
  await other.goto(link);
  await other.waitForSelector("[data-at=total]");
  hold("the link gives another total", (await other.textContent("[data-at=total]")) === turned);
  await other.close();
  await page.click("[data-do=reset]");
  hold("reset gives another total", (await page.textContent("[data-at=total]")) === found.total);
  await page.locator("tbody [data-do^='why ']").first().click();
  hold("why is hidden", await page.isVisible("[data-at=why]"));
  hold("the flow does not list its steps", (await page.$$("[data-at=flow] .steps li")).length > 10);
  const box = page.locator("[data-at=flow] .node[role=button]").first();
  await box.focus();
  await page.keyboard.press("Enter");
  hold("a box chooses nothing", (await page.isVisible("[data-at=why]")) && (await page.$$(".cell.chosen")).length > 0 && (await page.$$(".term.chosen")).length === 1);
  await page.keyboard.press("End");
  hold("no arrow keys in the flow", await page.evaluate(() => document.activeElement.getAttribute("role") === "button" && document.activeElement.closest("[data-at=flow]") !== null));
  const tall = await page.$eval("[data-at=flowsvg]", (svg) => svg.clientHeight);
  await page.locator("[data-at=flow] .head").last().focus();
  await page.keyboard.press("Enter");
  const low = await page.$eval("[data-at=flowsvg]", (svg) => svg.clientHeight);
  hold("no frame folds", low < tall);
  const same = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  await same.goto(page.url());
  await same.waitForSelector(".node.chosen");
  hold("the link forgets what is folded", (await same.$eval("[data-at=flowsvg]", (svg) => svg.clientHeight)) === low);
  await same.close();
  await page.keyboard.press("Enter");
  await page.locator("[data-do^='leave ']").first().click();
  hold("leaving a component out is not said", (await page.textContent("[data-at=where]")).includes(found.total));
  await page.focus(".hit");
  await page.keyboard.press("Enter");
  hold("no way out of a layer", await page.isVisible("[data-at=out]"));
  await page.keyboard.press("Escape");
  hold("Escape leaves no layer", (await page.isHidden("[data-at=out]")) && (await page.evaluate(() => document.activeElement.matches(".hit"))));
  await page.locator("[data-do^='leave ']").first().click();
  await formula(page, hold);
  await costs(page, hold);
  if (await page.evaluate(() => window.explorer.models.length > 1)) await compare(page, hold);
  found.config = await exports(page, hold, found.total);
  for (const width of [375, 768, 1440]) {
    await sized(page, width);
    hold(`sideways at ${width}`, await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    for (const problem of [...(await page.evaluate(flowProblems)), ...(await page.evaluate(misfits))]) hold(`at ${width}: ${problem}`, false);
  }
  found.axe = isFirefox ? [] : await accessible(page, hold);
  hold("axe", !found.axe.length);
  await dress(page, hold);
  hold("an error", !errors.length);
  hold("a request", !requests.length);
  await page.close();
  return { ...found, errors, requests };
}

let failed = false;
for (const file of process.argv.slice(3)) {
  const found = await drive(file);
  failed ||= found.problems.length > 0;
  console.log(JSON.stringify(found));
}
await browser.close();
process.exitCode = failed ? 1 : 0;
