// Build the scripts of the site into the package's data; with --check, only say whether they are what the sources give.
import { readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const { outputFiles } = await build({
  entryPoints: [at("page.ts"), at("worker.ts"), at("frame.ts")], outdir: at("."), bundle: true, minify: true, write: false, format: "esm",
  charset: "utf8", legalComments: "none", target: ["chrome111", "firefox114", "safari16.4"], logLevel: "warning",
});
for (const { path, text } of outputFiles) {
  const target = at(`../../src/weighbridge/data/pages/site/${basename(path)}`);
  if (!process.argv.includes("--check")) writeFileSync(target, text);
  else if (readFileSync(target, "utf8") !== text) {
    console.error(`${target} is not what web/site gives: run \`npm ci && npm run build\` in web/`);
    process.exitCode = 1;
  }
}
