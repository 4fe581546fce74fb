// What a command said, on the page: its HTML copied tag by tag from an allowed list, its messages as text.

const TAGS = new Set(
  "H1 H2 H3 H4 P UL OL LI DL DT DD TABLE THEAD TBODY TR TH TD MARK SPAN DIV CODE PRE STRONG EM B I SUB SUP BR A DETAILS SUMMARY FIGURE FIGCAPTION CAPTION".split(" "),
);
const ATTRIBUTES = new Set(["class", "title", "role", "id", "scope", "aria-hidden", "aria-label", "open", "start", "value", "lang"]);

export function element(tag: string, attributes: Record<string, string> = {}, ...inside: (Node | string)[]): HTMLElement {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

// The command escapes names from files. This copies no script, style, handler or address either, whatever it gets.
export function copied(html: string): DocumentFragment {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const made = document.createDocumentFragment();
  // The page has headings of two levels of its own: the highest one in the answer becomes the third.
  const levels = [...parsed.body.querySelectorAll("h1, h2, h3")].map((head) => Number(head.tagName[1]));
  const down = 3 - Math.min(3, ...levels);
  for (const child of parsed.body.childNodes) copyInto(made, child, down);
  for (const scrolls of made.querySelectorAll("pre, .table, .equation")) {
    scrolls.setAttribute("tabindex", "0");
    scrolls.setAttribute("role", "group");
  }
  return made;
}

function copyInto(target: Node, source: Node, down: number): void {
  if (source.nodeType === Node.TEXT_NODE) target.appendChild(document.createTextNode(source.textContent ?? ""));
  if (!(source instanceof Element)) return;
  if (source instanceof SVGElement || ["SCRIPT", "STYLE", "TEMPLATE"].includes(source.tagName)) return;
  let made: Node = target;
  if (TAGS.has(source.tagName)) {
    const isEmptyHead = source.tagName === "TH" && !source.textContent?.trim();
    const tag = isEmptyHead ? "td" : /^H[1-3]$/.test(source.tagName) ? `h${Number(source.tagName[1]) + down}` : source.tagName;
    const copy = document.createElement(tag);
    for (const { name, value } of source.attributes) {
      if (ATTRIBUTES.has(name)) copy.setAttribute(name, value);
      if (name === "style" && /text-align:\s*right/.test(value)) copy.classList.add("number");
      if (name === "href" && value.startsWith("#")) copy.setAttribute("data-to", value.slice(1));
    }
    made = target.appendChild(copy);
  }
  for (const child of source.childNodes) copyInto(made, child, down);
}
