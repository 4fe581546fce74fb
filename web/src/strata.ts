// The map: what is stored, in checkpoint order from top to bottom, every area in proportion to its parameters. A row is a
// layer; layers that follow on each other and are alike are one run, drawn once, so that columns line up and a dial only
// moves edges: nothing changes places. explorer/base_map.py draws the same boxes.

import type { Contract } from "./contract.ts";
import type { Entry } from "./ledger.ts";

export interface Cell { tensor: string; entry: Entry; each: number }
export interface Part { component: string; cells: Cell[]; each: number }
export interface Run { key: string; path: string; first: number | null; many: number; parts: Part[]; each: number; kind: string }
export interface Box { run: Run; part: Part; cell: Cell; x: number; y: number; w: number; h: number }
export interface Band { run: Run; y: number; h: number; parts: { part: Part; x: number; w: number }[] }

interface Row { path: string; index: number | null; cells: Cell[] }

/** Return the runs of layers that are alike, from top to bottom. */
export function runsOf(data: Contract, entries: Entry[]): Run[] {
  const found: Run[] = [];
  let signature = "";
  for (const list of rowsByPath(data, entries).values())
    for (const row of list.sort((a, b) => a.index! - b.index!)) {
      const own = `${row.path}|${row.cells.map((cell) => `${cell.tensor} ${cell.entry.shape} ${cell.entry.tied} ${cell.each}`).join("|")}`;
      const last = found.at(-1);
      if (last && row.index !== null && own === signature) { last.many++; continue; }
      signature = own;
      const parts = partsOf(data, row), each = total(parts);
      found.push({ key: `${row.path} ${row.index ?? ""}`.trim(), path: row.path, first: row.index, many: 1, parts, each, kind: kindOf(data, row) });
    }
  return found;
}

function rowsByPath(data: Contract, entries: Entry[]): Map<string, Row[]> {
  const rows = new Map<string, Row>(), lists = new Map<string, Row[]>();
  const put = (path: string, index: number | null, cell: Cell) => {
    const key = `${path} ${index}`;
    if (!rows.has(key)) {
      rows.set(key, { path, index, cells: [] });
      if (!lists.has(path)) lists.set(path, []);
      lists.get(path)!.push(rows.get(key)!);
    }
    rows.get(key)!.cells.push(cell);
  };
  for (const entry of entries) {
    const { name } = entry.of, whole = Number(entry.parameters);
    if (entry.layers) {
      const path = name.slice(0, name.indexOf("{") - 1), tensor = name.slice(name.indexOf("}") + 2);
      for (const index of entry.layers) put(path, index, { tensor, entry, each: whole / entry.layers.length });
    } else {
      const below = name.startsWith(data.prefix) ? data.prefix : "", path = below + name.slice(below.length).split(".")[0];
      put(path, null, { tensor: name.slice(path.length + 1) || name, entry, each: whole });
    }
  }
  return lists;
}

function partsOf(data: Contract, row: Row): Part[] {
  const parts = new Map<string, Part>();
  for (const cell of row.cells) {
    const component = data.components[cell.entry.of.role];
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
