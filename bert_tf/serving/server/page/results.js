// What a signature's outputs mean: results of a few kinds, and how each kind is shown. A model
// says it in its signature `describe`; of others it is known by the outputs' names. The kinds and
// their parts are those of bert_tf/serving/wire/results.py, in the order in which people want them.

import { element, highlighted, share, table } from "./dom.js";

// Of signatures that say nothing: the results whose outputs are all there, each output once.
const BY_NAME = {
  answer: { kind: "span", of: "context", text: "answer", start: "start", end: "end",
    given: "has_answer" },
  label: { kind: "label", label: "label", score: "score", labels: "labels",
    probabilities: "probabilities" },
  entities: { kind: "spans", of: "text", text: "entities", label: "labels", start: "starts",
    end: "ends" },
  answers: { kind: "spans", of: "context", text: "answers", start: "starts", end: "ends" },
  masks: { kind: "candidates", text: "tokens", score: "scores", count: "num_masks" },
  continuation: { kind: "continuation", of: "text", text: "text" },
  tokens: { kind: "tokens", text: "tokens", count: "num_tokens" },
  embedding: { kind: "vector", value: "embedding" },
  description: { kind: "json", value: "description" },
  score: { kind: "number", value: "score" },
  probability: { kind: "number", value: "probability" },
};
// Parts that such a result may lack.
const FURTHER = { entities: { score: "scores", count: "num_entities" }, answers: { score: "scores" },
  answer: { score: "score" }, label: { chosen: "chosen" }, tokens: { score: "probability" } };
const NO_OUTPUT = ["kind", "of", "name"];
const SHOW = { span: showSpan, label: showLabel, spans: showSpans, continuation: showContinuation,
  candidates: showCandidates, relevance: showNumber, number: showNumber, terms: showTerms,
  vector: null, vectors: null, tokens: showTokens, json: showJson };

const outputsOf = (result) =>
  Object.entries(result).filter(([part]) => !NO_OUTPUT.includes(part)).map(([, name]) => name);

/** {name: result} of a signature, as its model's description says or as its outputs are named. */
export function resultsOf(name, { inputs, outputs }, description) {
  if (description.results) return description.results[name] ?? {};
  const found = {}, taken = new Set();
  for (const [key, result] of Object.entries(BY_NAME)) {
    const further = Object.entries(FURTHER[key] ?? {}).filter(([, output]) => output in outputs);
    const whole = { ...result, ...Object.fromEntries(further) };
    if (whole.given && !(whole.given in outputs)) delete whole.given;
    const needed = outputsOf(whole);
    if (!needed.every((output) => output in outputs && !taken.has(output))) continue;
    if (whole.of && !(whole.of in inputs)) continue;
    found[key] = whole;
    needed.forEach((output) => taken.add(output));
  }
  return found;
}

/** The place of a signature among those that people want: that of its best kind. */
export function placeOf(results) {
  const kinds = Object.keys(SHOW);
  const places = Object.values(results).map(({ kind }) => kinds.indexOf(kind))
    .filter((place) => place >= 0);
  return Math.min(kinds.length, ...places);
}

/** Whether all results can be shown: else a summary of the outputs is. */
export function areShown(results) {
  return Object.keys(results).length > 0 &&
    Object.values(results).every(({ kind }) => SHOW[kind]);
}

/** Elements that show the results of the first row of outputs; `values` are the texts asked. */
export function show(results, outputs, values) {
  const row = Object.fromEntries(Object.entries(outputs).map(([name, rows]) => [name, rows[0]]));
  const shown = Object.entries(results).flatMap(([name, result]) =>
    SHOW[result.kind](result, row, values, name));
  return shown.filter((part) => part !== null);
}

function showSpan(result, row, values) {
  const [text, start, end] = [row[result.text], row[result.start], row[result.end]];
  const given = (result.given ? row[result.given] : true) && end > start;
  return [element("p", {}, given ? element("strong", { id: "best" }, text)
    : "The text does not answer the question, says the model."),
  highlighted(values[result.of], given ? [{ start, end }] : [])];
}

