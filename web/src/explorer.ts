// The explorer: mounts a contract, or two to compare, into an element, and redraws it as dials turn.

import { Float } from "./expr.ts";
import type { Int, Value } from "./expr.ts";
import type { Contract, Lang, Piece, Two } from "./contract.ts";
import { byComponent, check, Model, sum } from "./ledger.ts";
import type { Changes, Entry } from "./ledger.ts";
import { escape, letter, Writer } from "./math.ts";
import { runsOf, runsOfOperations, strata, without } from "./strata.ts";
import type { Band, Cell, Run } from "./strata.ts";
import { dialsOf, fits, ladder } from "./dials.ts";
import { BOLD, count, fitted, paint, share, short, storedBytes, width, wrap } from "./figures.ts";
import { amounts, drawCosts, inWords, stepsOf } from "./costs.ts";
import { checkRuns, Running } from "./running.ts";
import type { Run as RunSizes } from "./running.ts";
import { drawFlow, foldFrame, forgetPicked, linkOfFlow, markFlow, pickBox, readFlow } from "./flow.ts";
import { save } from "./exports.ts";

export type Words = Record<string, string>;
export interface Page { contracts: Contract[]; words: Two<Words>; lang: Lang }
export type Measure = "parameters" | "flops" | "cache";
interface State { entries: Entry[]; runs: Run[]; by: Map<string, Int>; total: Int; active: Int }

const REST = 90;   // ms: a dial that does not turn for so long rests
const SLIM = 560;  // px: the map has its labels inside

export class Explorer {
  readonly models: Model[];
  readonly bases: State[];
  changes: Changes = {};
  left = new Set<string>();
  zoomed = "";
  chosen = "";
  at = 0;
  lang: Lang;
  theme = "";
  state: State;
  measure: Measure = "parameters";
  checkpointing = false;
  /** The sizes of the run as the dials have them; `run` has no more tokens than the model has positions. */
  sizes: RunSizes = { batch: 1, sequence: 1, context: 1 };
  /** Why the recorded operations do not hold at this setting; empty if they do. */
  noRun = "";
  private drawnRuns: Run[] = [];
  private wide = 0;
  private mapWide = 0;
  private resting = 0;
  private readonly runnings: (Running | null)[];
  private dialNames: string[] = [];

  constructor(readonly root: HTMLElement, readonly page: Page) {
    this.models = page.contracts.map((contract) => new Model(contract));
    this.bases = this.models.map((model) => this.evaluate(model, {}));
    this.runnings = this.models.map((model) => (model.data.run ? new Running(model, model.data.run) : null));
    this.lang = page.lang;
    this.state = this.bases[0];
    this.readLink();
    this.build();
    window.addEventListener("hashchange", () => { if (location.hash.slice(1) !== this.link()) { this.readLink(); this.build(); } });
    new ResizeObserver(([{ contentRect: { width } }]) => { if (width === this.wide) return; this.wide = width; this.mapWide = 0; this.drawMap(); drawFlow(this); }).observe(root);
    this.root.addEventListener("change", () => this.rest());
  }

  get model(): Model { return this.models[this.at]; }
  get data(): Contract { return this.model.data; }
  get running(): Running | null { return this.runnings[this.at]; }
  get run(): RunSizes {
    const most = this.running?.most() ?? Infinity, { batch, sequence, context } = this.sizes;
    return { batch, sequence: Math.min(sequence, most), context: Math.min(context, most) };
  }
  get base(): State { return this.bases[this.at]; }

  el<Of extends Element = HTMLElement>(name: string): Of { return this.root.querySelector(`[data-at="${name}"]`) as Of; }
  word(key: string, values: Record<string, unknown> = {}): string {
    return (this.page.words[this.lang][key] ?? key).replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
  }
  private html(key: string, values: Record<string, unknown> = {}): string { return escape(this.word(key, values)); }
  name(component: string): string { return this.data.names[component]?.[this.lang] ?? this.page.words[this.lang][`in_${component}`] ?? component; }
  meaning(field: string): string { return this.data.meanings[this.lang][field] ?? field; }

  evaluate(model: Model, changes: Changes): State {
    const entries = model.bind(changes);
    return {
      entries, runs: runsOf(model.data, entries), by: byComponent(model.data, entries),
      total: sum(entries.map((entry) => entry.parameters)), active: sum(entries.map((entry) => entry.active)),
    };
  }

  // The link holds the whole state

  link(): string {
    const state = new URLSearchParams();
    const set = Object.entries(this.changes).map(([name, value]) => `${name}=${value}`).join(" ");
    const all = { lang: this.lang === this.page.lang ? "" : this.lang, theme: this.theme, model: this.at ? String(this.at) : "", set, without: [...this.left].join(" "), zoom: this.zoomed, why: this.chosen, by: this.measure === "parameters" ? "" : this.measure, run: this.runText(), checkpointing: this.checkpointing ? "full" : "", ...linkOfFlow(this) };
    for (const [key, value] of Object.entries(all)) if (value) state.set(key, value);
    return state.toString();
  }

