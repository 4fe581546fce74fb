// Places of boxes: rows from top to bottom, no wider than the room there is; wires that pass a row go round it in lanes.

import type { Graph, Node } from "./graph.ts";

export interface Size { w: number; h: number }
export interface Placed { node: Node; x: number; y: number; w: number; h: number; inside?: Layout; isTight?: boolean }
export interface Wire { d: string; from: Node; to: Node; residual: boolean; x: number; y: number; tip: [number, number, number] | null }
export interface Layout extends Size { boxes: Placed[]; wires: Wire[]; in: number; out: number }
/** Says how large a node is in a room; a frame says how much is around its graph. */
export interface Measure { size(node: Node, room: number, isTight?: boolean): Size; title(node: Node, room: number): Size; isFolded(node: Node): boolean }

const GAP = 14, LANE = 11, PAD = 10, TRACK = 7, LABEL = 15, ARROW = 9, ASIDE = 7;

interface Lane { edge: number; left: boolean; at: number }
interface Plan { rows: number[][]; row: number[]; lanes: Lane[]; left: number; right: number }

/** Return where everything in a graph is, in a room of some width. */
export function layout(graph: Graph, room: number, measure: Measure): Layout {
  let plan = planOf(graph, graph.nodes.map(() => 0), Infinity), sizes: Placed[] = [];
  for (let trial = 0; trial < 3; trial++) {
    const inside = Math.max(60, room - (plan.left + plan.right) * LANE);
    sizes = graph.nodes.map((node) => sized(node, inside, measure));
    tighten(graph, sizes, inside, measure);
    const next = planOf(graph, sizes.map((one) => one.w), inside), isSame = next.left + next.right <= plan.left + plan.right;
    plan = next;
    if (isSame) break;
  }
  return placed(graph, plan, sizes);
}

/** Make the boxes of a row smaller where that makes them fit beside one another. */
function tighten(graph: Graph, sizes: Placed[], room: number, measure: Measure): void {
  const rank = ranks(graph);
  for (let at = 0; at <= Math.max(0, ...rank); at++) {
    const row = sizes.filter((one) => rank[one.node.id] === at), wide = (all: Size[]) => all.reduce((sum, one) => sum + one.w + GAP, -GAP);
    if (row.length < 2 || wide(row) <= room) continue;
    const tight = row.map((one) => (one.node.kind === "leaf" || one.node.kind === "tensor" ? { ...one, ...measure.size(one.node, room, true), isTight: true } : one));
    if (wide(tight) <= room) for (const one of tight) sizes[one.node.id] = one;
  }
}

function sized(node: Node, room: number, measure: Measure): Placed {
  if (node.kind !== "frame" || measure.isFolded(node)) return { node, x: 0, y: 0, ...measure.size(node, room) };
  const title = measure.title(node, room), inside = layout(node.graph!, room - 2 * PAD, measure), w = Math.min(room, Math.max(title.w, inside.w + 2 * PAD));
  return { node, x: 0, y: 0, w, h: title.h + inside.h + (node.graph!.nodes.some((one) => one.kind === "out") ? 0 : PAD), inside };
}

/** Return the rows of nodes, and in which lane an edge is that does not lead to the next row. */
function planOf(graph: Graph, widths: number[], room: number): Plan {
  const rank = ranks(graph), rows: number[][] = [];
  for (let at = 0; at <= Math.max(0, ...rank); at++) {
    let row: number[] = [], used = 0;
    for (const { id } of graph.nodes) {
      if (rank[id] !== at) continue;
      if (row.length && used + GAP + widths[id] > room) { rows.push(row); row = []; used = 0; }
      row.push(id);
      used += (row.length > 1 ? GAP : 0) + widths[id];
    }
    if (row.length) rows.push(row);
  }
  const row: number[] = [];
  rows.forEach((ids, at) => ids.forEach((id) => { row[id] = at; }));
  const lanes: Lane[] = [], ends: Record<string, number[]> = { true: [], false: [] };
  const long = graph.edges.map((edge, at) => ({ ...edge, at })).filter(({ from, to }) => row[to] > row[from] + 1).sort((a, b) => row[b.to] - row[b.from] - (row[a.to] - row[a.from]));
  const taken: { left: boolean; at: number; from: number; low: number; high: number }[] = [];
  for (const { from, to, residual, at } of long.reverse()) {
    const left = residual, low = row[from], high = row[to];
    let lane = 0;
    while (taken.some((one) => one.left === left && one.at === lane && one.from !== from && one.low < high && low < one.high)) lane++;
    taken.push({ left, at: lane, from, low, high });
    lanes.push({ edge: at, left, at: lane });
    ends[String(left)].push(lane + 1);
  }
  return { rows, row, lanes, left: Math.max(0, ...ends.true), right: Math.max(0, ...ends.false) };
}

