// The flow: the modules of the base class in the order in which they run, as a picture and as a list of steps.

import type { Explorer } from "./explorer.ts";
import { BOLD, count, paint, width, wrap } from "./figures.ts";
import { addBelow, graphOf } from "./graph.ts";
import type { Node } from "./graph.ts";
import { layout } from "./layout.ts";
import type { Layout, Measure, Placed, Size, Wire } from "./layout.ts";
import { escape } from "./math.ts";
import { isOpen, isTurns, Walker } from "./steps.ts";
import type { Held, Item, Row, Turns } from "./steps.ts";

const SMALL = 11.5, LOW = 26, LINE = 15, TITLE = 24, SIGN = 22, STRIP = 16, ROUND = 4, MARGIN = 6, INDENT = 12, WIDE = 900, LIST = 320, REST = 90;

/** What is kept of a page's flow between two draws. */
interface View { changes: unknown; timer: number; drawn: string; folded: Set<string>; picked: string; at: string; isOpen: boolean | null }
const views = new WeakMap<Explorer, View>();
const viewOf = (explorer: Explorer): View => {
  if (!views.has(explorer)) views.set(explorer, { changes: null, timer: 0, drawn: "", folded: new Set(), picked: "", at: "", isOpen: null });
  return views.get(explorer)!;
};

/** Draw the flow; while a dial turns, as soon as it rests. */
export function drawFlow(explorer: Explorer): void {
  const view = viewOf(explorer), isTurning = view.changes !== explorer.changes && view.drawn !== "" && explorer.el("flow").firstChild !== null;
  view.changes = explorer.changes;
  clearTimeout(view.timer);
  if (isTurning) view.timer = window.setTimeout(() => drawNow(explorer), REST);
  else drawNow(explorer);
}

function reasonOfNone({ data, word }: { data: Explorer["data"]; word: Explorer["word"] }, walker: Walker | null): string {
  const unheld = walker?.unheld();
  if (!data.flow) return word("flow_none", { family: data.family });
  if (data.flow.other) return word("flow_other", { base: data.flow.class, task: data.class });
  return unheld ? word("flow_unheld", { value: unheld }) : "";
}

function drawNow(explorer: Explorer): void {
  const { data, model } = explorer, card = explorer.el("flow"), walker = data.flow && !data.flow.other ? new Walker(data.flow, model) : null;
  const why = reasonOfNone({ data, word: (key, values) => explorer.word(key, values) }, walker);
  explorer.el("flowcard").hidden = false;
  explorer.el("saveflow").hidden = why !== "";
  if (why) { card.innerHTML = `<p class="said">${escape(why)}</p>`; viewOf(explorer).drawn = ""; return; }
  const rows = walker!.module(""), added = walker!.added(), view = viewOf(explorer), wide = card.clientWidth || 860;
  const key = [wide, explorer.lang, data.model, data.class, [...view.folded], JSON.stringify([rows, added], (name, value) => (name === "of" ? undefined : value))].join("|");
  if (view.drawn !== key || !card.firstChild) {
    view.drawn = key;
    new Drawing(explorer, rows, added, view).draw(card, wide);
  }
  markFlow(explorer);
}

