// TensorFlow Serving's REST API.

const KEY = "bert_tf key"; // kept for this tab, and forgotten with it

/** The server wants to be shown a key, or another one. */
export class KeyNeeded extends Error {}

/** Show a key to the server from now on; one that no header can hold is no key. */
export function showKey(key) {
  if (!/^[!-~]+$/.test(key)) {
    throw new KeyNeeded("An API key has ASCII characters only, and no blanks.");
  }
  sessionStorage.setItem(KEY, key);
}

/** Whether a key is shown: what a link asks for is asked for without one. */
export function hasKey() {
  return Boolean(sessionStorage.getItem(KEY));
}

/** The path of a model, or of one of its versions. */
export function modelPath(name, version = "") {
  const path = `v1/models/${encodeURIComponent(name)}`;
  return version ? `${path}/versions/${version}` : path;
}

/** The path that tells whether a model has attention pages; with texts, that of their page. */
export function attentionPath(model, version, texts) {
  const query = new URLSearchParams({ model });
  if (version) query.set("version", version);
  texts?.forEach((text, index) => query.set(index ? "text_pair" : "text", text));
  return `page/${texts ? "attention" : "has_attention"}?${query}`;
}

/** The path that tells which indexes a model has. */
export function indexesPath(model, version) {
  const query = new URLSearchParams({ model });
  if (version) query.set("version", version);
  return `page/indexes?${query}`;
}

/** The passages of an index that are nearest to a vector. */
export function searchIndex(index, vector) {
  return post("page/search", { index, vector });
}

/** What a path gives; an Error with the server's own words where it refuses. */
export function get(path) {
  return request(path, { cache: "no-store" });
}

/** What `predict`, `classify` or `regress` answers to a JSON body. */
export function ask(path, method, body) {
  return post(`${path}:${method}`, body);
}

function post(path, body) {
  return request(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

async function request(path, options) {
  const headers = { ...options.headers };
  if (hasKey()) headers.Authorization = `Bearer ${sessionStorage.getItem(KEY)}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    throw new Error("The server cannot be reached.");
  }
  const text = await response.text();
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    // NaN and Infinity, which JavaScript's JSON does not know.
    answer = { error: `The answer is not standard JSON: ${text.slice(0, 200)}` };
  }
  if (response.ok && !answer.error) return answer;
  if (response.status === 401) throw new KeyNeeded(answer.error);
  throw new Error(answer.error ?? `The server answered with status ${response.status}.`);
}
