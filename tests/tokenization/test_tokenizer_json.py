"""A `tokenizer.json` with rules that no graph can run works in Python; a damaged one is refused."""

import importlib
import json

import pytest
import tensorflow as tf
import tiny_model
import tokenizers
from json_folder import load

from bert_tf.converters.hf_tokenizer import to_json
from bert_tf.errors import BertTfError, UsageError
from bert_tf.saved_model.ops import unservable_ops
from bert_tf.tokenization.byte_pair import SPECIAL_TOKENS, BytePairTokenizer
from bert_tf.tokenization.library import LibraryTokenizer
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.sentence_piece import SentencePieceTokenizer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS as BERT_SPECIALS
from bert_tf.tokenization.vocabulary import AddedToken, Vocabulary, default_added_tokens

NAMES = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"),
                 SPECIAL_TOKENS, strict=True))


def byte_pair():
    return to_json(BytePairTokenizer([*SPECIAL_TOKENS, "a", "b", "ab"], [("a", "b")]))


@pytest.mark.parametrize("merge", ["a b", ["a", "b"]])
def test_merges_are_written_in_either_form(tmp_path, merge):
    values = byte_pair()
    values["model"]["merges"] = [merge]
    assert load(tmp_path, values).tokenize(["aab"]).to_list() == [[5, 7]]


@pytest.mark.parametrize("merge", [None, 1, {}, [], ["a"], ["a", 1], "a", "a b c"])
def test_a_merge_that_is_none(tmp_path, merge):
    values = byte_pair()
    values["model"]["merges"] = [merge]
    with pytest.raises(UsageError, match="tokenizer.json: the merge .*; expected two pieces"):
        load(tmp_path, values)


@pytest.mark.parametrize(("key", "value"), [
    ("model", {"type": "BPE"}), ("model", {"type": "Unigram", "vocab": {}}),
    ("model", {"type": "WordPiece", "vocab": {"a": 1}}), ("added_tokens", [{}]),
    ("added_tokens", [{"id": 99, "content": "far"}]), ("post_processor", {"type": 3}),
    ("post_processor", {"type": "TemplateProcessing", "single": [], "pair": []}),
    ("normalizer", []), ("pre_tokenizer", {"type": "Sequence"})])
def test_a_damaged_file_is_named(tmp_path, key, value):
    with pytest.raises(BertTfError, match="tokenizer.json"):
        load(tmp_path, {**byte_pair(), key: value})


@pytest.mark.parametrize("value", ["x", -5, None])
def test_a_length_of_words_that_is_none(tmp_path, value):
    values = to_json(Tokenizer(Vocabulary([*BERT_SPECIALS, "a"])))
    values["model"]["max_input_chars_per_word"] = value
    with pytest.raises(BertTfError, match="is no tokenizer.json: .*max_input_chars.*=.*") as raised:
        load(tmp_path, values)
    assert "\n" not in str(raised.value)
    values["model"]["max_input_chars_per_word"] = 20_000
    assert isinstance(load(tmp_path, values), LibraryTokenizer)


@pytest.mark.parametrize("value", [-1, 99_999, "1"])
def test_an_unknown_piece_that_is_none(tmp_path, value):
    values = to_json(SentencePieceTokenizer(tiny_model.sentence_piece().model))
    values["model"]["unk_id"] = value
    with pytest.raises(BertTfError, match="is no tokenizer.json"):
        load(tmp_path, values)


@pytest.mark.parametrize(("model", "in_graphs"), [
    ({}, True), ({"unk_token": None}, False), ({"fuse_unk": True}, False)])
def test_bytes_without_a_piece(tmp_path, model, in_graphs):
    values = byte_pair()
    values["model"] |= model
    library = tokenizers.Tokenizer.from_str(json.dumps(values))
    tokenizer, texts = load(tmp_path, values, NAMES), ["abcc", "가a"]
    assert isinstance(tokenizer, BytePairTokenizer) == in_graphs
    assert tokenizer.encode(texts) == [each.ids for each in library.encode_batch(texts)]


@pytest.mark.parametrize("accents", [None, True, False])
def test_text_composed_before_accents_are_removed(tmp_path, accents):
    """That leaves jamo of Hangul."""
    values = to_json(Tokenizer(Vocabulary([*BERT_SPECIALS, "e", "é", "가", "\u1100", "##\u1161"])))
    values["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFC"}, {
        **values["normalizer"]["normalizers"][1], "lowercase": True, "strip_accents": accents}]}
    texts = ["가 é", "\u1100\u1161 e\u0301", "É"]
    library = tokenizers.Tokenizer.from_str(json.dumps(values))
    assert load(tmp_path, values).encode(texts) == [each.ids for each in
                                                    library.encode_batch(texts)]


