// The modules of the page as Node can import them: bundled by esbuild, or as package data has them.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const source = fileURLToPath(new URL("../src/", import.meta.url));

/** Import a module of web/src; a plugin may change its text first. */
export async function bundled(name, change = null) {
  const folder = mkdtempSync(join(tmpdir(), "weighbridge-web-"));
  const plugins = change ? [{ name: "change", setup: (b) => b.onLoad({ filter: /\.ts$/ }, change) }] : [];
  await build({ stdin: { contents: `export * from "./${name}.ts"; export * from "./expr.ts";`, resolveDir: source, loader: "ts" }, bundle: true, format: "esm", outfile: join(folder, "m.mjs"), plugins, logLevel: "error" });
  try { return await import(pathToFileURL(join(folder, "m.mjs"))); } finally { rmSync(folder, { recursive: true }); }
}
