// The frame of the explorer: takes what the worker computed from the page around it, and starts the explorer's own script.

window.addEventListener("message", ({ origin, source, data }) => {
  if (origin !== location.origin || source !== parent || document.getElementById("contract")) return;
  const held = document.createElement("script");
  held.type = "application/json";
  held.id = "contract";
  held.textContent = data;
  const script = document.createElement("script");
  script.src = "explore.js";
  document.body.append(held, script);
});
new ResizeObserver(() => parent.postMessage({ height: document.documentElement.offsetHeight }, location.origin)).observe(document.documentElement);
parent.postMessage({ height: 0 }, location.origin);