/** Show which boxes are of what is chosen, here and on the map. */
export function markFlow(explorer: Explorer): void {
  const { picked } = viewOf(explorer), { chosen } = explorer, module = boxAt(explorer, picked)?.dataset.module;
  for (const box of explorer.root.querySelectorAll<SVGElement>("[data-box]")) {
    const isChosen = Boolean(chosen) && (picked ? box.dataset.module === module : box.dataset.component === chosen);
    box.classList.toggle("chosen", isChosen);
    if (box.hasAttribute("aria-pressed")) box.setAttribute("aria-pressed", String(isChosen));
  }
  for (const item of explorer.root.querySelectorAll<HTMLElement>("[data-step]")) item.classList.toggle("chosen", Boolean(chosen) && item.dataset.step === picked);
  const cells = new Map<string, string>();
  if (chosen) for (const run of explorer.state.runs) for (const part of run.parts) if (part.component === chosen) for (const cell of part.cells) cells.set(`${run.key}|${cell.tensor}`, moduleOf(cell.entry?.of.name ?? ""));
  for (const cell of explorer.root.querySelectorAll<SVGElement>(".cell")) {
    const of = cells.get(`${cell.dataset.k}|${cell.dataset.t}`);
    cell.classList.toggle("chosen", of !== undefined && (!picked || of === module));
  }
  for (const term of explorer.root.querySelectorAll<HTMLElement>(".term")) term.classList.toggle("chosen", term.dataset.do === `why ${chosen}`);
}

const moduleOf = (name: string): string => name.slice(0, Math.max(0, name.lastIndexOf(".")));

/** Choose a box: its module on the map, its component in the formula and the table. A frame is folded or unfolded. */
export function pickBox(explorer: Explorer, path: string): void {
  const view = viewOf(explorer), box = boxAt(explorer, path), component = box?.dataset.component ?? "";
  view.at = path;
  const isSame = view.picked === path && explorer.chosen === component;
  view.picked = isSame ? "" : path;
  explorer.chosen = isSame ? "" : component;
}

export function foldFrame(explorer: Explorer, key: string): void {
  const { folded } = viewOf(explorer);
  viewOf(explorer).at = key;
  if (!folded.delete(key)) folded.add(key);
}

const boxAt = (explorer: Explorer, path: string): SVGElement | null => (path ? explorer.root.querySelector<SVGElement>(`[data-box="${CSS.escape(path)}"]`) : null);

/** Return what a link holds of the flow: the folded frames, and the box that is chosen. */
export function linkOfFlow(explorer: Explorer): { fold: string; box: string } {
  const { folded, picked } = viewOf(explorer);
  return { fold: [...folded].join(" "), box: explorer.chosen ? picked : "" };
}

export function readFlow(explorer: Explorer, state: URLSearchParams): void {
  Object.assign(viewOf(explorer), { folded: new Set((state.get("fold") ?? "").split(" ").filter(Boolean)), picked: explorer.chosen ? state.get("box") ?? "" : "" });
}

export const forgetPicked = (explorer: Explorer): void => { viewOf(explorer).picked = ""; };

export class Drawing implements Measure {
  private tensors: Set<string>;

  constructor(private explorer: Explorer, private rows: Item[], private added: Row[], private view: View) {
    const { data } = explorer, { prefix } = data.flow!;
    this.tensors = new Set(data.tensors.filter((one) => one.name.startsWith(prefix)).map((one) => one.name.slice(prefix.length)));
  }

  draw(card: HTMLElement, wide: number): void {
    const { explorer, view } = this, { flow } = explorer.data, room = (wide >= WIDE ? wide - LIST - 32 : wide) - 2 * ROUND;
    const found = this.layout(room), scrolled = card.querySelector(".steps")?.scrollTop ?? 0;
    const label = explorer.word("flow_label", { class: flow!.class });
    const notes = [isOpen(this.rows) ? explorer.word("flow_open") : "", noteOfTask(explorer), explorer.word("flow_left_out"), explorer.word("flow_proved", { against: flow!.against, configs: flow!.configs })].filter(Boolean);
    const isUnfolded = view.isOpen ?? wide >= WIDE;
    card.innerHTML = `<p class="said" data-at="flowsaid">${escape(explorer.word("flow_hint"))}</p><div class="flowing ${wide >= WIDE ? "beside" : ""}"><svg data-at="flowsvg" role="group" aria-label="${escape(label)}" viewBox="0 0 ${Math.ceil(found.w + 2 * ROUND)} ${Math.ceil(found.h + 2 * ROUND)}" style="max-width:${Math.ceil(found.w + 2 * ROUND)}px">${this.svg(found, ROUND, ROUND)}</svg>
<details ${isUnfolded ? "open" : ""}><summary>${escape(explorer.word("flow_list"))}</summary><div class="steps" tabindex="0" role="region" aria-label="${escape(explorer.word("flow_list"))}">${this.list(this.rows)}${this.added.length ? `<ol><li>${escape(explorer.word("flow_added", { task: explorer.data.class }))}${this.list(this.added)}</li></ol>` : ""}</div></details></div>${notes.map((note) => `<p class="said">${escape(note)}</p>`).join("")}`;
    card.querySelector("details")!.ontoggle = (event) => { view.isOpen = (event.target as HTMLDetailsElement).open; };
    card.querySelector(".steps")!.scrollTop = scrolled;
    this.rove(card);
  }

