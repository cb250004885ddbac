// The page's state: which models there are, which signature is tried, and its form.
// It speaks the REST API alone; the names of the models, which that does not list, come from
// page/models. How each kind of signature is asked and shown is in views.js.

import {
  ask, attentionPath, get, hasKey, indexesPath, KeyNeeded, modelPath, showKey } from "./rest.js";
import { element, fill } from "./dom.js";
import { describe, searches, viewOf, wantedFirst } from "./views.js";

const $ = (id) => document.getElementById(id);
const LATEST = "latest";
const UNKNOWN = { signatures: {}, description: {}, hasAttention: false };
let chosen = UNKNOWN; // what loadSignatures learnt of the chosen model
let loads = 0; // counts models that were chosen: only the last one's form is shown
let run = 0; // counts what was asked: only the last answer is shown

function option(value) {
  return element("option", { value }, value);
}

/** Give a select new options, keeping what is chosen, or else `wanted`, where it still exists. */
function offer(select, values, wanted) {
  const kept = [select.value, wanted].find((value) => values.includes(value));
  fill(select, ...values.map(option));
  if (kept !== undefined) select.value = kept;
}

/** What there is of some texts, with a separator between. */
function joined(separator, ...texts) {
  return texts.filter(Boolean).join(separator);
}

function showError(error) {
  fill($("answer"), element("p", { class: "error", role: "alert" }, error.message));
  if (error instanceof KeyNeeded) $("answer").append(keyForm());
}

/** A form for the API key, which is shown to the server from then on. */
function keyForm() {
  const key = element("input", { type: "password", autocomplete: "off", required: "" });
  const form = element("form", { id: "key" },
    element("label", {}, "API key ", key), element("button", { type: "submit" }, "Show it"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    try {
      showKey(key.value.trim());
    } catch (error) {
      showError(error);
      return;
    }
    fill($("answer"));
    refresh();
  });
  return form;
}

async function loadModels() {
  const names = await get("page/models");
  const states = await Promise.all(names.map((name) => get(modelPath(name)).then(
    (status) => status.model_version_status,
    (error) => [{ version: "", state: error.message, status: {} }])));
  fill($("models"), ...names.flatMap((name, index) => states[index].map((version) =>
    element("tr", {},
      element("td", {}, name),
      element("td", { class: "number" }, version.version),
      element("td", {}, joined(": ", version.state, version.status.error_message))))));
  return Object.fromEntries(names.map((name, index) => [name, states[index]]));
}

async function refresh() {
  try {
    const models = await loadModels();
    const [model, signature] = location.hash.slice(1).split("/").map(decodeURIComponent);
    offer($("model"), Object.keys(models), model);
    const versions = (models[$("model").value] ?? [])
      .filter((version) => version.state === "AVAILABLE").map((version) => version.version);
    offer($("version"), [LATEST, ...versions]);
    await loadSignatures(signature);
  } catch (error) {
    showError(error);
  }
}

/**
 * Learn of the chosen model its `signatures`, {name: {inputs, outputs}}, its `description`, where
 * it has the signature `describe`, and whether it has attention pages; then show its form.
 */
async function loadSignatures(wanted) {
  const own = ++loads;
  const [model, number] = [$("model").value, version()];
  const found = { ...UNKNOWN };
  try {
    if (!model) return;
    const path = modelPath(model, number);
    const metadata = await get(`${path}/metadata`);
    const told = metadata.model_spec.version;
    found.signatures = describe(metadata);
    if (found.signatures.describe) found.description = await describedBy(path);
    found.hasAttention = !hasKey() && await get(attentionPath(model, number));
    const indexes = await get(indexesPath(model, told));
    // Passages of such a model were analysed, which nothing here can do with a query.
    found.isUnsearched = found.description.pretokenize && indexes.length > 0;
    Object.assign(found.signatures,
      found.isUnsearched ? {} : searches(found.signatures, indexes, told));
  } finally {
    if (own === loads) {
      chosen = found;
      offer($("signature"), wantedFirst(chosen.signatures, chosen.description), wanted);
      showForm();
    }
  }
}

/** What a model says of itself. */
async function describedBy(path) {
  const { outputs } = await ask(path, "predict",
    { signature_name: "describe", inputs: { text: [""] } });
  return JSON.parse(outputs[0]);
}

function version() {
  return $("version").value === LATEST ? "" : $("version").value;
}

function showForm() {
  const name = $("signature").value;
  fill($("fields"));
  fill($("attention"));
  fill($("answer"));
  run++; // an answer on its way is to another form
  $("answer").removeAttribute("aria-busy");
  $("run").hidden = !name;
  $("about").textContent = name ? "" : "No version of this model is available.";
  if (!name) return;
  history.replaceState(null, "", `#${[$("model").value, name].map(encodeURIComponent).join("/")}`);
  const view = viewOf(name, chosen.signatures[name], chosen.description);
  $("about").textContent = joined(" ", view.about, chosen.description.pretokenize &&
    `Text has to be split into ${chosen.description.pretokenize} for this model.`,
    name === "embed" && chosen.isUnsearched &&
    "So has a query: bert_tf.index search does it and searches the model's indexes.");
  fill($("fields"), ...view.fields.map((field) =>
    element("label", {}, field.label,
      element("textarea", { name: field.name, rows: field.rows ?? 2, dir: "auto",
        class: field.code ? "code" : "", spellcheck: "false" }, field.value ?? ""))));
  linkAttention();
}

/** Links to what the model attends to in the texts that stand in the form. */
function linkAttention() {
  const model = $("model").value;
  const values = new FormData($("form"));
  const name = $("signature").value;
  const { attended } = viewOf(name, chosen.signatures[name], chosen.description);
  fill($("attention"), ...(chosen.hasAttention ? attended : []).map((fields) => element("a", {
    href: attentionPath(model, version(), fields.map(({ name }) => values.get(name))),
    target: "_blank", rel: "noreferrer" },
  joined(": ", "Show attention", attended.length > 1 && fields[0].label))));
}

async function submit(event) {
  event.preventDefault();
  const own = ++run;
  const [model, name] = [$("model").value, $("signature").value];
  const view = viewOf(name, chosen.signatures[name], chosen.description);
  const values = Object.fromEntries(new FormData($("form")));
  $("answer").setAttribute("aria-busy", "true");
  try {
    const shown = await view.run(values, (method, body) =>
      // An index is of one version's vectors, whatever the latest one is by now.
      ask(modelPath(model, chosen.signatures[name].version ?? version()), method,
        { signature_name: name, ...body }));
    if (own === run) fill($("answer"), ...shown);
  } catch (error) {
    if (own === run) showError(error);
  } finally {
    if (own === run) $("answer").removeAttribute("aria-busy");
  }
}

$("form").addEventListener("submit", submit);
$("fields").addEventListener("input", linkAttention);
$("refresh").addEventListener("click", refresh);
$("model").addEventListener("change", () => {
  history.replaceState(null, "", "#");
  fill($("signature")); // each model opens on what it is for
  refresh();
});
$("version").addEventListener("change", () => loadSignatures().catch(showError));
$("signature").addEventListener("change", showForm);
refresh();
