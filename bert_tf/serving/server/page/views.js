// How a signature is asked: a form by its inputs. What it answers is shown by the kinds of its
// results, see results.js; what has none, or a form of its own, by a summary of the outputs.

import { element, table } from "./dom.js";
import { idsFields, readIds, takesIds } from "./ids.js";
import { searchIndex } from "./rest.js";
import { areShown, placeOf, resultsOf, show, shown } from "./results.js";

const LABELS = { text: "Text", text_a: "First text", text_b: "Second text",
  question: "Question", context: "Text in which the answer stands", seed: "Seed",
  query: "Query", passage: "Passages, one a line" };
const SAMPLES = { text: "The quick brown fox jumps over the lazy dog.",
  text_a: "It rains.", text_b: "Take an umbrella.",
  question: "Where does Ann Lee live?", context: "Ann Lee moved to Seoul in 2019.",
  query: "Where is the Seine?",
  passage: "The Spree flows through Berlin.\nThe Seine flows through Paris." };
const SENTENCES = [{ name: "first", label: "First sentence", value: "A cat sits on the mat." },
  { name: "second", label: "Second sentence", value: "A kitten is lying on a rug." }];
const ROWS = { context: 8, passage: 8 };

/** {name: {inputs, outputs}} of a model's metadata; tensors are {dtype, rank}. */
export function describe(metadata) {
  const tensors = (infos) => Object.fromEntries(Object.entries(infos ?? {}).map(([name, info]) =>
    [name, { dtype: info.dtype, rank: (info.tensor_shape?.dim ?? []).length }]));
  return Object.fromEntries(Object.entries(metadata.metadata.signature_def.signature_def)
    .filter(([name]) => !name.startsWith("__"))
    .map(([name, definition]) =>
      [name, { inputs: tensors(definition.inputs), outputs: tensors(definition.outputs) }]));
}

/** Names of signatures, in the order in which people want them. */
export function wantedFirst(signatures, description) {
  const place = (name) => placeOf(resultsOf(name, signatures[name], description));
  return Object.keys(signatures).sort().sort((a, b) => place(a) - place(b));
}

/**
 * The view of a signature: {about, fields, attended, run}. A `description` is what the model's
 * signature `describe` says, or {}. `attended` are the fields whose texts the model reads at once,
 * [[field] or [field, field], …].
 */
export function viewOf(name, signature, description) {
  const results = resultsOf(signature.index ? "embed" : name, signature, description);
  const make = [search, compare, rank, examples, byIds, ask].find((one) => one.fits(signature, results));
  const view = make(signature, results, description);
  const texts = view.fields.filter((one) => !one.code);
  return { attended: [1, 2].includes(texts.length) ? [texts] : [], ...view };
}

const only = (tensors, ...names) => Object.keys(tensors).every((name) => names.includes(name));
const kindsOf = (results) => Object.values(results).map(({ kind }) => kind);

function field(name, more = {}) {
  return { name, label: LABELS[name] ?? name, value: SAMPLES[name] ?? "",
    ...(name in ROWS ? { rows: ROWS[name] } : {}), ...more };
}

/** Ask `predict` in column form; {output name: values}, also where there is one output alone. */
async function predict(ask, signature, inputs) {
  const { outputs } = await ask("predict", { inputs });
  const names = Object.keys(signature.outputs);
  return names.length === 1 ? { [names[0]]: outputs } : outputs;
}

/** Vectors of texts: two sentences are compared. */
function compare(signature, { embedding: { value } }) {
  return {
    about: "The cosine of the two sentences' embeddings: 1 where they point the same way.",
    fields: SENTENCES,
    attended: SENTENCES.map((one) => [one]),
    async run(values, ask) {
      const outputs = await predict(ask, signature, { text: [values.first, values.second] });
      const vectors = outputs[value];
      return [element("p", {}, "Cosine ",
        element("strong", { id: "cosine" }, cosineOf(...vectors).toFixed(4)),
        ` (${vectors[0].length} dimensions)`)];
    },
  };
}
compare.fits = ({ inputs, outputs }, results) => only(inputs, "text") &&
  results.embedding?.kind === "vector" && outputs[results.embedding.value]?.rank === 2 &&
  outputs[results.embedding.value].dtype !== "DT_UINT8"; // packed bits: bytes have no cosine

/** {name: signature} of searches in a version's indexes, by the vectors of its signature `embed`. */
export function searches({ embed }, indexes, version) {
  return Object.fromEntries((embed ? indexes : []).map((index) =>
    [`search ${index}`, { ...embed, index, version }]));
}

/** A query: the passages of an index that are nearest to its vector. */
function search(signature, results, { prompts = {} }) {
  const { value } = Object.values(results)[0];
  return {
    about: `The passages of ${signature.index} that are nearest to the query.`,
    fields: [field("query")],
    attended: [],
    async run(values, ask) {
      const named = (method, body) => ask(method, { ...body, signature_name: "embed" });
      const outputs = await predict(named, signature,
        { text: [(prompts.query ?? "") + values.query] });
      const found = await searchIndex(signature.index,
        componentsOf(outputs[value][0], signature.outputs[value]));
      return [table(["Rank", "Passage", "Score"], found.map(({ title, text, score }, place) =>
        [String(place + 1), [title, text].filter(Boolean).join(": "), score.toFixed(4)]))];
    },
  };
}
search.fits = ({ index }) => Boolean(index);

/** A vector that can be compared: of packed bits 1 and -1, a byte's highest bit first. */
function componentsOf(vector, { dtype }) {
  return dtype !== "DT_UINT8" ? vector : vector.flatMap((byte) =>
    [7, 6, 5, 4, 3, 2, 1, 0].map((place) => ((byte >> place) & 1) * 2 - 1));
}