  /** Return where everything is in a room of some width. */
  layout(room: number): Layout {
    const root = graphOf(this.rows, "", "", true, this.tensors);
    if (this.added.length) addBelow(root, this.added, this.explorer.word("flow_added", { task: this.explorer.data.class }));
    return layout(root, room, this);
  }

  /** One stop of the tab key for all boxes; arrows go from one to the next. */
  private rove(card: HTMLElement): void {
    const boxes = [...card.querySelectorAll<SVGElement>("svg [role=button]")];
    const stop = (to: SVGElement | undefined, isFocused: boolean) => {
      if (!to) return;
      boxes.forEach((box) => box.setAttribute("tabindex", box === to ? "0" : "-1"));
      if (isFocused) to.focus();
    };
    const again = boxes.find((box) => box.dataset.box === this.view.at);
    stop(again ?? boxes[0], Boolean(again && this.view.at));
    this.view.at = "";
    const svg = card.querySelector<SVGElement>("svg")!;
    const say = (event: Event) => { const text = (event.target as Element).closest<SVGElement>("[data-said]")?.dataset.said; if (text) this.explorer.el("flowsaid").textContent = text; };
    svg.onpointerover = say;
    svg.addEventListener("focusin", say);
    svg.onkeydown = (event) => {
      const at = boxes.indexOf(event.target as SVGElement), step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      const to = event.key === "Home" ? 0 : event.key === "End" ? boxes.length - 1 : step === undefined || at < 0 ? -1 : at + step;
      if (!(to in boxes)) return;
      event.preventDefault();
      stop(boxes[to], true);
    };
  }

  // Sizes

  isFolded(node: Node): boolean { return this.view.folded.has(node.key); }

  size(node: Node, room: number, isTight = false): Size {
    if (!node.name && (node.kind === "out" || node.kind === "port")) return { w: 8, h: 0 };
    if (node.kind === "strip") return { w: Math.min(room, Math.max(120, node.of!.length * 12)), h: STRIP };
    if (node.kind === "port" || node.kind === "out") return { w: Math.min(room, width(this.portName(node), 11) + 16), h: 20 };
    if (node.kind === "sign") return { w: Math.max(SIGN, Math.min(room, node.name.length > 1 ? width(node.name, SMALL) + 14 : SIGN)), h: SIGN };
    if (node.kind === "frame") return this.title(node, room);
    const lines = this.wrapped(node, room - 2 * MARGIN, isTight);
    return { w: Math.min(room, Math.max(40, ...lines.map(({ text, size, weight }) => width(text, size, weight))) + 2 * MARGIN), h: LOW + LINE * (lines.length - 1) };
  }

  private portName(node: Node): string { return node.kind === "out" ? this.explorer.word("flow_output") : node.name; }

  title(node: Node, room: number): Size {
    const lines = this.titleLines(node, room);
    return { w: Math.min(room, Math.max(...lines.map((text) => width(text, 12, BOLD))) + this.besideTitle(node)), h: TITLE + LINE * (lines.length - 1) };
  }