  private usualRun(): RunSizes {
    const { run } = this.data;
    return run ? { batch: 1, sequence: run.sequence, context: run.context } : { batch: 1, sequence: 1, context: 1 };
  }

  private runText(): string {
    const usual = this.usualRun();
    return (Object.keys(usual) as (keyof RunSizes)[]).filter((name) => this.sizes[name] !== usual[name]).map((name) => `${name}=${this.sizes[name]}`).join(" ");
  }

  private readLink(): void {
    const state = new URLSearchParams(location.hash.slice(1)), lang = state.get("lang"), theme = state.get("theme") ?? "";
    this.lang = lang === "en" || lang === "zh" ? lang : this.page.lang;
    this.theme = ["dark", "light"].includes(theme) ? theme : "";
    this.at = state.get("model") === "1" && this.models.length > 1 ? 1 : 0;
    const known = new Set(Object.values(this.data.components));
    this.left = new Set((state.get("without") ?? "").split(" ").filter((name) => known.has(name)));
    this.zoomed = state.get("zoom") ?? "";
    this.chosen = known.has(state.get("why") ?? "") ? state.get("why")! : "";
    readFlow(this, state);
    this.measure = ["flops", "cache"].includes(state.get("by") ?? "") && this.data.run ? state.get("by") as Measure : "parameters";
    this.checkpointing = state.get("checkpointing") === "full" && this.data.run?.checkpointed !== undefined;
    this.sizes = this.usualRun();
    for (const one of (state.get("run") ?? "").split(" ").filter(Boolean)) {
      const [name, text] = one.split("="), size = Number(text);
      if (name in this.sizes && Number.isInteger(size) && size > 0 && size <= 2 ** 31) this.sizes[name as keyof RunSizes] = size;
    }
    this.changes = {};
    for (const one of (state.get("set") ?? "").split(" ").filter(Boolean)) {
      const [name, text] = one.split("=");
      if (name in this.model.fields()) this.changes[name] = text === "true" ? true : text === "false" ? false : Number(text);
    }
    if (fits(this.model, this.changes)) this.changes = {};
  }

  // What is built once, and what each step of a dial draws

  build(): void {
    const { data } = this, checked = check(this.model), runs = checkRuns(this.model);
    checked.wrong.push(...runs.wrong);
    document.documentElement.lang = this.lang === "zh" ? "zh-Hans" : "en";
    document.documentElement.dataset.theme = this.theme;
    document.title = `${data.model} · ${this.word("title")}`;
    this.root.innerHTML = this.frame();
    this.mapWide = 0;
    this.el("checked").textContent = checked.wrong.length ? `${this.word("wrong", { count: checked.wrong.length })} ${checked.wrong[0]}` : this.word(runs.settings ? "checked_runs" : "checked", { count: checked.settings, runs: runs.settings });
    this.el("checked").classList.toggle("wrong", checked.wrong.length > 0);
    this.el("formula").innerHTML = this.formula();
    this.buildDials();
    this.listen();
    this.draw();
  }

  private frame(): string {
    const { data } = this, button = (action: string, text: string, more = "") => `<button data-do="${action}" ${more}>${text}</button>`;
    const models = this.models.length < 2 ? "" : `<nav class="pick" aria-label="${this.html("models")}">${this.models.map((model, at) => button(`model ${at}`, escape(`${model.data.model} ${model.data.class}`), `aria-pressed="${at === this.at}"`)).join("")}</nav>`;
    const measures = (["parameters", "flops", "cache"] as const).filter((one) => one === "parameters" || (data.run && (one === "flops" || data.run.stepped)));
    const by = measures.length < 2 ? "" : `<span class="pick" role="group" aria-label="${this.html("areas_by")}">${measures.map((one) => button(`by ${one}`, this.html(`by_${one}`), `aria-pressed="${one === this.measure}"`)).join("")}</span>`;
    const formats = ["svg", "png", "csv", "json"].map((format) => button(`save ${format}`, format.toUpperCase(), `title="${this.html(`save_${format}`)}"`)).join("");
    return `<header><div><h1>${escape(data.model)} <small>${escape(data.class)}</small></h1>${models}
<div class="big" data-at="total" aria-live="polite"></div><div class="under"><span data-at="size"></span> <span data-at="more"></span> <span data-at="active"></span></div></div>
<div class="tools">${button("lang", this.lang === "en" ? "中文" : "English", `lang="${this.lang === "en" ? "zh-Hans" : "en"}"`)}${button("theme", this.html("theme"))}${formats}${button("embed", this.html("embed"))}</div></header>
<div class="formula" data-at="formula" role="group" aria-label="${this.html("formula")}"></div>
<div class="grid"><div><section class="card" aria-label="${this.html("map")}"><div class="bar"><span data-at="where"></span>${by}${button("out", this.html("out"), 'data-at="out" hidden')}</div>
<svg data-at="map" role="group"></svg><p class="said" data-at="said">${this.html("hint")}</p><p class="thin" data-at="thin"></p></section>
<section class="card"><h2>${this.html("where_parameters")}</h2><div class="wide" tabindex="0" role="region" aria-label="${this.html("where_parameters")}"><table><thead><tr><th scope="col">${this.html("component")}</th><th scope="col" class="math">${this.html("formula")}</th><th scope="col" class="n">${this.html("parameters")}</th><th scope="col" class="n">${this.html("share")}</th></tr></thead><tbody data-at="table"></tbody></table></div></section>
<section class="card" data-at="why" aria-live="polite" hidden></section><section class="card" data-at="costs"></section></div>
<section class="card dials" aria-label="${this.html("dials")}"><div class="bar"><h2>${this.html("dials")}</h2>${button("reset", this.html("reset"), 'data-at="reset" hidden')}</div><div data-at="dials"></div><p class="said" data-at="refused" aria-live="polite"></p><p class="said"><code data-at="command"></code></p></section></div>
<section class="card" data-at="flowcard" hidden><div class="bar"><h2>${this.html("flow")}</h2>${button("save flow", "SVG", `data-at="saveflow" title="${this.html("save_flow")}"`)}</div><div data-at="flow"></div></section>
<section class="card" data-at="compare" hidden></section>
<footer><span data-at="checked"></span> ${escape(data.source)}</footer>`;
  }