function showLabel(result, row) {
  const [labels, probabilities] = [row[result.labels], row[result.probabilities]];
  const chosen = result.chosen && row[result.chosen];
  const order = [...labels.keys()].sort((a, b) => probabilities[b] - probabilities[a]);
  return [element("p", {}, "Label ", element("strong", { id: "best" }, row[result.label])),
    table(["Label", "Probability", ...(chosen ? ["Chosen"] : [])], order.map((index) =>
      [labels[index], share(probabilities[index], labels[index]),
        ...(chosen ? [chosen[index] ? "yes" : "no"] : [])]))];
}

function showSpans(result, row, values) {
  const of = (part, index) => result[part] && row[result[part]][index];
  const texts = row[result.text];
  const found = texts.slice(0, row[result.count] ?? texts.length).map((text, index) => ({ text,
    label: of("label", index), start: of("start", index), end: of("end", index),
    score: of("score", index) })).filter(({ text }) => text);
  if (!found.length) return [element("p", {}, "None was found.")];
  const rows = table(["Text", ...(result.label ? ["Type"] : []), "Score"], found.map((one) =>
    [one.text, ...(result.label ? [one.label] : []),
      one.score === undefined ? "" : share(one.score, one.text)]));
  return result.label ? [highlighted(values[result.of], found), rows] : [rows];
}

function showContinuation(result, row, values) {
  const [given, added] = [values[result.of], row[result.text]];
  const start = Array.from(given).length;
  return [highlighted(given + added, [{ start, end: start + Array.from(added).length }])];
}

function showCandidates(result, row) {
  const places = row[result.text].slice(0, row[result.count] ?? row[result.text].length);
  if (!places.length) return [element("p", {}, "There is no mask in the text.")];
  return places.flatMap((candidates, index) => [element("h3", {}, `Mask ${index + 1}`),
    table(["Token", ...(result.written ? ["Text"] : []), "Probability"],
      candidates.map((token, rank) => [token,
        ...(result.written ? [row[result.written][index][rank]] : []),
        share(row[result.score][index][rank], token)]))]);
}

function showNumber(result, row, values, name) {
  const value = row[result.value];
  const title = `${name[0].toUpperCase()}${name.slice(1).replaceAll("_", " ")} `;
  return [name === "probability" ? element("p", {}, title, share(value, "Probability"))
    : element("p", {}, title, element("strong", { id: name === "score" ? "best" : name },
      String(value)))];
}

function showTerms(result, row) {
  const terms = row[result.text].slice(0, row[result.count]);
  return terms.length ? [table(["Token", "Weight"], terms.map((term, index) =>
    [term, row[result.score][index].toPrecision(4)]))] : [element("p", {}, "No token weighs anything.")];
}

function showTokens(result, row) {
  const tokens = row[result.text]?.slice(0, row[result.count]) ?? [];
  return result.score ? [table(["Token", "Probability"], tokens.map((token, index) =>
    [token, share(row[result.score][index], token)]))]
    : [element("p", {}, `${row[result.count]} tokens: ${tokens.join(" ")}`)];
}

function showJson(result, row) {
  return [table(["What", "Value"], Object.entries(JSON.parse(row[result.value]))
    .map(([name, value]) => [name, shown(value)]))];
}

const SHOWN = { string: 200, other: 12 }; // values of an output that are shown

/** A value as text: of a tensor, as nested lists, its first values. */
export function shown(value) {
  if (value === null) return "none";
  if (Array.isArray(value)) {
    const values = value.flat(Infinity);
    const strings = typeof values[0] === "string";
    const most = strings ? SHOWN.string : SHOWN.other;
    return values.slice(0, most).map(shown).join(strings ? " · " : ", ") +
      (values.length > most ? " …" : "");
  }
  if (typeof value === "number" && !Number.isInteger(value)) return String(+value.toPrecision(4));
  if (typeof value !== "object") return String(value);
  return value.b64 ?? Object.entries(value).map(([name, one]) => `${name} ${shown(one)}`).join(", ");
}
