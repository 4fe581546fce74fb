// Python's arithmetic over the trees of a contract: each tree becomes one closure. No eval, so no hole in the CSP.
//
// An integer is a number while a double holds it exactly, and a BigInt beyond 2^53. A float is a Float, because 2 and 2.0
// are two values in Python and one in JavaScript. A field's list is a Tuple, because a list never equals a tuple in it.

export type Tree = string | number | boolean | null | TreeNode;
export type TreeNode = [string, ...unknown[]];
export type Int = number | bigint;
export type Value = Int | Float | boolean | string | null | Value[] | Dict;
export type Env = Record<string, Value>;
export type Closure = (env: Env) => Value;
type Operation = (...operands: any[]) => Value;

export class NoValue extends Error {}
export class Float { constructor(readonly value: number) {} }
export class Tuple extends Array<Value> {}
export type Dict = Map<string, Value>;

const MOST_BITS = 4096;
const MOST_ROUNDS = 10_000;

function no(what: string): never { throw new NoValue(what); }

export const isInt = (x: Value): x is Int => typeof x === "number" || typeof x === "bigint";
const isNumeric = (x: Value): x is Int | Float | boolean => isInt(x) || typeof x === "boolean" || x instanceof Float;

/** Return an integer as a number where a double holds it. */
export function int(x: Int): Int {
  if (typeof x === "number") return x;
  return x >= Number.MIN_SAFE_INTEGER && x <= Number.MAX_SAFE_INTEGER ? Number(x) : x;
}

function integer(x: Value): Int {
  if (isInt(x)) return x;
  return typeof x === "boolean" ? +x : no("not an integer");
}

/** Return a numeric value as a double, as Python's float() does. */
function double(x: Value): number {
  if (x instanceof Float) return x.value;
  const found = Number(integer(x));
  return Number.isFinite(found) ? found : no("int too large to convert to float");
}

const isFloat = (a: Value, b: Value) => a instanceof Float || b instanceof Float;
const numeric = (x: Value) => { if (!isNumeric(x)) no("arithmetic takes numbers"); };
const whole = (x: number): Int => (Number.isFinite(x) ? Number.isSafeInteger(x) ? x + 0 : BigInt(x) : no("no integer"));

function arithmetic(ofInts: (a: Int, b: Int) => Int, ofFloats: (a: number, b: number) => number): Operation {
  return (a: Value, b: Value) => {
    if (typeof a === "number" && typeof b === "number") return ofInts(a, b);
    numeric(a); numeric(b);
    return isFloat(a, b) ? new Float(ofFloats(double(a), double(b))) : ofInts(integer(a), integer(b));
  };
}

function add(a: Int, b: Int): Int {
  if (typeof a === "number" && typeof b === "number") {
    const sum = a + b;
    if (Number.isSafeInteger(sum)) return sum;
  }
  return int(BigInt(a) + BigInt(b));
}

const bits = (x: Int) => (x < 0 ? -BigInt(x) : BigInt(x)).toString(2).length - (x == 0 ? 1 : 0);

function times(a: Int, b: Int): Int {
  if (typeof a === "number" && typeof b === "number") {
    const product = a * b;
    if (Number.isSafeInteger(product)) return product + 0;
  }
  if (bits(a) + bits(b) > MOST_BITS) no("too large");
  return int(BigInt(a) * BigInt(b));
}

function floorDivide(a: Int, b: Int): Int {
  if (b == 0) no("division by zero");
  if (typeof a === "number" && typeof b === "number") {
    const exact = a - modulo(a, b);
    if (Number.isSafeInteger(exact)) return exact / b + 0;
  }
  const [x, y] = [BigInt(a), BigInt(b)];
  return int((x - BigInt(modulo(a, b))) / y);
}

function modulo(a: Int, b: Int): any {
  if (b == 0) no("division by zero");
  if (typeof a === "number" && typeof b === "number") {
    const rest = a % b;
    return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest + 0;
  }
  const [x, y] = [BigInt(a), BigInt(b)], rest = x % y;
  return int(rest !== 0n && rest < 0n !== y < 0n ? rest + y : rest);
}

function floatModulo(a: number, b: number): number {
  if (b === 0) no("division by zero");
  const rest = a % b;
  if (rest === 0) return b < 0 ? -0 : 0;
  return rest < 0 !== b < 0 ? rest + b : rest;
}

function floatFloorDivide(a: number, b: number): number {
  if (b === 0) no("division by zero");
  let rest = a % b, quotient = (a - rest) / b;
  if (rest !== 0 && rest < 0 !== b < 0) quotient -= 1;
  if (quotient === 0) return a / b < 0 || Object.is(a / b, -0) ? -0 : 0;
  const low = Math.floor(quotient);
  return quotient - low > 0.5 ? low + 1 : low;
}

