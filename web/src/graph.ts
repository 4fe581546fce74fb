// What is drawn of the steps: boxes and what leads from one to another, a graph for each module that has modules inside.
// Masks, angles of positions and what only sorts or copies are left out of the picture; the list of steps has them.

import { hasModule, isTurns, rootOf } from "./steps.ts";
import type { Item, Row, Turns } from "./steps.ts";

export interface Node {
  id: number;
  /** port: a value that comes in; leaf: a module or function; sign: an operation; tensor: a parameter; frame: has a graph. */
  kind: "port" | "leaf" | "sign" | "tensor" | "frame" | "strip" | "out";
  name: string; key: string; row?: Row; turns?: Turns; many?: number; of?: number[]; graph?: Graph; residual?: boolean; when?: string;
  /** The path of the module in whose steps it is. */
  path?: string;
}
export interface Edge { from: number; to: number; residual: boolean; isHidden?: boolean }
export interface Graph { nodes: Node[]; edges: Edge[] }

const SIGNS: Record<string, string> = { "+": "+", "-": "−", "*": "×", "/": "÷", "@": "@" };
const HIDDEN_VALUE = /mask|position_(ids|emb|bias)|cache_pos|relative_pos|^(cos|sin|alibi|position_bias)$/;
const HIDDEN_CALL = /^(create_\w*mask|new|build_\w*|create_position\w*)$|rotary_emb$|rotary_pos_emb$/;
/** Operations that only move, choose or scale values: their result is what they were given. */
const PASSED = new Set(["copy", "put", "index", "gather", "masked_fill", "where", "min", "max", "sort", "index_select", "and", "eq", "pad", "roll", "cumsum", "log"]);

class Builder {
  readonly graph: Graph = { nodes: [], edges: [] };
  private values = new Map<string, number | null>();
  private ports = new Map<string, number>();

  constructor(private path: string, private key: string, private isRoot: boolean, private tensors: Set<string>) {}

  private add(node: Omit<Node, "id">): number { return this.graph.nodes.push({ path: this.path, ...node, id: this.graph.nodes.length }) - 1; }

  private link(from: number, to: number, residual = false): void {
    if (!this.graph.edges.some((edge) => edge.from === from && edge.to === to)) this.graph.edges.push({ from, to, residual });
  }

  /** Return the nodes that an argument comes from: none if it is left out of the picture. */
  private sources(argument: string): number[] {
    if (argument.startsWith("self.")) return this.tensor(argument.slice(5));
    const root = rootOf(argument), known = this.values.get(root);
    if (known !== undefined) return known === null ? [] : [known];
    if (!root || /^v\d+$/.test(root) || (HIDDEN_VALUE.test(root) && !this.isRoot) || (this.isRoot && /mask|position_ids/.test(root))) return [];
    if (!this.ports.has(root)) this.ports.set(root, this.add({ kind: "port", name: root, key: `${this.key}<${root}` }));
    return [this.ports.get(root)!];
  }

  private tensor(name: string): number[] {
    const path = this.path ? `${this.path}.${name}` : name;
    return this.tensors.has(path) ? [this.add({ kind: "tensor", name, key: path })] : [];
  }

  rows(items: Item[]): void {
    for (const item of items) {
      if (isTurns(item)) { this.turns(item); continue; }
      if (item.kind === "r") { this.out(item.given); continue; }
      this.step(item);
    }
  }

  private out(given: string[]): void {
    const sources = new Set((this.isRoot ? given : given.slice(0, 1)).flatMap((one) => this.sources(one)));
    const out = this.add({ kind: "out", name: this.isRoot ? "output" : "", key: `${this.key}>` });
    sources.forEach((source) => this.link(source, out));
  }

  private step(row: Row): void {
    if (HIDDEN_CALL.test(row.called) && !row.tensors.length && !/^apply_/.test(row.called)) { this.values.set(row.value, null); return; }
    const isModule = row.kind === "m", isFrame = isModule && hasModule(row.rows);
    const given = row.given.filter((one) => row.kind !== "o" || one.startsWith("self.") || !HIDDEN_VALUE.test(one));
    const sources = [...new Set(given.flatMap((one) => this.sources(one)))];
    const key = isModule ? row.path : `${this.key}/${row.value}`;
    if (!isModule && !sources.length) { this.values.set(row.value, null); return; }
    if (row.kind === "f" && /mask/.test(row.called)) { this.values.set(row.value, sources[0]); return; }
    if (row.kind === "o" && (PASSED.has(row.called) || (sources.length < 2 && row.called in SIGNS))) { this.values.set(row.value, sources[0]); return; }
    const at = row.kind === "o" ? this.add({ kind: "sign", name: SIGNS[row.called] ?? row.called, key, row, when: row.when, residual: row.meets === "residual" })
      : isFrame ? this.add({ kind: "frame", name: row.called, key, row, when: row.when, graph: graphOf(row.rows, row.path, key, false, this.tensors) })
      : this.add({ kind: "leaf", name: row.called, key, row, when: row.when });
    for (const source of sources) this.link(source, at, row.meets === "residual");
    this.values.set(row.value, at);
  }

