// The steps of a forward pass that a setting does, in the order in which they run: the same walk as answers/flow_tree.py,
// held against it on all families with a flow. Layers that do the same with tensors of the same shapes are one kind.

import { NoValue, Float, literal } from "./expr.ts";
import type { Env, Tree, Value } from "./expr.ts";
import type { Contract, TensorOf } from "./contract.ts";
import type { Model } from "./ledger.ts";

/** A step: its value, its kind (m, f, o or r), what is called, its arguments, the number of its condition. */
export type Step = [value: string, kind: string, called: string, given: string, when?: number];
export type Line = Step | ["for", string, Line[]];

/** What Python writes in explorer/flow_contract.py. */
export interface Flow {
  /** The base class, which is recorded; whether the class has too many other modules for it. */
  class: string; other?: boolean;
  /** Where the class has its base class, which modules of it the class lacks, and which it adds. */
  prefix: string; absent: string[]; added: Record<string, string>;
  against: string; configs: number;
  held: Record<string, Tree>; fields: Record<string, Tree>;
  modules: Record<string, [number, number][]>; functions: Record<string, number>;
  programs: Line[][]; conditions: [string, number][]; repeat: Record<string, number>; classes: Record<string, string>;
  /** Modules with tensors that do not run, each with the condition as text; the empty one always holds. */
  unused: Record<string, string>;
}

export interface Held { name: string; of: TensorOf; shape: number[]; tied: boolean }
/** A step that runs, with its module and the steps inside it; `when` is a condition that the config leaves open. */
export interface Row { value: string; kind: string; called: string; given: string[]; path: string; class: string; tensors: Held[]; meets: string; when: string; rows: Item[] }
/** Steps that are repeated, and in which turns; without a letter over time. */
export interface Kind { turns: number[]; rows: Item[] }
export interface Turns { letter: string; kinds: Kind[] }
export type Item = Row | Turns;

export const isTurns = (item: Item): item is Turns => "letter" in item;
const MOST_LAYERS = 10_000;

/** Return a value that an argument is, or is a part of. */
export const rootOf = (argument: string): string => (argument.startsWith("self.") ? argument : argument.split("|")[0].split(".")[0].replace(/\*+$/, ""));

/** Return the tensors of the class by the path of their module. */
function tensorsByModule(data: Contract): Map<string, TensorOf[]> {
  const found = new Map<string, TensorOf[]>();
  for (const of of data.tensors) {
    const path = of.name.slice(0, Math.max(0, of.name.lastIndexOf(".")));
    found.set(path, [...(found.get(path) ?? []), of]);
  }
  return found;
}

/** Whether there is a module with tensors inside steps. */
export function hasModule(rows: Item[]): boolean {
  return rows.some((item) => (isTurns(item) ? item.kinds.some((kind) => hasModule(kind.rows)) : item.kind === "m" && (item.tensors.length > 0 || hasModule(item.rows))));
}

export class Walker {
  private env: Env;
  private calls = new Map<string, number>();
  private tensors: Map<string, TensorOf[]>;

  /** The model must be bound to the setting. */
  constructor(private flow: Flow, private model: Model) {
    this.env = { ...Object.fromEntries(Object.entries(flow.fields).map(([name, tree]) => [name, literal(tree)])), ...model.env };
    this.tensors = tensorsByModule(model.data);
  }

  /** Return the field whose value the flow was not recorded for, as `name = value`, or nothing. */
  unheld(): string {
    for (const name in this.flow.held) {
      const value = this.env[name];
      if (value !== undefined && shown(value) !== shown(literal(this.flow.held[name]))) return `${name} = ${shown(value)}`;
    }
    return "";
  }

  module(path: string, at: Record<string, number> = {}): Item[] {
    const place = `${path} ${Object.values(at)}`, call = this.calls.get(place) ?? 0, env: Env = { ...this.env, ...at, call }, rows: Item[] = [];
    this.calls.set(place, call + 1);
    for (const [condition, program] of this.flow.modules[path] ?? []) {
      const when = this.undecided(condition, env);
      if (when !== null) rows.push(...this.rows(this.flow.programs[program], path, at, env).map((row) => onlyIf(when, row)));
      if (when === "") break;
    }
    return rows;
  }

  /** Return a condition that the config leaves open; else nothing if it holds, null if not. */
  private undecided(condition: number | undefined, env: Env): string | null {
    if (condition === undefined || condition < 0) return "";
    const [text, tree] = this.flow.conditions[condition];
    try {
      const value = this.model.trees[tree](env);
      return isTrue(value) ? "" : null;
    } catch (error) {
      if (error instanceof NoValue) return text;
      throw error;
    }
  }

  private rows(lines: Line[], path: string, at: Record<string, number>, env: Env): Item[] {
    const found: Item[] = [], madeOf = new Map<string, Set<string>>();
    for (const line of lines) {
      if (line[0] === "for") { found.push(...this.turns(line as ["for", string, Line[]], path, at, env)); continue; }
      const step = line as Step, when = this.undecided(step[4], env);
      if (when === null) continue;
      const row = this.row(step, path, at), roots = row.given.map(rootOf);
      if (this.isAbsent(row)) continue;
      found.push({ ...row, meets: meeting(row, madeOf, lines), when });
      madeOf.set(row.value, new Set([...roots, ...roots.flatMap((root) => [...(madeOf.get(root) ?? [])])]));
    }
    return found;
  }