/** A query and passages: they are ranked by their scores. */
function rank(signature, results) {
  const { value, of } = Object.values(results)[0];
  const query = Object.keys(signature.inputs).find((name) => name !== of);
  return {
    about: "The passages are ranked by how relevant they are to the query.",
    fields: [field(query), field(of)],
    attended: [],
    async run(values, ask) {
      const passages = values[of].split("\n").map((line) => line.trim()).filter(Boolean);
      if (!passages.length) throw new Error("There is no passage to rank.");
      const outputs = await predict(ask, signature,
        { [query]: passages.map(() => values[query]), [of]: passages });
      const scores = outputs[value];
      const order = [...passages.keys()].sort((a, b) => scores[b] - scores[a]);
      return [table(["Rank", "Passage", "Score"], order.map((index, place) =>
        [String(place + 1), place ? passages[index] : element("strong", { id: "best" },
          passages[index]), scores[index].toFixed(4)]))];
    },
  };
}
rank.fits = ({ inputs }, results) => Object.keys(inputs).length === 2 &&
  kindsOf(results).length === 1 && kindsOf(results)[0] === "relevance";

/** Serialized tf.Example: the methods Classify and Regress. */
function examples(signature, _, { pair }) {
  // Of a model that does not say what it reads, the features are the user's to name.
  const names = { true: ["text_a", "text_b"], false: ["text"] }[pair];
  return {
    about: names ? "" : "A JSON list of objects, whose keys are the features of a tf.Example.",
    fields: names ? names.map((name) => field(name)) : [{ name: "examples", label: "Examples",
      code: true, rows: 6, value: JSON.stringify([{ text: SAMPLES.text }], null, 1) }],
    attended: [],
    async run(values, ask) {
      const method = "outputs" in signature.outputs ? "regress" : "classify";
      const examples = names ? [values] : parse("Examples", values.examples);
      const { results } = await ask(method, { examples });
      return results.map((result) => method === "regress"
        ? element("p", {}, "Score ", element("strong", {}, shown(result)))
        : table(["Class", "Score"], result.map((one) => one.map(shown))));
    },
  };
}
examples.fits = ({ inputs, outputs }) => only(inputs, "inputs", "examples") &&
  (only(outputs, "classes", "scores") || only(outputs, "outputs"));

function byIds(signature) {
  return {
    fields: idsFields(signature.inputs),
    async run(values, ask) {
      return summary(await predict(ask, signature, readIds(signature.inputs, values)));
    },
  };
}
byIds.fits = ({ inputs }) => takesIds(inputs);

/** Any other signature: a text for each input of texts, JSON for each other. */
function ask(signature, results, { mask_token: mask = "[MASK]" }) {
  const isText = (name) => signature.inputs[name].dtype === "DT_STRING" &&
    signature.inputs[name].rank === 1;
  const names = Object.keys(signature.inputs).sort((a, b) =>
    (isText(b) - isText(a)) || (a === "question" ? -1 : b === "question" ? 1 : a < b ? -1 : 1));
  const samples = { candidates: { text: `The capital of France is ${mask}.` },
    spans: { text: "Ann Lee went back to Seoul." },
    continuation: { text: "The quick brown fox" } };
  const sample = Object.assign({}, ...kindsOf(results).map((kind) => samples[kind]));
  const abouts = { candidates: `Write ${mask} where a word is missing.`,
    continuation: "The text is continued.", json: "What the model says of itself, whatever the text." };
  return {
    about: kindsOf(results).map((kind) => abouts[kind]).find(Boolean) ?? "",
    fields: names.map((name) => isText(name)
      ? field(name, name in sample ? { value: sample[name] } : {})
      : jsonField(name, signature.inputs[name])),
    ...(kindsOf(results).includes("json") ? { attended: [] } : {}),
    async run(values, ask) {
      const inputs = Object.fromEntries(names.map((name) =>
        [name, isText(name) ? [values[name]] : parse(name, values[name])]));
      const outputs = await predict(ask, signature, inputs);
      return areShown(results) ? show(results, outputs, values) : summary(outputs);
    },
  };
}
ask.fits = () => true;

function jsonField(name, { dtype, rank }) {
  let value = { DT_STRING: "text", DT_BOOL: true }[dtype] ?? 1;
  for (let axis = 0; axis < rank; axis++) value = [value];
  return { name, label: `${name}: JSON, ${dtype.slice(3).toLowerCase()} of ${rank} axes`,
    code: true, value: JSON.stringify(value) };
}

function parse(label, text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${label} is not JSON: ${error.message}`);
  }
}

/** Shapes and first values of outputs, and all of them as JSON where that is opened. */
function summary(outputs) {
  const names = Object.keys(outputs).sort();
  const text = element("pre", {});
  const all = element("details", {}, element("summary", {}, "JSON"), text);
  all.addEventListener("toggle", () => { // may be large: not before somebody looks
    text.textContent = `{${names.map((name) =>
      `\n ${JSON.stringify(name)}: ${JSON.stringify(outputs[name])}`).join(",")}\n}`;
  }, { once: true });
  return [table(["Output", "Shape", "Values"], names.map((name) =>
    [name, shapeOf(outputs[name]).join(" × "), shown(outputs[name])])), all];
}

function shapeOf(value) {
  return Array.isArray(value) ? [value.length, ...shapeOf(value[0])] : [];
}

function cosineOf(a, b) {
  const dot = (x, y) => x.reduce((sum, value, index) => sum + value * y[index], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}
