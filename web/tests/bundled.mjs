// The modules of the page as Node can import them: bundled by esbuild, or as package data has them.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const source = fileURLToPath(new URL("../src/", import.meta.url));

/** Import modules of web/src, with a space between their names; a plugin may change their text first. */
export async function bundled(name, change = null) {
  const folder = mkdtempSync(join(tmpdir(), "weighbridge-web-"));
  const plugins = change ? [{ name: "change", setup: (b) => b.onLoad({ filter: /\.ts$/ }, change) }] : [];
  await build({ stdin: { contents: [...name.split(" "), "expr"].map((one) => `export * from "./${one}.ts";`).join(""), resolveDir: source, loader: "ts" }, bundle: true, format: "esm", outfile: join(folder, "m.mjs"), plugins, logLevel: "error" });
  try { return await import(pathToFileURL(join(folder, "m.mjs"))); } finally { rmSync(folder, { recursive: true }); }
}
