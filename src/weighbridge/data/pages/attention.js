// Without this script the page shows everything. With it, the arrow keys move through the heads, and a line describes
// the pair of tokens under the pointer.
const page = JSON.parse(document.getElementById("page").textContent);
const opened = () => document.querySelector(".head:target");
document.documentElement.classList.add("scripted");
document.addEventListener("keydown", (event) => {
  const section = opened();
  const keys = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Escape: "all" };
  if (!section || !keys[event.key] || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const way = section.querySelector(`[data-key="${keys[event.key]}"]`);
  event.preventDefault();
  if (way) location.hash = way.hash;
});
window.addEventListener("hashchange", () => opened() && opened().focus());
document.addEventListener("pointermove", (event) => {
  const svg = event.target.closest(".head svg");
  if (!svg) return;
  const section = svg.closest(".head"), box = svg.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - page.left) / page.cell);
  const row = Math.floor((event.clientY - box.top - page.above) / page.cell);
  const values = (section.values ??= JSON.parse(section.dataset.values));
  const value = values[row] && values[row][column];
  if (value === undefined) return;
  const words = { row: page.labels[row], column: page.labels[column], percent: `${(value / 10).toFixed(1)}%` };
  section.querySelector("output").textContent = page.pair.replace(/\{(\w+)\}/g, (_, name) => words[name]);
});
