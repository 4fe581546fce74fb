// The script of a page that `weighbridge explore` writes: mounts what the page holds.

import { mount } from "./explorer.ts";

const root = document.getElementById("explorer");
const held = document.getElementById("contract");
if (root && held) Object.assign(window, { explorer: mount(root, JSON.parse(held.textContent!)) });
