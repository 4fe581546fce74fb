// Without this script the page shows a map of every head. With it, one head or a mean of heads is shown in full: as lines
// between two columns of tokens or as a map, of any window of the text, between any two of its sentences.
const page = JSON.parse(document.getElementById("page").textContent);
const get = (id) => document.getElementById(id);
const bytes = Uint8Array.from(atob(page.values), (letter) => letter.charCodeAt(0));
const values = new DataView(bytes.buffer);
const count = page.tokens.length; // tokens with values
const fields = { layer: get("layer"), head: get("head"), from: get("from"), to: get("to"), first: get("first"), last: get("last") };
const MOST = 128; // tokens in a column
let pinned = null; // the chosen token, as { side, place }
document.documentElement.classList.add("scripted");

const fill = (text, words) => text.replace(/\{(\w+)\}/g, (_, name) => words[name]);
const label = (place) => page.tokens[place];
const percent = (value) => `${(100 * value).toFixed(1)}%`;
const escaped = (text) => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);

// The heads that are shown: one, or all those of a mean.
function places() {
  const within = (name, all) => (fields[name].value === "mean" ? all : [Number(fields[name].value)]);
  const layers = within("layer", page.layers), heads = within("head", page.heads);
  return layers.flatMap((layer) => heads.map((head) => page.layers.indexOf(layer) * page.heads.length + page.heads.indexOf(head)));
}

function attention(row, column, all = places()) {
  let sum = 0;
  for (const place of all) sum += values.getUint16(2 * ((place * count + row) * count + column), true) / 65535;
  return sum / all.length;
}

function title() {
  const kind = `${fields.layer.value === "mean" ? "mean" : "one"}_${fields.head.value === "mean" ? "mean" : "one"}`;
  const number = (all, averaged) => (all[0] === "mean" ? averaged : all.length);
  const layers = number(page.layers, page.averaged[0]), heads = number(page.heads, page.averaged[1]);
  const words = { layer: fields.layer.value, head: fields.head.value, layers, heads };
  return fill(page.names[kind], words);
}

function shown(side) {
  const inside = [];
  for (let place = Number(fields.first.value) - page.start; place <= Number(fields.last.value) - page.start; place++) {
    const wanted = fields[side].value;
    if (wanted === "all" || page.sentences[place] === Number(wanted)) inside.push(place);
  }
  return inside;
}

// Keep the window inside the text.
function checkWindow(changed) {
  const low = page.start, high = page.start + count - 1;
  const within = (number) => Math.min(high, Math.max(low, Math.round(number) || low));
  let first = within(fields.first.value), last = within(fields.last.value);
  if (changed === "last") first = Math.max(Math.min(first, last), last - MOST + 1);
  else last = Math.min(Math.max(first, last), first + MOST - 1);
  fields.first.value = first;
  fields.last.value = last;
  get("earlier").disabled = first === low;
  get("later").disabled = last === high;
}

function move(direction) {
  const first = Number(fields.first.value), size = Number(fields.last.value) - first + 1;
  const moved = Math.min(page.start + count - size, Math.max(page.start, first + direction * size));
  fields.first.value = moved;
  fields.last.value = moved + size - 1;
  draw();
}

function draw(changed) {
  checkWindow(changed);
  const rows = shown("from"), columns = shown("to");
  const kept = { from: rows, to: columns };
  if (pinned && !kept[pinned.side].includes(pinned.place)) pinned = null;
  get("name").textContent = title();
  get("said").textContent = "";
  const all = places();
  const grid = rows.map((row) => columns.map((column) => attention(row, column, all)));
  const asLines = get("as-lines").checked;
  get("lines").hidden = !asLines;
  get("map").hidden = asLines;
  if (asLines) drawLines(rows, columns, grid);
  else drawMap(rows, columns, grid);
}

const LEAST = 0.005; // attention that a line or a number shows

function drawLines(rows, columns, grid) {
  const token = (side) => (place) =>
    `<li><button type="button" data-side="${side}" data-place="${place}" aria-pressed="false"><span>${escaped(label(place))}</span><small></small></button></li>`;
  const height = Math.max(rows.length, columns.length);
  let lines = "";
  grid.forEach((line, row) =>
    line.forEach((value, column) => {
      if (value < LEAST) return;
      const ends = `y1="${row + 0.5}" y2="${column + 0.5}"`;
      lines += `<line x1="0" x2="100" ${ends} data-from="${rows[row]}" data-to="${columns[column]}" stroke-opacity="${Math.sqrt(value).toFixed(3)}"/>`;
    }),
  );
  get("lines").innerHTML =
    `<ol class="left">${rows.map(token("from")).join("")}</ol>` +
    `<svg viewBox="0 0 100 ${height}" preserveAspectRatio="none" style="height:calc(var(--row) * ${height})" aria-hidden="true">${lines}</svg>` +
    `<ol class="right">${columns.map(token("to")).join("")}</ol>`;
  mark(pinned, rows, columns, grid);
}

// Show the lines of one token alone, with their percentages beside the tokens at the other ends.
function mark(token, rows, columns, grid) {
  for (const line of get("lines").querySelectorAll("line")) {
    const here = !token || Number(line.dataset[token.side]) === token.place;
    line.style.display = here ? "" : "none";
  }
  for (const button of get("lines").querySelectorAll("button")) {
    const { side } = button.dataset, place = Number(button.dataset.place);
    const own = token && token.side === side && token.place === place;
    let value;
    if (token && token.side !== side) {
      value = side === "to" ? grid[rows.indexOf(token.place)][columns.indexOf(place)] : grid[rows.indexOf(place)][columns.indexOf(token.place)];
    }
    button.classList.toggle("own", Boolean(own));
    button.setAttribute("aria-pressed", String(Boolean(own && pinned)));
    button.querySelector("small").textContent = value >= LEAST ? percent(value) : "";
    button.style.setProperty("--share", value >= LEAST ? Math.sqrt(value) : 0);
  }
  const marked = get("lines");
  marked.mark = (other) => mark(other, rows, columns, grid);
}