/** Return the quotient of two integers as the nearest double. */
function divide(a: Int, b: Int): number {
  if (b == 0) no("division by zero");
  if (typeof a === "number" && typeof b === "number") return a / b;
  const quotient = nearest(BigInt(a), BigInt(b));
  return Number.isFinite(quotient) ? quotient : no("too large");
}

/** Return a quotient of BigInts as the nearest double: 66 bits of it, and whether there is more. */
export function nearest(a: bigint, b: bigint): number {
  if (a === 0n) return 0;
  const negative = a < 0n !== b < 0n, x = a < 0n ? -a : a, y = b < 0n ? -b : b;
  const shift = 66 + y.toString(2).length - x.toString(2).length;
  const scaled = shift > 0 ? x << BigInt(shift) : x, divisor = shift < 0 ? y << BigInt(-shift) : y;
  const sticky = scaled % divisor === 0n ? 0n : 1n;
  const found = scaleBy(Number(((scaled / divisor) << 1n) | sticky), -shift - 1);
  return negative ? -found : found;
}

function scaleBy(x: number, power: number): number {
  for (; power > 1000; power -= 1000) x *= 2 ** 1000;
  for (; power < -1000; power += 1000) x *= 2 ** -1000;
  return x * 2 ** power;
}

function power(a: Value, b: Value): Value {
  if (!isNumeric(a) || !isNumeric(b)) no("arithmetic takes numbers");
  if (!isFloat(a, b)) {
    const base = integer(a), exponent = integer(b);
    if (exponent >= 0) {
      if (bits(base) * Number(exponent) > MOST_BITS) no("too large");
      return int(BigInt(base) ** BigInt(exponent));
    }
    if (base == 0) no("zero to a negative power");
  }
  return new Float(floatPower(double(a), double(b)));
}

function floatPower(a: number, b: number): number {
  if (a === 0 && b < 0) no("zero to a negative power");
  if (a < 0 && !Number.isInteger(b) && Number.isFinite(a) && Number.isFinite(b)) no("a negative number has no such power");
  const rough = a === 1 || (a === -1 && Math.abs(b) === Infinity) ? 1 : a ** b;
  if (!Number.isFinite(a) || !Number.isFinite(b)) return rough;
  if (!Number.isFinite(rough)) no("too large");
  if (rough === 0 || Math.abs(rough) === 1 || b === 1) return rough;
  const found = exponential(logarithm(Math.abs(a)) * fixed(b));
  return a < 0 && b % 2 !== 0 ? -found : found;
}

// Logarithms and powers to 192 bits, because those of browsers differ from Python's in the last bit.

const BITS = 192n;
const UNIT = 1n << BITS;

/** Return a double as an integer over 2^192, cut. */
function fixed(x: number): bigint {
  let shift = 0;
  while (!Number.isInteger(x)) { x *= 2; shift++; }
  return shift > 192 ? BigInt(x) >> BigInt(shift - 192) : BigInt(x) << (BITS - BigInt(shift));
}

/** Return the natural logarithm of 1 ≤ x < 2, both over 2^192: 2 atanh((x − 1) / (x + 1)). */
function atanhSeries(x: bigint): bigint {
  const z = ((x - UNIT) << BITS) / (x + UNIT), square = (z * z) >> BITS;
  let term = z, sum = 0n;
  for (let k = 1n; term !== 0n; k += 2n) { sum += term / k; term = (term * square) >> BITS; }
  return 2n * sum;
}

const LN2 = atanhSeries(3n * UNIT / 2n) + atanhSeries(4n * UNIT / 3n);

function parts(x: number): [bigint, number] {
  let exponent = Math.floor(Math.log2(x));
  let mantissa = scaleBy(x, -exponent);
  if (mantissa >= 2) { mantissa /= 2; exponent++; }
  if (mantissa < 1) { mantissa *= 2; exponent--; }
  return [fixed(mantissa), exponent];
}

function logarithm(x: number): bigint {
  const [mantissa, exponent] = parts(x);
  return atanhSeries(mantissa) + BigInt(exponent) * LN2;
}

/** Return e to a power over 2^384 as the nearest double. */
function exponential(product: bigint): number {
  const x = product >> BITS, whole = x / LN2 - (x < 0n ? 1n : 0n), rest = x - whole * LN2;
  let term = UNIT, sum = 0n;
  for (let k = 1n; term !== 0n; k++) { sum += term; term = ((term * rest) >> BITS) / k; }
  return scaleBy(nearest(sum, UNIT), Number(whole));
}

function log2(x: Value): Value {
  if (!(x instanceof Float)) {
    const exact = integer(x);
    if (exact <= 0) no("no logarithm");
    const length = bits(exact);
    if (BigInt(exact) === 1n << BigInt(length - 1)) return new Float(length - 1);
    if (length > 1000) return no("no logarithm");
  }
  const value = double(x);
  if (!(value > 0)) no("no logarithm");
  if (value === Infinity) return new Float(Infinity);
  const found = logarithm(value);
  return new Float(nearest(found, LN2));
}

