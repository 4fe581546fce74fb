// A contract bound to a config: the tensors that there are, their shapes, and what they add up to.
// The same walk as blueprint/bind.py and ledger/bind.py, held against them on all families.

import { compile, int, isInt, literal, namesIn, NoValue, Float, Tuple } from "./expr.ts";
import type { Closure, Env, Int, Tree, Value } from "./expr.ts";
import type { Contract, TensorOf } from "./contract.ts";

const LARGEST_SIZE = 2 ** 31 - 1;
const MOST_LAYERS = 10_000;
const MOST_PLACES = 100_000;

export type Changes = Record<string, Value>;

/** Where a tensor is: all its places, those of each value of its first index, and those without its experts' index. */
interface Places { all: number; withoutExperts: number; layers: number[] | null }
interface Form extends Places { shape: Int[]; tied: boolean; at: Int | null }
export interface Entry extends Form { of: TensorOf; parameters: Int; active: Int }

function no(what: string): never { throw new NoValue(what); }

export const sum = (all: Iterable<Int>): Int => {
  let total: Int = 0;
  for (const one of all) total = plus(total, one);
  return total;
};

export function plus(a: Int, b: Int): Int {
  if (typeof a === "number" && typeof b === "number" && Number.isSafeInteger(a + b)) return a + b;
  return int(BigInt(a) + BigInt(b));
}

export function product(all: Int[]): Int {
  let found = 1;
  for (const one of all) found *= Number(one);
  return Number.isSafeInteger(found) ? found : int(all.reduce((total: bigint, one) => total * BigInt(one), 1n));
}

export class Model {
  readonly trees: Closure[];
  readonly names: Set<string>[];
  readonly base: Env = {};
  readonly zero: Set<string>;
  env: Env = {};

  constructor(readonly data: Contract) {
    this.trees = data.trees.map(compile);
    this.names = data.trees.map((tree) => namesIn(tree));
    for (const name in data.fields) this.base[name] = literal(data.fields[name]);
    this.zero = new Set(Object.keys(data.sizes).filter((name) => data.sizes[name][0] === 0));
  }

  /** Return the value of every field with some changed; throws NoValue with what is wrong. */
  fields(changes: Changes = {}): Env {
    const { data } = this, env: Env = { ...this.base };
    for (const name in changes) {
      if (data.fixed.includes(name)) no(name);
      if (changes[name] === null && name in data.computed) delete env[name];
      else env[name] = this.checked(name, changes[name]);
    }
    for (const name in data.computed)
      if (!(name in env)) {
        const value = this.trees[data.computed[name]](env);
        env[name] = value === null ? null : this.checked(name, value);
      }
    for (const [rule, tree] of data.require) if (!this.holds(tree, env)) no(rule);
    return env;
  }

  private holds(tree: number, env: Env): boolean {
    try {
      return this.trees[tree](env) === true;
    } catch (error) {
      if (error instanceof NoValue) return false;
      throw error;
    }
  }

  private checked(name: string, value: Value): Value {
    const { sizes, kinds, nullable, values } = this.data;
    if (value === null && nullable.includes(name)) return null;
    if (name in sizes) {
      const [least, most] = sizes[name];
      if (!isInt(value) || value < least || value > most) no(`${name}: ${least} … ${most}`);
    } else if (!fits(value, kinds[name])) no(`${name}: ${kinds[name]}`);
    if (name in values)
      for (const one of Array.isArray(value) ? value : [value])
        if (one !== null && !values[name].includes(one as string)) no(`${name}: ${values[name].join(", ")}`);
    return Array.isArray(value) && !(value instanceof Tuple) ? Tuple.from(value) : value;
  }

  size(tree: number, env: Env, least: number, most = LARGEST_SIZE): number {
    const size = this.trees[tree](env);
    return typeof size === "number" && size >= least && size <= most ? size : no(`a size comes to ${show(size)}`);
  }

  /** Return the entries of every tensor that there is, in checkpoint order. */
  bind(changes: Changes = {}): Entry[] {
    const binder = new Binder(this, this.fields(changes));
    this.env = binder.env;
    return this.data.tensors.flatMap((of) => binder.entries(of));
  }
}

function fits(value: Value, kind: string): boolean {
  if (kind === "float") return isInt(value) || (value instanceof Float && Number.isFinite(value.value));
  if (kind === "int") return isInt(value);
  if (kind === "bool") return typeof value === "boolean";
  if (kind === "str") return typeof value === "string";
  if (kind === "list" || kind === "tuple") return Array.isArray(value) && value.length <= MOST_LAYERS;
  if (kind === "NoneType") return value !== null;
  return value instanceof Map;
}

const show = (value: Value) => (value instanceof Float ? value.value : Array.isArray(value) ? "a list" : String(value));

class Binder {
  private sizes = new Map<number, number>();
  private truths = new Map<number, boolean>();
  private forms = new Map<string, Form[]>();
  private uses = new Map<number, boolean>();

  constructor(readonly model: Model, readonly env: Env) {}

  entries(of: TensorOf): Entry[] {
    const found: Entry[] = [];
    for (const form of this.placesOf(of)) {
      if (!form.all) continue;
      const parameters = form.tied ? 0 : product([...form.shape, form.all]);
      found.push({ ...form, of, parameters, active: this.active(of, form, parameters) });
    }
    return found;
  }

