// Numbers, colours and widths of texts.

import type { Int } from "./expr.ts";

// Twenty times as fast as toLocaleString.
const grouped = (digits: string): string => digits.replace(/\B(?=(\d{3})+$)/g, ",");
export const count = (n: Int): string => (typeof n === "bigint" || Number.isInteger(n) ? grouped(BigInt(n).toString()) : String(n));

function scaled(n: number, base: number, units: string[]): string {
  let at = 0;
  while (n >= base - 0.5 && at < units.length - 1) { n /= base; at++; }
  return `${at ? n.toFixed(n >= 99.95 ? 0 : n >= 9.995 ? 1 : 2) : Math.round(n)}${units[at]}`;
}

export const short = (n: Int): string => scaled(Number(n), 1000, ["", "K", "M", "B", "T", "P", "E", "Z", "Y"]);
export const storedBytes = (n: Int, bits: number): string => scaled((Number(n) * bits) / 8, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);

export const bytes = (n: Int): string => storedBytes(n, 8);
export const flops = (n: Int): string => scaled(Number(n), 1000, [" FLOP", " KFLOP", " MFLOP", " GFLOP", " TFLOP", " PFLOP", " EFLOP", " ZFLOP"]);

export function share(part: Int, whole: Int): string {
  const of = Number(whole) ? Number(part) / Number(whole) : 0;
  return of > 0 && of < 0.0005 ? "<0.1%" : `${(100 * of).toFixed(1)}%`;
}

// A hue for what a component is for; what normalises is grey.
const HUES: Record<string, number> = {
  embedding: 255, "embedding.position": 232, "embedding.segment": 280, attention: 160, cross_attention: 135, linear_attention: 195,
  ssm: 205, conv: 280, ffn: 62, expert: 40, shared_expert: 88, router: 20, pooler: 315, projector: 345, head: 300,
  keys: 160, values: 62, gradients: 20, optimizer: 300, activations: 62, transient: 195,
};

export function paint(component: string): string {
  if (component.includes("norm")) return "--h:250;--c:.012";
  return `--h:${HUES[component] ?? HUES[component.split(".")[0]] ?? 230};--c:.095`;
}

/** Whether a text fits; a Chinese letter is as wide as it is high. */
export function fitted(text: string, room: number, size: number): boolean {
  let width = 0;
  for (const letter of text) width += letter > "⺀" ? size : size * 0.56;
  return width <= room;
}

export const BOLD = 600;
/** The width of a text in a wide font, so that it fits in others too. */
export const width = (text: string, size = 12, weight = 400): number => [...text].reduce((sum, letter) => sum + (letter > "⺀" ? size : size * (weight === BOLD ? 0.7 : 0.62)), 0);

/** Return a text in lines that fit, broken where a word or a part of a name ends; Chinese after any letter. */
export function wrap(text: string, room: number, size: number, weight: number): string[] {
  const found = [""];
  for (const piece of text.split(/(?<=[\s_.])|(?<=[⺀-\uffff])/)) {
    const longer = found.at(-1)! + piece;
    if (!found.at(-1) || width(longer.trimEnd(), size, weight) <= room + 0.01) found[found.length - 1] = longer;
    else found.push(piece);
  }
  return found.map((one) => one.trimEnd());
}
