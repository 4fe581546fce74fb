// The script of a page that `weighbridge explore` writes: mounts what the page holds, which is JSON or packed JSON.

import { mount } from "./explorer.ts";
import type { Page } from "./explorer.ts";

async function unpacked(text: string): Promise<Page> {
  if (text.startsWith("{")) return JSON.parse(text);
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

const root = document.getElementById("explorer");
const held = document.getElementById("contract");
if (root && held) void unpacked(held.textContent!.trim()).then((page) => Object.assign(window, { explorer: mount(root, page) }));