function roundEven(x: Value): Value {
  if (!(x instanceof Float)) return integer(x);
  const low = Math.floor(x.value), rest = x.value - low;
  return whole(rest < 0.5 || (rest === 0.5 && low % 2 === 0) ? low : low + 1);
}

const toInt = (round: (x: number) => number) => (x: Value) => {
  numeric(x);
  return x instanceof Float ? whole(round(x.value)) : integer(x);
};

// What is compared, and lists

const isList = (x: Value): x is Value[] => Array.isArray(x);
const sameKind = (a: Value[], b: Value[]) => a instanceof Tuple === b instanceof Tuple;

function same(a: Value, b: Value): boolean {
  if (isNumeric(a) && isNumeric(b)) return plain(a) == plain(b);
  if (isList(a) && isList(b)) return sameKind(a, b) && sameItems(a, b);
  if (a instanceof Map && b instanceof Map) return a.size === b.size && [...a].every(([key, x]) => b.has(key) && same(x, b.get(key)!));
  return a === b;
}

const sameItems = (a: Value[], b: Value[]) => a.length === b.length && a.every((x, at) => same(x, b[at]));
const plain = (x: Int | Float | boolean): Int => (x instanceof Float ? x.value : typeof x === "boolean" ? +x : x);
const equal = (a: Value, b: Value): boolean => (isList(a) && isList(b) ? sameItems(a, b) : same(a, b));

/** Return -1, 0 or 1, or NaN where a float is one; refuse what has no order. */
function order(a: Value, b: Value): number {
  if (isNumeric(a) && isNumeric(b)) {
    const x = plain(a), y = plain(b);
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : NaN;
  }
  if (typeof a === "string" && typeof b === "string") return a < b ? -1 : a > b ? 1 : 0;
  if (isList(a) && isList(b) && sameKind(a, b)) {
    for (let at = 0; at < Math.min(a.length, b.length); at++) if (!same(a[at], b[at])) return order(a[at], b[at]);
    return Math.sign(a.length - b.length);
  }
  return no("these have no order");
}

function items(x: Value): Value[] {
  if (isList(x)) return x;
  if (typeof x === "string") return [...x];
  return x instanceof Map ? [...x.keys()] : no("not a list");
}

function indexOf(x: Value): number {
  return isInt(x) || typeof x === "boolean" ? Number(x) : no("not an index");
}

function item(container: Value, index: Value): Value {
  if (container instanceof Map) return typeof index === "string" && container.has(index) ? container.get(index)! : no("no such key");
  if (!isList(container) && typeof container !== "string") no("has no items");
  const all = items(container), at = indexOf(index), place = at < 0 ? all.length + at : at;
  return place >= 0 && place < all.length ? all[place] : no("index out of range");
}

function slice(container: Value, from: Value, to: Value): Value {
  const limit = (x: Value) => (x === null ? undefined : indexOf(x));
  if (typeof container === "string") return items(container).slice(limit(from) ?? 0, limit(to)).join("");
  return isList(container) ? container.slice(limit(from) ?? 0, limit(to)) : no("not a list");
}

function contains(x: Value, container: Value): boolean {
  if (typeof container === "string") return typeof x === "string" ? container.includes(x) : no("not a text");
  if (isList(container)) return container.some((y) => same(x, y));
  if (!(container instanceof Map)) no("not a list");
  if (isList(x) && !(x instanceof Tuple) || x instanceof Map) no("not a key");
  return typeof x === "string" && (container as Dict).has(x);
}

const extreme = (better: (sign: number) => boolean): Operation => (...operands: Value[]) => {
  const all = operands.length === 1 ? items(operands[0]) : operands;
  if (!all.length) no("of nothing");
  return all.reduce((best, x) => (better(order(x, best)) ? x : best));
};

function truth(x: Value): boolean { return typeof x === "boolean" ? x : no("not true or false"); }

const plus = arithmetic(add, (a, b) => a + b);

