// Small helpers: elements, colours, keyboard. Text always goes in as text, never as HTML.

const $ = (id) => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");

/** A DOM element with attributes and children, which are elements or text. */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** The colour of a head, "#rrggbb": neighbours differ in lightness too. */
function colourOf(head) {
  const hue = 360 * head / data.heads;
  const lightness = (dark.matches ? 62 : 38) + (head % 2 ? 8 : 0);
  const pen = colourOf.pen ??= document.createElement("canvas").getContext("2d");
  pen.fillStyle = `hsl(${hue} 75% ${lightness}%)`;
  return pen.fillStyle;
}

/** Give a canvas the pixels of its place on the screen; a pen whose unit is a CSS pixel. */
function penOf(canvas, width, height) {
  // Browsers refuse a canvas of more than some 30,000 pixels' length.
  const scale = Math.min(devicePixelRatio, 16000 / Math.max(width, height, 1));
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  return pen;
}

/**
 * Let one of the buttons in an element be in the order of the Tab key, and arrow keys lead to the
 * others, which stand in rows of `columns`.
 */
function roving(parent, columns) {
  const buttons = () => [...parent.querySelectorAll("button")];
  parent.addEventListener("focusin", ({ target }) => {
    for (const button of buttons()) button.tabIndex = button === target ? 0 : -1;
  });
  parent.addEventListener("keydown", (event) => {
    const all = buttons();
    const now = all.indexOf(event.target);
    const next = { ArrowUp: now - columns, ArrowDown: now + columns, ArrowLeft: now - 1,
      ArrowRight: now + 1, Home: 0, End: all.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    all[next]?.focus();
  });
}
