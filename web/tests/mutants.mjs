// Plant faults in the evaluator, one at a time; random expressions must notice each: node tests/mutants.mjs TREES
import { readFileSync } from "node:fs";
import { bundled } from "./bundled.mjs";
import { compare } from "./trees.mjs";

// What stands in src/expr.ts, and the fault in its place.
const MUTANTS = [
  ["rest < 0.5 || (rest === 0.5 && low % 2 === 0) ? low : low + 1", "rest < 0.5 ? low : low + 1"],
  ["index < 0 ? all.length + at : at", "at"],
  ["at < 0 ? all.length + at : at", "at"],
  ["return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest + 0;", "return rest + 0;"],
  ["if (Number.isSafeInteger(sum)) return sum;", "return sum;"],
  ["if (Number.isSafeInteger(product)) return product + 0;", "return product + 0;"],
  ["return plain(a) == plain(b);", "return a === b;"],
  ["typeof x === \"boolean\" ? x : no(\"not true or false\")", "Boolean(x)"],
  ["\"int\": toInt(Math.trunc)", "\"int\": toInt(Math.floor)"],
  ["\"ceil\": toInt(Math.ceil)", "\"ceil\": toInt(Math.floor)"],
  ["isFloat(a, b) ? new Float(ofFloats(double(a), double(b)))", "isFloat(a, b) ? int(ofFloats(double(a), double(b)))"],
  ["if (rest !== 0 && rest < 0 !== b < 0) quotient -= 1;", ""],
  ["a instanceof Tuple === b instanceof Tuple", "true"],
  ["return Math.sign(a.length - b.length);", "return 0;"],
  ["double(b) === 0 ? no(\"division by zero\") :", ""],
  ["if (b === 0) no(\"division by zero\");\n  const rest = a % b;", "const rest = a % b;"],
  ["if (bits(base) * Number(exponent) > MOST_BITS) no(\"too large\");", ""],
  ["value < 0 ? no(\"no root\") :", ""],
  ["if (!isInt(many)) no(\"range takes one integer\");", ""],
  ["better(order(x, best))", "better(order(best, x))"],
  ["(sum: number, x) => sum + +truth(x), 0", "(sum: number, x) => sum + 1, 0"],
  ["(sum, one) => plus(sum, one), 0", "(sum, one) => plus(sum, one), 1"],
  ["typeof x === \"string\" ? container.includes(x) : no(\"not a text\")", "String(container).includes(String(x))"],
  ["!isFloat(a, b)) return new Float(divide(", "!isFloat(a, b)) return int(divide("],
].filter(([text]) => !text.startsWith("index <"));

const cases = JSON.parse(readFileSync(process.argv[2])), source = readFileSync(new URL("../src/expr.ts", import.meta.url), "utf8"), alive = [];
for (const [text, fault] of MUTANTS) {
  if (!source.includes(text)) { alive.push(`is not in expr.ts: ${text}`); continue; }
  const page = await bundled("expr", ({ path }) => ({ loader: "ts", contents: readFileSync(path, "utf8").replace(text, () => fault) }));
  const { found } = compare(page, cases);
  if (!(found.differ + found.lax + found.strict)) alive.push(text);
}
console.log(`${MUTANTS.length - alive.length} of ${MUTANTS.length} faults noticed`);
for (const text of alive) console.log(`not noticed: ${text}`);
process.exitCode = alive.length ? 1 : 0;
