// The dials: which fields have one, and the steps of each, at which the family can be built.

import { NoValue } from "./expr.ts";
import type { Value } from "./expr.ts";
import type { Changes, Model } from "./ledger.ts";

const PARTS = 12;        // of an octave: so small a step moves no cell of the map far
const MOST_STEPS = 24;   // to each side
const FEW = 160;         // a size up to this has every integer as a step
const ENOUGH = 30;       // steps that can be built

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
  let best = [value];
  for (const step of [low, 3 * low, 5 * low, 7 * low, 1]) {
    if (value % step) continue;
    const found = new Set([value]);
    for (let k = -MOST_STEPS; k <= MOST_STEPS; k++) found.add(Math.max(step, Math.round((value * 2 ** (k / PARTS)) / step) * step));
    const kept = [...found].filter(may).sort((a, b) => a - b);
    if (kept.length > best.length) best = kept;
    if (kept.length > ENOUGH) break;
  }
  return best;
}