@pytest.mark.parametrize(("config", "expected"), [
    ({"tokenizer_class": "BertTokenizerFast", "do_lower_case": True}, ["e", "中", "b"]),
    ({"do_lower_case": True, "tokenize_chinese_chars": False}, ["e", "[UNK]"]),
    ({"tokenizer_class": "DistilBertTokenizer"}, ["e", "中", "b"]),  # its usual values
    ({"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": True}, ["É", "中", "B"]),
    ({"strip_accents": True, "tokenize_chinese_chars": True}, ["É", "中", "B"]),  # of any class
    ({}, ["É", "中", "B"])])
def test_rules_that_transformers_makes_of_the_configuration(tmp_path, config, expected):
    vocabulary = Vocabulary([*BERT_SPECIALS, "e", "É", "中", "b", "B"])
    values = to_json(Tokenizer(vocabulary, normalization="huggingface"))
    ids = load(tmp_path, values, config).tokenize(["É 中B"]).to_list()[0]
    assert [vocabulary.tokens[number] for number in ids] == expected


def test_a_blank_at_the_beginning_as_the_class_makes_it(tmp_path):
    for config, spaced in (({"add_prefix_space": True}, True),
                           ({"tokenizer_class": "RobertaTokenizer"}, False)):
        values = byte_pair()
        values["pre_tokenizer"]["add_prefix_space"] = not spaced
        assert load(tmp_path, values, config).add_prefix_space == spaced


def test_what_the_library_runs_has_these_rules_too(tmp_path):
    values = to_json(Tokenizer(Vocabulary([*BERT_SPECIALS, "a", "A"]),
                               normalization="huggingface"))
    values["model"]["max_input_chars_per_word"] = 20_000
    tokenizer = load(tmp_path, values, {"do_lower_case": True})
    assert isinstance(tokenizer, LibraryTokenizer)
    assert tokenizer.tokenize(["A"]).to_list() == [[5]]


@pytest.fixture
def other(tmp_path):
    """A tokenizer with rules of its own: words at white space only, in lower case."""
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel(
        {token: index for index, token in enumerate([*SPECIAL_TOKENS, "the", "fox"])},
        SPECIAL_TOKENS[1]))
    library.normalizer = tokenizers.normalizers.Lowercase()
    library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    library.add_special_tokens(list(SPECIAL_TOKENS))
    library.post_processor = tokenizers.processors.BertProcessing(("</s>", 3), ("<s>", 2))
    return json.loads(library.to_str())


def test_other_rules_work_in_python(tmp_path, other):
    tokenizer = load(tmp_path, other, NAMES)
    assert isinstance(tokenizer, LibraryTokenizer)
    assert "a model of type 'WordLevel'" in tokenizer.python_only
    texts = ["The fox", "", "é THE cat", "a<mask>fox"]
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert ids.to_list() == tokenizer.tokenize(texts).to_list() == [
        [5, 6], [], [1, 5, 1], [1, 1, 1, 1, 6]]
    assert (starts[2].numpy().tolist(), ends[2].numpy().tolist()) == ([0, 3, 7], [2, 6, 10])
    assert tokenizer.encode("the fox", "fox") == [2, 5, 6, 3, 6, 3]
    assert tokenizer.encode("the <mask>", allow_special=True) == [2, 5, 4, 3]
    assert tokenizer.decode([[2, 5, 6, 3], []]) == ["the fox", ""]
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(4).map(tokenizer.tokenize)
    assert next(iter(dataset)).to_list() == ids.to_list()
    tokenizer.save(str(tmp_path / "saved"))
    again = load_tokenizer(str(tmp_path / "saved"))
    assert again.python_only == tokenizer.python_only
    assert again.encode(texts) == tokenizer.encode(texts)


