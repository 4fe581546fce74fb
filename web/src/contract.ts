// The contract, as Python writes it (src/weighbridge/explorer/contract.py); the trees are in expr.ts.

import type { Tree } from "./expr.ts";
import type { Flow } from "./steps.ts";

export type Lang = "en" | "zh";
export type Two<T> = Record<Lang, T>;

/** A text, or what stands in it: a formula (the number of its tree), code or strong text. */
export type Piece = string | ["math", number] | ["code" | "strong", string];

export interface TensorOf {
  name: string;
  role: string;
  dims: number[];
  repeat?: string[];
  varies?: string[];
  when?: number[];
  tie?: [string, number | null, number | null];
  active?: [number, string];
}

/** An operation: the number of its path, its dims, its condition, the bits of an element (0: those of the run), its rounds. */
export type OperationOf = [path: number, dims: number[], when?: number, bits?: number, times?: number];
/** A module's path, the indices in it, its component, and marks: its place (0, 1, 2), 4 for attention itself, 8 for divided. */
export type PathOf = [path: string, indices: string[], component: string, marks: number];
export type Kind = "forward" | "backward" | "saved" | "checkpointed" | "stepped" | "step";

/** What explorer/running.py writes: operations, and what it takes to fold them. */
export interface RunOf extends Partial<Record<Kind, OperationOf[]>> {
  paths: PathOf[];
  repeat: Record<string, number>;
  constants: Record<string, Tree>;
  computed: [string, number][];
  held: Record<string, Tree[]>;
  /** What must hold of sizes, and what in a training step: the text, and the expression. */
  rules: [text: string, tree: number][];
  trained: [text: string, tree: number][];
  positions: string[];
  sequence: number;
  context: number;
  dtype: string;
  /** The tokens of a sequence that stand for an image, if the class reads images. */
  image?: number;
  /** The pixels on each side of that image, if a run says how large its images are. */
  image_side?: number;
  bytes: number;
  training: Record<"compute" | "parameters" | "gradients" | "states" | "each" | "updated" | "temporaries", number> & { optimizer: string; precision: string; scores: boolean };
  prefill: number;
  allowance: number;
  devices: [string, number][];
  evidence: { source: string; kernels: string; runs: number };
  checks: [Record<string, Tree>, { batch: number; sequence: number }, Record<string, string>][];
}

export interface Contract {
  format: number;
  model: string;
  family: string;
  class: string;
  prefix: string;
  source: string;
  dtype: string;
  bits: number;
  config: Record<string, unknown>;
  /** The field of the config with all others, if they are not in it themselves. */
  inside?: string;
  fields: Record<string, Tree>;
  /** Fields without a dial: sub-configs, and what would be in one that is absent. */
  fixed: string[];
  computed: Record<string, number>;
  sizes: Record<string, [number, number]>;
  kinds: Record<string, string>;
  nullable: string[];
  values: Record<string, string[]>;
  require: [string, number][];
  letters: Record<string, string>;
  meanings: Two<Record<string, string>>;
  repeat: Record<string, number>;
  tensors: TensorOf[];
  modules: Record<string, string>;
  components: Record<string, string>;
  names: Record<string, Two<string>>;
  formulas: Record<string, number>;
  parts: Record<string, number>;
  partMeanings: Two<Record<string, string>>;
  held: { parameters: string; active: string; components: Record<string, string> };
  checks: [Record<string, Tree>, string, string][];
  trees: Tree[];
  /** What the user typed for the model, for a command line. */
  argument: string;
  /** The fields that the page was made with, as a command line has their values. */
  set: Record<string, string>;
  /** The lists that the config spells out and that follow all the same. */
  spelled: string[];
  why: Two<Record<string, Piece[][]>>;
  run?: RunOf;
  /** Why nothing is known of a run. */
  unrecorded?: Two<string>;
  /** The order in which the modules of the base class run; null if it is not recorded. */
  flow: Flow | null;
}