  private turns([, letter, lines]: ["for", string, Line[]], path: string, at: Record<string, number>, env: Env): Item[] {
    if (!(letter in this.flow.repeat)) return [{ letter: "", kinds: [{ turns: [], rows: this.rows(lines, path, at, env) }] }];
    const many = this.model.size(this.flow.repeat[letter], env, 0, MOST_LAYERS), kinds = new Map<string, Kind>();
    for (let turn = 0; turn < many; turn++) {
      const rows = this.rows(lines, path, { ...at, [letter]: turn }, { ...env, [letter]: turn });
      if (!rows.length) continue;
      const likeness = like(rows), known = kinds.get(likeness);
      if (known) known.turns.push(turn);
      else kinds.set(likeness, { turns: [turn], rows });
    }
    return kinds.size ? [{ letter, kinds: [...kinds.values()] }] : [];
  }

  private row([value, kind, called, given]: Step, path: string, at: Record<string, number>): Row {
    const row: Row = { value, kind, called, given: given.split(",").filter(Boolean), path: "", class: "", tensors: [], meets: "", when: "", rows: [] };
    if (kind === "f") row.rows = called in this.flow.functions ? this.rows(this.flow.programs[this.flow.functions[called]], path, at, { ...this.env, ...at }) : [];
    if (kind !== "m") return row;
    row.path = called.startsWith("root.") ? called.slice(5) : path ? `${path}.${called}` : called;
    const named = this.flow.classes[row.path] ?? "";
    row.class = named.startsWith("= ") ? shown(this.env[named.slice(2)] ?? named.slice(2)) : named;
    row.tensors = this.tensorsAt((this.flow.prefix + row.path).replace(/\.$/, ""), at);
    row.rows = this.module(row.path, at);
    return row;
  }

  /** Whether the class lacks a module that its base class has. */
  private isAbsent({ path, rows }: Row): boolean {
    const { absent } = this.flow;
    return path !== "" && (absent.includes(path) || (absent.some((one) => one.startsWith(`${path}.`)) && !hasModule(rows)));
  }

  /** Return the modules that the class adds to its base class; in which order they run is not recorded. */
  added(): Row[] {
    return Object.entries(this.flow.added).map(([path, kind]): Row => ({ value: "", kind: "m", called: path, given: [], path, class: kind, tensors: this.tensorsAt(path, {}), meets: "", when: "", rows: [] })).filter((row) => row.tensors.length);
  }

  /** Return the tensors of a module that there are at the indices of its path. */
  private tensorsAt(path: string, at: Record<string, number>): Held[] {
    const tensors = this.tensors.get(path);
    if (!tensors) return [];
    const env: Env = { ...this.env, ...at }, { model } = this, holds = (tree: number) => isTrue(model.trees[tree](env));
    return tensors.filter(({ repeat = [], when = [] }) => repeat.every((letter) => letter in at && at[letter] < model.size(model.data.repeat[letter], env, 0)) && when.every(holds))
      .map((of) => ({ name: of.name.slice(of.name.lastIndexOf(".") + 1), of, shape: of.dims.map((tree) => model.size(tree, env, 0)), tied: of.tie !== undefined && (of.tie[1] === null || holds(of.tie[1])) }));
  }
}

const isTrue = (value: Value): boolean => (value instanceof Float ? value.value !== 0 : Array.isArray(value) ? value.length > 0 : value instanceof Map ? value.size > 0 : Boolean(value));
const shown = (value: Value): string => (value instanceof Float ? String(value.value) : value === null ? "None" : typeof value === "boolean" ? (value ? "True" : "False") : String(value));

function onlyIf(when: string, item: Item): Item {
  if (!when) return item;
  if (isTurns(item)) return { ...item, kinds: item.kinds.map((kind) => ({ ...kind, rows: kind.rows.map((row) => onlyIf(when, row)) })) };
  return { ...item, when: [when, item.when].filter(Boolean).join(" and ") };
}

/** Return what two rows of turns must share to be of one kind. */
function like(rows: Item[]): string {
  return rows.map((item) => (isTurns(item) ? `${item.letter}{${item.kinds.map((kind) => `${kind.turns}:${like(kind.rows)}`).join(";")}}`
    : `${item.value}=${item.called}(${item.given})${item.class}|${item.tensors.map((one) => `${one.name} ${one.shape}`)}|${item.when}[${like(item.rows)}]`)).join("\n");
}

/** Return which kind of meeting of values a step is, or nothing. */
function meeting(row: Row, madeOf: Map<string, Set<string>>, lines: Line[]): string {
  if (row.called === "cat" || row.called === "stack") return "join";
  if (row.called !== "+" || row.kind !== "o") return "";
  const [one, other] = row.given.map(rootOf);
  if (madeOf.get(other)?.has(one) || madeOf.get(one)?.has(other)) return "residual";
  const given = new Set(lines.filter((line) => line[1] === "m").map((line) => line[0]));
  for (const [result, earlier] of [[one, other], [other, one]])
    if (given.has(result) && !madeOf.has(earlier) && !earlier.startsWith("self.")) return "residual";
  return "sum";
}
