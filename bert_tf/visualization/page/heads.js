// The head view: tokens at both sides and lines between them.

const ROW = 24; // CSS pixels, --row in attention.css
const MOST_LINES = 20000; // that are drawn in a moment

/**
 * The lines to be drawn, the heaviest last: {lines: [{head, from, to, weight}], possible}. Of a
 * chosen token {side, token} all lines are there, else those of a weight of at least `least`.
 */
function linesOf({ layer, heads, least, chosen }, shown) {
  const from = chosen?.side === "from" ? [chosen.token] : shown.from;
  const to = chosen?.side === "to" ? [chosen.token] : shown.to;
  const lines = [];
  for (const head of heads) {
    for (const a of from) {
      for (const b of to) {
        const weight = weightOf(layer, head, a, b);
        if (weight > 0 && (chosen || weight >= least)) lines.push({ head, from: a, to: b, weight });
      }
    }
  }
  lines.sort((a, b) => a.weight - b.weight);
  return { lines: lines.slice(-MOST_LINES), possible: heads.length * from.length * to.length };
}

/** Draw the lines; of a chosen token also, at the other side, a cell for each head. */
function drawLines(lines, { heads, chosen }, shown) {
  const canvas = $("lines");
  const [width, height] = [canvas.clientWidth, ROW * Math.max(shown.from.length, shown.to.length)];
  canvas.style.height = `${height}px`;
  const pen = penOf(canvas, width, height);
  const places = { from: new Map(), to: new Map() };
  for (const side of ["from", "to"]) {
    shown[side].forEach((token, row) => places[side].set(token, (row + 0.5) * ROW));
  }
  const cell = chosen && heads.length > 1 ? Math.min(8, 0.45 * width / heads.length) : 0;
  const strip = cell * heads.length;
  const left = chosen?.side === "to" ? strip : 0;
  const right = width - (chosen?.side === "from" ? strip : 0);
  const colours = new Map(heads.map((head) => [head, colourOf(head)]));
  for (const { head, from, to, weight } of lines) {
    pen.globalAlpha = Math.sqrt(weight);
    pen.strokeStyle = pen.fillStyle = colours.get(head);
    pen.lineWidth = 0.5 + 3.5 * weight;
    pen.beginPath();
    pen.moveTo(left, places.from.get(from));
    pen.lineTo(right, places.to.get(to));
    pen.stroke();
    if (cell) {
      const x = (chosen.side === "from" ? right : 0) + cell * heads.indexOf(head);
      const y = (chosen.side === "from" ? places.to.get(to) : places.from.get(from)) - ROW / 2;
      pen.globalAlpha = weight;
      pen.fillRect(x + 0.5, y + 1, cell - 1, ROW - 2);
    }
  }
}

/** Fill the list of one side with its tokens. */
function fillTokens(side, tokens) {
  $(side).replaceChildren(...tokens.map((token, row) => {
    const label = element("bdi", { class: `label${data.special[token] ? " special" : ""}` },
      data.tokens[token]);
    const button = element("button", { type: "button", tabindex: row ? -1 : 0, "data-token": token,
      title: nameOf(token) }, label, element("span", { class: "weight" }));
    const begins = row > 0 && data.segments[token] > data.segments[tokens[row - 1]];
    return element("li", { class: begins ? "second-text" : "" }, button);
  }));
}

/** Beside each token the weight from or to the chosen one, the mean of the heads. */
function showWeights({ layer, heads, chosen }) {
  for (const side of ["from", "to"]) {
    for (const button of $(side).querySelectorAll("button")) {
      const token = Number(button.dataset.token);
      const isChosen = chosen?.side === side && chosen.token === token;
      const share = chosen && chosen.side !== side && heads.length
        ? meanWeight(layer, heads, chosen, token) : null;
      button.classList.toggle("chosen", isChosen);
      button.setAttribute("aria-pressed", isChosen);
      button.style.setProperty("--share", share ?? 0);
      button.querySelector(".weight").textContent = share === null ? "" : share.toFixed(3);
    }
  }
}

/** Mean over the heads of the weight between the chosen token and another one. */
function meanWeight(layer, heads, chosen, other) {
  const [from, to] = chosen.side === "from" ? [chosen.token, other] : [other, chosen.token];
  return heads.reduce((sum, head) => sum + weightOf(layer, head, from, to), 0) / heads.length;
}