  private formula(): string {
    const { data } = this, writer = new Writer(data.letters, count);
    return Object.entries(data.formulas).map(([component, tree], at) => `${at ? '<span class="plus">+</span>' : ""}<button class="term" data-do="why ${escape(component)}" style="${paint(component)}" title="${escape(this.name(component))}">${writer.pieces(data.trees[tree])}</button>`).join("");
  }

  private buildDials(): void {
    this.dialNames = dialsOf(this.model);
    const env = this.model.fields(this.changes), rows = this.dialNames.map((name) => {
      const value = env[name], label = escape(this.meaning(name));
      if (typeof value === "boolean") return `<div class="dial"><label class="flag"><input type="checkbox" data-dial="${escape(name)}" ${value ? "checked" : ""}> <span>${label}</span></label></div>`;
      const sign = this.data.letters[name] ? `<math>${letter(this.data.letters[name], name)}</math>` : "";
      return `<div class="dial"><label for="d-${escape(name)}"><span class="sign">${sign}</span><span>${label}</span></label><output>${count(value as number)}</output><input id="d-${escape(name)}" type="range" data-dial="${escape(name)}" title="${escape(name)}"></div>`;
    });
    const ofRun = !this.running ? [] : (["batch", ...(this.running.takesTokens() ? ["sequence"] as const : []), ...(this.running.has("stepped") ? ["context"] as const : [])] as const).map((name) => `<div class="dial"><label for="r-${name}"><span class="sign"></span><span>${this.html(name === "batch" && !this.running!.takesTokens() ? "run_batch_inputs" : `run_${name}`)}</span></label><output></output><input id="r-${name}" type="range" data-run="${name}"></div>`);
    this.el("dials").innerHTML = rows.join("") + (ofRun.length ? `<h3>${this.html("run")}</h3>${ofRun.join("")}` : "");
    for (const input of this.root.querySelectorAll<HTMLInputElement>("input[type=range][data-dial]")) this.setLadder(input);
    for (const input of this.root.querySelectorAll<HTMLInputElement>("input[type=range][data-run]")) this.setRunLadder(input);
  }

  private setLadder(input: HTMLInputElement): void {
    const name = input.dataset.dial!, value = Number(this.model.fields(this.changes)[name]);
    const steps = ladder(this.model, this.changes, name, value);
    Object.assign(input, { steps });
    input.min = "0";
    input.max = String(steps.length - 1);
    input.value = String(steps.indexOf(value));
    input.setAttribute("aria-valuetext", count(value));
  }

  private setRunLadder(input: HTMLInputElement): void {
    const name = input.dataset.run as keyof RunSizes, value = this.run[name], steps = stepsOf(name, value, this.running!.most());
    Object.assign(input, { steps });
    input.min = "0";
    input.max = String(steps.length - 1);
    input.value = String(steps.indexOf(value));
    input.setAttribute("aria-valuetext", count(value));
    input.closest(".dial")!.querySelector("output")!.textContent = count(value);
  }

  private listen(): void {
    this.root.onclick = (event) => {
      const target = (event.target as Element).closest<HTMLElement | SVGElement>("[data-do]");
      if (target) this.act(target.dataset.do!);
    };
    this.root.onkeydown = (event) => {
      const target = event.target as HTMLElement;
      if (event.key === "Escape" && this.zoomed) this.act("out");
      else if ((event.key === "Enter" || event.key === " ") && target.getAttribute("role") === "button") { event.preventDefault(); this.act(target.dataset.do!); }
    };
    this.root.oninput = (event) => { const input = event.target as HTMLInputElement; if (input.dataset.dial) this.turn(input); else if (input.dataset.run) this.turnRun(input); };
    this.el<SVGElement>("map").onpointermove = (event) => this.point(event);
    const light = (event: Event) => {
      const dial = (event.target as Element).closest(".dial")?.querySelector<HTMLElement>("[data-dial]")?.dataset.dial ?? "";
      this.root.querySelectorAll("[data-field]").forEach((one) => one.classList.toggle("lit", (one as HTMLElement).dataset.field === dial));
    };
    this.root.onpointerover = light;
    this.el("dials").addEventListener("focusin", light);
  }

