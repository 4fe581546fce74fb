// How the tests and benches start Chromium.
export const FLAGS = "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync --no-first-run".split(" ");
