// Hold the page's runs against those of Python in contracts that tools/explored.py wrote: node tests/runs.mjs FILE
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { bundled } from "./bundled.mjs";

const { Model, checkRuns } = await bundled("running");
const found = { classes: 0, runs: 0, figures: 0, differ: 0, unrecorded: 0 }, shown = [];
for await (const line of createInterface({ input: createReadStream(process.argv[2]) })) {
  const contract = JSON.parse(line);
  if (!contract.run) { found.unrecorded++; shown.push(`${contract.class}: ${contract.unrecorded.en}`); continue; }
  const { settings, wrong } = checkRuns(new Model(contract));
  found.classes++; found.runs += settings; found.differ += wrong.length;
  for (const [, , figures] of contract.run.checks) found.figures += Object.keys(figures).length;
  shown.push(...wrong.map((one) => `${contract.class} ${one}`));
}
console.log(JSON.stringify(found));
for (const line of shown.slice(0, 40)) console.log(line);
process.exitCode = found.differ || !found.runs ? 1 : 0;
