// Hold the pictures of flows against what they show: node tests/drawn.mjs FILE, which `tools/explored.py flows` wrote.
// With two texts more, the first is replaced by the second in web/src/: a fault that should be noticed.
// At each width no box overlaps another or leaves its frame, wires end at boxes, and every module with tensors that runs has a box.
import { createReadStream, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { bundled } from "./bundled.mjs";

const { Model, Walker, Drawing, isTurns, hasModule } = await bundled("ledger steps flow", process.argv[4] === undefined ? null : faulty);
const WIDTHS = [315, 700, 900], SLACK = 1;

/** Return a source with the fault of the command line. */
function faulty({ path }) { return { contents: readFileSync(path, "utf8").replaceAll(process.argv[3], process.argv[4]), loader: "ts" }; }

/** Return the paths of modules that hold tensors and call no module that does. */
function leaves(items) {
  return items.flatMap((item) => (isTurns(item) ? item.kinds.flatMap((kind) => leaves(kind.rows)) : item.kind !== "m" && item.kind !== "f" ? [] : hasModule(item.rows) ? leaves(item.rows) : item.tensors.length ? [item.path] : []));
}

/** Return how many times steps with modules are repeated over time. */
function loops(items) {
  return items.reduce((many, item) => many + (!isTurns(item) ? loops(item.rows) : hasModule([item]) ? Number(!item.letter) + item.kinds.reduce((inside, kind) => inside + loops(kind.rows), 0) : 0), 0);
}

/** Return the straight lines of a wire: [is it upright, where, from, to]. */
function linesOf({ d }) {
  const corners = [...d.matchAll(/([MLQ])(-?[\d.]+) (-?[\d.]+)(?: (-?[\d.]+) (-?[\d.]+))?/g)].filter(([, kind], at, all) => kind === "Q" || at === 0 || at === all.length - 1).map(([, , x, y]) => [Number(x), Number(y)]);
  return corners.slice(1).map(([x, y], at) => {
    const [px, py] = corners[at], isUpright = Math.abs(x - px) < 0.5;
    return isUpright ? [true, x, Math.min(y, py), Math.max(y, py)] : [false, y, Math.min(x, px), Math.max(x, px)];
  });
}

/** Return wires of different boxes to different boxes that run over one another. */
function together(wires) {
  const lines = wires.flatMap((wire) => linesOf(wire).map((line) => ({ wire, line })));
  return lines.flatMap(({ wire, line: [isUpright, where, low, high] }, at) => lines.slice(at + 1)
    .filter(({ wire: other, line }) => other.from !== wire.from && other.to !== wire.to && line[0] === isUpright && Math.abs(line[1] - where) < 1 && Math.min(line[3], high) - Math.max(line[2], low) > 2)
    .map(({ wire: other }) => `wires to ${wire.to.key} and ${other.to.key} run together`));
}

/** Return every box with its place in the whole picture, and what is wrong inside. */
function boxesOf(layout, x, y, room, problems) {
  const all = [];
  if (layout.w > room + SLACK) problems.push(`wider than its room: ${layout.w} in ${room}`);
  layout.boxes.forEach((box, at) => {
    for (const other of layout.boxes.slice(at + 1)) {
      const across = Math.min(box.x + box.w, other.x + other.w) - Math.max(box.x, other.x), along = Math.min(box.y + box.h, other.y + other.h) - Math.max(box.y, other.y);
      if (across > SLACK && along > SLACK) problems.push(`${box.node.key} overlaps ${other.node.key}`);
    }
    if (box.x < -SLACK || box.x + box.w > layout.w + SLACK || box.y + box.h > layout.h + SLACK) problems.push(`${box.node.key} leaves its frame`);
    all.push(box);
    if (box.inside) all.push(...boxesOf(box.inside, 0, 0, box.w, problems));
  });
  problems.push(...together(layout.wires));
  for (const { d, to } of layout.wires) {
    const [ex, ey] = d.match(/L(-?[\d.]+) (-?[\d.]+)$/).slice(1).map(Number), box = layout.boxes[to.id];
    if (ex < box.x - SLACK || ex > box.x + box.w + SLACK || ey < box.y - SLACK || ey > box.y + box.h + SLACK) problems.push(`a wire misses ${box.node.key}`);
    for (const [, px] of d.matchAll(/[ML](-?[\d.]+) /g)) if (px < -SLACK || px > layout.w + SLACK) problems.push(`a wire to ${box.node.key} leaves its frame`);
  }
  return all;
}

const found = { pictures: 0, boxes: 0, wrong: 0 }, shown = [];
for await (const line of createInterface({ input: createReadStream(process.argv[2]) })) {
  const { family, contract } = JSON.parse(line), model = new Model(contract);
  model.bind({});
  const walker = new Walker(contract.flow, model);
  if (walker.unheld()) continue;
  const rows = walker.module(""), explorer = { data: contract, model, word: (key) => key };
  for (const width of WIDTHS) {
    const drawing = new Drawing(explorer, rows, walker.added(), { folded: new Set() }), problems = [], boxes = boxesOf(drawing.layout(width), 0, 0, width, problems), keys = new Set(boxes.map((box) => box.node.key));
    const titles = boxes.filter((box) => box.inside).map((box) => drawing.titleOf(box.node));
    for (const { node } of boxes) {
      const inside = node.graph?.nodes.filter(({ kind }) => kind === "frame") ?? [];
      if (node.turns?.letter && !node.row && inside.length === 1 && inside[0].turns?.letter === "") problems.push(`${node.key} is a frame around one frame`);
    }
    if (titles.some((title) => !/^[^×]/.test(title.trim()))) problems.push("a frame without a title");
    if (titles.filter((title) => title.includes("flow_repeated")).length !== loops(rows)) problems.push(`${loops(rows)} loops, titles: ${titles}`);
    for (const path of leaves(rows)) if (!keys.has(path)) problems.push(`no box for ${path}`);
    found.pictures++;
    found.boxes += boxes.length;
    found.wrong += problems.length;
    if (problems.length) shown.push(`${family} at ${width}: ${problems.slice(0, 4).join("; ")}`);
  }
}
console.log(JSON.stringify(found));
for (const line of shown.slice(0, 40)) console.log(line);
process.exitCode = found.wrong || !found.boxes ? 1 : 0;
