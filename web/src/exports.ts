// What the page saves: its map as SVG or PNG, its flow as SVG, its table as CSV, its config as JSON.

import type { Explorer } from "./explorer.ts";

export function save(explorer: Explorer, format: string): void {
  const name = `${explorer.data.model.replace(/[^\w.-]+/g, "-")}-${explorer.data.class}`;
  if (format === "csv") return download(`${name}.csv`, table(explorer), "text/csv");
  if (format === "json") return download(`${name}.json`, config(explorer), "application/json");
  if (format === "flow") return download(`${name}-flow.svg`, picture(explorer.el("flowsvg")), "image/svg+xml");
  const svg = picture(explorer.el("map"));
  if (format === "svg") return download(`${name}.svg`, svg, "image/svg+xml");
  void asPng(svg).then((blob) => blob && offer(`${name}.png`, blob));
}

/** Return the table as `weighbridge weigh --by component --csv` has it, without formulas. */
function table({ data, state }: Explorer): string {
  const rows = [...state.by].map(([component, parameters]) => `${component},${parameters}`);
  return ["component,parameters", ...rows].join("\r\n") + "\r\n";
}

/** Return the whole config with what the dials changed: what `weighbridge weigh` reads. */
export function config({ data, changes, model }: Explorer): string {
  const whole = structuredClone(data.config) as any, env = model.fields(changes);
  for (const name in changes) {
    const [last, ...parents] = name.split(".").reverse();
    let inside = data.inside ? whole[data.inside] : whole;
    for (const parent of parents.reverse()) inside = inside[parent] ??= {};
    inside[last] = env[name];
  }
  return `${JSON.stringify({ ...whole, architectures: [data.class] }, null, 2)}\n`;
}

/** Return the map or the flow as a picture of its own, with the colours that it has now. */
function picture(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const from = svg.querySelectorAll("*"), to = copy.querySelectorAll("*");
  from.forEach((one, at) => {
    const style = getComputedStyle(one);
    to[at].removeAttribute("data-do");
    to[at].removeAttribute("tabindex");
    to[at].setAttribute("style", ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family"].map((key) => `${key}:${style.getPropertyValue(key).replaceAll('"', "'")}`).join(";"));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(svg.viewBox.baseVal.width));
  return new XMLSerializer().serializeToString(copy);
}

async function asPng(svg: string): Promise<Blob | null> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.width * 2;
  canvas.height = image.height * 2;
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

const download = (name: string, text: string, type: string): void => offer(name, new Blob([text], { type }));

function offer(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
