"""What the client's methods give, of served models of every task, against the same in-process."""

import asyncio

import numpy as np
import pytest
from tiny_model import LABELS, SEQ_LENGTH, TOP_K

from bert_tf.errors import UsageError
from bert_tf.serving.client import AsyncClient, Client, RequestError
from bert_tf.tokenization.morphemes import analyse

TEXTS = ["The quick brown fox", "", "안녕하세요, ㅋㅋ 😀!", "Café the dog", "a lazy fox " * 30]
CLOSE = {"atol": 1e-5}


@pytest.fixture(params=["address", "rest"])
def ask(request, task_models):
    """`ask(model, method, *arguments, **inputs)`; batches of two rows."""
    address = getattr(task_models.server, request.param)

    def ask(model, method, *arguments, **inputs):
        with Client(address, model, batch_size=2) as client:
            return getattr(client, method)(*arguments, **inputs)
    return ask


def _rows(task_models, model, signature, **inputs):
    """What the SavedModel answers each row by itself, which has no padding then."""
    rows = []
    for values in zip(*inputs.values(), strict=True):
        outputs = task_models.call[model](signature, **{
            name: [value] for name, value in zip(inputs, values, strict=True)})
        rows.append({name: array[0] for name, array in outputs.items()})
    return rows


def test_embed(ask, task_models):
    expected = np.stack([row["embedding"] for row in _rows(task_models, "bert", "embed",
                                                           text=TEXTS)])
    np.testing.assert_allclose(ask("bert", "embed", TEXTS), expected, **CLOSE)
    np.testing.assert_allclose(ask("bert", "embed", TEXTS[0]), expected[0], **CLOSE)

    unit = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    ranked = ask("bert", "rank", TEXTS[3], TEXTS)
    assert ranked[0]["text"] == TEXTS[3]
    np.testing.assert_allclose([each["score"] for each in ranked],
                               [unit[each["index"]] @ unit[3] for each in ranked], **CLOSE)


def test_sparse(ask, task_models):
    found = ask("sparse", "sparse", TEXTS)
    for terms, expected in zip(found, _rows(task_models, "sparse", "sparse", text=TEXTS),
                               strict=True):
        assert set(terms) == {term.decode() for term in expected["terms"]}
        np.testing.assert_allclose(list(terms.values()), expected["weights"], **CLOSE)
    assert list(ask("sparse", "sparse", TEXTS[0])) == list(found[0])
    query = ask("sparse", "sparse", "the a dog", queries=True)  # after the prompt
    assert query == {"the": 1, "a": 1, "dog": 1}  # of a table of ones
    ranked = ask("sparse", "rank", "a dog", TEXTS)
    np.testing.assert_allclose(
        [each["score"] for each in ranked],
        [sum(weight * found[each["index"]].get(term, 0) for term, weight in query.items())
         for each in ranked], rtol=1e-4)


def test_vectors_of_tokens(ask, task_models):
    for role in ("query", "passage"):
        found = ask("multi_vector", "vectors", TEXTS, role)
        rows = _rows(task_models, "multi_vector", f"{role}_vectors", text=TEXTS)
        for vectors, expected in zip(found, rows, strict=True):
            np.testing.assert_allclose(vectors, expected["vectors"][:expected["num_vectors"]],
                                       **CLOSE)
        np.testing.assert_allclose(ask("multi_vector", "vectors", TEXTS[0], role), found[0],
                                   **CLOSE)
    [query] = ask("multi_vector", "vectors", ["a dog"], "query")
    for each in ask("multi_vector", "rank", "a dog", TEXTS):
        assert each["score"] == pytest.approx((query @ found[each["index"]].T).max(1).sum(),
                                              rel=1e-4)


def test_encode_without_padding(ask, task_models):
    rows = ask("bert", "predict", "encode", text=TEXTS)
    for row, expected in zip(rows, _rows(task_models, "bert", "encode", text=TEXTS),
                             strict=True):
        assert row["tokens"] == [token.decode() for token in expected["tokens"]]
        assert row["num_tokens"] == len(row["tokens"]) == len(row["sequence_output"])
        np.testing.assert_allclose(row["sequence_output"], expected["sequence_output"], **CLOSE)
        np.testing.assert_allclose(row["pooled_output"], expected["pooled_output"], **CLOSE)


