// A tree as MathML, in letters or in numbers. No font or script is needed; names are text, never markup.

import type { Tree } from "./expr.ts";

export const escape = (text: unknown): string => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

const STRENGTH: Record<string, number> = {
  "if": 1, "or": 2, "and": 3, "not": 4, "==": 5, "!=": 5, "<": 5, "<=": 5, ">": 5, ">=": 5, "in": 5, "not in": 5,
  "+": 6, "-": 6, "*": 7, "/": 7, "//": 7, "%": 7, "neg": 8, "**": 9,
};
const SIGNS: Record<string, string> = { "==": "=", "!=": "≠", "<=": "≤", ">=": "≥", "in": "∈", "not in": "∉", "%": "mod", "//": "÷", "-": "−" };
const BARS: Record<string, string> = { floor: "⌊⌋", ceil: "⌈⌉", abs: "||" };
const GREEK: Record<string, string> = { beta: "β", gamma: "γ" };
const ATOM = 11;

const sign = (text: string) => `<mo stretchy="false">${escape(text)}</mo>`;
const row = (inside: string) => `<mrow>${inside}</mrow>`;
const bracketed = (inside: string) => row(sign("(") + inside + sign(")"));

/** Return a letter such as H or D_kv, with its field for what lights it up. */
export function letter(name: string, field = ""): string {
  const [base, ...rest] = (GREEK[name] ?? name).split("_"), index = rest.join("_");
  const mark = field ? ` data-field="${escape(field)}"` : "";
  if (base.length > 1) return `<mi mathvariant="normal"${mark}>${escape(name)}</mi>`;
  return index ? `<msub${mark}><mi>${escape(base)}</mi><mi mathvariant="normal">${escape(index)}</mi></msub>` : `<mi${mark}>${escape(base)}</mi>`;
}

export class Writer {
  constructor(private letters: Record<string, string>, private count: (n: number) => string, private values: Record<string, unknown> | null = null) {}

  write(tree: Tree, least = 0): string {
    if (!Array.isArray(tree)) return this.leaf(tree);
    const [kind, ...operands] = tree as [string, ...Tree[]], strength = STRENGTH[kind] ?? ATOM;
    const inside = this.inside(kind, operands, strength);
    return strength < least ? bracketed(inside) : inside;
  }

  private leaf(tree: Tree): string {
    if (typeof tree === "number") return `<mn>${escape(this.count(tree))}</mn>`;
    if (typeof tree !== "string") return `<mtext>${escape(tree)}</mtext>`;
    const value = this.values?.[tree];
    return typeof value === "number" ? `<mn>${escape(this.count(value))}</mn>` : letter(this.letters[tree] ?? tree, tree);
  }

  private inside(kind: string, [a, b, c]: Tree[], strength: number): string {
    if (kind === "'" || kind === "f" || kind === "n") return `<mtext>${escape(a)}</mtext>`;
    if (kind === "**") return `<msup>${row(this.write(a, ATOM))}${row(this.write(b))}</msup>`;
    if (kind === "/") return `<mfrac>${row(this.write(a))}${row(this.write(b))}</mfrac>`;
    if (kind === "*") return this.write(a, 7) + sign(this.values ? "×" : "\u2062") + this.write(b, 8);
    if (kind in BARS) return sign(BARS[kind][0]) + this.write(a) + sign(BARS[kind][1]);
    if (kind === "sqrt") return `<msqrt>${this.write(a)}</msqrt>`;
    if (kind === "neg") return sign("−") + this.write(a, 8);
    if (kind === "[]") return `<msub>${row(this.write(a, ATOM))}${row(this.write(b))}</msub>`;
    if (kind === "count" || kind === "for") return sign(kind === "count" ? "#" : "") + row(sign("{") + this.write(c) + sign(":") + this.write(a) + sign("<") + this.write(b) + sign("}"));
    if (kind === "if") return `${this.write(b, 2)}<mtext> if </mtext>${this.write(a, 2)}<mtext> else </mtext>${this.write(c)}`;
    if (strength < ATOM && b !== undefined) return this.write(a, strength) + sign(SIGNS[kind] ?? kind) + this.write(b, strength + 1);
    const all = [a, b, c].filter((one) => one !== undefined).map((one) => this.write(one)).join(sign(","));
    return `<mi mathvariant="normal">${escape(kind)}</mi>${bracketed(all)}`;
  }

  /** Return a tree as formulas beside each other, cut at additions, so that a line may break between them. */
  pieces(tree: Tree): string { return this.cut(tree).map((inside) => `<math>${row(inside)}</math>`).join("<wbr>"); }

  private cut(tree: Tree, before = "", after = ""): string[] {
    const all = addends(tree), isProduct = Array.isArray(tree) && tree[0] === "*" && addends(tree[2] as Tree).length > 1;
    if (isProduct) return this.cut((tree as Tree[])[2], before + this.write((tree as Tree[])[1], 7) + sign("("), sign(")") + after);
    if (all.length === 1) return [before + this.write(tree, 7) + after];
    return all.flatMap(([operator, part], at) => {
      const head = at ? sign(operator) : before, tail = at === all.length - 1 ? after : "";
      return Array.isArray(part) && part[0] === "*" ? this.cut(part, head, tail) : [head + this.write(part, 7) + tail];
    });
  }

  math(tree: Tree): string { return `<math>${row(this.write(tree))}</math>`; }
}

function addends(tree: Tree): [string, Tree][] {
  if (!Array.isArray(tree) || (tree[0] !== "+" && tree[0] !== "-")) return [["+", tree]];
  return [...addends(tree[1] as Tree), [tree[0] === "+" ? "+" : "−", tree[2] as Tree]];
}
