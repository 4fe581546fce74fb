// The only script that a page of `weighbridge explore` has in plain text: unpacks the others, whose hash the page's policy has too.

const held = document.getElementById("packed")!.textContent!;
const bytes = Uint8Array.from(atob(held), (letter) => letter.charCodeAt(0));
const unpacked = new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();

void (unpacked as Promise<{ page: string; script: string }>).then(({ page, script }) => {
  const contract = Object.assign(document.createElement("script"), { type: "application/json", id: "contract", textContent: page });
  document.body.append(contract, Object.assign(document.createElement("script"), { textContent: script }));
});
