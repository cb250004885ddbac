// Signatures that take token ids: rows of whole numbers, a line for each text.

const IDS = ["input_word_ids", "input_ids"];
// What goes with the ids, row for row, and what it is where nothing else is written.
const BESIDE = {
  input_mask: { label: "1 for a token, 0 for padding", usual: 1 },
  input_type_ids: { label: "0 for the first text, 1 for the second", usual: 0 },
};
const ALIKE = { attention_mask: "input_mask", token_type_ids: "input_type_ids",
  segment_ids: "input_type_ids" };
const SEED = "seed";
const HINT = "Whole numbers with blanks or commas between are asked for, one line for each text.";

const beside = (name) => BESIDE[ALIKE[name] ?? name];
const idsOf = (inputs) => IDS.find((name) => name in inputs);

/** Whether a signature with these inputs takes token ids and what goes with them, nothing else. */
export function takesIds(inputs) {
  const fits = ([name, { dtype, rank }]) => ["DT_INT32", "DT_INT64"].includes(dtype) &&
    (name === SEED ? rank === 1 : rank === 2 && (name === idsOf(inputs) || beside(name)));
  return Boolean(idsOf(inputs)) && Object.entries(inputs).every(fits);
}

/** The fields of its form: the ids first. */
export function idsFields(inputs) {
  const ids = idsOf(inputs);
  const field = (name) => name === SEED ? { name, label: "Seed", value: "1", rows: 1 }
    : { name, label: `${name}: ${beside(name).label} (empty: ${beside(name).usual} everywhere)` };
  return [{ name: ids, label: `${ids}: token ids, one line for each text`, value: "2 5 6 7 3" },
    ...Object.keys(inputs).filter((name) => name !== ids).sort().map(field),
  ].map((made) => ({ ...made, code: true }));
}

/** What is written in the fields as the inputs of a request: rows of one length. */
export function readIds(inputs, values) {
  const ids = idsOf(inputs);
  const rows = rowsOf(ids, values[ids]);
  if (!rows.length) throw new Error(`${ids} is empty. ${HINT}`);
  const width = Math.max(...rows.map((row) => row.length));
  const padded = (row) => [...row, ...Array(width - row.length).fill(0)];
  const read = (name) => {
    if (name === ids) return rows.map(padded);
    const own = rowsOf(name, values[name]);
    if (name === SEED) return rows.map((_, index) => own.flat()[index] ?? own.flat()[0] ?? 0);
    const full = own.length ? own : rows.map((row) => row.map(() => beside(name).usual));
    const sizes = (of) => of.map((row) => row.length).join(" and ");
    if (sizes(full) !== sizes(rows)) {
      throw new Error(`${name} has lines of ${sizes(full)} numbers, but ${ids} of ${sizes(rows)}.`);
    }
    return full.map(padded);
  };
  return Object.fromEntries(Object.keys(inputs).map((name) => [name, read(name)]));
}

function rowsOf(name, text) {
  const lines = text.split("\n").map((line) => line.split(/[\s,]+/).filter(Boolean));
  return lines.filter((words) => words.length).map((words) => words.map((word) => {
    if (!/^-?\d+$/.test(word)) throw new Error(`${name}: ${word} is no whole number. ${HINT}`);
    return Number(word);
  }));
}