/** Return the rank of each node: one below the lowest that leads to it; what nothing leads to is right above what it leads to. */
function ranks({ nodes, edges }: Graph): number[] {
  const rank = nodes.map(() => 0), first = nodes.find((node) => node.kind === "port")?.id, hasSource = new Set(edges.map((edge) => edge.to));
  for (const { id } of nodes) for (const edge of edges) if (edge.to === id) rank[id] = Math.max(rank[id], rank[edge.from] + 1);
  for (const node of nodes) {
    const hidden = edges.find((edge) => edge.to === node.id && edge.isHidden);
    if (node.kind === "out") rank[node.id] = Math.max(0, ...nodes.slice(0, node.id).map((one) => rank[one.id])) + 1;
    else if (hidden) rank[node.id] = rank[hidden.from] + 1;
    else if (!hasSource.has(node.id) && node.id !== first) rank[node.id] = Math.max(0, Math.min(...edges.filter((edge) => edge.from === node.id).map((edge) => rank[edge.to]), rank.length) - 1);
  }
  return rank;
}

interface Net { edge: number; from: number; to: number; x1: number; x2: number; gap: number; track: number }

function placed(graph: Graph, plan: Plan, sizes: Placed[]): Layout {
  const { rows, row, lanes } = plan, widest = Math.max(...rows.map((ids) => ids.reduce((n, id) => n + sizes[id].w + GAP, -GAP)));
  const from = plan.left * LANE, middle = from + widest / 2, w = widest + (plan.left + plan.right) * LANE;
  for (const ids of rows) {
    let x = middle - ids.reduce((n, id) => n + sizes[id].w + GAP, -GAP) / 2;
    for (const id of ids) { sizes[id].x = x; x += sizes[id].w + GAP; }
  }
  const spine = (id: number) => sizes[id].x + sizes[id].w / 2, laneOf = new Map(lanes.map((lane) => [lane.edge, lane]));
  const xOf = (lane: Lane) => (lane.left ? from - (lane.at + 0.5) * LANE : from + widest + (lane.at + 0.5) * LANE);
  const ends = portsOf(graph, sizes, laneOf, rows, row, xOf), nets: Net[] = [];
  graph.edges.forEach((edge, at) => {
    const lane = laneOf.get(at), x1 = spine(edge.from), x2 = ends[at].x;
    if (!lane) { if (Math.abs(x1 - x2) > 0.5) nets.push({ edge: at, from: edge.from, to: edge.to, x1, x2, gap: row[edge.from], track: 0 }); return; }
    nets.push({ edge: at, from: edge.from, to: edge.to, x1, x2: xOf(lane), gap: row[edge.from], track: 0 });
    if (!ends[at].side) nets.push({ edge: at, from: edge.from, to: edge.to, x1: xOf(lane), x2, gap: row[edge.to] - 1, track: 0 });
  });
  const tracks = rows.map((_, gap) => tracksOf(nets.filter((net) => net.gap === gap)));
  // Two nets that each come down where the other goes down have no order: one comes down a little aside.
  for (const net of nets)
    if (net.gap === row[net.to] - 1 && nets.some((one) => one.gap === net.gap && isAbove(one, net) && one.track >= net.track)) net.x2 = ends[net.edge].x += ASIDE;
  let y = 0;
  const tops: number[] = [], bottoms: number[] = [];
  rows.forEach((ids, at) => {
    const tall = Math.max(...ids.map((id) => sizes[id].h));
    tops.push(y);
    for (const id of ids) sizes[id].y = y + (sizes[id].node.kind === "frame" || !sizes[id].h ? 0 : (tall - sizes[id].h) / 2);
    y += tall;
    bottoms.push(y);
    if (at < rows.length - 1) y += LABEL + Math.max(0, tracks[at] - 1) * TRACK + ARROW + 2;
  });
  const yOf = (net: Net) => bottoms[net.gap] + LABEL + net.track * TRACK;
  const wires = graph.edges.flatMap((edge, at): Wire[] => {
    if (edge.isHidden) return [];
    const source = sizes[edge.from], target = sizes[edge.to], own = nets.filter((net) => net.edge === at), x1 = spine(edge.from), y1 = source.y + source.h, x2 = ends[at].x;
    const points: [number, number][] = [[x1, y1]], lane = laneOf.get(at), y2 = ends[at].side ? target.y + (target.inside ? 12 : target.h / 2) : target.y;
    if (lane) {
      points.push([x1, yOf(own[0])], [xOf(lane), yOf(own[0])]);
      if (ends[at].side) points.push([xOf(lane), y2], [lane.left ? target.x : target.x + target.w, y2]);
      else points.push([xOf(lane), yOf(own[1])], [x2, yOf(own[1])], [x2, y2]);
    } else if (own.length) points.push([x1, yOf(own[0])], [x2, yOf(own[0])], [x2, y2]);
    else points.push([x2, y2]);
    const end = points.at(-1)!, turn = ends[at].side ? (lane!.left ? -90 : 90) : 0;
    return [{ d: rounded(points), from: source.node, to: target.node, residual: edge.residual && lane !== undefined, x: x1, y: y1, tip: target.h === 0 ? null : [...end, turn] }];
  });
  const out = graph.nodes.find((node) => node.kind === "out"), first = rows[0]?.[0];
  return { w, h: y, boxes: sizes, wires, in: first === undefined ? w / 2 : spine(first), out: out ? spine(out.id) : w / 2 };
}

