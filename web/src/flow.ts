// The flow through a layer: the steps that a recorded run of the reference code gave, in their order.

import type { Explorer } from "./explorer.ts";

export function drawFlow(explorer: Explorer): void {
  explorer.el("flowcard").hidden = !explorer.data.flow;
}
