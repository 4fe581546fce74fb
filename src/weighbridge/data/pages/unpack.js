(async () => {
  const bytes = Uint8Array.from(atob(document.getElementById("packed").textContent.trim()), (letter) => letter.charCodeAt(0));
  const script = document.createElement("script");
  script.textContent = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
  document.body.append(script);
})();