function drawMap(rows, columns, grid) {
  const width = get("map").clientWidth || 600, font = 13;
  const longest = Math.max(...rows.map((place) => label(place).length)) * 8 + 8;
  const left = Math.min(longest, width / 4);
  const cell = Math.min(44, (width - left) / columns.length);
  const labelled = cell >= 9, turned = Math.max(...columns.map((place) => label(place).length)) * 8 > cell;
  const above = labelled ? (turned ? Math.min(longest, 120) : 20) : 0, beside = labelled ? left : 0;
  const size = labelled ? Math.min(font, cell) : 0;
  let drawn = "";
  const text = (x, y, words, more) => `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" font-size="${size}" ${more}>${escaped(words)}</text>`;
  if (labelled) {
    rows.forEach((place, row) => (drawn += text(beside - 6, above + (row + 0.5) * cell + size * 0.35, label(place), 'text-anchor="end"')));
    columns.forEach((place, column) => {
      const x = beside + (column + 0.5) * cell;
      const more = turned ? `transform="rotate(-90 ${x + size * 0.35} ${above - 6})"` : 'text-anchor="middle"';
      drawn += text(turned ? x + size * 0.35 : x, above - 6, label(place), more);
    });
  }
  drawn += `<rect class="ground" x="${beside}" y="${above}" width="${columns.length * cell}" height="${rows.length * cell}"/>`;
  grid.forEach((line, row) =>
    line.forEach((value, column) => {
      const x = beside + column * cell, y = above + row * cell;
      drawn += `<rect x="${x.toFixed(2)}" y="${y.toFixed(2)}" width="${cell.toFixed(2)}" height="${cell.toFixed(2)}" fill-opacity="${Math.sqrt(value).toFixed(3)}" data-row="${rows[row]}" data-column="${columns[column]}"/>`;
      if (cell >= 26 && value >= LEAST) {
        drawn += `<text class="${value > 0.97 ? "on" : "number"}" x="${(x + cell / 2).toFixed(1)}" y="${(y + cell / 2 + 4).toFixed(1)}" font-size="11" text-anchor="middle">${(100 * value).toFixed(0)}</text>`;
      }
    }),
  );
  const box = [beside + columns.length * cell + 1, above + rows.length * cell + 1].map((side) => side.toFixed(1));
  get("map").innerHTML = `<svg width="${box[0]}" height="${box[1]}" viewBox="0 0 ${box.join(" ")}" role="img" aria-label="${escaped(title())}">${drawn}</svg>`;
}

// What the reader does

for (const name of Object.keys(fields)) fields[name].addEventListener("change", () => draw(name));
for (const id of ["as-lines", "as-map"]) get(id).addEventListener("change", () => draw());
get("earlier").addEventListener("click", () => move(-1));
get("later").addEventListener("click", () => move(1));
const tokenOf = (event) => {
  const button = event.target.closest?.("button[data-side]");
  return button && { side: button.dataset.side, place: Number(button.dataset.place) };
};
get("lines").addEventListener("click", (event) => {
  const token = tokenOf(event);
  if (!token) return;
  pinned = pinned && pinned.side === token.side && pinned.place === token.place ? null : token;
  get("lines").mark(pinned);
});
get("lines").addEventListener("pointerover", (event) => {
  if (event.pointerType !== "touch") get("lines").mark(tokenOf(event) || pinned);
});
get("lines").addEventListener("pointerleave", () => get("lines").mark(pinned));
get("map").addEventListener("pointermove", describe);
get("map").addEventListener("click", describe);
function describe(event) {
  const { row, column } = event.target.dataset;
  if (row === undefined) return;
  const words = { row: label(row), column: label(column), percent: percent(attention(Number(row), Number(column))) };
  get("said").textContent = fill(page.pair, words);
}

// A map of the overview is a link to its head; the arrow keys move from head to head.
function follow() {
  const [, layer, head] = /^#l(\w+)h(\w+)$/.exec(location.hash) || [];
  if (layer === undefined || !fields.layer.querySelector(`[value="${layer}"]`)) return;
  fields.layer.value = layer;
  fields.head.value = head;
  draw();
  get("viewer").scrollIntoView();
  get("viewer").focus({ preventScroll: true });
}
addEventListener("hashchange", follow);
addEventListener("resize", () => get("as-map").checked && draw());
const KEYS = { ArrowUp: ["layer", -1], ArrowDown: ["layer", 1], ArrowLeft: ["head", -1], ArrowRight: ["head", 1] };
get("viewer").addEventListener("keydown", (event) => {
  if (event.target.matches("select, input") || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (event.key === "Escape") {
    pinned = null;
    draw();
    location.hash = "#all";
  }
  if (!KEYS[event.key]) return;
  event.preventDefault();
  const [name, step] = KEYS[event.key];
  const next = fields[name].selectedIndex + step;
  if (next < 0 || next >= fields[name].options.length) return;
  fields[name].selectedIndex = next;
  draw();
});
draw();
follow();
