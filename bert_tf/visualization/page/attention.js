// The page's state, its controls, and what follows from them.

const state = {
  view: "heads", layer: 0, heads: [...Array(data.heads).keys()], filter: "all",
  hideSpecial: false, least: 0.05,
  pointed: null, pinned: null, // {side: "from" or "to", token}: under the pointer, clicked
};
let shown = null; // the tokens at both sides
let drawn = null; // what linesOf gave last

function describePage() {
  document.title = `Attention: ${data.texts.join(" | ")}`.slice(0, 100);
  $("about").textContent = `${data.model}: ${data.layers} layers of ${data.heads} heads, ` +
    `${data.tokens.length} tokens`;
  $("texts").append(...data.texts.flatMap((text, index) => [
    element("dt", {}, isPair ? "AB"[index] : "Text"), element("dd", { dir: "auto" }, text)]));
  $("cut").hidden = !data.cut;
  $("cut").textContent = `${isPair ? "The texts are" : "The text is"} longer than ` +
    `${data.tokens.length} tokens: ${data.cut} are left out.`;
  $("filter-field").hidden = !isPair;
  for (let layer = 0; layer < data.layers; layer++) {
    const where = { 0: " (lowest)", [data.layers - 1]: " (topmost)" }[layer] ?? "";
    $("layer").append(element("option", { value: layer },
      `${layer + 1}${data.layers > 1 ? where : ""}`));
  }
  for (let head = 0; head < data.heads; head++) {
    $("heads").append(element("label", { title: "Double click: this head alone" },
      element("input", { type: "checkbox", value: head, "aria-label": `Head ${head + 1}` }),
      `${head + 1}`));
  }
}

/** Show the state: in the controls, as tokens, as lines or pictures. */
function update() {
  const ofHeads = state.view === "heads";
  for (const one of document.querySelectorAll(".of-heads")) one.hidden = !ofHeads;
  $("head-view").hidden = !ofHeads;
  $("model-view").hidden = ofHeads;
  document.querySelector(`[name=view][value=${state.view}]`).checked = true;
  $("layer").value = state.layer;
  $("filter").value = state.filter;
  $("hide-special").checked = state.hideSpecial;
  $("least").value = state.least;
  $("least-shown").textContent = state.least.toFixed(2);
  document.querySelectorAll("#heads label").forEach((label, head) => {
    label.style.setProperty("--colour", colourOf(head));
    label.querySelector("input").checked = state.heads.includes(head);
  });
  shown = shownTokens(state.filter, state.hideSpecial);
  state.pointed = null;
  for (const side of ["from", "to"]) fillTokens(side, shown[side]);
  draw();
}

/** Draw the view that is shown; its tokens stay. */
function draw() {
  if (state.view === "heads") {
    updateLines();
  } else {
    drawGrid(shown);
    $("readout").textContent = "Layers downwards, heads to the right.";
  }
}

/** Show what the chosen token, layer and heads give. */
function updateLines() {
  const chosen = [state.pointed, state.pinned].find((one) => one &&
    shown[one.side].includes(one.token)) ?? null;
  const view = { ...state, chosen };
  drawn = { chosen, ...linesOf(view, shown) };
  drawLines(drawn.lines, view, shown);
  showWeights(view);
  $("readout").textContent = chosen ? told(view) : summary();
  $("lines").setAttribute("aria-label", summary());
}

function headsInWords() {
  const { heads } = state;
  if (heads.length === data.heads) return data.heads > 1 ? "all heads" : "head 1";
  return `head${heads.length > 1 ? "s" : ""} ${heads.map((head) => head + 1).join(", ")}`;
}

function summary() {
  if (!state.heads.length) return "No head is chosen.";
  if (!drawn.possible) return "No token is left to show.";
  const number = (value) => value.toLocaleString("en");
  const least = drawn.lines.length === MOST_LINES ? drawn.lines[0].weight : state.least;
  return `Layer ${state.layer + 1}, ${headsInWords()}: ${number(drawn.lines.length)} of ` +
    `${number(drawn.possible)} lines are drawn, those of weights from ${least.toFixed(3)} on.`;
}

/** The largest weights of the chosen token in words. */
function told({ layer, heads, chosen }) {
  const name = `“${nameOf(chosen.token)}”`;
  const does = chosen.side === "from" ? `${name} attends to` : `${name} is attended to by`;
  const others = shown[chosen.side === "from" ? "to" : "from"];
  const largest = others.map((token) => [meanWeight(layer, heads, chosen, token), token])
    .sort(([a], [b]) => b - a).slice(0, 6)
    .map(([weight, token]) => `${nameOf(token)} ${weight.toFixed(3)}`);
  if (!heads.length) return "No head is chosen.";
  return `Layer ${layer + 1}, ${heads.length > 1 ? "mean of " : ""}${headsInWords()}: ${does} ` +
    `${largest.join(", ")}${others.length > largest.length ? " …" : ""}`;
}

/** Change some of the state and show it. */
function set(changes) {
  Object.assign(state, changes);
  update();
}

function listen() {
  const changed = (id, change) =>
    $(id).addEventListener("input", ({ target }) => set(change(target)));
  changed("layer", ({ value }) => ({ layer: Number(value) }));
  changed("filter", ({ value }) => ({ filter: value }));
  changed("hide-special", ({ checked }) => ({ hideSpecial: checked }));
  changed("least", ({ value }) => ({ least: Number(value) }));
  changed("heads", () => ({ heads: [...document.querySelectorAll("#heads :checked")]
    .map(({ value }) => Number(value)) }));
  for (const radio of document.querySelectorAll("[name=view]")) {
    radio.addEventListener("input", () => set({ view: radio.value }));
  }
  $("heads").addEventListener("dblclick", (event) => {
    const input = event.target.closest("label")?.querySelector("input");
    if (input) set({ heads: [Number(input.value)] });
  });
  $("all-heads").addEventListener("click", () => set({ heads: [...Array(data.heads).keys()] }));
  $("no-heads").addEventListener("click", () => set({ heads: [] }));
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  for (const side of ["from", "to"]) listenToTokens(side);
  document.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") { state.pinned = null; draw(); }
  });
  makeGrid((layer, head) => {
    set({ view: "heads", layer, heads: [head] });
    $("layer").focus();
  });
  dark.addEventListener("change", update);
  new ResizeObserver(draw).observe($("stage"));
}

function listenToTokens(side) {
  const list = $(side);
  const tokenAt = ({ target }) => {
    const button = target.closest("button");
    return button && { side, token: Number(button.dataset.token) };
  };
  const point = (pointed) => { state.pointed = pointed; updateLines(); };
  for (const name of ["pointerover", "focusin"]) {
    list.addEventListener(name, (event) => point(tokenAt(event)));
  }
  for (const name of ["pointerleave", "focusout"]) list.addEventListener(name, () => point(null));
  list.addEventListener("click", (event) => {
    const { token } = tokenAt(event) ?? {};
    const again = state.pinned?.side === side && state.pinned.token === token;
    state.pinned = again || token === undefined ? null : { side, token };
    updateLines();
  });
  roving(list, 1);
}

describePage();
listen();
update();