  /** The width of what stands in a title besides its text: margins, an indent, and the mark of a kind of layers. */
  private besideTitle(node: Node): number { return 20 + INDENT + (node.of && node.row ? 16 : 0); }

  private titleLines(node: Node, room: number): string[] { return wrap(`${this.isFolded(node) ? "▸" : "▾"} ${this.titleOf(node)}`, room - this.besideTitle(node), 12, BOLD); }

  /** Return the lines of a box as they fit into its width, the first of them bold. */
  private wrapped(node: Node, room: number, isTight = false): Line[] {
    return this.lines(node, isTight).flatMap((text, at) => {
      const [size, weight] = at ? [11, 400] : [12, BOLD];
      return wrap(text, room, size, weight).map((one) => ({ text: one, size, weight }));
    });
  }

  /** Return the lines of a box: its name, and what it holds or does. */
  private lines(node: Node, isTight = false): string[] {
    if (node.kind === "tensor") { const [, shape] = this.held(node); return [node.name, shape].filter(Boolean); }
    const { row } = node;
    if (!row) return [node.name];
    if (row.kind === "f") return /attention_forward|attention_interface/.test(row.called) ? [this.explorer.word("flow_attention"), this.heads(node)].filter(Boolean) : [row.called.replace(/^(apply|torch)_/, "").replace(/_/g, " ").trim()];
    const name = row.called.replace(/^root\./, "");
    return [name, this.second(row).replace(isTight ? /^[\d,]+ (?=→)/ : "", "")].filter(Boolean);
  }

  private held(node: Node): [Held["of"] | undefined, string] {
    const { data, model } = this.explorer, of = data.tensors.find((one) => one.name === data.flow!.prefix + node.key);
    try { return [of, of ? of.dims.map((tree) => count(model.size(tree, model.env, 0))).join(" × ") : ""]; } catch { return [of, ""]; }
  }

  private second(row: Row): string {
    const weight = row.tensors.find((one) => one.name === "weight"), experts = this.experts(row), text = (shape: number[]) => shape.map((n) => count(n)).join(" × ");
    if (experts) return experts;
    if (weight?.tied) return `= ${moduleOf(weight.of.tie![0]) || weight.of.tie![0]}`;
    if (!row.tensors.length) return row.class.includes("|") ? "" : row.class;
    if (/Linear/.test(row.class) && weight) return `${count(weight.shape[1])} → ${count(weight.shape[0])}`;
    if (/Conv1D/.test(row.class) && weight) return `${count(weight.shape[0])} → ${count(weight.shape[1])}`;
    if (/[Nn]orm/.test(row.class)) return "";
    return weight ? text(weight.shape) : text(row.tensors[0].shape);
  }

  /** Return how many of the experts a token meets. */
  private experts(row: Row): string {
    const held = row.tensors.find((one) => one.of.active);
    if (!held) return "";
    const { model, data } = this.explorer, [tree, over] = held.of.active!, many = over ? Number(model.size(data.repeat[over], model.env, 0)) : held.shape[0];
    try { return this.explorer.word("flow_experts", { met: Number(model.trees[tree](model.env)), many }); } catch { return ""; }
  }

  /** Return how many heads an attention has, from the config that its module is of. */
  private heads({ path = "" }: Node): string {
    const { model, data, word } = { model: this.explorer.model, data: this.explorer.data, word: (key: string, values: Record<string, unknown>) => this.explorer.word(key, values) };
    const own = data.tensors.filter((one) => one.name.startsWith(`${data.flow!.prefix}${path}.`)).flatMap((one) => one.dims.flatMap((dim) => [...model.names[dim]]));
    const config = own.find((name) => name.includes("."))?.replace(/[^.]*$/, "") ?? "", side = /decoder/.test(path) ? "decoder_" : "encoder_";
    const value = (...names: string[]) => names.map((name) => model.env[config + name]).find((one) => typeof one === "number");
    const heads = value("num_attention_heads", "num_heads", "n_head", "n_heads", `${side}attention_heads`), keys = value("num_key_value_heads");
    if (heads === undefined) return "";
    return keys === undefined || keys === heads ? word("flow_heads", { heads }) : word("flow_groups", { heads, keys });
  }

