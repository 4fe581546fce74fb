// The view of costs: FLOPs of a step, memory by moment, the cache over the context, and what fits on which device.

import type { Int } from "./expr.ts";
import type { Explorer } from "./explorer.ts";
import { plus, sum } from "./ledger.ts";
import { escape } from "./math.ts";
import { bytes, count, flops, paint, short } from "./figures.ts";
import { bytesOf } from "./running.ts";
import type { Moment, Run, Running } from "./running.ts";

const KINDS = ["parameters", "gradients", "optimizer", "activations", "transient"];
const WIDE = 310, HIGH = 140, LEFT = 8, FOOT = 20, HEAD = 18;  // px of the chart
const SAMPLES = 32;
const MOST_BATCH = 1024, MOST_SEQUENCE = 131_072, MOST_CONTEXT = 1_048_576;

/** Return the steps of a dial of the run: powers of two, the present value and the most that the model takes. */
export function stepsOf(name: keyof Run, value: number, most: number): number[] {
  const end = name === "batch" ? MOST_BATCH : Math.min(most, name === "sequence" ? MOST_SEQUENCE : MOST_CONTEXT);
  const steps = new Set([value, Number.isFinite(most) && name !== "batch" ? end : value]);
  for (let step = name === "batch" ? 1 : 2; step <= end; step *= 2) steps.add(step);
  return [...steps].filter((step) => step <= end).sort((a, b) => a - b);
}

export function drawCosts(explorer: Explorer): void {
  const card = explorer.el("costs"), { running, run } = explorer, why = explorer.data.unrecorded?.[explorer.lang] ?? explorer.noRun;
  const head = `<h2>${escape(explorer.word("costs"))}</h2>`;
  if (!running || why) { card.innerHTML = `${head}<p class="said">${escape(explorer.data.unrecorded ? why : explorer.word("run_refused", { rule: why }))}</p>`; return; }
  const { entries, total } = explorer.state, broken = running.broken("trained", run), moments = broken ? [] : running.moments(run, entries, total, explorer.checkpointing);
  card.innerHTML = `${head}<div class="costs"><div>${work(explorer, running, run, broken ? ["forward"] : ["forward", "backward"])}${memory(explorer, running, moments, broken)}</div><div>${cache(explorer, running, run)}${devices(explorer, running, run, moments)}</div></div>${commands(explorer, running, run, !broken)}`;
}

function work(explorer: Explorer, running: Running, run: Run, kinds: ("forward" | "backward")[]): string {
  const rows = kinds.map((kind) => [kind, sum(running.flops(kind, run).values())] as const), ofTokens = running.takesTokens(), many = run.batch * (ofTokens ? run.sequence : 1);
  const cells = rows.map(([kind, all]) => `<tr><th scope="row">${escape(explorer.word(kind))}</th><td class="n">${count(all)}</td><td class="n">${flops(all)}</td><td class="n">${flops(Number(all) / many)}</td></tr>`);
  return `<h3>${escape(explorer.word(ofTokens ? "flops_of" : "flops_of_inputs", { batch: count(run.batch), sequence: count(run.sequence) }))}</h3><div class="wide" tabindex="0" role="region" aria-label="FLOPs"><table class="tight"><thead><tr><td></td><th scope="col" class="n" colspan="2">FLOPs</th><th scope="col" class="n">${escape(explorer.word(ofTokens ? "each_token" : "each_input"))}</th></tr></thead><tbody>${cells.join("")}</tbody></table></div>`;
}

