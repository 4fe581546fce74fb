// Hold the evaluator against random expressions that tools/explored.py wrote: node tests/trees.mjs FILE
import { readFileSync } from "node:fs";
import { bundled } from "./bundled.mjs";

/** Return a float as Python's float.hex() writes it. */
function hex(x) {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  const all = view.getBigUint64(0), sign = all >> 63n ? "-" : "", exponent = Number((all >> 52n) & 2047n), rest = all & ((1n << 52n) - 1n);
  if (!exponent && !rest) return `${sign}0x0.0p+0`;
  const power = exponent ? exponent - 1023 : -1022;
  return `${sign}0x${exponent ? 1 : 0}.${rest.toString(16).padStart(13, "0")}p${power < 0 ? "-" : "+"}${Math.abs(power)}`;
}

function exact(value, { Float, Tuple }) {
  if (value instanceof Float) return `float ${hex(value.value)}`;
  if (Array.isArray(value)) return [value instanceof Tuple ? "tuple" : "list", ...[...value].map((one) => exact(one, { Float, Tuple }))];
  if (value instanceof Map) return ["dict"];
  if (value === null) return "NoneType None";
  if (typeof value === "boolean") return value ? "bool True" : "bool False";
  return typeof value === "string" ? `str '${value}'` : `int ${value}`;
}

export function compare(page, { names, cases }) {
  const found = { same: 0, refused: 0, differ: 0, lax: 0, strict: 0 }, shown = [];
  const env = Object.fromEntries(Object.entries(names).map(([name, tree]) => [name, page.literal(tree)]));
  for (const [tree, hasValue, value] of cases) {
    let kind, got = null;
    try { got = exact(page.compile(tree)({ ...env }), page); } catch (error) { if (!(error instanceof page.NoValue)) got = String(error); }
    if (!hasValue) kind = got === null ? "refused" : "lax";
    else if (got === null) kind = "strict";
    else kind = JSON.stringify(got) === JSON.stringify(value) ? "same" : "differ";
    found[kind]++;
    if (!["same", "refused"].includes(kind)) shown.push(`${kind} ${JSON.stringify(tree).slice(0, 140)} ${JSON.stringify(got)} ${JSON.stringify(value)}`);
  }
  return { found, shown };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const { found, shown } = compare(await bundled("expr"), JSON.parse(readFileSync(process.argv[2])));
  console.log(JSON.stringify(found));
  for (const line of shown.sort((a, b) => a.length - b.length).slice(0, 25)) console.log(line);
  process.exitCode = found.differ + found.lax + found.strict ? 1 : 0;
}
