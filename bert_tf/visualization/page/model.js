// The model view: a small picture of every head, a row of it for each token that attends.

/** Make the grid; `choose(layer, head)` is called when a picture is clicked. */
function makeGrid(choose) {
  const grid = $("grid");
  grid.style.setProperty("--heads", data.heads);
  const heads = [...Array(data.heads).keys()];
  grid.append(element("span", {}, ""), ...heads.map((head) => element("span", {}, `${head + 1}`)));
  for (let layer = 0; layer < data.layers; layer++) {
    grid.append(element("span", {}, `${layer + 1}`), ...heads.map((head) => {
      const button = element("button", { type: "button", tabindex: layer || head ? -1 : 0,
        title: `Layer ${layer + 1}, head ${head + 1}`,
        "aria-label": `Layer ${layer + 1}, head ${head + 1}` }, element("canvas", {}));
      button.addEventListener("click", () => choose(layer, head));
      return button;
    }));
  }
  roving(grid, data.heads);
}

/** Draw every head's picture. */
function drawGrid(shown) {
  const canvases = [...$("grid").querySelectorAll("canvas")];
  const colours = [...Array(data.heads).keys()].map(colourOf);
  const size = Math.max(1, Math.round(canvases[0].clientWidth * devicePixelRatio));
  canvases.forEach((canvas, index) => {
    const head = index % data.heads;
    drawHead(canvas, (index - head) / data.heads, head, shown, size, colours[head]);
  });
}

/** A pixel is as dark as the largest weight in its place: lines stay visible when they shrink. */
function drawHead(canvas, layer, head, shown, size, colour) {
  const [rows, columns] = [shown.from.length, shown.to.length];
  canvas.height = Math.min(rows, size);
  canvas.width = Math.min(columns, size);
  if (!canvas.height || !canvas.width) return;
  const image = new ImageData(canvas.width, canvas.height);
  const rgb = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  for (let row = 0; row < rows; row++) {
    const y = Math.floor(row * canvas.height / rows);
    for (let column = 0; column < columns; column++) {
      const x = Math.floor(column * canvas.width / columns);
      const at = 4 * (y * canvas.width + x);
      const weight = weightOf(layer, head, shown.from[row], shown.to[column]);
      const shade = 255 * Math.sqrt(weight); // small weights are to be seen, too
      if (shade > image.data[at + 3]) image.data.set([...rgb, shade], at);
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}
