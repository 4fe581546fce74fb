// weighbridge itself, under Pyodide, off the page's thread. Dropped files are mounted where they lie and read by slices,
// with the synchronous reader that only workers have. A message is one JSON request; the answer is one JSON text.

// Only workers have it, and the types here are those of pages.
declare const FileReaderSync: { prototype: { readAsArrayBuffer(blob: Blob): ArrayBuffer } };

type Pyodide = {
  FS: {
    mkdir(path: string): void;
    rmdir(path: string): void;
    mount(type: unknown, options: unknown, path: string): void;
    unmount(path: string): void;
    writeFile(path: string, content: Uint8Array | string, options?: { canOwn: boolean }): void;
    filesystems: { WORKERFS: unknown };
  };
  runPython(code: string): unknown;
  globals: { get(name: string): (...given: string[]) => string };
};
type Blobs = { name: string; data: Blob }[];
type Message = { id: number; request: string; files: Blobs; text: { name: string; content: string } | null };

// The size of the archive is written here when the site is built: a file that has its size at once is not copied as it grows.
const START = `
import lzma, os, sys
with lzma.open("/weighbridge.zip.xz") as packed, open("/weighbridge.zip", "wb") as archive:
    archive.truncate(UNPACKED_BYTES)
    while piece := packed.read(1 << 18):
        archive.write(piece)
os.remove("/weighbridge.zip.xz")
sys.path.insert(0, "/weighbridge.zip")
from weighbridge.desk import answer
`;

const read = { bytes: 0, calls: 0 };
const realRead = FileReaderSync.prototype.readAsArrayBuffer;
FileReaderSync.prototype.readAsArrayBuffer = function (blob: Blob) {
  read.calls += 1;
  read.bytes += blob.size;
  return realRead.call(this, blob);
};

const UNTOUCHED_BYTES = 1 << 27;

const begun = performance.now();
const ready = boot();
ready.then(
  () => postMessage({ ready: performance.now() - begun }),
  (error: unknown) => postMessage({ dead: String(error) }),
);

async function boot(): Promise<Pyodide> {
  const packed = fetched("weighbridge.zip.xz");
  const base = new URL("pyodide/", import.meta.url).href;
  const { loadPyodide } = await import(`${base}pyodide.mjs`);
  const pyodide: Pyodide = await loadPyodide({ indexURL: base, fsInit: lightly });
  pyodide.FS.writeFile("/weighbridge.zip.xz", await packed);
  pyodide.runPython(START);
  closeNetwork();
  return pyodide;
}

// After WebAssembly has been compiled, and before Python starts.
async function lightly(files: Pyodide["FS"]): Promise<void> {
  // Files keep the bytes that they are given: Python's library and ours would otherwise be in memory twice.
  const write = files.writeFile;
  files.writeFile = (path, content) => write.call(files, path, content, { canOwn: true });
  await collected();
}

// Chromium keeps what it buffered of WebAssembly, 22 MB, until it collects garbage, and would not do that while Python starts and its own
// compiler needs most. A large buffer, never touched, so that it takes no memory, makes it collect now.
async function collected(): Promise<void> {
  try {
    for (let left = 2; left > 0; left--) {
      if (new ArrayBuffer(UNTOUCHED_BYTES).byteLength) await new Promise((done) => setTimeout(done));
    }
  } catch {
    // There is no room for such a buffer: so be it.
  }
}

async function fetched(name: string): Promise<Uint8Array> {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

// All is loaded: from here on nothing in this worker, Python's `js` module included, can send anything anywhere.
function closeNetwork(): void {
  for (const name of ["fetch", "XMLHttpRequest", "WebSocket", "EventSource", "importScripts", "WebTransport", "Worker"]) {
    Object.defineProperty(globalThis, name, { value: undefined, writable: false, configurable: false });
  }
}

let drops = 0;
onmessage = async ({ data }: MessageEvent<Message>) => {
  const { id, request, files, text } = data;
  try {
    const pyodide = await ready;
    const answer = pyodide.globals.get("answer");
    read.bytes = read.calls = 0;
    const from = performance.now();
    const folder = `/drop${++drops}`;
    pyodide.FS.mkdir(folder);
    const isMounted = files.length > 0;
    if (isMounted) pyodide.FS.mount(pyodide.FS.filesystems.WORKERFS, { blobs: files }, folder);
    if (text) pyodide.FS.writeFile(`${folder}/${text.name}`, text.content);
    const given = answer(JSON.stringify({ ...JSON.parse(request), folder }));
    if (isMounted) {
      pyodide.FS.unmount(folder);
      pyodide.FS.rmdir(folder);
    }
    postMessage({ id, answer: given, ms: performance.now() - from, read: { ...read } });
  } catch (error) {
    postMessage({ id, dead: String(error).slice(-300) });
  }
};
