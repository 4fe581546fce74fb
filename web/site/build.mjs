// Builds the scripts of the site into the package's data: node site/build.mjs [FOLDER], in web/.
import { build } from "esbuild";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const folder = process.argv[2] ?? `${here}../../src/weighbridge/data/pages/site`;
await build({
  entryPoints: { page: `${here}page.ts`, worker: `${here}worker.ts` },
  outdir: folder,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome111", "firefox114", "safari16.4"],
  charset: "utf8",
  legalComments: "none",
});
