// The map: what is stored, in checkpoint order from top to bottom, every area in proportion to its parameters. A row is a
// layer; layers that follow on each other and are alike are one run, drawn once, so that columns line up and a dial only
// moves edges: nothing changes places. render/layer_map.py draws the same areas.

import type { Contract } from "./contract.ts";
import type { Int } from "./expr.ts";
import type { Entry } from "./ledger.ts";
import type { Bound } from "./running.ts";

/** A tensor with its parameters in one layer, or the operations of a module with what they take. */
export interface Cell { tensor: string; entry?: Entry; bound?: Bound; each: number }
export interface Part { component: string; cells: Cell[]; each: number }
export interface Run { key: string; path: string; first: number | null; many: number; parts: Part[]; each: number; kind: string }
export interface Box { run: Run; part: Part; cell: Cell; x: number; y: number; w: number; h: number }
export interface Band { run: Run; y: number; h: number; parts: { part: Part; x: number; w: number }[] }

interface Row { path: string; index: number | null; cells: Cell[] }

/** Return the runs of layers that are alike, from top to bottom. */
export function runsOf(data: Contract, entries: Entry[]): Run[] {
  return alike(data, rowsByPath(data, entries));
}

/** Return the runs of operations: what each takes in one place of a layer, in the order in which modules run. */
export function runsOfOperations(data: Contract, drawn: [Bound, Int][]): Run[] {
  const rows = new Rows();
  for (const [bound, size] of drawn) {
    const path = bound.path[0], [row, tensor] = bound.layers ? inLayer(path) : outside(data, path);
    for (const [index, many] of bound.layers ?? [[null, 1]] as [null, number][]) {
      const cells = rows.of(row, index), each = Number(size) * many, known = cells.find((cell) => cell.tensor === tensor);
      if (known) known.each += each;
      else cells.push({ tensor, bound, each });
    }
  }
  return alike(data, rows.lists);
}

function alike(data: Contract, lists: Map<string, Row[]>): Run[] {
  const found: Run[] = [];
  let signature = "";
  for (const list of lists.values())
    for (const row of list.sort((a, b) => a.index! - b.index!)) {
      const own = `${row.path}|${row.cells.map((cell) => `${cell.tensor} ${cell.entry?.shape} ${cell.entry?.tied} ${cell.each}`).join("|")}`;
      const last = found.at(-1);
      if (last && row.index !== null && own === signature) { last.many++; continue; }
      signature = own;
      const parts = partsOf(data, row), each = total(parts);
      found.push({ key: `${row.path} ${row.index ?? ""}`.trim(), path: row.path, first: row.index, many: 1, parts, each, kind: kindOf(data, row) });
    }
  return found;
}

class Rows {
  readonly lists = new Map<string, Row[]>();
  private rows = new Map<string, Row>();

  of(path: string, index: number | null): Cell[] {
    const key = `${path} ${index}`;
    if (!this.rows.has(key)) {
      this.rows.set(key, { path, index, cells: [] });
      if (!this.lists.has(path)) this.lists.set(path, []);
      this.lists.get(path)!.push(this.rows.get(key)!);
    }
    return this.rows.get(key)!.cells;
  }
}

function rowsByPath(data: Contract, entries: Entry[]): Map<string, Row[]> {
  const rows = new Rows();
  for (const entry of entries) {
    const whole = Number(entry.parameters), [path, tensor] = entry.layers ? inLayer(entry.of.name) : outside(data, entry.of.name);
    for (const index of entry.layers ?? [null]) rows.of(path, index).push({ tensor, entry, each: whole / (entry.layers?.length ?? 1) });
  }
  return rows.lists;
}

/** Return the list of layers that a name is in, and the name inside a layer. */
const inLayer = (name: string): [string, string] => [name.slice(0, name.indexOf("{") - 1), name.slice(name.indexOf("}") + 2)];

/** Return the module below the base that a name is in, and the name inside it. */
function outside(data: Contract, name: string): [string, string] {
  const below = name.startsWith(data.prefix) ? data.prefix : "", path = below + name.slice(below.length).split(".")[0];
  return [path, name.slice(path.length + 1) || name];
}

function partsOf(data: Contract, row: Row): Part[] {
  const parts = new Map<string, Part>();
  for (const cell of row.cells) {
    const component = cell.entry ? data.components[cell.entry.of.role] : cell.bound!.path[2];
    if (!parts.has(component)) parts.set(component, { component, cells: [], each: 0 });
    const part = parts.get(component)!;
    part.cells.push(cell);
    part.each += cell.each;
  }
  return [...parts.values()];
}

function kindOf(data: Contract, row: Row): string {
  if (row.index === null) return data.modules[row.path] ?? "";
  for (const path in data.modules) if (path.replace(/\.?\{\w+\}$/, "") === row.path && path.endsWith("}")) return data.modules[path];
  return "";
}

export const total = (parts: Part[]): number => parts.reduce((n, part) => n + part.each, 0);

/** Return a run without some components. */
export function without(run: Run, left: ReadonlySet<string>): Run {
  const parts = run.parts.filter((part) => !left.has(part.component));
  return { ...run, parts, each: total(parts) };
}

/** Return a box for each tensor of each run, and a band for each run, in a size. */
export function strata(runs: Run[], width: number, height: number): { boxes: Box[]; bands: Band[]; total: number } {
  const whole = runs.reduce((n, run) => n + run.each * run.many, 0), boxes: Box[] = [], bands: Band[] = [];
  let y = 0;
  for (const run of runs) {
    const h = whole ? (run.each * run.many / whole) * height : 0, parts: Band["parts"] = [];
    let x = 0;
    for (const part of run.parts) {
      const from = x;
      for (const cell of part.cells) {
        const w = run.each ? (cell.each / run.each) * width : 0;
        boxes.push({ run, part, cell, x, y, w, h });
        x += w;
      }
      parts.push({ part, x: from, w: x - from });
    }
    bands.push({ run, y, h, parts });
    y += h;
  }
  return { boxes, bands, total: whole };
}
