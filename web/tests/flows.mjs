// Hold the steps of the page against those of `tree --flow`: node tests/flows.mjs FILE, which tools/explored.py wrote.
// FILE has a JSON on each line: {family, contract, cases: [[changes, steps or null]]}.
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { bundled } from "./bundled.mjs";

const { Model, Walker, isTurns, literal } = await bundled("ledger steps");
const KINDS = { m: "module", f: "function", o: "operation", r: "return" };

/** Return steps as `tree --flow --json` has them: runs of turns that follow on each other and are alike. */
function asPython(items) {
  return items.flatMap((item) => (isTurns(item) ? runs(item) : [row(item)]));
}

function runs({ letter, kinds }) {
  if (!letter) return [{ kind: "loop", index: "", turns: [], steps: asPython(kinds[0].rows) }];
  const turns = kinds.flatMap((kind) => kind.turns.map((turn) => ({ turn, kind }))).sort((a, b) => a.turn - b.turn), found = [];
  for (const { turn, kind } of turns) {
    if (found.at(-1)?.kind === kind) found.at(-1).turns.push(turn);
    else found.push({ kind, turns: [turn] });
  }
  return found.map(({ kind, turns }) => ({ kind: "loop", index: letter, turns, steps: asPython(kind.rows) }));
}

function row(one) {
  const found = { kind: KINDS[one.kind], value: one.value, called: one.called, arguments: one.given };
  if (one.when) found.when = one.when;
  if (one.meets) found.meets = one.meets;
  if (one.kind === "m") Object.assign(found, { path: one.path, class: one.class, tensors: one.tensors.map(({ name, shape }) => ({ name, shape })) });
  if (one.rows.length) found.steps = asPython(one.rows);
  return found;
}

const found = { families: 0, same: 0, refused: 0, differ: 0 }, shown = [];
for await (const line of createInterface({ input: createReadStream(process.argv[2]) })) {
  const { family, contract, cases } = JSON.parse(line), model = new Model(contract);
  found.families++;
  for (const [changes, steps] of cases) {
    model.bind(Object.fromEntries(Object.entries(changes).map(([name, tree]) => [name, literal(tree)])));
    const walker = new Walker(contract.flow, model), isRefused = walker.unheld() !== "";
    const ours = isRefused ? "null" : JSON.stringify(asPython(walker.module(""))), theirs = JSON.stringify(steps);
    found[ours !== theirs ? "differ" : isRefused ? "refused" : "same"]++;
    if (ours === theirs) continue;
    const at = [...ours].findIndex((letter, place) => letter !== theirs[place]);
    shown.push(`${family} ${JSON.stringify(changes)}: ${ours.slice(Math.max(0, at - 120), at + 80)} // ${theirs.slice(Math.max(0, at - 120), at + 80)}`);
  }
}
console.log(JSON.stringify(found));
for (const line of shown.slice(0, 20)) console.log(line);
process.exitCode = found.differ || !found.same ? 1 : 0;
