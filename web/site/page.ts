// The page of the site: what the user gives, the command that it is, and what the command said.

import { Desk, Died, type Answer, type Event as DeskEvent, type Files, type Reply, type Text } from "./desk";
import { copied, element } from "./show";
import { packed, unpacked } from "./link";

type Words = Record<string, string>;
type Drop = { kind: string; targets: string[]; config: string };
// What the commands work on. `shown` is how a command line on a computer would name it.
type Source = { files: Files; text: Text | null; drop: Drop; target: string };

const LANGUAGES = ["en", "zh"];
const THEMES = ["auto", "light", "dark"];
const MOST_SUGGESTED = 12;
const every: Record<string, Words> = JSON.parse(get("words").textContent!);
const state = new URLSearchParams(location.hash.slice(1));
let words: Words = every.en!;
let source: Source | null = null;
let names: { models: string[]; families: string[] } = { models: [], families: [] };
let pastedHtml = "";
let turn = 0; // only the last thing asked for is shown

const desk = new Desk(says);
Object.assign(window, { desk }); // for the tests and the curious

function get<Of extends HTMLElement = HTMLElement>(id: string): Of {
  return document.getElementById(id) as Of;
}
function word(key: string, values: Record<string, string | number> = {}): string {
  return (words[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

// The state of the runtime

let status: [string, Record<string, string>] = ["starting", {}];
function says(event: DeskEvent, ms: number): void {
  status = [event, { seconds: (ms / 1000).toFixed(1) }];
  showStatus();
  if (event === "died" || event === "slow") alertUser(word(event));
  if (event === "unstartable") alertUser(word("unstartable"));
}
function showStatus(): void {
  const place = document.getElementById("status")!;
  place.textContent = word(`status_${status[0]}`, status[1]);
  place.dataset.state = status[0];
}
function alertUser(message: string): void {
  get("alert").textContent = message;
}

// Language, theme and the link

function chosenLanguage(): string {
  const asked = state.get("lang") ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");
  return LANGUAGES.includes(asked) ? asked : "en";
}
function dress(): void {
  const lang = chosenLanguage();
  words = every[lang]!;
  document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
  document.title = word("title");
  for (const place of document.querySelectorAll<HTMLElement>("[data-word]")) place.textContent = word(place.dataset.word!);
  for (const place of document.querySelectorAll<HTMLElement>("[data-label]")) place.setAttribute("aria-label", word(place.dataset.label!));
  for (const place of document.querySelectorAll<HTMLElement>("[data-placeholder]")) place.setAttribute("placeholder", word(place.dataset.placeholder!));
  const theme = THEMES.includes(state.get("theme") ?? "") ? state.get("theme")! : "auto";
  document.documentElement.dataset.theme = theme;
  get<HTMLSelectElement>("theme").value = theme;
  get("lang").lang = lang === "zh" ? "en" : "zh-CN";
  showStatus();
}
function remember(changes: Record<string, string | null>): void {
  for (const [name, value] of Object.entries(changes)) value === null ? state.delete(name) : state.set(name, value);
  history.replaceState(null, "", `#${state}`);
}

get("lang").addEventListener("click", () => {
  remember({ lang: chosenLanguage() === "zh" ? "en" : "zh" });
  dress();
  void again();
});
get("theme").addEventListener("change", () => {
  remember({ theme: get<HTMLSelectElement>("theme").value });
  dress();
  dressFrame();
});
window.addEventListener("hashchange", () => {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of [...state.keys()]) state.delete(name);
  for (const [name, value] of given) state.set(name, value);
  dress();
  void fromLink();
});

// Search: a combobox over released models and families

const search = get<HTMLInputElement>("search");
const list = get("suggestions");
let active = -1;
function plain(text: string): string {
  return text.toLowerCase().replace(/[^a-z0-9\u4e00-\u9fff]/g, "");
}
function suggestions(text: string): string[] {
  const wanted = text.toLowerCase().split(/\s+/).map(plain).filter(Boolean);
  if (!wanted.length) return [];
  const fits = (name: string) => wanted.every((piece) => plain(name).includes(piece));
  const rank = (name: string) => {
    const own = plain(name.split("/").pop()!);
    return own === wanted.join("") ? 0 : own.startsWith(wanted[0]!) ? 1 : 2;
  };
  const all = [...names.families, ...names.models].filter(fits);
  return all.sort((a, b) => rank(a) - rank(b) || a.length - b.length).slice(0, MOST_SUGGESTED);
}
function offer(): void {
  const found = suggestions(search.value);
  active = -1;
  list.replaceChildren(
    ...found.map((name, i) => {
      const kind = names.families.includes(name) ? word("family") : word("model");
      const option = element("li", { role: "option", id: `option-${i}`, "aria-selected": "false" }, element("span", {}, name), element("small", {}, kind));
      option.dataset.name = name;
      option.addEventListener("mousedown", (event) => {
        event.preventDefault();
        choose(name);
      });
      return option;
    }),
  );
  show(found.length > 0);
}
function show(open: boolean): void {
  list.hidden = !open;
  search.setAttribute("aria-expanded", String(open));
  if (!open) search.removeAttribute("aria-activedescendant");
}
function move(by: number): void {
  const options = [...list.children];
  if (!options.length) return;
  active = (active + by + options.length) % options.length;
  options.forEach((option, i) => option.setAttribute("aria-selected", String(i === active)));
  search.setAttribute("aria-activedescendant", `option-${active}`);
  options[active]!.scrollIntoView({ block: "nearest" });
}
function choose(name: string): void {
  search.value = name;
  show(false);
  openModel(name);
}
search.addEventListener("input", offer);
search.addEventListener("blur", () => show(false));
search.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (list.hidden) offer();
    move(event.key === "ArrowDown" ? 1 : -1);
    event.preventDefault();
  } else if (event.key === "Escape") show(false);
});
get<HTMLFormElement>("search-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const option = list.children[active] as HTMLElement | undefined;
  const name = list.hidden ? undefined : option?.dataset.name;
  if (name ?? search.value.trim()) choose(name ?? search.value.trim());
});