  private act(action: string): void {
    const [what, ...rest] = action.split(" "), value = rest.join(" "), before = document.activeElement, { zoomed, chosen } = this;
    if (what === "zoom") this.zoomed = this.zoomed ? "" : value;
    else if (what === "out") this.zoomed = "";
    else if (what === "leave") { if (!this.left.delete(value)) this.left.add(value); }
    else if (what === "why") { this.chosen = this.chosen === value ? "" : value; forgetPicked(this); }
    else if (what === "pick") pickBox(this, value);
    else if (what === "fold") foldFrame(this, value);
    else if (what === "by") { this.measure = value as Measure; this.zoomed = ""; this.root.querySelectorAll<HTMLElement>("[data-do^='by ']").forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.do === action))); }
    else if (what === "save") return void save(this, value);
    else if (what === "embed") return void this.embed();
    else {
      if (what === "lang") this.lang = this.lang === "en" ? "zh" : "en";
      else if (what === "theme") this.theme = this.theme === "dark" || (!this.theme && matchMedia("(prefers-color-scheme: dark)").matches) ? "light" : "dark";
      else if (what === "model") { this.at = Number(value); this.changes = {}; this.left.clear(); this.zoomed = this.chosen = ""; this.measure = "parameters"; this.checkpointing = false; this.sizes = this.usualRun(); }
      else if (what === "reset") { this.changes = {}; this.sizes = this.usualRun(); }
      this.build();
      this.root.querySelector<HTMLElement>(`[data-do="${CSS.escape(action)}"]`)?.focus();
      return;
    }
    this.draw();
    // What had the focus is drawn anew or gone: keys go on where a reader of the page looks next.
    if (before && before !== document.body && !(before.isConnected && (before as HTMLElement).checkVisibility())) this.find(what === "why" ? `.link[data-do="${CSS.escape(`why ${chosen}`)}"]` : this.zoomed ? "[data-do=out]" : `.hit[data-k="${CSS.escape(zoomed)}"]`)?.focus();
  }

  private find(selector: string): HTMLElement | SVGElement | null { return this.root.querySelector(selector); }

  private embed(): void {
    const source = location.href.replace(/"/g, "&quot;");
    this.el("said").textContent = `<iframe src="${source}" width="100%" height="900" title="${this.data.model}"></iframe>`;
  }

  /** Turn a dial to its input's value, or on to the next value that can be built. */
  private turn(input: HTMLInputElement): void {
    const name = input.dataset.dial!, base = this.model.base[name] ?? this.baseValue(name);
    let value: Value = input.checked;
    if (input.type === "range") {
      const { steps } = input as unknown as { steps: number[] }, before = Number(this.model.fields(this.changes)[name]);
      const towards = Math.sign(Number(input.value) - steps.indexOf(before)) || 1;
      let place = Number(input.value);
      while (place in steps && fits(this.model, { ...this.changes, [name]: steps[place] })) place += towards;
      value = place in steps ? steps[place] : before;
      input.value = String(steps.indexOf(value));
      input.setAttribute("aria-valuetext", count(value));
    }
    const changes = { ...this.changes, [name]: value };
    if (value === base) delete changes[name];
    const refused = fits(this.model, changes);
    this.el("refused").textContent = refused ? this.word("refused", { rule: refused }) : "";
    if (refused) { input.checked = !input.checked; return; }
    this.changes = changes;
    this.draw(true);
  }

  private turnRun(input: HTMLInputElement): void {
    if (input.type === "checkbox") this.checkpointing = input.checked;
    else {
      const { steps } = input as unknown as { steps: number[] }, value = steps[Number(input.value)];
      this.sizes = { ...this.sizes, [input.dataset.run!]: value };
    }
    this.draw(input.type !== "checkbox");
    if (input.type === "checkbox") this.root.querySelector<HTMLElement>("[data-run=checkpointing]")?.focus();
  }

  private baseValue(name: string): Value { return this.model.fields()[name]; }

  draw(isTurning = false): void {
    this.state = this.evaluate(this.model, this.changes);
    this.noRun = this.running?.renew(this.state.entries).refused(this.state.entries, this.run) ?? "";
    this.drawnRuns = this.measured();
    this.drawTotal(); this.drawMap(); this.drawTable(); this.drawWhy(); this.drawDials(); this.drawCompare();
    drawFlow(this);
    if (isTurning) { clearTimeout(this.resting); this.resting = window.setTimeout(() => this.rest(), REST); }
    else this.rest();
  }

  /** Draw what a dial that turns leaves as it is: the costs, and the link in the address. */
  private rest(): void {
    clearTimeout(this.resting);
    drawCosts(this);
    history.replaceState(null, "", `#${this.link()}`);
  }

  /** Return what the map shows: tensors by parameters, or operations by FLOPs or by bytes of the cache. */
  private measured(): Run[] {
    if (this.measure === "parameters" || !this.running || this.noRun) return this.state.runs;
    return runsOfOperations(this.data, this.running.drawn(this.measure, this.run));
  }

  private drawDials(): void {
    for (const input of this.root.querySelectorAll<HTMLInputElement>("input[type=range][data-run]")) this.setRunLadder(input);
    for (const input of this.root.querySelectorAll<HTMLInputElement>("[data-dial]")) {
      const name = input.dataset.dial!, value = this.model.env[name], row = input.closest(".dial")!;
      row.classList.toggle("turned", name in this.changes);
      if (input.type !== "range") continue;
      const output = row.querySelector("output")!;
      output.textContent = count(Number(value));
      const { steps } = input as unknown as { steps: number[] };
      if (steps[Number(input.value)] !== value) this.setLadder(input);
    }
    this.el("command").innerHTML = inWords(`weighbridge weigh ${this.commandOf()}`);
  }

  /** Return the model of a command line, with what the dials changed. */
  commandOf(): string {
    const set = Object.entries({ ...this.data.set, ...this.changes }).map(([name, value]) => ` --set ${name}=${value}`).join("");
    const follow = Object.keys(this.changes).length ? this.data.spelled.map((name) => ` --set ${name}=null`).join("") : "";
    return `${this.data.argument} --class ${this.data.class}${set}${follow}`;
  }

  private drawTotal(): void {
    const { total, active } = this.state, more = Number(total) - Number(this.base.total), sign = more > 0 ? "+" : "−";
    this.el("total").textContent = count(total);
    this.el("size").textContent = this.word("stored", { bytes: storedBytes(total, this.data.bits), dtype: this.data.dtype });
    this.el("active").textContent = active === total ? "" : this.word("active", { count: count(active), share: share(active, total) });
    this.el("more").textContent = more ? `${sign}${short(Math.abs(more))} (${sign}${((100 * Math.abs(more)) / Number(this.base.total)).toFixed(1)}%)` : "";
    this.el("reset").hidden = !Object.keys(this.changes).length && !this.runText();
  }

  /** Return what the map shows: all runs, or one layer of a run, without what is left out. */
  shown(): Run[] {
    const runs = this.drawnRuns.map((run) => without(run, this.left)), inside = runs.find((run) => run.key === this.zoomed);
    return inside ? [{ ...inside, many: 1 }] : runs;
  }

  drawMap(): void {
    const svg = this.el<SVGSVGElement>("map");
    if (!svg) return;
    const all = (this.mapWide ||= svg.clientWidth || 860), slim = all < SLIM, width = all - (slim ? 0 : 132), height = slim ? 460 : 620;
    if (this.zoomed && !this.drawnRuns.some((run) => run.key === this.zoomed)) this.zoomed = "";
    const runs = this.shown(), { boxes, bands, total } = strata(runs, width, height), out: string[] = [], labels: string[] = [], thin: string[] = [];
    for (const { run, part, cell, x, y, w, h } of boxes)
      if (w > 0 && h > 0) out.push(`<rect class="cell" style="${paint(part.component)}" data-t="${escape(cell.tensor)}" data-k="${escape(run.key)}" ${place(x, y, w, h)}/>`);
    bands.forEach((band, at) => this.drawBand(band, { width, all, slim, above: bands[at - 1]?.h ?? 0 }, out, labels, thin));
    svg.setAttribute("viewBox", `0 0 ${all} ${height}`);
    svg.setAttribute("height", String(height));
    svg.setAttribute("aria-label", this.word("map_label", { class: this.data.class, amount: this.amount(total) }));
    svg.innerHTML = `<g>${out.join("")}</g><g class="labels" aria-hidden="true">${labels.join("")}</g>`;
    this.el("out").hidden = !this.zoomed;
    this.el("where").textContent = this.zoomed ? this.word("zoomed", { kind: runs[0].kind || runs[0].path, many: this.drawnRuns.find((run) => run.key === this.zoomed)!.many, amount: this.amount(total) })
      : this.left.size ? this.word("without", { names: [...this.left].map((one) => this.name(one)).join(this.word("comma")), amount: this.amount(total), all: this.amount(this.drawnRuns.reduce((n, run) => n + run.each * run.many, 0)) })
      : this.word(this.noRun && this.measure !== "parameters" ? "run_refused" : this.measure === "flops" && !this.running!.takesTokens() ? "areas_flops_inputs" : `areas_${this.measure}`, { rule: this.noRun, amount: this.amount(total), batch: count(this.run.batch), sequence: count(this.run.sequence), context: count(this.run.context) });
    this.el("thin").textContent = thin.length ? this.word("thin", { names: thin.slice(0, 6).join(this.word("comma")), more: thin.length > 6 ? ` + ${thin.length - 6}` : "" }) : "";
    markFlow(this);
  }

  /** Return an amount of what the areas stand for. */
  private amount(n: number): string { return this.word(`amount_${this.measure}`, { count: this.measure === "parameters" ? count(n) : amounts[this.measure](n) }); }

  private drawBand({ run, y, h, parts }: Band, { width, all, slim, above }: { width: number; all: number; slim: boolean; above: number }, out: string[], labels: string[], thin: string[]): void {
    const each = h / run.many, lines: string[] = [];
    for (const { part, x, w } of parts) {
      if (x > 0.5 && w > 0.7) lines.push(`M${x.toFixed(2)} ${y.toFixed(2)}v${h.toFixed(2)}`);
      const met = this.drawExperts(part.cells.flatMap((cell) => cell.entry ?? []), x, y, w, h, out, labels, part.component);
      label(labels, this.name(part.component), run.many, amounts[this.measure](part.each), x + (met < w / 3 ? met : 0), y, w, h, paint(part.component));
    }
    if (each > 2.2) for (let k = 1; k < run.many; k++) lines.push(`M0 ${(y + k * each).toFixed(2)}h${width}`);
    out.push(`<path class="gap ${each > 14 ? "" : "fine"}" d="${lines.join("")}"/>`);
    const cut = Math.min(3, above / 3, h / 3); // px: thinner than what it parts, so that it hides neither
    if (cut) out.push(`<path class="cut" style="stroke-width:${cut.toFixed(2)}" d="M0 ${y.toFixed(2)}h${width}"/>`);
    if (h < 1 && run.each) thin.push(this.label(run));
    if (!slim && h >= 15) labels.push(this.side(run, width + 12, y, h, all - width - 12));
    const ties = run.parts.flatMap((part) => part.cells.filter((cell) => cell.entry?.tied));
    if (ties.length && h < 1) thin.push(...ties.map((cell) => `${cell.tensor} → ${cell.entry!.of.tie![0]}`));
    if (h > 0) out.push(`<rect class="hit" tabindex="0" role="button" data-do="zoom ${escape(run.key)}" data-k="${escape(run.key)}" aria-label="${this.html("look", { name: this.label(run), kind: run.kind, amount: this.amount(run.each), many: run.many })}" ${place(0, y, width, h)}/>`);
  }

  /** Draw a hairline for each expert and shade those that a token meets; return how wide these are. */
  private drawExperts(entries: Entry[], x: number, y: number, w: number, h: number, out: string[], labels: string[], component: string): number {
    const expert = entries.find((entry) => entry.of.active && entry.active !== entry.parameters);
    if (!expert || w <= 40) return 0;
    const met = Number(expert.active) / Number(expert.parameters), many = expert.of.active![1] ? Number(this.model.size(this.data.repeat[expert.of.active![1]], this.model.env, 0)) : Number(expert.shape[0]), lane = w / many;
    out.push(`<rect class="met" ${place(x, y, w * met, h)}/>`);
    if (h > 60 && w > 300) labels.push(`<g class="name" style="${paint(component)}"><text x="${(x + Math.max(9, w * met + 8)).toFixed(1)}" y="${(y + h - 12).toFixed(1)}" font-size="12">${this.html("meets", { met: Math.round(met * many), many })}</text></g>`);
    if (lane > 1.6) out.push(`<path class="lane" d="${Array.from({ length: many - 1 }, (_, k) => `M${(x + (k + 1) * lane).toFixed(2)} ${y.toFixed(2)}v${h.toFixed(2)}`).join("")}"/>`);
    return w * met;
  }

  label(run: Run): string {
    if (run.first === null) return run.path.split(".").at(-1)!;
    return run.many > 1 ? this.word("layers", { first: run.first, last: run.first + run.many - 1, many: run.many }) : this.word("layer", { first: run.first });
  }

  private side(run: Run, x: number, y: number, h: number, room: number): string {
    const name = this.label(run), names = fitted(name, room, 12) ? [name] : wrap(name, room, 12, BOLD), many = names.length * 16, hasKind = h > many + 18 && run.kind && width(run.kind, 12, BOLD) <= room;
    const lines = [...names.map((name) => [name, BOLD]), ...(hasKind ? [[run.kind, 400]] : []), ...(h > many + 36 ? [[amounts[this.measure](run.each * run.many), 400]] : [])] as [string, number][];
    const middle = y + h / 2, text = lines.map(([line, weight], at) => `<text class="side" x="${x}" y="${(middle + 4 + (at - (lines.length - 1) / 2) * 16).toFixed(1)}" font-size="12" font-weight="${weight}">${escape(line)}</text>`).join("");
    return `<path class="bracket" d="M${x - 8} ${(y + 1.5).toFixed(1)}h4v${Math.max(0, h - 3).toFixed(1)}h-4"/>${text}`;
  }

  private point(event: PointerEvent): void {
    const under = document.elementsFromPoint(event.clientX, event.clientY).find((one) => one.classList.contains("cell")) as SVGElement | undefined;
    if (!under) return;
    const run = this.drawnRuns.find((one) => one.key === under.dataset.k);
    for (const part of run?.parts ?? [])
      for (const cell of part.cells) if (cell.tensor === under.dataset.t) this.el("said").innerHTML = cell.entry ? this.tensorLine(cell.entry, cell.tensor, cell.each, run!.many, part.component) : this.operationLine(cell, run!.many, part.component);
  }

  private operationLine(cell: Cell, many: number, component: string): string {
    const shape = this.measure === "flops" ? ` · ${cell.bound!.shape.map(count).join(" × ")}` : "", all = many > 1 ? ` · ${this.html("in_layers", { many, count: amounts[this.measure](cell.each * many) })}` : "";
    return `<b>${escape(cell.tensor)}</b>${shape} · ${escape(this.amount(cell.each))}${all} · ${escape(this.name(component))}`;
  }

  private tensorLine(entry: Entry, name: string, each: number, many: number, component: string): string {
    const writer = new Writer(this.data.letters, count), shape = entry.of.dims.map((dim) => writer.write(this.data.trees[dim], 8)).join("<mo>×</mo>");
    const more = many > 1 ? ` · ${this.html("in_layers", { many, count: count(each * many) })}` : "";
    return `<b>${escape(name)}</b> <math><mrow>${shape}</mrow></math> = ${entry.shape.map(count).join(" × ")} = ${count(each)}${more} · ${escape(this.name(component))}`;
  }

  private stale(component: string): boolean {
    const { data } = this, env = { ...this.model.env };
    try {
      for (const name in data.parts) env[name] = this.model.trees[data.parts[name]](env);
      return String(this.model.trees[data.formulas[component]](env)) !== String(this.state.by.get(component) ?? 0);
    } catch { return true; }
  }

  /** Draw the table, whose rows and formulas stay while only numbers change. */
  private drawTable(): void {
    const { data } = this, table = this.el("table"), whole = this.state.total, components = [...new Set([...Object.keys(data.formulas), ...this.state.by.keys()])];
    const stale = components.map((component) => !(component in data.formulas) || this.stale(component)), key = `${components} ${stale}`;
    if (table.dataset.key !== key) {
      table.dataset.key = key;
      table.innerHTML = components.map((component, at) => this.tableRow(component, stale[at])).join("");
    }
    components.forEach((component, at) => {
      const row = table.children[at], [, , parameters, part] = row.children, size = this.state.by.get(component) ?? 0;
      parameters.textContent = count(size);
      part.textContent = share(size, whole);
      row.querySelector(".eye")!.setAttribute("aria-pressed", String(!this.left.has(component)));
      row.querySelector(".link")!.setAttribute("aria-expanded", String(this.chosen === component));
    });
  }

  private tableRow(component: string, isStale: boolean): string {
    const { data } = this, formula = isStale ? `<span class="stale">${this.html("stale")}</span>` : new Writer(data.letters, count).pieces(data.trees[data.formulas[component]]);
    return `<tr><th scope="row"><div class="named"><button class="eye" data-do="leave ${escape(component)}" aria-label="${this.html("on_map", { name: this.name(component) })}"><span class="swatch" style="${paint(component)}"></span></button><button class="link" data-do="why ${escape(component)}">${escape(this.name(component))}</button></div></th><td class="math">${formula}</td><td class="n"></td><td class="n"></td></tr>`;
  }

  private drawWhy(): void {
    const card = this.el("why"), component = this.chosen;
    card.hidden = !component;
    if (!component) return;
    const { data } = this, writer = new Writer(data.letters, count), tree = data.formulas[component];
    const tensors = this.state.entries.filter((entry) => data.components[entry.of.role] === component);
    const lines = tensors.map((entry) => `<tr><th scope="row">${escape(entry.of.name).replace(/[._]/g, "$&<wbr>")}</th><td class="math"><math><mrow>${entry.of.dims.map((dim) => writer.write(data.trees[dim], 8)).join("<mo>×</mo>")}</mrow></math></td><td class="n">${entry.shape.map(count).join(" × ")}${entry.all > 1 ? ` × ${count(entry.all)}` : ""}</td><td class="n">${entry.tied ? `→ ${escape(entry.of.tie![0])}` : count(entry.parameters)}</td></tr>`);
    const numbers = tree === undefined || this.stale(component) ? "" : `<p class="sum">${writer.pieces(data.trees[tree])} <span>=</span> ${new Writer(data.letters, count, this.numbers()).pieces(data.trees[tree])} <span>=</span> <b>${count(this.state.by.get(component) ?? 0)}</b></p>`;
    const text = (data.why[this.lang][component] ?? []).map((pieces) => `<p class="prose">${pieces.map((piece) => this.piece(piece, writer)).join("")}</p>`).join("");
    card.innerHTML = `<div class="bar"><h2>${this.html("why", { name: this.name(component) })}</h2><button data-do="why ${escape(component)}">${this.html("close")}</button></div>${Object.keys(this.changes).length ? "" : text}${numbers}<div class="wide" tabindex="0" role="region" aria-label="${this.html("tensors")}"><table class="tensors"><tbody>${lines.join("")}</tbody></table></div>`;
  }

  private piece(piece: Piece, writer: Writer): string {
    if (typeof piece === "string") return escape(piece);
    if (piece[0] === "math") return writer.math(this.data.trees[piece[1]]);
    return piece[0] === "code" ? `<code>${escape(piece[1])}</code>` : `<b>${escape(piece[1])}</b>`;
  }

  private numbers(): Record<string, unknown> {
    const env: Record<string, Value> = { ...this.model.env };
    for (const name in this.data.parts) { try { env[name] = this.model.trees[this.data.parts[name]](env); } catch { continue; } }
    return Object.fromEntries(Object.entries(env).map(([name, value]) => [name, value instanceof Float ? value.value : value]));
  }

  /** Two models side by side: by component, and every field that differs. */
  private drawCompare(): void {
    if (this.models.length < 2) return;
    const card = this.el("compare"), [a, b] = this.models.map((model, at) => (at === this.at ? this.state : this.bases[at]));
    const [one, two] = this.models.map((model) => model.data), head = [one, two].map((data) => `<th scope="col" class="n">${escape(data.model)}</th>`).join("");
    const names = new Set([...a.by.keys(), ...b.by.keys()]), difference = (x: Int, y: Int) => { const more = Number(y) - Number(x); return more ? `${more > 0 ? "+" : "−"}${count(Math.abs(more))}` : "="; };
    const rows = [...names].map((name) => `<tr><th scope="row"><div class="named"><span class="swatch" style="${paint(name)}"></span><span>${escape((one.names[name] ?? two.names[name])[this.lang])}</span></div></th>${[a, b].map((s) => `<td class="n">${s.by.has(name) ? count(s.by.get(name)!) : "–"}</td>`).join("")}<td class="n">${difference(a.by.get(name) ?? 0, b.by.get(name) ?? 0)}</td></tr>`);
    const envs = this.models.map((model, at) => model.fields(at === this.at ? this.changes : {})), text = (value: Value | undefined) => (value === undefined ? "–" : value instanceof Float ? String(value.value) : typeof value === "number" ? count(value) : Array.isArray(value) ? `[${value.length}]` : value instanceof Map ? `{${value.size}}` : String(value));
    const fields = [...new Set([...Object.keys(envs[0]), ...Object.keys(envs[1])])].filter((name) => text(envs[0][name]) !== text(envs[1][name]))
      .map((name) => `<tr><th scope="row">${escape(name)}</th>${envs.map((env) => `<td class="n">${escape(text(env[name]))}</td>`).join("")}<td></td></tr>`);
    card.hidden = false;
    card.innerHTML = `<h2>${this.html("compare")}</h2><div class="wide" tabindex="0" role="region" aria-label="${this.html("compare")}"><table><thead><tr><th scope="col">${this.html("component")}</th>${head}<th scope="col" class="n">${this.html("difference")}</th></tr></thead><tbody>${rows.join("")}<tr class="total"><th scope="row">${this.html("total")}</th><td class="n">${count(a.total)}</td><td class="n">${count(b.total)}</td><td class="n">${difference(a.total, b.total)}</td></tr></tbody><tbody><tr><th scope="colgroup" colspan="4">${this.html("fields")}</th></tr>${fields.join("")}</tbody></table></div>`;
  }
}