def test_rules_that_the_library_fails_with_are_an_error_of_ours(tmp_path, other):
    other["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, {"type": "Lowercase"}]}
    with pytest.raises(BertTfError, match=r"tokenizer\.json: the package tokenizers fails"):
        load(tmp_path, other, NAMES)
    other["normalizer"] = None
    other["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "(a+)+$"},
                              "behavior": "Isolated", "invert": False}
    tokenizer, text = load(tmp_path, other, NAMES), "a" * 40 + "b"
    with pytest.raises(BertTfError, match=r"tokenizer\.json: .* fails with its rules: .*retry"):
        tokenizer.tokenize([text])
    dataset = tf.data.Dataset.from_tensors([text]).map(tokenizer.tokenize)
    with pytest.raises(tf.errors.OpError, match="fails with its rules"):
        next(iter(dataset))


def test_special_tokens_that_the_file_does_not_list_vanish_too(tmp_path, other):
    other["added_tokens"] = [each for each in other["added_tokens"] if each["content"] != "<mask>"]
    tokenizer = load(tmp_path, other, NAMES)
    assert isinstance(tokenizer, LibraryTokenizer)
    ids = tokenizer.encode("the <mask> fox", allow_special=True)
    assert ids == [2, 5, 4, 6, 3] and tokenizer.decode(ids) == "the fox"


def test_other_rules_find_what_is_written_as_the_library_does(tmp_path):
    values = to_json(tiny_model.sentence_piece())
    values["pre_tokenizer"] = {"type": "Metaspace", "replacement": "\u2581",
                               "prepend_scheme": "first", "split": True}
    mask = next(each for each in values["added_tokens"] if each["content"] == "[MASK]")
    texts = ["the [MASK] fox", "a[MASK]b the"]
    for mask["rstrip"] in (False, True):
        tokenizer = load(tmp_path, values)
        library = tokenizers.Tokenizer.from_str(json.dumps(values))
        assert isinstance(tokenizer, LibraryTokenizer)
        for given in (True, False):
            library.encode_special_tokens = not given
            expected = library.encode_batch(texts)
            assert tokenizer.encode(texts, allow_special=given) == [each.ids for each in expected]
    _, starts, ends = tokenizer.tokenize_with_offsets(["the fox"])
    assert not any("the fox"[start:end].startswith(" ") for start, end in zip(
        *(each[0].numpy() for each in (starts, ends)), strict=True))


def test_other_rules_do_not_go_into_a_saved_model(tmp_path, other):
    tokenizer = load(tmp_path, other, NAMES)
    module = tf.Module()
    serve = tf.function(lambda text: {"ids": tokenizer.tokenize(text).to_tensor()}, autograph=False,
                        input_signature=[tf.TensorSpec([None], tf.string, "text")])
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures=serve)
    assert unservable_ops(str(tmp_path / "saved")) == ["PyFunc"]


@pytest.mark.parametrize("normalization", ["deberta", "albert_huggingface", "sentencepiece"])
@pytest.mark.parametrize(("token", "normalized"), [
    ("<Ent>", True), ("<Ent>", False), ("\n", True), ("\n", False)])
def test_added_tokens_are_found_as_in_the_library(tmp_path, normalization, token, normalized):
    values = to_json(SentencePieceTokenizer(tiny_model.sentence_piece().model,
                                            normalization=normalization))
    values["added_tokens"].append({
        "id": len(values["model"]["vocab"]), "content": token, "single_word": False,
        "lstrip": False, "rstrip": False, "normalized": normalized, "special": False})
    library = tokenizers.Tokenizer.from_str(json.dumps(values))
    texts = ["the <ent> a", "the <Ent> a", "the \n a", "<Ent>the a"]
    assert load(tmp_path, values).encode(texts) == [each.ids for each in
                                                    library.encode_batch(texts)]


@pytest.mark.parametrize("token", ["fox", "  "])
def test_an_added_token_is_no_piece_of_words(tmp_path, token):
    vocabulary = Vocabulary([*BERT_SPECIALS, "the", "f", "##ox", token], added_tokens=[
        *default_added_tokens(BERT_SPECIALS), AddedToken(token, special=False)])
    values = to_json(Tokenizer(vocabulary, True, True, normalization="huggingface"))
    texts = ["The FOX fox", "the  fox", "the \u00ad the fox"]
    pieces = values["model"]["vocab"]
    assert token not in pieces
    values["model"]["vocab"] = {**pieces, token: len(pieces)}
    assert isinstance(load(tmp_path, values), LibraryTokenizer) == token.isalnum()
    values["model"]["vocab"] = pieces
    tokenizer = load(tmp_path, values)
    library = tokenizers.Tokenizer.from_str(json.dumps(values))
    assert isinstance(tokenizer, Tokenizer)
    assert tokenizer.encode(texts) == [each.ids for each in library.encode_batch(texts)]


@pytest.mark.parametrize("token", ["\n", "a\nb", "\r"])
def test_an_added_line_break_comes_back(tmp_path, token):
    vocabulary = Vocabulary([*BERT_SPECIALS, "the", token], added_tokens=[
        *default_added_tokens(BERT_SPECIALS), AddedToken(token, special=False)])
    values = to_json(Tokenizer(vocabulary, True, True, normalization="huggingface"))
    tokenizer, text = load(tmp_path, values), f"the{token}the"
    tokenizer.save(str(tmp_path / "saved"))
    for each in (tokenizer, load_tokenizer(str(tmp_path / "saved"))):
        assert each.encode(text) == [2, 5, 6, 5, 3]


