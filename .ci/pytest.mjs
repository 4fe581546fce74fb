// Runs pytest in Pyodide: node pytest.mjs FOLDER_WITH_PYODIDE PACKAGES ROOT ARGUMENT…
import { createRequire } from "node:module";
import { join } from "node:path";

const [, , folder, packages, root, ...words] = process.argv;
const { loadPyodide } = createRequire(join(folder, "at.js"))("pyodide");
const python = await loadPyodide();
for (const [place, there] of Object.entries({ "/packages": packages, "/tree": root })) {
  python.FS.mkdirTree(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root: there }, place);
}
python.globals.set("words", python.toPy(words));
const status = python.runPython(`
import os, sys
sys.path[:0] = ["/packages", "/tree/src"]
sys.dont_write_bytecode = True
os.chdir("/tree")
import pytest
print("Python", sys.version, flush=True)
int(pytest.main(["-p", "no:cacheprovider", "--capture=sys", "--rootdir=/tree", *words]))
`);
process.exit(status);