  /** Return the name of a frame: of what it is, and how often it runs. */
  private titleOf(node: Node): string {
    const { explorer } = this, many = node.many ?? 1;
    if (!node.row && node.turns && !node.of && !node.turns.letter) return explorer.word("flow_repeated");
    if (!node.row && node.turns && node.turns.kinds.length > 1) return explorer.word("flow_layers", { many });
    const { letter = "", kinds = [] } = node.turns ?? {}, which = letter && `${letter} = ${ranges(kinds.flatMap((kind) => kind.turns))}`;
    const name = node.turns ? node.row?.class || node.name || which : node.name.replace(/^root\./, "");
    const times = node.turns && many > 1 ? `${name} × ${many}` : name;
    return node.turns?.letter === "" && !node.of ? `${times} · ${explorer.word("flow_repeated")}` : times;
  }

  // The picture

  private svg(found: Layout, x: number, y: number): string {
    const wires = found.wires.map((wire) => {
      const tip = wire.tip && `<path class="tip" transform="translate(${n(wire.tip[0])} ${n(wire.tip[1])}) rotate(${wire.tip[2]})" d="M-3.5 -6L0 0L3.5 -6z"/>`;
      return `<path class="way${wire.residual ? " far" : ""}" d="${wire.d}"/>${tip ?? ""}`;
    });
    const shown = new Set<number>(), labels = found.wires.map((wire) => {
      if (shown.has(wire.from.id)) return "";
      shown.add(wire.from.id);
      return this.label(wire, found.boxes);
    });
    return `<g transform="translate(${n(x)} ${n(y)})">${wires.join("")}${found.boxes.map((box) => this.box(box)).join("")}<g aria-hidden="true">${labels.join("")}</g></g>`;
  }

  /** Return the width of what flows in a wire, where there is room: its letter and its number. */
  private label({ from, to, x, y }: Wire, boxes: Placed[]): string {
    const size = this.widthAfter(from, to), { trees, letters } = this.explorer.data;
    if (!size) return "";
    const field = trees[size[1]], [letter, index] = typeof field === "string" ? (letters[field] ?? "").split(/_(.*)/) : [""], text = count(size[0]);
    const wide = 10 + width(`${letter}${index ?? ""} ${text}`, 10.5);
    if (boxes.some((box) => box.x < x + wide && x < box.x + box.w && box.y < y + 13 && y < box.y + box.h)) return "";
    const sign = letter && `<tspan font-style="italic">${escape(letter)}</tspan>${index ? `<tspan dy="2" font-size="8">${escape(index)}</tspan><tspan dy="-2"> </tspan>` : " "}`;
    return `<text class="shape" x="${n(x + 5)}" y="${n(y + 11)}" font-size="10.5"${sign ? ` data-field="${escape(field)}"` : ""}>${sign}${text}</text>`;
  }

  /** Return the width of what comes out of a box, or of what a linear module after it takes, and its expression. */
  private widthAfter(from: Node, to: Node): [number, number] | null {
    if (from.kind === "frame" && !this.isFolded(from)) return null;
    return widthOut(from) ?? (/Linear/.test(to.row?.class ?? "") ? sizeAt(to.row!, 1) : null);
  }