def test_fill_mask(ask, task_models):
    texts = ["The [MASK] fox", "nothing", "[MASK] the [MASK] dog [MASK]"]
    filled = ask("bert", "fill_mask", texts)
    assert [len(masks) for masks in filled] == [1, 0, 3]
    for masks, expected in zip(filled, _rows(task_models, "bert", "fill_mask", text=texts),
                               strict=True):
        assert [[each["token"] for each in mask] for mask in masks] == [
            [token.decode() for token in tokens] for tokens in expected["tokens"]]
        assert [[each["text"] for each in mask] for mask in masks] == [
            [text.decode() for text in texts] for texts in expected["texts"]]
        scores = np.array([[each["score"] for each in mask] for mask in masks])
        np.testing.assert_allclose(scores.reshape(-1, TOP_K), expected["scores"], **CLOSE)
    [mask] = ask("bert", "fill_mask", texts[0])
    assert [each["token"] for each in mask] == [each["token"] for each in filled[0][0]]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["address", "rest"])
def test_generate(more_task_models, kind):
    expected = [row["text"].decode() for row in _rows(more_task_models, "gpt", "generate",
                                                      text=TEXTS)]
    with Client(getattr(more_task_models.server, kind), "gpt", batch_size=2) as client:
        assert client.generate(TEXTS) == expected
        assert client.generate(TEXTS[0]) == expected[0]


def test_next_sentence(ask, task_models):
    rows = ask("bert", "predict", "next_sentence", text_a=TEXTS, text_b=TEXTS[::-1])
    expected = _rows(task_models, "bert", "next_sentence", text_a=TEXTS, text_b=TEXTS[::-1])
    np.testing.assert_allclose([row["probability"] for row in rows],
                               [row["probability"] for row in expected], **CLOSE)


def test_rank_by_a_reranker(ask, task_models):
    ranked = ask("ranker", "rank", TEXTS[0], TEXTS)
    expected = _rows(task_models, "ranker", "rank", query=[TEXTS[0]] * len(TEXTS), passage=TEXTS)
    scores = np.array([row["score"] for row in expected])
    assert [each["index"] for each in ranked] == np.argsort(-scores, kind="stable").tolist()
    assert [each["text"] for each in ranked] == [TEXTS[each["index"]] for each in ranked]
    np.testing.assert_allclose([each["score"] for each in ranked], np.sort(scores)[::-1], **CLOSE)
    assert ask("ranker", "rank", TEXTS[0], []) == []


def test_classify(ask, task_models):
    results = ask("classifier", "classify", TEXTS)
    expected = _rows(task_models, "classifier", "predict", text=TEXTS)
    for result, row in zip(results, expected, strict=True):
        assert result["label"] == max(result["probabilities"], key=result["probabilities"].get)
        assert result["score"] == max(result["probabilities"].values())
        assert list(result["probabilities"]) == LABELS
        np.testing.assert_allclose(list(result["probabilities"].values()), row["probabilities"],
                                   **CLOSE)
    with pytest.raises(UsageError, match="gives no numbers; try classify"):
        ask("classifier", "regress", TEXTS)


def test_classify_pairs_with_several_labels(ask, task_models):
    results = ask("several", "classify", TEXTS, TEXTS[::-1])
    for result, row in zip(results, _rows(task_models, "several", "predict", text_a=TEXTS,
                                          text_b=TEXTS[::-1]), strict=True):
        assert result["chosen"] == [label for label, probability in zip(
            LABELS, row["probabilities"], strict=True) if probability >= 0.5]
    assert ask("several", "classify", TEXTS[0], TEXTS[4])["label"] == results[0]["label"]
    with pytest.raises(UsageError, match="inputs text .* expected text_a text_b"):
        ask("several", "classify", TEXTS)
    with pytest.raises(UsageError, match="5 of text_a, 1 of text_b"):
        ask("several", "classify", TEXTS, TEXTS[:1])


@pytest.mark.long
@pytest.mark.parametrize("kind", ["address", "rest"])
def test_regress(more_task_models, kind):
    expected = [row["score"] for row in _rows(more_task_models, "regressor", "predict",
                                              text=TEXTS)]
    with Client(getattr(more_task_models.server, kind), "regressor", batch_size=2) as client:
        numbers = client.regress(TEXTS)
        assert {type(number) for number in numbers} == {float}
        np.testing.assert_allclose(numbers, expected, **CLOSE)
        with pytest.raises(UsageError, match="gives no labels; try regress"):
            client.classify(TEXTS)


