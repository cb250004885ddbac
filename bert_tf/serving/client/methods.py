"""What a client can be asked, told apart from how it is waited for."""

import functools

import numpy as np

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.retrieval.codes import VectorCode
from bert_tf.retrieval.prompts import ROLES, prompted
from bert_tf.retrieval.ranking import cosines, product, ranking
from bert_tf.serving.client.steps import VERSIONS, Steps
from bert_tf.serving.wire import protocol
from bert_tf.serving.wire import results as wire_results
from bert_tf.serving.wire import rows as wire_rows
from bert_tf.tokenization.texts import text_list


def _asks(steps):
    """A public method from a generator of steps, which `_run` of either client does."""
    @functools.wraps(steps)
    def method(self, *arguments, timeout=None, **inputs):
        return self._run(steps(self, *arguments, **inputs), timeout)
    return method


class Methods(Steps):
    """What both clients can be asked.

    Where a method takes a list of texts it takes whatever `text_list` does, such as a Series or a
    generator, and also a single str, for which it gives a single result.
    Each takes `timeout`: seconds after which the whole call has failed, by default any number.
    Text goes to the server as it is; where the model was trained on morphemes it is cut into them
    here (extra `korean`), and offsets are those of the text as given.

    Args:
        address: `host:8500` for gRPC; `http://host:8501` or `https://host:8501` for REST.
            `http_proxy`, `no_proxy` and so on of the environment count (see `proxies`), except
            that no proxy is asked for this machine.
        model: its name on the server.
        version: its number, or
        label: a name that the server's configuration gives to a version; default the latest.
        timeout: seconds within which every request, with its retries, must be answered;
            `math.inf` for any number.
        retries: times that what is UNAVAILABLE is asked again.
        batch_size: texts of a request at most.
        concurrency: requests of one call under way at the same time.
        pretokenize: `"morphemes"` where texts have to be cut into them, `"none"` where not; by
            default each version is asked once, by the signature `describe` if it has that.
        pad_to: tokens to which rows of ids are padded: the model's window, where the server merges
            requests, which have to be of one length then. By default the longest row of a call.
        api_key: one of the server's `--api_key_file`, where it has that.
        tls: a `Tls`: an encrypted gRPC connection, or the certificates for `https://`.

    Raises:
        UsageError: an argument is wrong, or the client is closed. The methods also raise
        RequestError: the server refuses the request, does not answer in time or is not there.
    """

    @_asks
    def embed(self, texts, code=None):
        """Vectors, float32 `[N, W]`, of one text `[W]`.

        Of an export that does not pool a list of `[tokens, W]`; of one that stores vectors small
        its codes, int8 or uint8.

        Args:
            texts: str or list of str.
            code: a `VectorCode` to store them by here; `VectorCode()` gives float32,
                whatever the export stores.
        """
        texts, single = _listed(texts)
        rows, _, description, _ = yield from self.told("embed", text=texts)
        vectors = wire_rows.vectors(rows)
        if not len(vectors):
            output = self._signatures["embed"].outputs["embedding"]
            dtype = protocol.as_array([], protocol.dtype_name(output.dtype)).dtype
            vectors = np.zeros([0, max(output.tensor_shape.dim[-1].size, 0)], dtype)
        if code is not None:
            if isinstance(vectors, list):
                raise UsageError(explain(f"code={code} of {self._spec.name}, which gives a vector "
                                         "for each token", "an export that pools them"))
            served = _code(description)
            vectors = vectors if served == code else code.encode(served.decode(vectors))
        return vectors[0] if single else vectors

    @_asks
    def sparse(self, texts, queries=False):
        """The tokens that weigh most in texts: for each a dict of float by token, heaviest
        first; `queries` are weighed by the table that some models have for them."""
        texts, single = _listed(texts)
        yield from self._known()
        name = self._of_queries() if queries else "sparse"
        results = [row["terms"] for row in (yield from self.values(name, text=texts))]
        return results[0] if single else results

    @_asks
    def vectors(self, texts, prompt="passage"):
        """Vectors of the tokens of texts, for each float32 `[vectors, dim]`.

        Args:
            texts: str or list of str.
            prompt: `query` or `passage`: as what they are read.
        """
        texts, single = _listed(texts)
        name = f"{check_choice('prompt', prompt, ROLES)}_vectors"
        results = [row["vectors"] for row in (yield from self.values(name, text=texts))]
        return results[0] if single else results

    @_asks
    def rank(self, query, passages):
        """Rank passages by a query: by a reranker's scores or MaxSim of vectors of tokens, else by
        the scalar product of weights of tokens or the cosine of vectors, of the texts after the
        model's prompts.

        Args:
            query: str.
            passages: list of str.

        Returns: list of dicts of `text`, `index` in `passages` and `score`, highest first; of equal
            scores the earlier first.
        """
        passages = text_list(passages, "passages")
        [query] = text_list([query], "query")
        yield from self._known()
        if "rank" in self._signatures:
            rows = yield from self.rows("rank", query=[query] * len(passages), passage=passages)
            return ranking(passages, [row["score"] for row in rows])
        name = "sparse" if "sparse" in self._signatures else "embed"
        description = yield from self.described()
        for _ in range(VERSIONS):
            prompts = description.get("prompts") or {}
            texts = [prompted(prompts, "query", query), *(
                prompted(prompts, "passage", text) for text in passages)]
            rows, results, description, version = yield from self.told(name, text=texts)
            of_query = version
            if name == "sparse" and self._of_queries() != name:
                rows[:1], *_, of_query = yield from self.told(self._of_queries(), text=texts[:1])
            # A new version's prompts may be others.
            if of_query == version and prompts == (description.get("prompts") or {}):
                break
        else:
            raise self._in_turn()
        if name == "sparse":
            first, *others = (wire_results.plain(results["terms"], row) for row in rows)
            return ranking(passages, [product(first, other) for other in others])
        vectors = wire_rows.vectors(rows)
        if isinstance(vectors, list):
            raise UsageError(explain(f"{self._spec.name} gives a vector for each token",
                                     "an export that pools them"))
        vectors = _code(description).decode(vectors)
        return ranking(passages, cosines(vectors[0], vectors[1:]))

    @_asks
    def classify(self, texts, text_pairs=None):
        """Labels of texts, or of pairs of texts.

        Args:
            texts: str or list of str.
            text_pairs: as many second texts, of a model of pairs.

        Returns: for each a dict of `label`, `score`, its probability, and `probabilities`, a dict
            by label. Where a text may have several labels also `chosen`, a list of those it has.
        """
        return (yield from self._predicted(texts, text_pairs, "label", "labels", "regress"))

    @_asks
    def regress(self, texts, text_pairs=None):
        """Numbers for texts, or for pairs of texts: a list of float, for one text a float."""
        return (yield from self._predicted(texts, text_pairs, "number", "numbers", "classify"))

    @_asks
    def answer(self, question, context):
        """Answers to questions, each from its context.

        Args:
            question, context: str or lists of str; a single one stands beside each of the others.

        Returns: for each a dict of `answer`, `score`, `start` and `end` (characters of the
            context), None where the context does not answer the question, `no_answer_score`, and
            `answers`, a list of the best ones.
        """
        questions, contexts = _beside(question, context)
        rows = yield from self.values("answer", question=questions, context=contexts)
        results = [{**row["answer"], "no_answer_score": row["no_answer_score"],
                    "answers": row["answers"]} for row in rows]
        return results[0] if isinstance(question, str) and isinstance(context, str) else results

    @_asks
    def tag(self, texts):
        """Entities: for each text a list of dicts of `text`, `label`, `start`, `end`, `score`."""
        texts, single = _listed(texts)
        results = [row["entities"] for row in (yield from self.values("tag", text=texts))]
        return results[0] if single else results

    @_asks
    def fill_mask(self, texts):
        """What may stand for the mask tokens, such as `[MASK]`, written in texts.

        Returns: for each text, for each mask, a list of dicts of `token`, `score` and `text`, what
            the token writes, best first; exports of an earlier version say no `text`.
        """
        texts, single = _listed(texts)
        results = [row["masks"] for row in (yield from self.values("fill_mask", text=texts))]
        return results[0] if single else results

    @_asks
    def generate(self, texts, seed=None):
        """Continuations of texts: for each a str, to be put after it.

        Args:
            seed: whole numbers, one for each text, one alone for a str: each token is drawn, which
                the signature `sample` does as the export says. The likeliest ones without.
        """
        texts, single = _listed(texts)
        rows = yield from (self.values("generate", text=texts) if seed is None else
                           self.values("sample", text=texts, seed=[seed] if single else seed))
        results = [row["continuation"] for row in rows]
        return results[0] if single else results

    @_asks
    def predict(self, signature, **inputs):
        """Any signature: for each row a dict of its outputs, without padding.

        Args:
            signature: its name; `""` for `serving_default`.
            inputs: by name lists, or arrays, of as many rows.
        """
        return (yield from self.rows(signature or "serving_default", **inputs))

    @_asks
    def ask(self, signature="", **inputs):
        """What any signature says, as plain values.

        Args, errors: as of `predict`.

        Returns: for each row a dict by the names of the signature's results (see `describe`): of
            labels and spans dicts, of several of them lists, of numbers floats, of vectors arrays;
            `bert_tf/serving/wire/results.py` has the table.
        """
        return (yield from self.values(signature or "serving_default", **inputs))

    @_asks
    def describe(self):
        """What the model says of itself, a dict: `labels`, `seq_length`, `pretokenize` and so on.

        See `bert_tf.saved_model.signatures.description`.
        """
        return (yield from self.description())

    @_asks
    def metadata(self):
        """The model's signatures.

        Returns: dict of `name`, `version`, and `signatures`: by name `inputs` and `outputs`, by
            name `dtype`, such as `DT_STRING`, and `shape`, a list with -1 for any size.
        """
        version = yield from self.hear()
        return {"name": self._spec.name, "version": version,
                "signatures": {name: {"inputs": _told(signature.inputs),
                                      "outputs": _told(signature.outputs)}
                               for name, signature in sorted(self._signatures.items())}}

    @_asks
    def status(self):
        """The model's versions: list of dicts of `version`, `state`, `error_code` and `_message`.

        A state is `START`, `LOADING`, `AVAILABLE`, `UNLOADING` or `END`.
        """
        [response] = yield [self._wire.status()]
        return [{"version": each.version, "state": _enum_name(each, "state"),
                 "error_code": _enum_name(each.status, "error_code"),
                 "error_message": each.status.error_message}
                for each in response.model_version_status]

    def _of_queries(self):
        """The signature that weighs the tokens of queries."""
        name = "sparse_queries"
        return name if name in self._signatures else "sparse"

    def _predicted(self, texts, text_pairs, kind, given, other):
        """Results of a classifier's signature, which have to be of a kind; of one text, one."""
        texts, single = _listed(texts)
        inputs = {"text": texts}
        if text_pairs is not None:
            inputs = {"text_a": texts, "text_b": _listed(text_pairs)[0]}
        rows, results, *_ = yield from self.told("predict", **inputs)
        name = next((name for name in results if results[name]["kind"] == kind), None)
        if name is None:
            raise UsageError(explain(f"{self._spec.name} gives no {given}", attempt=other))
        values = [wire_results.plain(results[name], row) for row in rows]
        return values[0] if single else values


def _code(description):
    """The `VectorCode` of what the signature `embed` gives."""
    return VectorCode.from_options(description.get("embedding", {}))


def _listed(texts):
    """`(list of texts, whether it was a single one)`."""
    return ([texts], True) if isinstance(texts, str) else (text_list(texts), False)


def _beside(question, context):
    questions, one_question = _listed(question)
    contexts, one_context = _listed(context)
    if one_question:
        questions *= len(contexts)
    elif one_context:
        contexts *= len(questions)
    return questions, contexts


def _told(infos):
    return {name: {"dtype": protocol.dtype_name(info.dtype),
                   "shape": [dim.size for dim in info.tensor_shape.dim]}
            for name, info in sorted(infos.items())}


def _enum_name(message, field):
    number = getattr(message, field)
    value = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number.get(number)
    return value.name if value else str(number)