  private box({ node, x, y, w, h, inside, isTight }: Placed): string {
    const at = `x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}"`;
    if (node.kind === "strip") return this.strip(node, x, y, w);
    if (node.kind === "port" || node.kind === "out") return h ? `<g class="port"><rect ${at} rx="10"/>${line(this.portName(node), x + w / 2, y + 14, w - 8, 11)}</g>` : "";
    if (node.kind === "sign") return `<g class="joint" data-said="${escape(this.said(node))}"><rect ${at} rx="11"/>${line(node.name, x + w / 2, y + 15.5, w, node.name.length > 1 ? SMALL : 15)}</g>`;
    const component = this.component(node), open = node.when ? " open" : "", label = escape(this.said(node));
    if (node.kind === "frame") {
      const isFolded = this.isFolded(node), press = `data-do="fold ${escape(node.key)}" data-box="${escape(node.key)}" role="button" tabindex="-1" aria-expanded="${!isFolded}" aria-label="${label}"`;
      const deck = (node.many ?? 1) > 1 && node.row ? `<rect class="deck" x="${n(x + 3)}" y="${n(y + 3)}" width="${n(w)}" height="${n(h)}" rx="9"/>` : "";
      const mark = node.of && node.row ? `<rect class="kind k${node.of[0] % 6}" x="${n(x + w - 20)}" y="${n(y + 7)}" width="11" height="11" rx="2"/>` : "";
      const title = this.titleLines(node, w), high = TITLE + LINE * (title.length - 1);
      const text = title.map((one, k) => `<text x="${n(x + 10 + (k ? INDENT : 0))}" y="${n(y + 17 + k * LINE)}" font-size="12" font-weight="${BOLD}">${escape(one)}</text>`).join(" ");
      return `<g class="frame${open}">${deck}<rect ${at} rx="9"/><g class="head" ${press}><rect class="press" x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${high}" rx="9"/>${text}</g>${mark}${inside ? this.svg(inside, x + (w - inside.w) / 2, y + high) : ""}</g>`;
    }
    const lines = this.wrapped(node, w - 2 * MARGIN, isTight), middle = y + h / 2 + 4, press = component ? `data-do="pick ${escape(node.key)}" data-component="${escape(component)}" role="button" tabindex="-1" data-module="${escape(this.module(node))}" aria-pressed="false" aria-label="${escape(lines.map(({ text }) => text).join(" "))} · ${label}"` : "";
    const texts = lines.map(({ text, size, weight }, k) => line(text, x + w / 2, middle + (k - (lines.length - 1) / 2) * LINE, w - 8, size, weight));
    const experts = node.row && this.experts(node.row) ? `<rect class="under" x="${n(x + 4)}" y="${n(y + 4)}" width="${n(w)}" height="${n(h)}" rx="7"/>` : "";
    return `<g class="node${component ? "" : " plain"}${open}" style="${paint(component || "norm")}" data-box="${escape(node.key)}" data-said="${label}" ${press}>${experts}<rect ${at} rx="7"/>${texts.join(" ")}</g>`;
  }

  private strip(node: Node, x: number, y: number, w: number): string {
    const each = w / node.of!.length, cells = node.of!.map((kind, at) => `<rect class="kind k${kind % 6}" x="${n(x + at * each)}" y="${n(y + 2)}" width="${n(Math.max(0.5, each - 1))}" height="12"/>`);
    return `<g role="img" aria-label="${escape(this.explorer.word("flow_strip", { many: node.of!.length }))}">${cells.join("")}</g>`;
  }

  private component(node: Node): string {
    const { data } = this.explorer, of = this.tensor(node);
    return of ? data.components[of.role] : "";
  }

  private tensor(node: Node): Held["of"] | undefined { return node.kind === "tensor" ? this.held(node)[0] : node.row?.tensors[0]?.of; }

  /** Return the module whose tensors are on the map for a box: of a tied tensor that of its target. */
  private module(node: Node): string {
    const tied = node.row?.tensors[0]?.tied ? node.row.tensors[0].of.tie![0] : this.tensor(node)?.name ?? "";
    return moduleOf(tied);
  }

  private said(node: Node): string {
    if (node.kind === "frame") return this.titleOf(node);
    if (node.kind === "tensor") return `${node.key} ${this.held(node)[1]}`;
    return node.row ? this.sentence(node.row) : node.name;
  }

