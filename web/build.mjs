// Build the page's script into the package's data; with --check, only say whether that is what the sources give.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const target = at("../src/weighbridge/data/pages/explore.js");
const built = await build({
  entryPoints: [at("src/main.ts")], bundle: true, minify: true, write: false, format: "iife", charset: "utf8", legalComments: "none",
  target: ["chrome111", "firefox113", "safari16.4"], logLevel: "warning",
});
// "</" would end the script element that the page holds this in.
const text = `${built.outputFiles[0].text.trim().replaceAll("</", "<\\/")}\n`;
if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== text) {
    console.error("src/weighbridge/data/pages/explore.js is not what web/src gives: run `npm ci && npm run build` in web/");
    process.exitCode = 1;
  }
} else {
  writeFileSync(target, text);
  console.log(`${target}: ${text.length} bytes`);
}