const place = (x: number, y: number, w: number, h: number) => `x="${x.toFixed(3)}" y="${y.toFixed(3)}" width="${Math.max(0, w).toFixed(3)}" height="${Math.max(0, h).toFixed(3)}"`;

function label(labels: string[], name: string, many: number, each: string, x: number, y: number, w: number, h: number, colour: string): void {
  const size = w > 150 && h > 60 ? 15 : 12, small = many > 1 ? `${many} × ${each}` : each;
  if (h < 17 || w < 24) return;
  if (fitted(name, w - 14, size))
    labels.push(`<g class="name" style="${colour}"><text x="${(x + 9).toFixed(1)}" y="${(y + size + 5).toFixed(1)}" font-size="${size}" font-weight="600">${escape(name)}</text>${h > 44 && fitted(small, w - 14, 12) ? `<text x="${(x + 9).toFixed(1)}" y="${(y + size + 22).toFixed(1)}" font-size="12">${escape(small)}</text>` : ""}</g>`);
  else if (h > name.length * 6.6 + 16 && w > 17)
    labels.push(`<g class="name" style="${colour}"><text transform="translate(${(x + w / 2 + 4).toFixed(1)} ${(y + h - 9).toFixed(1)}) rotate(-90)" font-size="12" font-weight="600">${escape(name)}</text></g>`);
}

/** Mount an explorer into an element; a site may give it a contract that its worker computed. */
export function mount(root: HTMLElement, page: Page): Explorer { return new Explorer(root, page); }
