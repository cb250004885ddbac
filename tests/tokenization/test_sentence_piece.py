"""SentencePiece against ALBERT's own rules, written out as Python around the bare model."""

import io
import json
import unicodedata

import pytest
import sentencepiece
import tensorflow as tf
import tensorflow_text as tf_text
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.errors import BertTfError, UsageError
from bert_tf.saved_model.ops import SERVING_TEXT_OPS, unservable_ops, used_ops
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.sentence_piece import SPECIAL_TOKENS, SentencePieceTokenizer

CORPUS = ["The quick brown fox jumps over the lazy dog in 2000, in 2012, and in 12, 12, 12,",
          "한국어 문장을 토큰으로 나눈다. 토큰은 문장의 조각이다.",
          'She said "no", not `yes`.'] * 20
WORD = "\u2581"
ANY = st.text(st.sampled_from("theABÉéΑΣσİ '`\"½12,.!\n\t\xa0\u3000\x1c한국ㅋ¨😀") | st.characters(
    exclude_categories=["Cn", "Cs", "Cc"], max_codepoint=0xD7FF), max_size=30)


def train(**options):
    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=stream, hard_vocab_limit=False,
        minloglevel=3, **{"vocab_size": 160, "pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1,
                          "control_symbols": ["[CLS]", "[SEP]", "[MASK]"], **options})
    return stream.getvalue()


@pytest.fixture(scope="module")
def model():
    return train()


@pytest.fixture(scope="module")
def tokenizer(model):
    return SentencePieceTokenizer(model)


def reference(model, text, do_lower_case=True, keep_accents=False):
    """google-research/albert `preprocess_text` and `encode_pieces`."""
    # Not the package sentencepiece: of two ways with one score the versions take different ones.
    bare = tf_text.SentencepieceTokenizer(model, out_type=tf.string)

    def encode(text):
        return [piece.decode() for piece in bare.tokenize(text).numpy()]

    text = " ".join(text.split())
    if not keep_accents:
        text = "".join(c for c in unicodedata.normalize("NFKD", text)
                       if not unicodedata.combining(c))
    pieces = []
    for piece in encode(text.lower() if do_lower_case else text):
        if piece[-1] == "," and piece[-2:-1].isdigit():
            inner = encode(piece[:-1].replace(WORD, ""))
            if piece[0] != WORD and inner[0][0] == WORD:
                inner[0] = inner[0][1:]
            pieces += [part for part in inner if part] + [","]
        else:
            pieces.append(piece)
    return bare.string_to_id(pieces).numpy().tolist() if pieces else []


@pytest.mark.parametrize("options", [{}, {"do_lower_case": False}, {"keep_accents": True}])
def test_equals_the_rules_of_albert(model, options):
    tokenizer = SentencePieceTokenizer(model, **options)
    texts = [*CORPUS[:3], "", "Émile ΟΔΟΣ İ", "``x''  \xa0y\n", "in 2000, 12,000", "ﬁ ½ ㅋㅋ 한국"]
    expected = [reference(model, text, **options) for text in texts]
    graph = tf.function(tokenizer.tokenize, autograph=False,
                        input_signature=[tf.TensorSpec([None], tf.string)])
    assert tokenizer.tokenize(texts).to_list() == expected
    assert graph(tf.constant(texts)).to_list() == expected
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(len(texts)).map(tokenizer.tokenize)
    assert next(iter(dataset)).to_list() == expected


def test_a_comma_after_a_number_is_a_piece(tokenizer):
    pieces = tokenizer.tokens(tokenizer.tokenize(["in 12, 2000,"])).to_list()[0]
    assert f"{WORD}12," in tokenizer.vocabulary.tokens  # the model alone would take it
    assert [piece for piece in pieces if piece.endswith(b",")] == [b",", b","]


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(ANY, min_size=1, max_size=5))
def test_any_text(model, tokenizer, texts):
    ids = tokenizer.tokenize(texts)
    assert ids.to_list() == [reference(model, text) for text in texts]
    # A known character comes back as it was normalized.
    for row, text in zip(ids, tokenizer.detokenize(ids).numpy(), strict=True):
        if tokenizer.vocabulary.unk_id not in row.numpy():
            again = tokenizer.tokenize([text])[0]
            assert again.numpy().tolist() == row.numpy().tolist()