// Files: dropped, chosen, or a folder of them

const MOST_FILES = 5000;
async function filesOf(transfer: DataTransfer): Promise<Files> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter((entry) => entry !== null && entry !== undefined);
  if (!entries.some((entry) => entry.isDirectory)) return [...transfer.files].map((data) => ({ name: data.name, data }));
  const found: Files = [];
  const single = entries.length === 1;
  for (const entry of entries) await walk(entry, single ? "" : entry.name, found);
  return found;
}
async function walk(entry: FileSystemEntry, name: string, found: Files): Promise<void> {
  if (found.length >= MOST_FILES) return;
  if (entry.isFile) {
    const data = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    found.push({ name: name || data.name, data });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return;
    for (const one of some) await walk(one, name ? `${name}/${one.name}` : one.name, found);
  }
}
const zone = get("zone");
for (const name of ["dragenter", "dragover"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
}
document.addEventListener("dragleave", (event) => {
  if ((event as DragEvent).relatedTarget === null) zone.classList.remove("over");
});
document.addEventListener("drop", async (event) => {
  event.preventDefault();
  zone.classList.remove("over");
  await openFiles(await filesOf((event as DragEvent).dataTransfer!));
});
get<HTMLInputElement>("files").addEventListener("change", async (event) => {
  const input = event.target as HTMLInputElement;
  await openFiles([...input.files!].map((data) => ({ name: data.name, data })));
  input.value = ""; // so that the same file can be chosen again
});

async function openFiles(files: Files): Promise<void> {
  if (!files.length) return;
  remember({ model: null, config: null, view: null, tab: null });
  const drop = await asked<Drop>({ do: "drop", names: files.map(({ name }) => name) });
  if (!drop) return;
  await openSource({ files, text: null, drop, target: drop.targets[0] ?? files[0]!.name });
}

// Paste: a config or an article. Where the clipboard has HTML, formulas keep their source in it.

const pasted = get<HTMLTextAreaElement>("pasted");
pasted.addEventListener("paste", (event) => {
  const html = event.clipboardData?.getData("text/html") ?? "";
  const text = event.clipboardData?.getData("text/plain") ?? "";
  if (!html.trim() || text.trim().startsWith("{")) return;
  event.preventDefault();
  pasted.value = text || (new DOMParser().parseFromString(html, "text/html").body.textContent ?? "");
  keepHtml(html);
});
pasted.addEventListener("input", () => keepHtml(""));
function keepHtml(html: string): void {
  pastedHtml = html;
  get("has-html").hidden = !html;
}
get("use-text").addEventListener("click", () => {
  keepHtml("");
  pasted.focus();
});
get<HTMLFormElement>("paste-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (pasted.value.trim()) await openText(pasted.value, pastedHtml);
});
async function openText(text: string, html: string): Promise<void> {
  const kind = html ? "article" : text.trim().startsWith("{") ? "config" : "article";
  const name = kind === "config" ? "config.json" : html ? "article.html" : "article.txt";
  const config = kind === "config" ? await packed(text) : null;
  if (state.get("config") !== config) remember({ view: null, tab: null });
  remember({ model: null, config });
  const drop = { kind, targets: [name], config: kind === "config" ? name : "" };
  await openSource({ files: [], text: { name, content: html ? asPage(html) : text }, drop, target: name });
}
function asPage(html: string): string {
  return /^\s*<(!doctype|html|head|body)/i.test(html) ? html : `<!DOCTYPE html><body>${html}</body>`;
}