function memory(explorer: Explorer, running: Running, moments: Moment[], broken: string): string {
  if (broken) return `<h3>${escape(explorer.word("memory"))}</h3><p class="said">${escape(explorer.word("training_refused", { rule: broken }))}</p>`;
  const sizes = moments.map(([, held]) => bytesOf(held)), most = sizes.reduce((a, b) => (b > a ? b : a)), peak = sizes.indexOf(most), kinds = KINDS.filter((kind) => moments.some(([, held]) => held[kind]));
  const bars = moments.map(([name, held], at) => {
    const parts = kinds.map((kind) => `<span style="${paint(colour(kind))};width:${((100 * Number(held[kind])) / Number(most)).toFixed(3)}%"></span>`).join("");
    return `<tr class="${at === peak ? "total" : ""}"><th scope="row">${escape(explorer.word(`at_${name}`))}</th><td class="bars" aria-hidden="true">${parts}</td><td class="n">${bytes(sizes[at])}</td></tr>`;
  });
  const legend = kinds.map((kind) => `<tr><th scope="row"><div class="named"><span class="swatch" style="${paint(colour(kind))}"></span><span>${escape(explorer.word(`held_${kind}`))}</span></div></th>${moments.map(([, held]) => `<td class="n">${held[kind] ? bytes(held[kind]) : "–"}</td>`).join("")}</tr>`);
  const heads = moments.map(([name]) => `<th scope="col" class="n">${escape(explorer.word(`at_${name}`))}</th>`).join(""), region = escape(explorer.word("memory"));
  const box = running.has("checkpointed") ? `<label class="flag"><input type="checkbox" data-run="checkpointing" ${explorer.checkpointing ? "checked" : ""}> <span>${escape(explorer.word("checkpointing"))}</span></label>` : "";
  return `<h3>${region}</h3><p class="said">${escape(explorer.word("memory_said"))}</p><div class="wide" tabindex="0" role="region" aria-label="${region}"><table>${bars.join("")}</table><table><thead><tr><td></td>${heads}</tr></thead><tbody>${legend.join("")}</tbody></table></div>${box}`;
}

const colour = (kind: string): string => (kind === "parameters" ? "embedding" : kind);

/** Draw the bytes of the cache up to twice the context, or to the last position. */
function cache(explorer: Explorer, running: Running, run: Run): string {
  if (!running.has("stepped")) return "";
  const end = Math.min(2 * run.context, Math.max(running.most(), run.context)), from = Math.max(1, Math.round(end / SAMPLES));
  const contexts = Array.from({ length: SAMPLES }, (_, at) => Math.max(1, Math.round(from + ((end - from) * at) / (SAMPLES - 1)))), held = contexts.map((context) => Number(running.cache(context, run.batch)));
  const now = running.cache(run.context, run.batch), next = running.cache(run.context + 1, run.batch), most = Math.max(...held, Number(now), 1);
  const x = (context: number) => (LEFT + (context / end) * (WIDE - 2 * LEFT)).toFixed(1), y = (size: number) => (HIGH - FOOT - (size / most) * (HIGH - FOOT - HEAD)).toFixed(1);
  const line = contexts.map((context, at) => `${at ? "L" : "M"}${x(context)} ${y(held[at])}`).join(""), under = `${line}L${x(end)} ${y(0)}L${x(contexts[0])} ${y(0)}z`;
  const said = explorer.word("cache_said", { bytes: bytes(now), context: count(run.context), batch: count(run.batch), more: count(Number(next) - Number(now)) }), near = Number(x(run.context)), before = near > WIDE / 4;
  return `<h3>${escape(explorer.word("cache_over"))}</h3><svg class="chart" viewBox="0 0 ${WIDE} ${HIGH}" role="img" aria-label="${escape(said)}"><path class="area" d="${under}"/><path class="line" d="${line}"/><path class="axis" d="M${LEFT} ${y(0)}H${WIDE - LEFT}"/><path class="mark" d="M${x(run.context)} ${y(0)}V${y(Number(now))}"/><circle cx="${x(run.context)}" cy="${y(Number(now))}" r="4"/><text x="${near + (before ? -8 : 8)}" y="${Math.max(12, Number(y(Number(now))) - 6)}" text-anchor="${before ? "end" : "start"}" font-size="12" font-weight="600">${bytes(now)}</text><text class="side" x="${LEFT}" y="${HIGH - 5}" font-size="11">0</text><text class="side" x="${WIDE - LEFT}" y="${HIGH - 5}" text-anchor="end" font-size="11">${count(end)}</text></svg><p class="said">${escape(said)}</p>`;
}

