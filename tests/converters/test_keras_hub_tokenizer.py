"""A preset's tokenizer gives the same ids in both libraries and comes back as it was."""

import io
import json
import shutil

import keras_nlp
import pytest
import sentencepiece
import tokenizers
from harness import unsealed
from test_keras_hub import make_checkpoint

from bert_tf.converters import keras_hub
from bert_tf.errors import UsageError
from bert_tf.tokenization.byte_pair import SPECIAL_TOKENS, BytePairTokenizer
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.sentence_piece import SentencePieceTokenizer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS as WORD_PIECE_SPECIAL
from bert_tf.tokenization.vocabulary import Vocabulary

TEXTS = ["the quick brown fox doesn't jump", "a sentence of some words, 1,000 times",
         "한국어 문장 토큰"]


def word_piece():
    pieces = sorted({f"{prefix}{character}" for character in "".join(TEXTS).replace(" ", "")
                     for prefix in ("", "##")})
    return Tokenizer(Vocabulary([*WORD_PIECE_SPECIAL, *pieces, "the", "quick"]), lower_case=True,
                     strip_accents=False)


def byte_pair():
    learned = tokenizers.ByteLevelBPETokenizer()
    learned.train_from_iterator(TEXTS * 3, vocab_size=300, show_progress=False,
                                special_tokens=list(SPECIAL_TOKENS))
    model = json.loads(learned._tokenizer.to_str())["model"]
    return BytePairTokenizer(sorted(model["vocab"], key=model["vocab"].get), model["merges"])


def sentence_piece(texts=TEXTS, **options):
    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 10), model_writer=stream, vocab_size=60,
        hard_vocab_limit=False, minloglevel=3, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"])
    return SentencePieceTokenizer(stream.getvalue(), **options)


def byte_pair_of_gpt2():
    ours, end = byte_pair(), "<|endoftext|>"
    tokens = [{"</s>": end}.get(piece, piece) for piece in ours.vocabulary.tokens]
    return BytePairTokenizer(tokens, ours.merges, special_tokens=(end,) * 5, pair_separators=0,
                             initial_token=False, final_separator=False, pair_types=False)


MAKE = {"bert": word_piece, "electra": word_piece, "roberta": byte_pair, "albert": sentence_piece,
        "gpt2": byte_pair_of_gpt2}


def write(kind, tokenizer, tmp_path):
    """A preset folder with a tokenizer; its path, and what could not be written."""
    (tmp_path / "tokenizer").mkdir()
    tokenizer.save(str(tmp_path / "tokenizer"))
    checkpoint = make_checkpoint(kind)
    checkpoint = type(checkpoint)(checkpoint.config, checkpoint.task, checkpoint.tensors,
                                  str(tmp_path / "tokenizer"))
    preset = str(tmp_path / "preset")
    return preset, keras_hub.write(checkpoint, preset)


def test_what_a_preset_cannot_say_is_told(tmp_path):
    tokenizer = Tokenizer(word_piece().vocabulary, pretokenize="morphemes",
                          tokenize_chinese_chars=False)
    _, dropped = write("bert", tokenizer, tmp_path)
    assert [line.split(" (")[0] for line in dropped[:2]] == [
        "the tokenizer's tokenize_chinese_chars=False", "the tokenizer's pretokenize='morphemes'"]


@pytest.mark.parametrize("kind", [
    "bert", "roberta", "albert", "gpt2", pytest.param("electra", marks=pytest.mark.long)])
def test_the_same_ids_there_and_the_same_files_back(kind, tmp_path):
    tokenizer = MAKE[kind]()
    preset, dropped = write(kind, tokenizer, tmp_path)
    theirs = keras_nlp.models.Tokenizer.from_preset(preset)
    assert [list(ids) for ids in theirs(TEXTS)] == tokenizer.tokenize(TEXTS).to_list()
    back = load_tokenizer(keras_hub.read(preset).tokenizer)
    assert type(back) is type(tokenizer)
    assert back.vocabulary.tokens == tokenizer.vocabulary.tokens
    if kind in ("bert", "electra"):
        assert (back.lower_case, back.strip_accents) == (True, False)
    elif kind in ("roberta", "gpt2"):
        assert (back.merges, back.options) == (tokenizer.merges, tokenizer.options)
    else:
        assert back.model == tokenizer.model
        assert [line.split(" (")[0] for line in dropped[:3]] == [
            "the tokenizer's do_lower_case=True", "the tokenizer's keep_accents=False",
            "the tokenizer's remove_space=True"]


def test_gpt2_pads_with_the_padding_of_its_tokenizer(tmp_path):
    """As transformers' classifier of it does, which finds the end of a text by that id."""
    tokenizer = byte_pair_of_gpt2()
    preset, _ = write("gpt2", tokenizer, tmp_path)
    assert keras_hub.read(preset).config.padding_id == tokenizer.vocabulary.pad_id > 0