  /** Layers that are alike are a frame; kinds of layers that take turns are beside one another, with a strip that shows when. */
  private turns(turns: Turns): void {
    const [{ turns: outer, rows: [only, ...others] }, ...more] = turns.kinds;
    if (!more.length && !others.length && only && isTurns(only) && !only.letter) { // what each turn repeats is one frame
      this.turns({ letter: "", kinds: only.kinds.map(({ rows }) => ({ turns: outer, rows })) });
      return;
    }
    const rows = turns.kinds.flatMap((kind) => kind.rows.filter((row): row is Row => !isTurns(row)));
    const sources = [...new Set(rows.flatMap((row) => row.given.flatMap((one) => this.sources(one))))];
    const key = `${this.key}/${turns.letter || "loop"}:${rows[0]?.value ?? ""}`, frames = turns.kinds.map((_, at) => this.kind(turns, at, key));
    let last: number;
    if (frames.length === 1) last = this.add(frames[0]);
    else if (turns.kinds.every(({ turns: all }) => all.at(-1)! - all[0] === all.length - 1)) {
      frames.slice(0, -1).forEach((frame, at) => {
        const id = this.add(frame);
        if (at) this.link(id - 1, id); else sources.forEach((source) => this.link(source, id));
      });
      last = this.add(frames.at(-1)!);
      this.link(last - 1, last);
      for (const row of rows) this.values.set(row.value, last);
      return;
    } else {
      const inside: Graph = { nodes: [], edges: [] }, many = turns.kinds.reduce((n, kind) => n + kind.turns.length, 0);
      const strip: number[] = [];
      turns.kinds.forEach((kind, at) => kind.turns.forEach((turn) => { strip[turn] = at; }));
      inside.nodes.push({ id: 0, kind: "strip", name: "", key: `${key}strip`, of: strip });
      frames.forEach((frame, at) => { inside.nodes.push({ ...frame, id: at + 1 }); inside.edges.push({ from: 0, to: at + 1, residual: false }); });
      inside.nodes.push({ id: frames.length + 1, kind: "out", name: "", key: `${key}>` });
      frames.forEach((_, at) => inside.edges.push({ from: at + 1, to: frames.length + 1, residual: false }));
      last = this.add({ kind: "frame", name: "", key, turns, many, graph: inside });
    }
    sources.forEach((source) => this.link(source, last));
    for (const row of rows) this.values.set(row.value, last);
  }

  private kind(turns: Turns, at: number, key: string): Omit<Node, "id"> {
    const { rows, turns: all } = turns.kinds[at], steps = rows.filter((row): row is Row => !isTurns(row)), only = rows.length === 1 && steps[0]?.kind === "m" ? steps[0] : undefined;
    const graph = only ? graphOf(only.rows, only.path, `${key}.${at}`, false, this.tensors) : graphOf(rows, this.path, `${key}.${at}`, false, this.tensors);
    return { kind: "frame", name: only?.called ?? "", key: `${key}.${at}`, row: only, turns: { letter: turns.letter, kinds: [turns.kinds[at]] }, many: all.length, of: turns.kinds.length > 1 ? [at] : undefined, graph, when: only?.when };
  }
}

/** Return the graph of the steps of a module; `tensors` are the paths of all tensors in the base class. */
export function graphOf(rows: Item[], path: string, key: string, isRoot: boolean, tensors: Set<string>): Graph {
  const builder = new Builder(path, key, isRoot, tensors);
  builder.rows(rows);
  const { graph } = builder, ports = graph.nodes.filter((node) => node.kind === "port");
  if (!isRoot && ports.length === 1) ports[0].name = "";
  if (!graph.nodes.some((node) => node.kind === "out") && graph.nodes.length) {
    const last = graph.nodes.length - 1;
    graph.nodes.push({ id: last + 1, kind: "out", name: "", key: `${key}>` });
    graph.edges.push({ from: last, to: last + 1, residual: false });
  }
  return graph;
}

/** Put below a graph the modules that a class adds to its base class. */
export function addBelow(graph: Graph, rows: Row[], name: string): void {
  const nodes = rows.map((row, id): Node => ({ id, kind: "leaf", name: row.path, key: row.path, row })), id = graph.nodes.length;
  graph.nodes.push({ id, kind: "frame", name, key: "+", when: "+", graph: { nodes, edges: [] } });
  graph.edges.push({ from: graph.nodes.find((node) => node.kind === "out")!.id, to: id, residual: false, isHidden: true });
}