def test_an_added_token_is_written_as_it_is_found(tmp_path):
    vocabulary = Vocabulary([*BERT_SPECIALS, "the", "<ent>"], added_tokens=[
        *default_added_tokens(BERT_SPECIALS), AddedToken("<ent>", special=False)])
    values = to_json(Tokenizer(vocabulary, True, True, normalization="huggingface"))
    texts = ["The <ent>", "the <ENT>"]
    assert isinstance(load(tmp_path, values), Tokenizer)
    assert load(tmp_path, values).encode(texts) == [
        each.ids for each in tokenizers.Tokenizer.from_str(json.dumps(values)).encode_batch(texts)]


def test_special_tokens_of_other_rules_are_those_of_the_file(tmp_path, other):
    values = {**byte_pair(), "normalizer": {"type": "Lowercase"}}
    tokenizer = load(tmp_path, values)
    library = tokenizers.Tokenizer.from_str(json.dumps(values))
    assert isinstance(tokenizer, LibraryTokenizer)
    assert tokenizer.encode("ab", "b") == library.encode("ab", "b").ids == [2, 7, 3, 3, 6, 3]
    assert not tokenizer.vocabulary.pair_types
    tokenizer.save(str(tmp_path / "saved"))
    assert load_tokenizer(str(tmp_path / "saved")).encode("ab", "b") == [2, 7, 3, 3, 6, 3]


@pytest.mark.parametrize(("config", "types"), [
    ({"tokenizer_class": "BertTokenizer"}, True), ({"tokenizer_class": "BigBirdTokenizer"}, False),
    ({"tokenizer_class": "BigBirdTokenizer",
      "model_input_names": ["input_ids", "token_type_ids"]}, True)])
def test_token_types_are_those_of_the_class(tmp_path, config, types):
    values = to_json(Tokenizer(Vocabulary([*BERT_SPECIALS, "the"]), True, True,
                               normalization="huggingface"))
    assert load(tmp_path, values, config).vocabulary.pair_types is types


def test_special_tokens_in_other_places(tmp_path, other):
    processor = {
        "type": "TemplateProcessing", "special_tokens": {},
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                   {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}]}
    with pytest.raises(UsageError, match="a post_processor of another form; expected cls a sep"):
        load(tmp_path, {**other, "post_processor": processor}, NAMES)


def test_special_tokens_with_ids_of_others(tmp_path):
    values = byte_pair()
    values["post_processor"]["special_tokens"]["</s>"]["ids"] = [4]
    with pytest.raises(UsageError, match="has the ids .4. for '</s>'; expected its one id"):
        load(tmp_path, values)
    roberta = {"type": "RobertaProcessing", "sep": ["</s>", 3], "cls": ["<s>", 5]}
    with pytest.raises(UsageError, match="has the ids .5. for '<s>'"):
        load(tmp_path, {**values, "post_processor": roberta})


def test_other_rules_without_special_tokens(tmp_path, other):
    renamed = json.loads(json.dumps(other).replace("<mask>", "<gap>"))
    with pytest.raises(UsageError, match="nothing says which token is the mask_token"):
        load(tmp_path, renamed)


def test_an_export_takes_ids_only(tmp_path, other):
    import bert_tf

    config = bert_tf.ModelConfig(vocab_size=7, hidden_size=8, num_hidden_layers=1,
                                 num_attention_heads=2, intermediate_size=8,
                                 max_position_embeddings=16)
    tokenizer = load(tmp_path, other, NAMES)
    encoder = bert_tf.build_encoder(config)
    encoder.save_pretrained(str(tmp_path / "encoder"), tokenizer)
    load_served = importlib.import_module("bert_tf.saved_model.served_model").load_served
    served = load_served(str(tmp_path / "encoder"))
    assert served.tokenizer is None and "no signature takes text" in served.notes[-1]
    model = bert_tf.Classifier(config, labels=["a", "b"])
    model.preprocessor = bert_tf.TextPreprocessor(tokenizer, seq_length=16)
    assert model.predict(["the fox"]).shape == (1, 2)
    model.save_pretrained(str(tmp_path / "model"), tokenizer)
    served = load_served(str(tmp_path / "model"))
    assert served.tokenizer is served.model.preprocessor is None and served.seq_length == 16
    assert "no signature takes text, only token ids: " in served.notes[-1]