def test_what_happens_to_text_before_sentence_piece_is_judged_or_read(tmp_path):
    theirs = keras_nlp.models.AlbertTokenizer(proto=sentence_piece().model)
    keras_hub.to_live(make_checkpoint("albert")).save_to_preset(str(tmp_path / "theirs"))
    theirs.save_to_preset(str(tmp_path / "theirs"))
    checkpoint = keras_hub.read(str(tmp_path / "theirs"))
    assert load_tokenizer(checkpoint.tokenizer).options["do_lower_case"] is True
    assert "no capital letters, so do_lower_case=True" in checkpoint.notes[0]
    cased = sentence_piece(["The Quick Brown fox."], do_lower_case=False, keep_accents=True)
    preset, _ = write("albert", cased, tmp_path)
    checkpoint = keras_hub.read(preset)
    assert load_tokenizer(checkpoint.tokenizer).options == cased.options
    assert checkpoint.notes == ()


@pytest.mark.parametrize(("kind", "make", "told"), [
    ("bert", lambda: Tokenizer(word_piece().vocabulary, normalization="huggingface"), 0),
    ("roberta", lambda: BytePairTokenizer(byte_pair().vocabulary.tokens, byte_pair().merges,
                                          normalize_nfc=True), 1)])
def test_rules_that_a_preset_has_no_place_for_come_back(kind, make, told, tmp_path):
    tokenizer = make()
    preset, dropped = write(kind, tokenizer, tmp_path)
    assert sum("normalize_nfc=True" in line for line in dropped) == told
    assert load_tokenizer(keras_hub.read(preset).tokenizer).options == tokenizer.options


@pytest.mark.parametrize(("lowercase", "strip_accents"), [
    (True, True), (True, False), (False, True), (False, False)])
def test_what_is_composed_by_a_preset_of_others(lowercase, strip_accents, tmp_path):
    """What is taken apart with accents stays so, unless case is folded."""
    pieces = ["\u1100", "##\u1161", "\uac00", "cafe", "caf\xe9", "##\u0301"]
    theirs = keras_nlp.models.BertTokenizer(vocabulary=[*WORD_PIECE_SPECIAL, *pieces],
                                            lowercase=lowercase, strip_accents=strip_accents)
    keras_hub.to_live(make_checkpoint("bert")).save_to_preset(str(tmp_path / "theirs"))
    theirs.save_to_preset(str(tmp_path / "theirs"))
    tokenizer = load_tokenizer(keras_hub.read(str(tmp_path / "theirs")).tokenizer)
    for text in ("\uac00", "\u1100\u1161", "caf\xe9", "cafe\u0301"):
        assert tokenizer.tokenize([text]).to_list() == [list(theirs(text))]


def test_a_tokenizer_of_another_kind_is_left_out(tmp_path):
    preset, dropped = write("roberta", word_piece(), tmp_path)
    assert dropped[0] == "the tokenizer (a preset of roberta has a BytePairTokenizer)"
    assert keras_hub.read(preset).tokenizer is None


def test_special_tokens_that_theirs_calls_otherwise(tmp_path):
    ours = byte_pair()
    tokens = [{"<s>": "[CLS]", "</s>": "[SEP]"}.get(token, token)
              for token in ours.vocabulary.tokens]
    special = [{"<s>": "[CLS]", "</s>": "[SEP]"}.get(token, token) for token in SPECIAL_TOKENS]
    preset, dropped = write("roberta", BytePairTokenizer(tokens, ours.merges,
                                                         special_tokens=special), tmp_path)
    assert dropped[0].startswith("the tokenizer (Cannot find special token ")
    assert keras_hub.read(preset).tokenizer is None


@pytest.fixture(scope="module")
def bert_preset(tmp_path_factory):
    """A preset of BERT with its tokenizer, for tests that change a copy."""
    return write("bert", word_piece(), tmp_path_factory.mktemp("bert"))[0]


@pytest.mark.parametrize(("changes", "message"), [
    ({"class_name": "ElectraTokenizer"}, "ElectraTokenizer'; expected BertTokenizer"),
    ({"config": {"split_on_cjk": False}}, "split_on_cjk=False; expected True"),
    ({"config": {"suffix_indicator": "@@"}}, "suffix_indicator='@@'; expected '##'"),
    ({"config": {"lowercase": "yes"}}, "lowercase='yes'"),
    ({"config": []}, "expected BertTokenizer"),
])
def test_options_that_we_do_not_have_are_refused(bert_preset, tmp_path, changes, message):
    preset = unsealed(shutil.copytree(bert_preset, tmp_path / "preset"))
    path = preset / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(UsageError, match=message):
        keras_hub.read(str(preset))


def test_a_preset_of_gpt2_has_one_special_token_and_puts_none_around_a_text(tmp_path):
    ours = byte_pair_of_gpt2()
    ids = {token: index for index, token in enumerate(ours.vocabulary.tokens)}
    keras_hub.to_live(make_checkpoint("gpt2")).save_to_preset(str(tmp_path))
    keras_nlp.models.GPT2Tokenizer(vocabulary=ids, merges=[
        " ".join(pair) for pair in ours.merges]).save_to_preset(str(tmp_path))
    back = load_tokenizer(keras_hub.read(str(tmp_path)).tokenizer)
    assert back.options == ours.options
    assert back.encode(TEXTS) == back.tokenize(TEXTS).to_list() == ours.tokenize(TEXTS).to_list()
