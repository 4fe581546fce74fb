// What a run takes, from the recorded operations: FLOPs by component, the cache at any context, the memory of one device at
// each moment of a training step, and of serving. The same folds as answers/cost.py, cache.py, train.py and serve.py, held
// against them at the runs that Python wrote into the contract.

import { int, isInt, literal, NoValue, OPERATIONS, Float } from "./expr.ts";
import type { Env, Int, Value } from "./expr.ts";
import type { Kind, OperationOf, PathOf, RunOf } from "./contract.ts";
import { Model, plus, product, sum } from "./ledger.ts";
import type { Checked, Entry } from "./ledger.ts";

export interface Run { batch: number; sequence: number; context: number }
/** An operation in a run: at some places of each layer, or outside the layers. */
export interface Bound { path: PathOf; shape: Int[]; bits: number; times: Int; layers: Map<number, number> | null; places: number }
export type Moment = [name: "loss" | "backward" | "step", held: Record<string, Int>];
export interface Serving { weights: Int; cache: Int; activations: Int }
interface Held { layers: Map<number, Int>; first: Int; last: Int }

const AFTER = 2, CORE = 4, DIVIDED = 8, LOGIT_BYTES = 4;
const MOST_PLACES = 100_000, MOST_LAYERS = 10_000;

const times = (...factors: Int[]): Int => product(factors);
const larger = (a: Int, b: Int): Int => (b > a ? b : a);
const total = (all: Record<string, Int>): Int => sum(Object.values(all));
export const bytesOf = total;
export { Model };

export class Running {
  private readonly constants: Env = {};
  private readonly kept = new Map<string, Bound[]>();
  private stack = "";

  constructor(readonly model: Model, readonly data: RunOf) {
    for (const name in data.constants) this.constants[name] = literal(data.constants[name]);
  }

  /** Forget what was bound, for a model that is bound to other fields: its layers are the list with the most parameters. */
  renew(entries: Entry[]): this {
    const lists = new Map<string, Int>();
    let most: Int = -1;
    for (const { of, parameters } of entries) if (of.repeat) { const list = of.name.slice(0, of.name.indexOf("{")); lists.set(list, plus(lists.get(list) ?? 0, parameters)); }
    for (const [list, parameters] of lists) if (parameters > most) { most = parameters; this.stack = list; }
    this.kept.clear();
    return this;
  }

  /** Return how many tokens of a sequence stand for an image; 0 if the class reads none. */
  image(): number { return this.data.image === undefined ? 0 : this.model.size(this.data.image, this.names({ batch: 1, sequence: 1, context: 1 }), 0); }

  /** Whether a run takes more for longer sequences: an image has as many patches as its size gives. */
  takesTokens(): boolean {
    const given = new Set(["sequence", "target", "past"]), reads = (tree: number) => tree >= 0 && [...this.model.names[tree]].some((name) => given.has(name));
    for (const [name, tree] of this.data.computed) if (reads(tree)) given.add(name);
    return (this.data.forward ?? []).some(([, dims, when = -1, , rounds = -1]) => [...dims, when, rounds].some(reads));
  }

  private inLayers(path: PathOf): boolean { return this.stack !== "" && path[0].startsWith(`${this.stack}{`); }

  has(kind: Kind): boolean { return this.data[kind] !== undefined; }

  /** Return the most tokens that the model has learned positions for. */
  most(): number {
    let least = Infinity;
    for (const name of this.data.positions) least = Math.min(least, Number(this.model.env[name]));
    return least;
  }

  /** Return why the recorded operations do not hold for the present fields; empty if they do. */
  refused(entries: Entry[], run: Run): string {
    const { env } = this.model;
    for (const name in this.data.held)
      if (name in env && !OPERATIONS["in"](env[name], this.data.held[name].map(literal))) return `${name} = ${env[name] instanceof Float ? (env[name] as Float).value : env[name]}`;
    const owner = (name: string) => name.slice(0, Math.max(0, name.lastIndexOf("."))), present = new Set(entries.map((entry) => owner(entry.of.name)));
    const absent = new Set(this.model.data.tensors.map((of) => owner(of.name)).filter((path) => !present.has(path)));
    try {
      const broken = this.broken("rules", run);
      if (broken) return broken;
      for (const bound of this.kind("forward", run)) if (absent.has(bound.path[0])) return bound.path[0];
    } catch (error) { if (error instanceof NoValue) return error.message; throw error; }
    return "";
  }

  /** Return the first rule that sizes break; empty if all hold. Those of a training step do not matter to a forward pass. */
  broken(rules: "rules" | "trained", run: Run): string {
    const names = this.names(run);
    return this.data[rules].find(([, tree]) => !truth(this.model.trees[tree](names)))?.[0] ?? "";
  }