// What is open: its commands as tabs

type Tab = { key: string; line: string[] };
function openModel(name: string): void {
  if (state.get("model") !== name) remember({ view: null, tab: null });
  remember({ model: name, config: null });
  void openSource({ files: [], text: null, drop: { kind: "model", targets: [name], config: "" }, target: name });
}
function tabsOf({ drop, target }: Source): Tab[] {
  const model = get<HTMLInputElement>("against").value.trim() || drop.config;
  switch (drop.kind) {
    case "checkpoint":
      return [
        { key: "inspect", line: ["inspect", target] },
        { key: "guess", line: ["guess", target] },
        { key: "verify", line: model ? ["verify", model, target] : [] },
      ];
    case "article":
      return [{ key: "audit", line: ["audit", target] }];
    default:
      return [
        { key: "weigh", line: ["weigh", target] },
        { key: "explore", line: ["explore", target] },
        { key: "explain", line: ["explain", target] },
        { key: "cost", line: ["cost", target] },
        { key: "tree", line: ["tree", target] },
      ];
  }
}
let open = "";
async function openSource(given: Source): Promise<void> {
  source = given;
  get("against").dataset.kind = given.drop.kind;
  get("result").hidden = false;
  get("what").textContent = given.target === "." ? word("all_files", { n: given.files.length }) : given.target;
  const chooser = get<HTMLSelectElement>("target");
  chooser.replaceChildren(...given.drop.targets.map((name) => element("option", { value: name }, name === "." ? word("all_files", { n: given.files.length }) : name)));
  get("targets").hidden = given.drop.targets.length < 2;
  get("verify-form").hidden = given.drop.kind !== "checkpoint";
  const tabs = tabsOf(given).map((tab) => tab.key), asked = state.get("tab") ?? (state.has("view") ? "explore" : "");
  await chooseTab(tabs.includes(asked) ? asked : tabs[0]!);
}
get("target").addEventListener("change", () => {
  if (source) void openSource({ ...source, target: get<HTMLSelectElement>("target").value, drop: source.drop });
});
get<HTMLFormElement>("verify-form").addEventListener("submit", (event) => {
  event.preventDefault();
  void chooseTab("verify");
});
async function again(): Promise<void> {
  if (source && open) await chooseTab(open);
}
async function chooseTab(key: string): Promise<void> {
  if (!source) return;
  open = key;
  const tabs = tabsOf(source);
  // The first tab needs no word in a link, unless the explorer has been open.
  if (state.has("model") || state.has("config")) remember({ tab: key === tabs[0]!.key && !state.has("view") ? null : key });
  get("tabs").replaceChildren(
    ...tabs.map((tab) => {
      const chosen = tab.key === key;
      const button = element("button", { role: "tab", type: "button", id: `tab-${tab.key}`, "aria-selected": String(chosen), "aria-controls": "panel", tabindex: chosen ? "0" : "-1" }, word(`tab_${tab.key}`));
      button.addEventListener("click", () => void chooseTab(tab.key));
      return button;
    }),
  );
  get("panel").setAttribute("aria-labelledby", `tab-${key}`);
  const tab = tabs.find((one) => one.key === key)!;
  if (!tab.line.length) {
    get("line").textContent = "";
    get("panel").replaceChildren(element("p", {}, word("against_what")));
    get("against").focus();
    return;
  }
  if (key === "explore") await explore(tab.line);
  else await run(tab.line);
}
get("tabs").addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const tabs = [...get("tabs").children] as HTMLElement[];
  const at = tabs.findIndex((tab) => tab.getAttribute("aria-selected") === "true");
  if (!by || at < 0) return;
  event.preventDefault();
  const key = tabs[(at + by + tabs.length) % tabs.length]!.id.slice("tab-".length);
  void chooseTab(key).then(() => get(`tab-${key}`).focus());
  get(`tab-${key}`)?.focus();
});