interface End { x: number; side: boolean }

/** Return where each edge meets its target: beside a node that is outermost in its row, else on its top, spread. */
function portsOf(graph: Graph, sizes: Placed[], laneOf: Map<number, Lane>, rows: number[][], row: number[], xOf: (lane: Lane) => number): End[] {
  const ends: End[] = graph.edges.map(() => ({ x: 0, side: false }));
  graph.nodes.forEach((node) => {
    const into = graph.edges.map((edge, at) => ({ ...edge, at })).filter((edge) => edge.to === node.id), box = sizes[node.id], ids = rows[row[node.id]];
    const sided = new Set<boolean>(), top: { at: number; x: number }[] = [];
    for (const { at, from } of into) {
      const lane = laneOf.get(at), isOuter = lane && (lane.left ? ids[0] : ids.at(-1)) === node.id;
      if (lane && isOuter && box.h && !sided.has(lane.left)) { sided.add(lane.left); ends[at] = { x: 0, side: true }; continue; }
      top.push({ at, x: lane ? xOf(lane) : sizes[from].x + sizes[from].w / 2 });
    }
    const spread = node.kind === "sign" || node.kind === "out" ? 0 : box.w / (top.length + 1), middle = box.x + box.w / 2;
    top.sort((a, b) => a.x - b.x).forEach(({ at }, place) => { ends[at] = { x: spread ? box.x + spread * (place + 1) : middle, side: false }; });
  });
  return ends;
}

/** Whether a net goes down where another one comes down to its target, so that it has to turn aside above that one. */
const isAbove = (one: Net, net: Net) => one.from !== net.from && one.to !== net.to && Math.abs(one.x1 - net.x2) < 1;

/** Give each net of a gap a track in which it runs over no other of another source; return how many there are. */
function tracksOf(nets: Net[]): number {
  const taken: Net[] = [];
  const above = (net: Net) => nets.filter((one) => isAbove(one, net));
  const give = (net: Net, before: Net[]): void => {
    if (taken.includes(net) || before.includes(net)) return;
    const first = above(net);
    first.forEach((one) => give(one, [...before, net]));
    net.track = Math.max(0, ...first.filter((one) => taken.includes(one)).map((one) => one.track + 1));
    const [low, high] = [Math.min(net.x1, net.x2) - 4, Math.max(net.x1, net.x2) + 4];
    while (taken.some((one) => one.track === net.track && one.from !== net.from && Math.min(one.x1, one.x2) < high && low < Math.max(one.x1, one.x2))) net.track++;
    taken.push(net);
  };
  nets.forEach((net) => give(net, []));
  return nets.length ? Math.max(...nets.map((net) => net.track)) + 1 : 0;
}

/** Return a path through points with round corners. */
function rounded(points: [number, number][]): string {
  const n = (x: number) => x.toFixed(1);
  let d = `M${n(points[0][0])} ${n(points[0][1])}`;
  for (let at = 1; at < points.length; at++) {
    const [x, y] = points[at], [px, py] = points[at - 1], next = points[at + 1];
    if (!next) { d += `L${n(x)} ${n(y)}`; continue; }
    const r = Math.min(5, Math.hypot(x - px, y - py) / 2, Math.hypot(next[0] - x, next[1] - y) / 2);
    const back = (ax: number, ay: number): [number, number] => { const l = Math.hypot(ax - x, ay - y) || 1; return [x + ((ax - x) / l) * r, y + ((ay - y) / l) * r]; };
    const [bx, by] = back(px, py), [cx, cy] = back(...next);
    d += `L${n(bx)} ${n(by)}Q${n(x)} ${n(y)} ${n(cx)} ${n(cy)}`;
  }
  return d;
}
