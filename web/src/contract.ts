// The contract, as Python writes it (src/weighbridge/explorer/contract.py); the trees are in expr.ts.

import type { Tree } from "./expr.ts";

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
  /** The lists that the config spells out and that follow all the same. */
  spelled: string[];
  why: Two<Record<string, Piece[][]>>;
  flow?: Record<string, unknown>;
}
