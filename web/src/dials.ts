// The dials: which fields have one, and the steps of each, at which the family can be built.

import { NoValue } from "./expr.ts";
import type { Value } from "./expr.ts";
import type { Changes, Model } from "./ledger.ts";

const PARTS = 18;        // of an octave: so small a step moves no cell of the map far
const MOST_STEPS = 36;   // to each side
const SPREAD = 0.3;      // of a part: so far from its place is a step
const MOST_TRIES = 32;   // of a size's neighbours that are multiples of a step, to each side
const FEW = 160;         // a size up to this has every integer as a step

/** Return the fields that shapes, repeats and conditions are made of, letters first, then flags. */
export function dialsOf(model: Model): string[] {
  const { data } = model, used = new Set<string>(), env = model.fields();
  const reach = (tree: number | null) => {
    if (tree === null) return;
    for (const name of model.names[tree]) {
      if (used.has(name)) continue;
      used.add(name);
      if (name in data.computed) reach(data.computed[name]);
    }
  };
  for (const of of data.tensors)
    for (const tree of [...of.dims, ...(of.when ?? []), ...(of.tie?.slice(1) as (number | null)[] ?? []), ...(of.active?.slice(0, 1) as number[] ?? [])]) reach(tree);
  Object.values(data.repeat).forEach(reach);
  const letters = Object.keys(data.letters), rank = (name: string) => (letters.indexOf(name) + 999) % 999;
  const isFlag = (name: string) => +(typeof env[name] === "boolean");
  return [...used].filter((name) => !data.fixed.includes(name)).filter((name) => typeof env[name] === "number" || typeof env[name] === "boolean")
    .sort((a, b) => isFlag(a) - isFlag(b) || rank(a) - rank(b));
}

export function fits(model: Model, changes: Changes): string {
  try { model.bind(changes); return ""; } catch (error) { if (error instanceof NoValue) return error.message; throw error; }
}

/** Whether the requirements of the family hold; `fits` also binds every tensor, which takes far longer. */
function holds(model: Model, changes: Changes): boolean {
  try { model.fields(changes); return true; } catch (error) { if (error instanceof NoValue) return false; throw error; }
}

/** Return the values of a size from low to high at which the requirements of the family hold, the present one among them. */
export function ladder(model: Model, changes: Changes, name: string, value: number): number[] {
  const may = (one: number) => one === value || holds(model, { ...changes, [name]: one as Value });
  const low = Math.min(64, value & -value) || 1;
  if (value <= FEW && low < 64) return Array.from({ length: Math.max(2 * value, 8) + 1 }, (_, at) => at).filter(may);
  const found = new Set([value]);
  for (let k = -MOST_STEPS; k <= MOST_STEPS; k++) {
    const near = roundest(value * 2 ** (k / PARTS), low, may);
    if (near) found.add(near);
  }
  return [...found].sort((a, b) => a - b);
}

/** Return the roundest value close to a size that may be, or nothing: a multiple of the step, else of its half, and so on. */
function roundest(size: number, step: number, may: (one: number) => boolean): number | undefined {
  const from = size * 2 ** (-SPREAD / PARTS), to = size * 2 ** (SPREAD / PARTS);
  for (let part = step; part >= 1; part /= 2) {
    const middle = Math.round(size / part) * part;
    for (let k = 0; k < MOST_TRIES; k++) {
      const near = [middle + k * part, middle - k * part].filter((one) => one >= 1 && one > from && one < to), found = near.find(may);
      if (found) return found;
      if (k && !near.length) break;
    }
  }
  return undefined;
}