  private names(run: Run): Env {
    const { batch, sequence } = run, env: Env = { ...this.model.env, ...this.constants, batch, sequence, target: sequence, past: sequence };
    for (const [name, tree] of this.data.computed) if ((env[name] ?? null) === null) env[name] = this.model.trees[tree](env);
    return env;
  }

  private kind(kind: Kind, run: Run): Bound[] {
    const key = `${kind} ${run.batch} ${run.sequence}`;
    let found = this.kept.get(key);
    if (!found) this.kept.set(key, (found = this.bind(kind, this.names(run))));
    return found;
  }

  private bind(kind: Kind, env: Env): Bound[] {
    const found: Bound[] = [];
    for (const of of this.data[kind] ?? []) {
      const [path, dims, , bits = 0, rounds = -1] = of, where = this.places(of, env);
      if (!where.places) continue;
      found.push({ path: this.data.paths[path], shape: dims.map((tree) => this.size(tree, env)), bits, times: rounds < 0 ? 1 : this.size(rounds, env), ...where });
    }
    return found;
  }

  private size(tree: number, env: Env): Int {
    const size = this.model.trees[tree](env);
    if (!isInt(size) || size < 0) throw new NoValue(`a size of an operation is ${String(size)}`);
    return size;
  }

  private places([path, , when = -1]: OperationOf, env: Env): { layers: Map<number, number> | null; places: number } {
    const indices = this.data.paths[path][1], { model } = this;
    const many = indices.map((index) => model.size(this.data.repeat[index], env, 0, MOST_LAYERS)), all = many.reduce((n, one) => n * one, 1);
    if (all > MOST_PLACES) throw new NoValue(`${this.data.paths[path][0]}: > ${MOST_PLACES}`);
    const uses = when >= 0 && indices.some((index) => model.names[when].has(index));
    if (when >= 0 && !uses && !truth(model.trees[when](env))) return { layers: null, places: 0 };
    if (!indices.length) return { layers: null, places: 1 };
    const layers = new Map<number, number>();
    let places = 0;
    const walk = (depth: number, inside: Env) => {
      if (depth < indices.length) {
        for (let at = 0; at < many[depth]; at++) walk(depth + 1, Object.assign(inside, { [indices[depth]]: at }));
      } else if (truth(model.trees[when](inside))) { layers.set(Number(inside[indices[0]]), (layers.get(Number(inside[indices[0]])) ?? 0) + 1); places++; }
    };
    if (uses) walk(0, { ...env });
    else for (let at = 0; at < many[0]; at++) { layers.set(at, all / many[0]); places = all; }
    return { layers, places };
  }

  // Folds

  /** Return the FLOPs of products by component. */
  flops(kind: "forward" | "backward", run: Run): Map<string, Int> {
    const found = new Map<string, Int>();
    for (const of of this.kind(kind, run)) found.set(of.path[2], plus(found.get(of.path[2]) ?? 0, flopsOf(of)));
    return found;
  }

  /** Return what a map of FLOPs or of the cache is drawn from: operations, and what each takes in one place. */
  drawn(what: "flops" | "cache", run: Run): [Bound, Int][] {
    if (what === "flops") return this.kind("forward", run).map((of) => [of, times(2, ...of.shape, of.times)]);
    return this.cached(run.context, run.batch).map((of) => [of, this.bytes(of, this.data.bytes)]);
  }

  /** Return the bytes of the cache of all sequences. */
  cache(context: number, batch: number): Int {
    return sum(this.cached(context, batch).map((of) => times(this.bytes(of, this.data.bytes), of.places)));
  }

  private cached(context: number, batch: number): Bound[] {
    const key = `stepped ${context} ${batch}`;
    let found = this.kept.get(key);
    if (!found) {
      const env = { ...this.names({ batch, sequence: context, context }), past: context - 1 };
      this.kept.set(key, (found = this.bind("stepped", env)));
    }
    return found;
  }

  /** Return what serving holds: weights in the dtype of the model, the cache, the activations of a pass. */
  serving(run: Run, parameters: Int): Serving {
    const tokens = Math.max(Math.min(run.context, this.data.prefill), run.batch), one = { batch: 1, sequence: 1, context: 1 };
    let most: Int = 0, width: Int = 0, vocabulary: Int = 0;
    for (const { path, shape: [, , inner, columns] } of this.kind("step", one)) {
      const marks = path[3];
      if (marks & CORE) continue;
      if (!this.inLayers(path)) { vocabulary = larger(vocabulary, columns); continue; }
      width = larger(width, marks & DIVIDED ? columns : inner);
      most = larger(most, plus(inner, times(2, columns)));
    }
    const compute = this.data.bytes, activations = plus(times(tokens, plus(most, width), compute), times(run.batch, vocabulary, LOGIT_BYTES));
    return { weights: times(parameters, this.data.bytes), cache: times(run.batch, this.cache(run.context, 1)), activations };
  }