def test_answer(ask, task_models):
    contexts = ["The quick brown fox jumps over the lazy dog.", "안녕하세요 Café the fox 😀 a dog",
                ""]
    results = ask("span", "answer", "the fox", contexts)
    for result, row, context in zip(results, _rows(
            task_models, "span", "answer", question=["the fox"] * 3, context=contexts), contexts,
            strict=True):
        found = [text.decode() for text in row["answers"] if text]
        assert [each["answer"] for each in result["answers"]] == found
        assert found == [context[each["start"]:each["end"]] for each in result["answers"]]
        np.testing.assert_allclose([each["score"] for each in result["answers"]],
                                   row["scores"][:len(found)], **CLOSE)
        assert result["answer"] == (found[0] if row["has_answer"] else None)
    assert {result["answer"] is None for result in results} == {True, False}
    one, _ = ask("span", "answer", ["the fox", "a dog"], contexts[0])
    assert (one["start"], one["end"]) == (results[0]["start"], results[0]["end"])
    assert ask("span", "answer", "the fox", contexts[1])["answer"] == results[1]["answer"]


def test_tag_of_morphemes_in_the_original(ask, task_models):
    pytest.importorskip("kiwipiepy")
    texts = ["영화를 재밌게 봤다", "the lazy dog 영화를봤다", ""]
    analysed = analyse(texts)
    assert analysed[0] != texts[0]
    results = ask("morphemes", "tag", texts)
    assert sum(map(len, results)) > 2
    for text, entities, row in zip(texts, results, _rows(
            task_models, "morphemes", "tag", text=analysed), strict=True):
        assert [text[each["start"]:each["end"]] for each in entities] == [
            each["text"] for each in entities]
        assert [each["text"].replace(" ", "") for each in entities] == [
            found.decode().replace(" ", "") for found in row["entities"]]
        assert [each["label"] for each in entities] == [label.decode() for label in row["labels"]]
        np.testing.assert_allclose([each["score"] for each in entities], row["scores"], **CLOSE)


def test_what_a_model_says_of_itself(ask):
    assert ask("morphemes", "describe")["pretokenize"] == "morphemes"
    described = ask("classifier", "describe")
    assert (described["labels"], described["seq_length"]) == (LABELS, SEQ_LENGTH)
    assert ask("span", "status") == [
        {"version": 1, "state": "AVAILABLE", "error_code": "OK", "error_message": ""}]
    signatures = ask("span", "metadata")["signatures"]
    assert signatures["answer"]["inputs"]["question"] == {"dtype": "DT_STRING", "shape": [-1]}


@pytest.mark.parametrize("kind", ["address", "rest"])
def test_many_coroutines(task_models, kind):
    async def ask_all():
        address = getattr(task_models.server, kind)
        async with AsyncClient(address, "bert") as client:
            return await asyncio.gather(*(client.embed(text) for text in TEXTS * 8))

    expected = [row["embedding"] for row in _rows(task_models, "bert", "embed", text=TEXTS)]
    np.testing.assert_allclose(asyncio.run(ask_all()), expected * 8, **CLOSE)


@pytest.mark.parametrize("kind", ["address", "rest"])
@pytest.mark.parametrize("options", [{"model": "nothing"}, {"version": 7}, {"label": "stable"}])
def test_unknown_models_and_versions(task_models, kind, options):
    with Client(getattr(task_models.server, kind), **{"model": "bert", **options}) as client:
        # Of a label that no version has TensorFlow Serving tells the states of all versions.
        status = [] if "label" in options else [client.status]
        for ask in (client.metadata, lambda: client.embed("a"), *status):
            with pytest.raises(RequestError, match=str(next(iter(options.values())))):
                ask()


def test_a_version_by_number(task_models):
    with Client(task_models.server.address, "bert", version=1) as client:
        assert client.metadata()["version"] == 1
        assert client.embed(["a"]).shape[0] == 1


def test_the_other_protocol_s_port(task_models):
    server = task_models.server
    for address, spoken in ((f"http://{server.address}", "gRPC"),
                            (server.rest.removeprefix("http://"), "REST")):
        with (Client(address, "bert", retries=100) as client,
              pytest.raises(RequestError, match=f"{address} speaks {spoken} without TLS")):
            client.status()
