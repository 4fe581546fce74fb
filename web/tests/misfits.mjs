// What a reader of a page would see as broken: runs inside a page, in which it is evaluated.

/** Return what is cut off, what stands outside its box, and texts that stand on each other. */
export function misfits() {
  // These scroll by themselves: wide tables, what a command printed, long lists, and the dials beside the map.
  const SCROLLS = ".wide, .scroll, .steps, .dials, pre, .answer, .table, .equation, #suggestions, select, textarea, input";
  const LEAST = 10; // px of a font
  const found = [], shown = (one) => one.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && one.getBoundingClientRect().width > 0;
  const named = (one) => `${one.tagName.toLowerCase()} ${one.className?.baseVal ?? one.className} ${one.textContent.trim().slice(0, 40)}`;
  const pieces = [];
  // Firefox takes the halo of a text for a part of it.
  const halo = (text) => (/Firefox/.test(navigator.userAgent) && getComputedStyle(text).stroke !== "none" ? parseFloat(getComputedStyle(text).strokeWidth) / 2 : 0);
  const lettersOf = (text) => { const { left, top, width, height } = text.getBoundingClientRect(), of = halo(text); return new DOMRect(left + of, top + of, Math.max(0, width - 2 * of), Math.max(0, height - 2 * of)); };
  for (const one of document.body.querySelectorAll("*")) {
    if (one.closest("svg, math, script, style, noscript, option, .unseen") || !shown(one)) continue;
    const isInline = getComputedStyle(one).display === "inline", scrolls = one.closest(SCROLLS);
    if (!isInline && !one.matches(SCROLLS) && one.scrollWidth > one.clientWidth + 1) found.push(`wider than its box by ${one.scrollWidth - one.clientWidth}: ${named(one)}`);
    if (one.matches(".wide") && one.scrollWidth > one.clientWidth + 1) found.push(`a table to push sideways, by ${one.scrollWidth - one.clientWidth}: ${named(one)}`);
    for (const node of one.childNodes) {
      const isMath = node.nodeName === "math";
      if (!(isMath || (node.nodeType === Node.TEXT_NODE && node.data.trim()))) continue;
      const range = document.createRange();
      isMath ? range.selectNode(node) : range.selectNodeContents(node);
      for (const at of isMath ? [node.getBoundingClientRect()] : range.getClientRects()) {
        if (at.width < 1 || (scrolls && !(scrolls.matches(".dials") && at.bottom < scrolls.getBoundingClientRect().bottom))) continue;
        if (at.left < -1 || at.right > innerWidth + 1) found.push(`outside the window: ${named(one)}`);
        pieces.push({ at, one, text: node.textContent });
      }
    }
  }
  for (const svg of document.querySelectorAll("svg")) {
    if (!shown(svg)) continue;
    const outer = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll("text")) {
      const at = lettersOf(text);
      if (!at.width) continue;
      if (at.left < outer.left - 1 || at.right > outer.right + 1 || at.top < outer.top - 2 || at.bottom > outer.bottom + 2) found.push(`outside the picture: ${text.textContent}`);
      const { a, b } = text.getScreenCTM(), size = Math.hypot(a, b) * parseFloat(getComputedStyle(text).fontSize);
      if (size < LEAST) found.push(`too small to read (${size.toFixed(1)} px): ${text.textContent}`);
      pieces.push({ at, one: text, text: text.textContent });
    }
  }
  const linesOf = (one) => { const range = document.createRange(); range.selectNodeContents(one); return new Set([...range.getClientRects()].filter(({ width }) => width > 1).map(({ top }) => Math.round(top))).size; };
  for (const cell of document.querySelectorAll(".costs table:not(.tight) td.n, .tight td.n:nth-child(2)")) if (shown(cell) && linesOf(cell) > 1) found.push(`an amount on two lines: ${cell.textContent}`);
  for (const word of document.querySelectorAll("[data-at=costs] code, [data-at=command]")) for (const option of word.textContent.match(/--\S+/g) ?? []) if (shown(word) && ![...word.querySelectorAll("*")].some((one) => one.textContent === option && linesOf(one) === 1)) found.push(`an option may break: ${option}`);
  for (const text of document.querySelectorAll("svg:is(.still, [data-at=map]) .name text")) if (shown(text) && !getComputedStyle(text).paintOrder.startsWith("stroke")) found.push(`a line may strike through: ${text.textContent}`);
  const inside = (of) => of.map((box) => box.getBoundingClientRect());
  for (const text of document.querySelectorAll("svg .labels .name text")) {
    const at = lettersOf(text), x = text.ownerSVGElement.getBoundingClientRect(), colour = text.parentElement.getAttribute("style");
    const cells = inside([...text.ownerSVGElement.querySelectorAll(".cell")].filter((cell) => cell.getAttribute("style") === colour)).filter((cell) => cell.top < at.bottom && cell.bottom > at.top);
    if (cells.length && (at.right > Math.max(...cells.map((cell) => cell.right)) + 1 || at.left < Math.min(...cells.map((cell) => cell.left)) - 1 || at.bottom > Math.max(...cells.map((cell) => cell.bottom)) + 3)) found.push(`past its area: ${text.textContent} (${x.width.toFixed(0)} px)`);
  }
  pieces.sort((a, b) => a.at.top - b.at.top);
  pieces.forEach(({ at: a, one, text }, index) => {
    for (let next = index + 1; next < pieces.length && pieces[next].at.top < a.bottom; next++) {
      const { at: b, one: other, text: words } = pieces[next];
      // Lines of a text are as tall as the font, and may touch.
      if (one !== other && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - b.top > 4) found.push(`on each other: ${text.slice(0, 40)} | ${words.slice(0, 40)}`);
    }
  });
  return [...new Set(found)];
}