def test_special_tokens_in_text(tokenizer):
    vocabulary = tokenizer.vocabulary
    assert vocabulary.special_ids == (0, 1, 2, 3, 4)
    assert vocabulary.special_tokens == SPECIAL_TOKENS
    assert vocabulary.pair_separators == 1
    ids = tokenizer.tokenize(["The [MASK]fox[SEP]", ""], allow_special=True)
    the, fox = tokenizer.tokenize(["The", "fox"]).to_list()
    assert ids.to_list() == [[*the, 4, *fox, 3], []]
    assert tokenizer.tokens(ids).to_list()[0][len(the)] == b"[MASK]"
    assert tokenizer.detokenize(ids).numpy()[0] == b"the fox"
    assert 4 not in tokenizer.tokenize(["The [MASK] fox"]).flat_values
    word = tokenizer.tokenize(["quickly"]).to_list()[0]
    assert vocabulary.continuation[word].tolist() == [False] + [True] * (len(word) - 1)


def test_an_exported_graph_can_be_served(tokenizer, tmp_path):
    module = tf.Module()
    module.tokenizer = tokenizer
    module.serve = tf.function(
        lambda text: {"ids": tokenizer.tokenize(text, allow_special=True).to_tensor()},
        input_signature=[tf.TensorSpec([None], tf.string, "text")])
    tf.saved_model.save(module, str(tmp_path), signatures=module.serve)
    assert unservable_ops(str(tmp_path)) == []
    assert used_ops(str(tmp_path)) & SERVING_TEXT_OPS == {
        "SentencepieceOp", "SentencepieceTokenizeOp", "FastBertNormalize"}
    served = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    texts = ["The [MASK] fox", *CORPUS[:3]]
    expected = tokenizer.tokenize(texts, allow_special=True).to_tensor()
    assert tf.reduce_all(served(text=tf.constant(texts))["ids"] == expected)


def test_save(model, tmp_path):
    SentencePieceTokenizer(model, do_lower_case=False, keep_accents=True).save(str(tmp_path))
    again = load_tokenizer(str(tmp_path))
    assert again.options == {"do_lower_case": False, "keep_accents": True, "remove_space": True}
    assert (tmp_path / "spiece.model").read_bytes() == model
    (tmp_path / "tokenizer_config.json").unlink()
    assert load_tokenizer(str(tmp_path)).options["do_lower_case"] is True


@pytest.mark.parametrize("lower_case", [True, False])
def test_casing_is_told_and_may_be_given_where_it_agrees(model, tmp_path, lower_case):
    SentencePieceTokenizer(model, do_lower_case=lower_case, keep_accents=not lower_case).save(
        str(tmp_path))
    again = load_tokenizer(str(tmp_path), lower_case=lower_case, strip_accents=lower_case)
    assert (again.lower_case, again.strip_accents) == (lower_case, lower_case)
    with pytest.raises(UsageError, match=f"lower_case={not lower_case} with the tokenizer in .*, "
                                         f"whose lower_case is {lower_case}"):
        load_tokenizer(str(tmp_path), lower_case=not lower_case)
    plain = SentencePieceTokenizer(model, normalization="sentencepiece")
    assert (plain.lower_case, plain.strip_accents) == (False, False)


@pytest.mark.parametrize("content", [b"", b"\xff" * 50, b"\x0a\x05\x0a\xff\x01ab", b"text"])
def test_not_a_model(tmp_path, content):
    (tmp_path / "spiece.model").write_bytes(content)
    with pytest.raises(BertTfError, match="spiece.model is not a SentencePiece model"):
        load_tokenizer(str(tmp_path))


def test_truncated_model(model, tmp_path):
    (tmp_path / "spiece.model").write_bytes(model[:len(model) // 2])
    with pytest.raises(BertTfError, match="spiece.model is not a SentencePiece model"):
        load_tokenizer(str(tmp_path))


def test_other_files_are_named(model, tmp_path):
    (tmp_path / "spiece.model").write_bytes(train(control_symbols=["[CLS]", "[SEP]"]))
    with pytest.raises(BertTfError, match=r"spiece.model has no \[MASK\]"):
        load_tokenizer(str(tmp_path))
    (tmp_path / "spiece.model").write_bytes(model)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"keep_accents": "no"}))
    with pytest.raises(BertTfError, match="keep_accents='no'; expected true or false"):
        load_tokenizer(str(tmp_path))