/** Return an amount that stays on its line. */
const whole = (amount: string): string => amount.replace(" ", "\u00a0");

function devices(explorer: Explorer, running: Running, run: Run, moments: Moment[]): string {
  const peak = moments.length ? moments.map(([, held]) => bytesOf(held)).reduce((a, b) => (b > a ? b : a)) : null, { allowance } = running.data;
  const serving = running.has("stepped") ? running.serving(run, explorer.state.total) : null, served = serving && bytesOf({ ...serving });
  if (served === null && peak === null) return "";
  const cell = (usable: number, needed: Int) => {
    const left = Number(plus(usable - allowance, -needed as Int)), fits = left >= 0;
    return `<td class="n ${fits ? "yes" : "no"}">${escape(explorer.word(fits ? "fits" : "short", { bytes: whole(bytes(Math.abs(left))) }))}</td>`;
  };
  const rows = running.data.devices.map(([name, usable]) => `<tr><th scope="row">${escape(name)}</th><td class="n">${whole(bytes(usable))}</td>${served === null ? "" : cell(usable, served)}${peak === null ? "" : cell(usable, peak)}</tr>`);
  const heads = [explorer.word("memory_of"), ...(served === null ? [] : [explorer.word("serving")]), ...(peak === null ? [] : [explorer.word("training")])].map((head) => `<th scope="col" class="n">${escape(head)}</th>`).join(""), region = escape(explorer.word("devices"));
  const text = [serving && explorer.word("serving_said", { weights: bytes(serving.weights), dtype: running.data.dtype, cache: bytes(serving.cache), activations: bytes(serving.activations), total: bytes(served!) }), peak !== null && explorer.word("training_said", { total: bytes(peak), allowance: bytes(allowance) })].filter(Boolean).join(explorer.word("space"));
  return `<h3>${region}</h3><p class="said">${escape(text)}</p><div class="wide scroll" tabindex="0" role="region" aria-label="${region}"><table class="tight"><thead><tr><th scope="col">${escape(explorer.word("device"))}</th>${heads}</tr></thead><tbody>${rows.join("")}</tbody></table></div>`;
}

/** Return the commands that print these numbers. */
function commands(explorer: Explorer, running: Running, run: Run, isTrained: boolean): string {
  const model = explorer.commandOf(), batch = `--batch ${run.batch}`, dtype = running.data.dtype.toLowerCase();
  const sequence = running.takesTokens() ? ` --seq ${run.sequence}` : "";
  const image = running.image(), train = isTrained ? " --train" : "", all = [`weighbridge cost ${model} ${batch}${sequence}${train}`];
  if (isTrained) all.push(`weighbridge train ${model} --on H100 ${batch} --seq ${run.sequence}${explorer.checkpointing ? " --checkpointing full" : ""}`);
  if (running.has("stepped")) all.push(`weighbridge cache ${model} --context ${run.context} ${batch} --dtype ${dtype}`, `weighbridge serve ${model} --on H100 --context ${run.context} ${batch} --weights ${dtype}`);
  const side = running.data.image_side, size = side ? ` --image-size ${side}x${side}` : "";
  const said = explorer.word(side ? "images_of_size" : "images", { tokens: count(image ?? 0), side: side ?? "" });
  const images = image ? `<p class="said">${escape(said)}<br>${inWords(`weighbridge cost ${model} ${batch} --images 1${size}${train}`)}</p>` : "";
  return `${images}<p class="said">${escape(explorer.word("commands"))}<br>${all.map(inWords).join("<br>")}</p>`;
}

/** Return a command whose lines break between words, and not after the hyphens of an option. */
export const inWords = (command: string): string => `<code>${command.split(" ").map((word) => `<span class="whole">${escape(word)}</span>`).join(" ")}</code>`;

export const amounts = { parameters: short, flops, cache: bytes };
