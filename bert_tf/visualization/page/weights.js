// What the page is about: the tokens, and their weights by layer, head, from and to. These are
// classic scripts, which share their names, so that one file can hold all of them.

const data = JSON.parse(document.getElementById("data").textContent);
const weights = decode(data.probabilities);
const isPair = data.texts.length === 2;

/** Steps of 1/data.steps, [layers, heads, from, to], little-endian as on every machine there is. */
function decode(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Uint16Array(bytes.buffer);
}

/** The weight, 0 to 1, that the token `from` gives to `to`; all numbers begin with 0. */
function weightOf(layer, head, from, to) {
  const length = data.tokens.length;
  return weights[((layer * data.heads + head) * length + from) * length + to] / data.steps;
}

/**
 * The tokens at both sides that a filter leaves: {from: [numbers], to: [numbers]}. A filter is
 * "all" or two of "A" and "B", the texts from and to which attention goes.
 */
function shownTokens(filter, hideSpecial) {
  const side = (text) => [...data.tokens.keys()].filter((token) =>
    !(hideSpecial && data.special[token]) &&
    (filter === "all" || data.segments[token] === "AB".indexOf(text)));
  return { from: side(filter[0]), to: side(filter[1]) };
}

/** A token's name in a sentence, with its part of the text where that reads otherwise. */
function nameOf(token) {
  const label = data.tokens[token];
  const source = data.sources[token];
  const plain = (text) => text.replace(/^##|▁|…/g, "").trim().toLowerCase();
  return source === null || plain(source) === plain(label) ? label : `${label} (“${source}”)`;
}
