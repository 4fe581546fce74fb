// A text in a link: deflated, in letters that an address may hold.

export async function packed(text: string): Promise<string> {
  const bytes = await through(new Blob([text]), new CompressionStream("deflate-raw"));
  let letters = "";
  for (const byte of bytes) letters += String.fromCharCode(byte);
  return btoa(letters).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

const LONGEST = 2_000_000; // bytes, unpacked

export async function unpacked(link: string): Promise<string> {
  try {
    const letters = atob(link.replace(/-/g, "+").replace(/_/g, "/"));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    return new TextDecoder().decode(await through(new Blob([bytes]), new DecompressionStream("deflate-raw")));
  } catch {
    return "";
  }
}

async function through(blob: Blob, stream: GenericTransformStream): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  const reader = (blob.stream().pipeThrough(stream as ReadableWritablePair<Uint8Array, Uint8Array>)).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > LONGEST) throw new Error("too long");
    pieces.push(value);
  }
  return new Uint8Array(await new Blob(pieces as BlobPart[]).arrayBuffer());
}