function quoted(piece: string): string {
  return /^[\w./:@%+=,-]+$/.test(piece) ? piece : `'${piece.replace(/'/g, `'\\''`)}'`;
}
async function run(line: string[]): Promise<void> {
  const mine = ++turn;
  const panel = get("panel");
  get("line").textContent = `weighbridge ${line.map(quoted).join(" ")}`;
  alertUser("");
  panel.setAttribute("aria-busy", "true");
  delete panel.dataset.done;
  panel.replaceChildren(element("p", { class: "faint" }, word("working")));
  const reply = await reached({ do: "command", line, lang: chosenLanguage() });
  if (mine !== turn) return;
  panel.removeAttribute("aria-busy");
  panel.replaceChildren(...(reply ? shown(reply.answer) : []));
  if (reply) showReading(reply);
  panel.dataset.done = String(reply?.answer.status ?? "failed");
}
// The explorer is a page of its own in a frame, because its areas and colours need inline styles, which this page forbids.
function dressed(view: URLSearchParams): URLSearchParams {
  view.set("lang", chosenLanguage());
  const theme = state.get("theme")?.replace("auto", "");
  if (theme !== undefined) view.set("theme", theme);
  return view;
}
function dressFrame(): void {
  const place = document.querySelector<HTMLIFrameElement>("iframe.explorer")?.contentWindow?.location;
  if (place) place.hash = String(dressed(new URLSearchParams(place.hash.slice(1))));
}
async function explore(line: string[]): Promise<void> {
  const mine = ++turn;
  const panel = get("panel");
  get("line").textContent = `weighbridge ${line.map(quoted).join(" ")}`;
  alertUser("");
  delete panel.dataset.done;
  panel.replaceChildren(element("p", { class: "faint" }, word("working")));
  const reply = await reached({ do: "explore", model: line[1]!, lang: chosenLanguage() });
  if (mine !== turn) return;
  if (!reply?.answer.page) {
    panel.replaceChildren(...(reply ? shown(reply.answer) : []));
    panel.dataset.done = String(reply?.answer.status ?? "failed");
    return;
  }
  showReading(reply);
  const view = dressed(new URLSearchParams(state.get("view") ?? ""));
  const frame = element("iframe", { src: `explore.html#${view}`, title: word("tab_explore"), class: "explorer" }) as HTMLIFrameElement;
  const listens = ({ source, data }: MessageEvent) => {
    if (source !== frame.contentWindow) return;
    if (data.height === 0) {
      frame.contentWindow!.postMessage(reply.answer.page, location.origin);
      panel.dataset.done = "0";
    } else frame.height = String(Math.ceil(data.height) + 2);
  };
  addEventListener("message", listens);
  panel.replaceChildren(frame);
  // The explorer keeps its state in its own address; the link of this page holds it too.
  const timer = setInterval(() => {
    if (!frame.isConnected) {
      clearInterval(timer);
      removeEventListener("message", listens);
      return;
    }
    const now = frame.contentWindow?.location.hash.slice(1) ?? "";
    if (now && now !== state.get("view")) remember({ view: now });
  }, 500);
}
function shown({ out = "", err = "", html = "", failed = "", status = 0 }: Answer): Node[] {
  const nodes: Node[] = [];
  if (failed) nodes.push(element("p", { class: "message bad", role: "alert" }, word("failed", { reason: failed })));
  for (const message of err.split("\n").filter(Boolean)) {
    nodes.push(element("p", { class: status === 2 ? "message bad" : "message", ...(status === 2 ? { role: "alert" } : {}) }, message));
  }
  if (html) {
    const answer = element("div", { class: "answer" });
    answer.append(copied(html));
    nodes.push(answer);
  }
  if (out) {
    const pre = element("pre", { tabindex: "0", role: "group", "aria-label": word("terminal"), id: "out" }, out);
    nodes.push(element("details", html ? {} : { open: "" }, element("summary", {}, word("terminal")), pre));
  }
  return nodes;
}
function showReading({ ms, read }: Reply): void {
  const values = { ms: Math.round(ms), bytes: read.bytes.toLocaleString("en") };
  get("reading").textContent = word(source?.files.length ? "read_bytes" : "took", values);
  get("reading").dataset.bytes = String(read.bytes);
}
get("panel").addEventListener("click", (event) => {
  const to = (event.target as HTMLElement).closest<HTMLElement>("[data-to]")?.dataset.to;
  if (to) document.getElementById(to)?.scrollIntoView({ block: "center" });
});
get("copy").addEventListener("click", () => void navigator.clipboard?.writeText(get("line").textContent ?? ""));

async function reached(request: Record<string, unknown>): Promise<Reply | null> {
  try {
    return await desk.ask(request, source?.files ?? [], source?.text ?? null);
  } catch (error) {
    if (!(error instanceof Died)) throw error;
    return null; // `says` told the user
  }
}
async function asked<Of>(request: Record<string, unknown>): Promise<Of | null> {
  try {
    return (await desk.ask(request)).answer as Of;
  } catch (error) {
    if (!(error instanceof Died)) throw error;
    return null;
  }
}

async function fromLink(): Promise<void> {
  const config = state.get("config");
  const model = state.get("model");
  if (config) {
    const text = await unpacked(config);
    pasted.value = text;
    await openText(text, "");
  } else if (model) {
    search.value = model;
    openModel(model);
  }
}

dress();
void fromLink();
void asked<typeof names>({ do: "names" }).then((found) => {
  if (found) names = found;
  if (document.activeElement === search) offer();
});
