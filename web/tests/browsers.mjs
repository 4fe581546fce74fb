// Launches Chromium, or a Firefox as it is installed, by the path of its program.
import playwright from "playwright-core";

/** Commands that Playwright sends to every page, which a long-term Firefox does not know yet; the page's own theme is used instead. */
const UNKNOWN_TO_FIREFOX = new Set(["emulation.setMediaFeaturesOverride"]);

export const isFirefox = (executablePath) => /firefox/i.test(executablePath);

export async function launch(executablePath) {
  if (!isFirefox(executablePath)) return playwright.chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const browser = await playwright.firefox.launch({ executablePath, channel: "moz-firefox" });
  // Playwright has no option for this: its sessions are patched. package-lock.json holds the version that this fits.
  const { constructor: Session } = browser._connection.toImpl(browser)._browserSession, { send } = Session.prototype;
  Session.prototype.send = function (method, given) { return UNKNOWN_TO_FIREFOX.has(method) ? Promise.resolve({}) : send.call(this, method, given); };
  return browser;
}
