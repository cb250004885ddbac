// How each kind of signature is asked and its answer shown. A signature's kind is known by the
// names of its inputs and outputs; what no view knows gets a form of JSON and a summary of outputs.

import { element, highlighted, share, table } from "./dom.js";
import { idsFields, readIds, takesIds } from "./ids.js";

const SHOWN = { string: 200, other: 12 }; // values of an output that are shown
// What people want of a model, most of all first; of a signature that is not here least.
const WANTED = ["answer", "predict", "tag", "generate", "fill_mask", "next_sentence",
  "sentence_order", "replaced", "embed", "sample", "encode", "serving_default", "classify",
  "regress", "describe"];

/** Names of signatures, in the order in which people want them. */
export function wantedFirst(names) {
  const place = (name) => WANTED.includes(name) ? WANTED.indexOf(name) : WANTED.length;
  return [...names].sort().sort((a, b) => place(a) - place(b));
}

/** {name: {inputs, outputs}} of a model's metadata; tensors are {dtype, rank}. */
export function describe(metadata) {
  const tensors = (infos) => Object.fromEntries(Object.entries(infos ?? {}).map(([name, info]) =>
    [name, { dtype: info.dtype, rank: (info.tensor_shape?.dim ?? []).length }]));
  return Object.fromEntries(Object.entries(metadata.metadata.signature_def.signature_def)
    .filter(([name]) => !name.startsWith("__"))
    .map(([name, definition]) =>
      [name, { inputs: tensors(definition.inputs), outputs: tensors(definition.outputs) }]));
}

/**
 * The view of a signature: {about, fields, attended, run}. A `description` is what the model's
 * signature `describe` says, or {}. `attended` are the fields whose texts the model reads at once,
 * [[field] or [field, field], …].
 */
export function viewOf(signature, description) {
  const found = VIEWS.find(({ matches }) => matches(signature));
  const view = found ? found.make(signature, description) : json(signature);
  const texts = view.fields.filter((one) => !one.code);
  return { attended: [1, 2].includes(texts.length) ? [texts] : [], ...view };
}

const has = (tensors, ...names) => names.every((name) => name in tensors);
const only = (tensors, ...names) => Object.keys(tensors).every((name) => names.includes(name));
const inputsOf = (signature) => Object.keys(signature.inputs);
const LABELS = { text: "Text", text_a: "First text", text_b: "Second text",
  question: "Question", context: "Text in which the answer stands" };
const SAMPLES = { text: "The quick brown fox jumps over the lazy dog.",
  text_a: "It rains.", text_b: "Take an umbrella.",
  question: "Where does Ann Lee live?", context: "Ann Lee moved to Seoul in 2019." };
const SENTENCES = [{ name: "first", label: "First sentence", value: "A cat sits on the mat." },
  { name: "second", label: "Second sentence", value: "A kitten is lying on a rug." }];

function field(name, more = {}) {
  return { name, label: LABELS[name] ?? name, value: SAMPLES[name] ?? "", ...more };
}

/** Ask `predict` in column form; {output name: values}, also where there is one output alone. */
async function predict(ask, signature, inputs) {
  const { outputs } = await ask("predict", { inputs });
  const names = Object.keys(signature.outputs);
  return names.length === 1 ? { [names[0]]: outputs } : outputs;
}

const batchOfOne = (values, names) =>
  Object.fromEntries(names.map((name) => [name, [values[name]]]));