  /** Return what one device holds at the three moments of a training step. */
  moments(run: Run, entries: Entry[], parameters: Int, checkpointing: boolean): Moment[] {
    const { training } = this.data, whole = this.held("saved", run), outputs = this.outputs(run);
    const of = checkpointing ? this.held("checkpointed", run) : whole, most = [...whole.layers.values()].reduce(larger, 0), again = checkpointing ? most : 0;
    const tensors = sum(entries.filter((entry) => entry.parameters).map((entry) => entry.all));
    const states = { parameters: times(parameters, training.parameters), gradients: times(parameters, training.gradients), optimizer: plus(times(parameters, training.states), times(tensors, training.each)) };
    const activations = sum([...of.layers.values(), of.first, of.last, again]), layer = [...of.layers.values()].reduce(larger, 0);
    // The first pass begins without gradients where nothing was summed before it.
    return [
      ["loss", { ...states, gradients: 0, activations, transient: times(2, larger(outputs.reduce(larger), this.ofLoss(run))) }],
      ["backward", { ...states, activations: larger(again, layer), transient: times(2, outputs[0]) }],
      ["step", { ...states, activations: 0, transient: times(training.temporaries, parameters, training.updated) }],
    ];
  }

  private bytes(of: Bound, compute: number): Int { return times(of.times, ...of.shape, of.bits ? of.bits / 8 : compute); }

  private held(kind: "saved" | "checkpointed", run: Run): Held {
    const layers = new Map<number, Int>();
    let first: Int = 0, last: Int = 0;
    for (const of of this.kind(kind, run)) {
      const size = this.bytes(of, this.data.training.compute);
      if (this.inLayers(of.path)) for (const [layer, many] of of.layers!) layers.set(layer, plus(layers.get(layer) ?? 0, times(size, many)));
      else if (!(of.path[3] & AFTER)) first = plus(first, times(size, of.places));
      else last = plus(last, times(size, of.places));
    }
    return { layers, first, last };
  }

  /** Return the bytes of the largest tensor that the loss saves; its two gradients are as large. */
  private ofLoss(run: Run): Int {
    return this.kind("saved", run).filter((of) => !of.path[0]).map((of) => this.bytes(of, this.data.training.compute)).reduce(larger, 0);
  }

  /** Return the bytes of the largest output of a product in the layers, before them and after them. */
  private outputs(run: Run): Int[] {
    let inside: Int = 0, first: Int = 0, last: Int = 0;
    for (const { path, shape: [batch, rows, , columns] } of this.kind("forward", run)) {
      if (path[3] & CORE && !this.data.training.scores) continue;
      const size = times(batch, rows, columns, this.data.training.compute);
      if (this.inLayers(path)) inside = larger(inside, size);
      else if (!(path[3] & AFTER)) first = larger(first, size);
      else last = larger(last, size);
    }
    return [inside, first, last];
  }
}

const flopsOf = (of: Bound): Int => times(2, ...of.shape, of.times, of.places);
const truth = (value: Value): boolean => (value instanceof Float ? value.value !== 0 : Boolean(value));

/** Return the figures of a run by the names that Python has for them. */
export function figures(running: Running, run: Run, entries: Entry[]): Record<string, string> {
  const parameters = sum(entries.map((entry) => entry.parameters)), found: Record<string, Int> = {};
  const broken = running.broken("trained", run) !== "";
  for (const kind of broken ? ["forward"] as const : ["forward", "backward"] as const) found[kind] = sum(running.flops(kind, run).values());
  const ways = broken ? [] : running.has("checkpointed") ? ["none", "full"] : ["none"];
  for (const way of ways)
    for (const [moment, held] of running.moments(run, entries, parameters, way === "full")) found[`${way} ${moment}`] = total(held);
  if (running.has("stepped")) {
    found.cache = running.cache(run.context, run.batch);
    found.serving = total({ ...running.serving(run, parameters) });
  }
  return Object.fromEntries(Object.entries(found).map(([name, value]) => [name, String(int(value))]));
}

/** Hold what the page computes of runs against what Python wrote into the contract. */
export function checkRuns(model: Model): Checked {
  const wrong: string[] = [], { run: data } = model.data;
  for (const [changes, { batch, sequence }, expected] of data?.checks ?? []) {
    const set = Object.fromEntries(Object.entries(changes).map(([name, tree]) => [name, literal(tree)]));
    let found: Record<string, string> = {};
    try {
      const entries = model.bind(set), running = new Running(model, data!).renew(entries);
      const run = { batch, sequence, context: sequence }, refused = running.refused(entries, run);
      found = refused ? { refused } : figures(running, run, entries);
    } catch (error) { found = { error: (error as Error).message }; }
    for (const name of new Set([...Object.keys(expected), ...Object.keys(found)]))
      if (found[name] !== expected[name]) { wrong.push(`${JSON.stringify(changes)} ${name}: ${found[name]}, not ${expected[name]}`); break; }
  }
  return { settings: data?.checks.length ?? 0, wrong };
}
