// Hold the page's arithmetic against cases that tools/explored.py wrote: node tests/equal.mjs FILE [BUNDLE]
// FILE has a JSON on each line: {family, contract, cases: [[changes, total, active, {component: parameters}] or [changes, null, why]]}.
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { bundled } from "./bundled.mjs";

const { Model, NoValue, byComponent, check, literal, sum } = await bundled("ledger");
const found = { families: new Set(), classes: 0, same: 0, refused: 0, differ: 0, lax: 0, strict: 0, unchecked: 0 }, shown = [];
for await (const line of createInterface({ input: createReadStream(process.argv[2]) })) {
  const { family, contract, cases } = JSON.parse(line), model = new Model(contract);
  found.families.add(family); found.classes++;
  const checked = check(model);
  if (checked.wrong.length || !checked.settings) { found.unchecked++; shown.push(`${family} check: ${checked.wrong[0]}`); }
  for (const [changes, total, active, components] of cases) {
    const set = Object.fromEntries(Object.entries(changes).map(([name, tree]) => [name, literal(tree)]));
    let entries = null, why = "";
    try { entries = model.bind(set); } catch (error) { if (!(error instanceof NoValue)) throw error; why = error.message; }
    let kind = "refused";
    if (total === null) kind = entries ? "lax" : "refused";
    else if (!entries) kind = "strict";
    else {
      const by = byComponent(contract, entries);
      const same = String(sum(entries.map((e) => e.parameters))) === total && String(sum(entries.map((e) => e.active))) === active
        && Object.entries(components).every(([name, value]) => String(by.get(name)) === value);
      kind = same ? "same" : "differ";
    }
    found[kind]++;
    if (kind !== "same" && kind !== "refused") shown.push(`${family} ${contract.class} ${kind} ${JSON.stringify(changes).slice(0, 200)} ${total ?? active} ${why}`);
  }
}
console.log(JSON.stringify({ ...found, families: found.families.size }));
for (const line of shown.slice(0, 40)) console.log(line);
process.exitCode = found.differ + found.lax + found.strict + found.unchecked ? 1 : 0;
