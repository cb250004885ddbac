// Small helpers to build the page: text always goes in as text, never as HTML.

/** A DOM element with attributes and children, which are elements or text. */
export function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Replace what an element holds. */
export function fill(parent, ...children) {
  parent.replaceChildren(...children);
}

/** A table with a row of headings; cells are elements or text. */
export function table(headings, rows) {
  return element("table", {},
    element("thead", {}, element("tr", {},
      ...headings.map((heading) => element("th", { scope: "col" }, heading)))),
    element("tbody", {}, ...rows.map((cells) => element("tr", {},
      ...cells.map((cell) => element("td", {}, cell))))));
}

/** A share of 1 as a bar with its number. */
export function share(value, label) {
  return element("span", {},
    element("meter", { min: 0, max: 1, value, "aria-label": label }),
    ` ${(100 * value).toFixed(1)} %`);
}

/**
 * A text with parts highlighted. `spans` are {start, end, label?}, in characters as Python counts
 * them: code points, of which JavaScript's strings may have two units each. Overlapping parts after
 * the first are left out.
 */
export function highlighted(text, spans) {
  const characters = Array.from(text);
  const slice = (from, to) => characters.slice(from, to).join("");
  const shown = element("p", { class: "text", dir: "auto" });
  let done = 0;
  for (const { start, end, label } of [...spans].sort((a, b) => a.start - b.start)) {
    if (start < done || end <= start) continue;
    const mark = element("mark", {}, slice(start, end));
    if (label) mark.append(element("span", { class: "label" }, label));
    shown.append(slice(done, start), mark);
    done = end;
  }
  shown.append(slice(done));
  return shown;
}