  private active(of: TensorOf, form: Form, parameters: Int): Int {
    if (!of.active || form.tied) return parameters;
    const [number, over] = of.active, name = this.model.data.trees[number] as Tree;
    if (typeof name === "string" && (this.env[name] ?? null) === null) return parameters;
    const shape = over ? form.shape : form.shape.slice(1), outer = of.repeat?.[0];
    if (outer && outer !== over && this.model.names[number].has(outer)) {
      const each = form.withoutExperts / form.layers!.length;
      const counts = form.layers!.map((layer) => this.model.size(number, { ...this.env, [outer]: layer }, 0));
      return product([...shape, each, counts.reduce((a, b) => a + b, 0)]);
    }
    return product([...shape, form.withoutExperts, this.model.size(number, this.env, 0)]);
  }

  private placesOf(of: TensorOf): Form[] {
    const key = `${of.repeat}|${of.varies}|${of.when}|${of.tie?.slice(1)}|${of.dims}|${of.active?.[1]}`;
    let forms = this.forms.get(key);
    if (!forms) {
      const unbound = !of.varies && !(of.when ?? []).every((tree) => this.truth(tree));
      forms = unbound ? [] : this.walk(of, of.repeat ?? [], 0);
      if (forms.reduce((n, form) => n + form.all, 0) > MOST_PLACES) no(`${of.name}: > ${MOST_PLACES}`);
      this.forms.set(key, forms);
    }
    return forms;
  }

  /** Return the forms of a tensor inside the indices that are bound already. */
  private walk(of: TensorOf, repeat: string[], depth: number): Form[] {
    if (depth === repeat.length) return this.here(of);
    const index = repeat[depth], isExperts = of.active?.[1] === index;
    const many = this.model.size(this.model.data.repeat[index], this.env, 0, MOST_LAYERS);
    if (!of.varies?.includes(index)) {
      if (!many) return [];
      const layers = depth ? null : Array.from({ length: many }, (_, at) => at);
      return this.walk(of, repeat, depth + 1).map((form) => ({
        ...form, layers, all: form.all * many, withoutExperts: form.withoutExperts * (isExperts ? 1 : many),
      }));
    }
    const found = new Map<string, Form>();
    for (let value = 0; value < many; value++) {
      this.env[index] = value;
      for (const form of this.walk(of, repeat, depth + 1)) {
        const key = `${form.shape}|${form.tied}|${form.at}`, known = found.get(key);
        if (!known) { found.set(key, { ...form, layers: depth ? null : [value] }); continue; }
        known.all += form.all;
        if (!isExperts) known.withoutExperts += form.withoutExperts;
        if (!depth) known.layers!.push(value);
      }
    }
    delete this.env[index];
    return [...found.values()];
  }

  private here(of: TensorOf): Form[] {
    if (!(of.when ?? []).every((tree) => this.truth(tree))) return [];
    const tied = of.tie !== undefined && (of.tie[1] === null || this.truth(of.tie[1]));
    const at = tied && of.tie![2] !== null ? this.model.size(of.tie![2], this.env, 0, MOST_LAYERS) : null;
    return [{ shape: of.dims.map((tree) => this.dim(tree)), tied, at, all: 1, withoutExperts: 1, layers: null }];
  }

  /** Whether a tree uses an index, so that its value is not the same everywhere. */
  private varies(tree: number): boolean {
    let known = this.uses.get(tree);
    if (known === undefined) {
      known = false;
      for (const index in this.model.data.repeat) known ||= this.model.names[tree].has(index);
      this.uses.set(tree, known);
    }
    return known;
  }

  private truth(tree: number): boolean {
    const known = this.truths.get(tree);
    if (known !== undefined) return known;
    const value = this.model.trees[tree](this.env), truth = value instanceof Float ? value.value !== 0 : Boolean(value);
    if (!this.varies(tree)) this.truths.set(tree, truth);
    return truth;
  }

  private dim(tree: number): number {
    const known = this.sizes.get(tree);
    if (known !== undefined) return known;
    let least = 1;
    for (const name of this.model.names[tree]) if (this.model.zero.has(name)) least = 0;
    const size = this.model.size(tree, this.env, least);
    if (!this.varies(tree)) this.sizes.set(tree, size);
    return size;
  }
}

/** Return the parameters of each component, in the order of the contract. */
export function byComponent(data: Contract, entries: Entry[]): Map<string, Int> {
  const found = new Map<string, Int>();
  for (const entry of entries) {
    const component = data.components[entry.of.role];
    found.set(component, plus(found.get(component) ?? 0, entry.parameters));
  }
  return found;
}

export interface Checked { settings: number; wrong: string[] }

/** Hold the arithmetic of the page against the totals that Python wrote into the contract. */
export function check(model: Model): Checked {
  const wrong: string[] = [];
  for (const [changes, parameters, active] of model.data.checks) {
    const set = Object.fromEntries(Object.entries(changes).map(([name, tree]) => [name, literal(tree)]));
    let found = "";
    try {
      const entries = model.bind(set);
      found = `${sum(entries.map((e) => e.parameters))} / ${sum(entries.map((e) => e.active))}`;
    } catch (error) {
      found = (error as Error).message;
    }
    if (found !== `${parameters} / ${active}`) wrong.push(`${JSON.stringify(changes)}: ${found}, not ${parameters} / ${active}`);
  }
  return { settings: model.data.checks.length, wrong };
}