  // The list

  private sentence(row: Row): string {
    const { explorer } = this, text = row.kind === "m" ? row.called.replace(/^root\./, "") : row.called;
    const parts = [row.class, ...row.tensors.map((one) => `${one.name} ${one.shape.map((k) => count(k)).join(" × ")}${one.tied ? ` = ${one.of.tie![0]}` : ""}`)];
    if (row.meets) parts.push(explorer.word(`flow_${row.meets}`));
    if (row.when) parts.push(explorer.word("flow_if", { when: row.when }));
    return [text, parts.filter(Boolean).join(", ")].filter(Boolean).join(": ");
  }

  private list(rows: Item[]): string {
    const items = rows.map((item) => {
      if (isTurns(item)) return item.kinds.map((kind) => `<li>${escape(this.turnsText(item, kind.turns))}${this.list(kind.rows)}</li>`).join("");
      if (item.kind === "r") return "";
      const isOfCode = item.kind === "f" || (item.kind === "m" && !item.rows.some((row) => isTurns(row) || row.kind === "m"));
      const from = item.given.length ? ` <span class="from">← ${escape(item.given.join(", "))}</span>` : "";
      return `<li data-step="${escape(item.path)}"><b>${escape(item.value)}</b> ${escape(this.sentence(item))}${from}${item.rows.length && !isOfCode ? this.list(item.rows) : ""}</li>`;
    });
    return `<ol>${items.join("")}</ol>`;
  }

  private turnsText({ letter }: Turns, turns: number[]): string {
    return letter ? this.explorer.word("flow_for", { index: letter, turns: ranges(turns), many: turns.length }) : this.explorer.word("flow_repeated");
  }
}

const noteOfTask = (explorer: Explorer): string => (explorer.data.flow!.class === explorer.data.class ? "" : explorer.word("flow_base", { base: explorer.data.flow!.class, task: explorer.data.class }));

const n = (x: number): string => String(Math.round(x * 10) / 10);
const line = (text: string, x: number, y: number, room: number, size: number, weight = 400): string => `<text x="${n(x)}" y="${n(y)}" font-size="${size}" font-weight="${weight}" text-anchor="middle">${escape(cut(text, room, size, weight))}</text>`;

interface Line { text: string; size: number; weight: number }

/** Return a text that fits, with … where it was cut. */
function cut(text: string, room: number, size: number, weight: number): string {
  if (width(text, size, weight) <= room + 0.01) return text;
  let left = text;
  while (left.length > 1 && width(`${left}…`, size, weight) > room) left = left.slice(0, -1);
  return `${left}…`;
}

/** Return a dimension of a module's weight, with the number of its expression. */
function sizeAt(row: Row, at: number): [number, number] | null {
  const weight = row.tensors.find((one) => one.name === "weight");
  return weight && at < weight.shape.length ? [weight.shape[at], weight.of.dims[at]] : null;
}

/** Return the last dimension of what a module gives, where its weight says so. */
function widthOut({ kind, row, graph }: Node): [number, number] | null {
  if (kind === "frame" && graph) { const last = graph.edges.find((edge) => graph.nodes[edge.to].kind === "out"); return last ? widthOut(graph.nodes[last.from]) : null; }
  if (!row) return null;
  if (/Embedding|Conv1D/.test(row.class)) return sizeAt(row, 1);
  return /Linear|[Nn]orm/.test(row.class) ? sizeAt(row, 0) : null;
}

/** Return indices as text, such as `0–2, 4–6`. */
function ranges(turns: number[]): string {
  const found: [number, number][] = [];
  for (const turn of turns) {
    if (found.length && found.at(-1)![1] === turn - 1) found.at(-1)![1] = turn;
    else found.push([turn, turn]);
  }
  return found.map(([first, last]) => (first === last ? String(first) : `${first}–${last}`)).join(", ");
}