/** The meaning of each operator; tests plant faults here. */
export const OPERATIONS: Record<string, Operation> = {
  "==": equal,
  "!=": (a, b) => !equal(a, b),
  "<": (a, b) => order(a, b) < 0,
  "<=": (a, b) => order(a, b) <= 0,
  ">": (a, b) => order(a, b) > 0,
  ">=": (a, b) => order(a, b) >= 0,
  "in": contains,
  "not in": (x, container) => !contains(x, container),
  "+": plus,
  "-": arithmetic((a, b) => add(a, typeof b === "number" ? -b : -b), (a, b) => a - b),
  "*": arithmetic(times, (a, b) => a * b),
  "/": (a, b) => {
    numeric(a); numeric(b);
    if (!isFloat(a, b)) return new Float(divide(integer(a), integer(b)));
    return double(b) === 0 ? no("division by zero") : new Float(double(a) / double(b));
  },
  "//": arithmetic(floorDivide, floatFloorDivide),
  "%": arithmetic(modulo, floatModulo),
  "**": power,
  "neg": (x) => (x instanceof Float ? new Float(-x.value) : int(-BigInt(integer(x)))),
  "not": (x) => !truth(x),
  "[]": item,
  "[:]": slice,
  "list": (...all) => all,
  "len": (x) => (x instanceof Map ? x.size : items(x).length),
  "sum": (x) => items(x).reduce((sum, one) => plus(sum, one), 0),
  "max": extreme((sign) => sign > 0),
  "min": extreme((sign) => sign < 0),
  "abs": (x) => (x instanceof Float ? new Float(Math.abs(x.value)) : integer(x) < 0 ? int(-BigInt(integer(x))) : integer(x)),
  "int": toInt(Math.trunc),
  "round": (x) => { numeric(x); return roundEven(x); },
  "floor": toInt(Math.floor),
  "ceil": toInt(Math.ceil),
  "sqrt": (x) => { const value = double(x); return value < 0 ? no("no root") : new Float(Math.sqrt(value)); },
  "log2": log2,
};

const LAZY: Record<string, (operands: Closure[]) => Closure> = {
  "if": ([test, then, other]) => (env) => (truth(test(env)) ? then(env) : other(env)),
  "or": ([left, right]) => (env) => truth(left(env)) || truth(right(env)),
  "and": ([left, right]) => (env) => truth(left(env)) && truth(right(env)),
};

// What is left of the rounds of the loops that run: a loop inside another has fewer.
let roundsLeft = MOST_ROUNDS;

function loop(index: string, rounds: Closure, body: Closure, env: Env): Value[] {
  const many = rounds(env);
  if (!isInt(many)) no("range takes one integer");
  if (many > roundsLeft) no("a loop has too many rounds");
  const before = env[index], left = roundsLeft, found: Value[] = [];
  roundsLeft = Math.floor(left / Math.max(Number(many), 1));
  try {
    for (let at = 0; at < many; at++) { env[index] = at; found.push(body(env)); }
  } finally {
    roundsLeft = left;
    if (before === undefined) delete env[index]; else env[index] = before;
  }
  return found;
}

/** Return the value that a literal's tree stands for. */
export function literal(tree: Tree): Value {
  return compile(tree)({});
}

const VALUES: Record<string, (rest: any[]) => Value> = {
  "'": ([text]) => text,
  "f": ([value]) => new Float(value),
  "n": ([digits]) => int(BigInt(digits)),
  "tuple": (all) => Tuple.from(all.map(literal)),
  "dict": (pairs) => new Map(pairs.map(([key, value]: [string, Tree]) => [key, literal(value)])),
};

/** Return a function from an environment, names to values, to what the tree comes to there. */
export function compile(tree: Tree): Closure {
  if (typeof tree === "string") return (env) => { const value = env[tree]; return value === undefined ? no(`no field named ${tree}`) : value; };
  if (!Array.isArray(tree)) return () => tree;
  const [kind, ...rest] = tree;
  if (kind in VALUES) { const value = VALUES[kind](rest); return () => value; }
  if (kind === "for" || kind === "count") {
    const [index, rounds, body] = [rest[0] as string, compile(rest[1] as Tree), compile(rest[2] as Tree)];
    if (kind === "for") return (env) => loop(index, rounds, body, env);
    return (env) => loop(index, rounds, body, env).reduce((sum: number, x) => sum + +truth(x), 0);
  }
  const operands = (rest as Tree[]).map(compile);
  if (kind in LAZY) return LAZY[kind](operands);
  const operate = OPERATIONS[kind] ?? no(`no operator ${kind}`), [a, b] = operands;
  if (operands.length === 1) return (env) => operate(a(env));
  if (operands.length === 2) return (env) => operate(a(env), b(env));
  return (env) => operate(...operands.map((operand) => operand(env)));
}

/** Add the names in a tree to a set, without the indices of its loops. */
export function namesIn(tree: Tree, found = new Set<string>(), bound: string[] = []): Set<string> {
  if (typeof tree === "string") { if (!bound.includes(tree)) found.add(tree); }
  else if (Array.isArray(tree) && !(tree[0] in VALUES)) {
    const isLoop = tree[0] === "for" || tree[0] === "count";
    if (isLoop) { namesIn(tree[2] as Tree, found, bound); namesIn(tree[3] as Tree, found, [...bound, tree[1] as string]); }
    else (tree.slice(1) as Tree[]).forEach((part) => namesIn(part, found, bound));
  }
  return found;
}