const VIEWS = [
  { // fill_mask
    matches: ({ inputs, outputs }) => only(inputs, "text") &&
      has(outputs, "tokens", "scores", "num_masks"),
    make: (signature, { mask_token: mask = "[MASK]" }) => ({
      about: `Write ${mask} where a word is missing.`,
      fields: [field("text", { value: `The capital of France is ${mask}.` })],
      async run(values, ask) {
        const outputs = await predict(ask, signature, { text: [values.text] });
        const { tokens: [tokens], scores: [scores], num_masks: [count] } = outputs;
        if (!count) return [element("p", {}, "There is no mask in the text.")];
        return tokens.slice(0, count).flatMap((candidates, index) => [
          element("h3", {}, `Mask ${index + 1}`),
          table(["Token", "Probability"], candidates.map((token, rank) =>
            [token, share(scores[index][rank], token)]))]);
      },
    }),
  },
  { // embed
    matches: ({ inputs, outputs }) => only(inputs, "text") &&
      outputs.embedding?.rank === 2,
    make: (signature) => ({
      about: "The cosine of the two sentences' embeddings: 1 where they point the same way.",
      fields: SENTENCES,
      attended: SENTENCES.map((one) => [one]),
      async run(values, ask) {
        const { embedding } = await predict(ask, signature,
          { text: [values.first, values.second] });
        const cosine = cosineOf(...embedding);
        return [element("p", {}, "Cosine ", element("strong", { id: "cosine" }, cosine.toFixed(4)),
          ` (${embedding[0].length} dimensions)`)];
      },
    }),
  },
  { // classifiers and regressions
    matches: ({ inputs, outputs }) => only(inputs, "text", "text_a", "text_b") &&
      has(outputs, "score") &&
      only(outputs, "label", "score", "probabilities", "labels", "chosen"),
    make: (signature) => ({
      fields: inputsOf(signature).sort().map((name) => field(name)),
      async run(values, ask) {
        const outputs = await predict(ask, signature, batchOfOne(values, inputsOf(signature)));
        const { label, score, probabilities, labels, chosen } = outputs;
        const told = element("p", {}, label ? "Label " : "Score ",
          element("strong", { id: "best" }, label ? label[0] : String(score[0])));
        if (!labels) return [told];
        const order = [...labels[0].keys()]
          .sort((a, b) => probabilities[0][b] - probabilities[0][a]);
        const rows = order.map((index) => [labels[0][index],
          share(probabilities[0][index], labels[0][index]),
          ...(chosen ? [chosen[0][index] ? "yes" : "no"] : [])]);
        return [told, table(["Label", "Probability", ...(chosen ? ["Chosen"] : [])], rows)];
      },
    }),
  },
  { // answer
    matches: ({ inputs, outputs }) => has(inputs, "question", "context") &&
      (has(outputs, "answers", "starts", "ends") || has(outputs, "answer", "start", "end")),
    make: (signature) => ({
      fields: [field("question"), field("context", { rows: 8 })],
      async run(values, ask) {
        const outputs = await predict(ask, signature, batchOfOne(values, ["question", "context"]));
        const row = (...names) => [].concat(outputs[names.find((name) => name in outputs)][0]);
        const [texts, starts, ends, scores] = [row("answers", "answer"), row("starts", "start"),
          row("ends", "end"), row("scores", "score")];
        const found = texts.map((text, index) =>
          ({ text, start: starts[index], end: ends[index], score: scores[index] }))
          .filter((answer) => answer.end > answer.start);
        const none = outputs.has_answer?.[0] === false || !found.length;
        return [
          element("p", {}, none ? "The text does not answer the question, says the model."
            : element("strong", { id: "best" }, found[0].text)),
          highlighted(values.context, none ? [] : found.slice(0, 1)),
          table(["Answer", "Score"],
            found.map(({ text, score }) => [text, share(score, text)]))];
      },
    }),
  },
  { // tag
    matches: ({ inputs, outputs }) => only(inputs, "text") &&
      has(outputs, "entities", "labels", "starts", "ends"),
    make: (signature) => ({
      fields: [field("text", { rows: 6, value: "Ann Lee went back to Seoul." })],
      async run(values, ask) {
        const outputs = await predict(ask, signature, { text: [values.text] });
        const { entities: [texts], labels: [labels], starts: [starts], ends: [ends] } = outputs;
        const count = outputs.num_entities?.[0] ?? texts.filter(Boolean).length;
        const found = texts.slice(0, count).map((text, index) =>
          ({ text, label: labels[index], start: starts[index], end: ends[index],
            score: outputs.scores?.[0][index] }));
        if (!count) return [element("p", {}, "No entity was found.")];
        return [highlighted(values.text, found),
          table(["Entity", "Type", "Score"], found.map((entity) => [entity.text, entity.label,
            entity.score === undefined ? "" : share(entity.score, entity.text)]))];
      },
    }),
  },
  { // generate and sample
    matches: ({ inputs, outputs }) => only(inputs, "text", "seed") &&
      has(outputs, "text", "tokens", "num_tokens"),
    make: (signature) => ({
      about: "The text is continued.",
      fields: inputsOf(signature).sort().reverse().map((name) => name === "seed"
        ? { name, label: "Seed", value: "1", rows: 1, code: true }
        : field(name, { value: "The quick brown fox" })),
      async run(values, ask) {
        const { seed } = values;
        const { text: [added], num_tokens: [count] } = await predict(ask, signature,
          { text: [values.text], ...(seed === undefined ? {} : { seed: [parse("Seed", seed)] }) });
        const start = Array.from(values.text).length;
        return [highlighted(values.text + added, [{ start, end: start + Array.from(added).length }]),
          element("p", {}, `${count} tokens were added.`)];
      },
    }),
  },
  { // next_sentence and sentence_order
    matches: ({ inputs, outputs }) => has(inputs, "text_a", "text_b") &&
      only(inputs, "text_a", "text_b") && only(outputs, "probability"),
    make: (signature) => ({
      about: "The probability that the second text follows the first.",
      fields: [field("text_a"), field("text_b")],
      async run(values, ask) {
        const { probability } = await predict(ask, signature,
          batchOfOne(values, ["text_a", "text_b"]));
        return [element("p", {}, "Probability ", share(probability[0], "Probability"))];
      },
    }),
  },
  { // replaced
    matches: ({ inputs, outputs }) => only(inputs, "text") &&
      has(outputs, "probability", "tokens", "num_tokens"),
    make: (signature) => ({
      about: "For each token the probability that it was put in place of another.",
      fields: [field("text")],
      async run(values, ask) {
        const outputs = await predict(ask, signature, { text: [values.text] });
        const { tokens: [tokens], probability: [probability], num_tokens: [count] } = outputs;
        return [table(["Token", "Probability"], tokens.slice(0, count).map((token, index) =>
          [token, share(probability[index], token)]))];
      },
    }),
  },
  { // describe
    matches: ({ inputs, outputs }) => only(inputs, "text") && only(outputs, "description"),
    make: (signature) => ({
      about: "What the model says of itself, whatever the text.",
      fields: [field("text")],
      attended: [],
      async run(values, ask) {
        const { description } = await predict(ask, signature, { text: [values.text] });
        return [table(["What", "Value"], Object.entries(JSON.parse(description[0]))
          .map(([name, value]) => [name, shown(value)]))];
      },
    }),
  },
  { // on serialized tf.Example: Classify and Regress
    matches: ({ inputs, outputs }) => only(inputs, "inputs", "examples") &&
      (only(outputs, "classes", "scores") || only(outputs, "outputs")),
    make: (signature, { pair }) => {
      // Of a model that does not say what it reads, the features are the user's to name.
      const names = { true: ["text_a", "text_b"], false: ["text"] }[pair];
      return {
        about: names ? "" : "A JSON list of objects, whose keys are the features of a tf.Example.",
        fields: names ? names.map((name) => field(name)) : [{ name: "examples", label: "Examples",
          code: true, rows: 6, value: JSON.stringify([{ text: SAMPLES.text }], null, 1) }],
        attended: [],
        async run(values, ask) {
          const method = has(signature.outputs, "outputs") ? "regress" : "classify";
          const examples = names ? [values] : parse("Examples", values.examples);
          const { results } = await ask(method, { examples });
          return results.map((result) => method === "regress"
            ? element("p", {}, "Score ", element("strong", {}, shown(result)))
            : table(["Class", "Score"], result.map((one) => one.map(shown))));
        },
      };
    },
  },
  { // on token ids
    matches: ({ inputs }) => takesIds(inputs),
    make: (signature) => ({
      fields: idsFields(signature.inputs),
      async run(values, ask) {
        return summary(await predict(ask, signature, readIds(signature.inputs, values)));
      },
    }),
  },
];

/** The form of any signature: a text for each input of texts, JSON for each other. */
function json(signature) {
  const isText = (name) => signature.inputs[name].dtype === "DT_STRING" &&
    signature.inputs[name].rank === 1;
  const names = inputsOf(signature).sort();
  return {
    fields: names.map((name) =>
      isText(name) ? field(name) : jsonField(name, signature.inputs[name])),
    async run(values, ask) {
      const inputs = Object.fromEntries(names.map((name) =>
        [name, isText(name) ? [values[name]] : parse(name, values[name])]));
      return summary(await predict(ask, signature, inputs));
    },
  };
}

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

/** A value as text: of a tensor, as nested lists, its first values. */
function shown(value) {
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

function cosineOf(a, b) {
  const dot = (x, y) => x.reduce((sum, value, index) => sum + value * y[index], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}
