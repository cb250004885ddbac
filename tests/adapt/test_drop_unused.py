"""Pieces that a text does not use: dropped, and the model says what it said."""

import json

import pytest
import tensorflow as tf
import tiny_model
from adapting import LETTERS, LINES, arguments, embedder, run
from asked_pairs import TEMPLATE, chat_tokenizer
from sentiment import TINY

from bert_tf import adapt, cli
from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.load import from_pretrained
from bert_tf.models.families import build_encoder
from bert_tf.storage import files
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.multi_vector.model import MultiVectorEmbedder
from bert_tf.tasks.ranking.model import Ranker
from bert_tf.tasks.token_classification.model import TokenClassifier
from bert_tf.tasks.token_classification.preprocessor import WordPreprocessor
from bert_tf.tokenization import byte_pair
from bert_tf.tokenization.learn_byte_pair import learn_byte_pair
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import (
    SPECIAL_TOKENS,
    AddedToken,
    Vocabulary,
    default_added_tokens,
)


def test_a_dropped_vocabulary_gives_the_same_vectors(folder, unexported, capsys):
    result = run(folder, "small", "--drop_unused", "--train_steps", "0")
    # 5 special tokens, "the", 8 letters that begin words and 8 that continue them.
    assert result.vocabulary["pieces"] == {"before": 60, "added": 0, "dropped": 38, "after": 22}
    assert "60 pieces, 0 added, 38 dropped: 22" in capsys.readouterr().out
    before, after = (from_pretrained(str(folder / name)) for name in ("embedder", "small"))
    assert after.embed(LINES).tobytes() == before.embed(LINES).tobytes()
    states = [model.encoder(dict(model.preprocessor(tf.constant(LINES))))["sequence_output"]
              for model in (before, after)]
    assert states[0].numpy().tobytes() == states[1].numpy().tobytes()
    assert after.options() == {**before.options(), "special_ids": [2, 3]}
    assert after.config.vocab_size == 22 and after.config.padding_id == 0
    assert load_tokenizer(str(folder / "small" / "model")).tokenize(["zoo"]).to_list() == [[1]]


def test_excluded_texts_are_no_input(folder, unexported):
    text, dev = str(folder / "text.txt"), str(folder / "dev.txt")
    files.write_text(dev, "a zoo\n")
    run(folder, "excluding", "--drop_unused", "--train_steps", "0", "--input", text, dev,
        "--exclude", dev)
    inputs = files.read_json(str(folder / "excluding" / "adapt.json"))["inputs"]
    assert text in inputs and dev not in inputs


@pytest.mark.long
def test_pieces_of_prompts_are_kept(folder, unexported):
    before = embedder(prompts={"query": "zoo: ", "passage": "quiz: "})
    before.save_pretrained(str(folder / "prompted"))
    run(folder, "of_prompts", "--drop_unused", "--train_steps", "0", model="prompted")
    after = from_pretrained(str(folder / "of_prompts"))
    texts = [prompt + line for prompt in before.prompts.values() for line in LINES]
    assert after.embed(texts).tobytes() == before.embed(texts).tobytes()


@pytest.mark.parametrize("prompts", [{"query": "[unused0] ", "passage": ""}, None])
def test_the_marker_of_a_prompt_is_kept(prompts, unexported, tmp_path):
    """A token that no text gives."""
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "[unused0]", *LETTERS, "the", "zoo"]))
    config = ModelConfig(vocab_size=len(tokenizer.vocabulary), initializer_range=0.3, **TINY)
    MultiVectorEmbedder(config, dim=4, prompts=prompts,
                        preprocessor=TextPreprocessor(tokenizer, 24)).save_pretrained(
        str(tmp_path / "late"))
    (tmp_path / "text.txt").write_text("the a b\n")
    run(tmp_path, "small", "--drop_unused", "--train_steps", "0", model="late")
    before, after = (from_pretrained(str(tmp_path / name)) for name in ("late", "small"))
    assert after.config.vocab_size < before.config.vocab_size
    assert before.vectors("the a", "query").tobytes() == after.vectors("the a", "query").tobytes()


def test_pieces_of_a_template_are_kept(unexported, tmp_path):
    tokenizer = chat_tokenizer()
    config = ModelConfig.from_dict({
        **TINY, "family": "qwen3", "vocab_size": len(tokenizer.vocabulary),
        "attention_head_size": 8, "num_key_value_heads": 1, "max_position_embeddings": 200,
        "initializer_range": 0.3})
    Ranker(config, preprocessor=TextPreprocessor(
        tokenizer, 150, template=TEMPLATE)).save_pretrained(str(tmp_path / "reranker"))
    (tmp_path / "text.txt").write_text("no a?\n\na b.\n")
    run(tmp_path, "small", "--drop_unused", "--train_steps", "0", model="reranker")
    before, after = (from_pretrained(str(tmp_path / name)) for name in ("reranker", "small"))
    assert after.config.vocab_size < before.config.vocab_size
    texts = (["no a?", "a b."], ["a b.", "no a?"])
    assert before(texts).numpy().tobytes() == after(texts).numpy().tobytes()


@pytest.mark.parametrize(("kind", "unit"), [
    ("word_piece", "character"), ("sentence_piece", "character"), ("sentence_piece", "word")])
def test_pieces_of_the_units_of_a_tagger_are_kept(kind, unit, unexported, tmp_path):
    """Which it reads one by one, so that they are others than those of the whole text."""
    if kind == "sentence_piece":
        pytest.importorskip("sentencepiece")
    tokenizer = getattr(tiny_model, kind)()
    before = TokenClassifier(tiny_model.config_of(tokenizer), tiny_model.TAGS, seed=1,
                             preprocessor=WordPreprocessor(tokenizer, 24, unit=unit))
    before.save_pretrained(str(tmp_path / "tagger"))
    texts = ["fox,the!the", "안녕하세요.the"]
    (tmp_path / "text.txt").write_text("\n".join(texts))
    run(tmp_path, "small", "--drop_unused", "--train_steps", "0", model="tagger")
    after = from_pretrained(str(tmp_path / "small"))
    assert after.config.vocab_size < before.config.vocab_size
    texts = tf.constant(texts)
    assert after(texts).numpy().tobytes() == before(texts).numpy().tobytes()
    # "the" is one piece of the text, and as often "t", "##h" and "##e" of its units.
    if (kind, unit) == ("word_piece", "character"):
        run(tmp_path, "frequent", "--drop_unused", "--keep_at_least", "3", "--train_steps", "0",
            model="tagger")
        kept = load_tokenizer(str(tmp_path / "frequent" / "model")).vocabulary.tokens
        assert {"t", "##h", "##e"} <= {*kept} and "fox" not in kept


def test_a_token_without_a_row_gets_one_or_is_left_as_it_was(unexported, tmp_path):
    """That of images, in a model of text."""
    tokens = [*SPECIAL_TOKENS, *LETTERS, "the", "<image>"]
    tokenizer = Tokenizer(Vocabulary(tokens, added_tokens=(
        *default_added_tokens(SPECIAL_TOKENS), AddedToken("<image>"))))
    config = ModelConfig(vocab_size=len(tokens) - 1, initializer_range=0.3, **TINY)
    build_encoder(config).save_pretrained(str(tmp_path / "model"), tokenizer)
    (tmp_path / "text.txt").write_text("the a b\n")
    result = run(tmp_path, "small", "--drop_unused", "--train_steps", "0", model="model")
    # Special tokens, "the", "a", "b" and the one without a row.
    assert result.vocabulary["pieces"] == {"before": 33, "added": 0, "dropped": 24, "after": 9}
    after = from_pretrained(str(tmp_path / "small"))
    assert after.config.vocab_size == 9
    states = [model.encoder(dict(pack(own.vocabulary, [own.tokenize(["the a b"])], 8)))[
        "sequence_output"].numpy() for model, own in (
            (from_pretrained(str(tmp_path / "model"), "embedder"), tokenizer),
            (from_pretrained(str(tmp_path / "small"), "embedder"),
             load_tokenizer(str(tmp_path / "small" / "model"))))]
    assert states[0].tobytes() == states[1].tobytes()


def test_a_training_by_sentences_keeps_other_pieces(folder, unexported):
    run(folder, "again", "--drop_unused", "--train_steps", "0")
    with pytest.raises(UsageError, match="--overwrite"):
        run(folder, "again", "--drop_unused", "--train_steps", "0", "--split", "sentences")


@pytest.mark.parametrize(("kind", "family"), [
    ("byte_pair", "roberta"), pytest.param("sentence_piece", "albert", marks=pytest.mark.long)])
def test_other_tokenizers_can_be_trimmed_alone(kind, family, unexported, tmp_path, capsys):
    if kind == "sentence_piece":
        pytest.importorskip("sentencepiece")
    tokenizer = getattr(tiny_model, kind)()
    before = build_encoder(tiny_model.config_of(tokenizer, family=family), seed=3)
    before.save_pretrained(str(tmp_path / "model"), tokenizer)
    texts = ["the quick fox", "dog 안녕"]
    (tmp_path / "text.txt").write_text("\n".join(texts))
    result = run(tmp_path, "run", "--drop_unused", "--train_steps", "0", model="model")
    now = load_tokenizer(str(tmp_path / "run/model"))
    assert result.vocabulary["pieces"]["dropped"] == (
        len(tokenizer.vocabulary) - len(now.vocabulary)) > 0
    states = []
    for model, folder in ((before, "model"), (from_pretrained(str(tmp_path / "run")), "run/model")):
        own = load_tokenizer(str(tmp_path / folder))
        packed = pack(own.vocabulary, [own.tokenize(texts)], 16)
        states.append(model(packed)["sequence_output"].numpy().tobytes())
    assert states[0] == states[1]
    words = arguments(tmp_path, "other", "--new_pieces", "5", model="model")
    assert cli.run(adapt.main, words) == 2
    assert "expected WordPiece; try --new_pieces 0" in capsys.readouterr().err


@pytest.mark.parametrize("name", [
    pytest.param("text.txt", marks=pytest.mark.long), "text.jsonl"])
def test_white_space_is_text_to_bytes(name, unexported, tmp_path):
    text = "def one():\n    return 1\n\n\ndef  two():\n\treturn 2 \n"
    path = tmp_path / name
    if name == "text.txt":
        path.write_text(text)
        texts = text.splitlines()
    else:
        path.write_text("\n".join(json.dumps({"text": each}) for each in (text, " \n")))
        texts = [text, " \n"]
    tokenizer = learn_byte_pair([str(path)] * 20, 300)
    build_encoder(tiny_model.config_of(tokenizer, family="roberta")).save_pretrained(
        str(tmp_path / "model"), tokenizer)
    result = run(tmp_path, "run", "--drop_unused", "--train_steps", "0", "--input", str(path),
                 model="model")
    trimmed = load_tokenizer(str(tmp_path / "run" / "model"))
    before, after = ([[each.vocabulary.tokens[number] for number in ids]
                      for ids in each.tokenize(texts).to_list()] for each in (tokenizer, trimmed))
    assert after == before
    assert result.vocabulary["tokens"] == {
        when: sum(map(len, before)) for when in ("before", "after")}
    path.write_text(" \n" if name == "text.txt" else json.dumps({"text": " \n"}))
    words = arguments(tmp_path, "other", "--drop_unused", "--input", str(path), model="model")
    assert cli.run(adapt.main, words) == 1


@pytest.mark.parametrize(("name", "text", "split", "piece"), [
    ("text.jsonl", '{"text": "he\\n the"}', "lines", "the"),
    ("text.txt", "he。 the\n", "sentences", "the"),
    ("text.txt", "he\nthe\n", "lines", "Ġthe"),
    *(pytest.param(*row, marks=pytest.mark.long) for row in (
        ("text.txt", " the\n", "lines", "the"),
        ("text.jsonl", '{"text": " the\\nhe"}', "lines", "the"),
        ("text.txt", "he\nthe\n", "sentences", "Ġthe")))])
def test_a_training_reads_texts_with_other_white_space_before_them(name, text, split, piece,
                                                                   unexported, tmp_path):
    """None at a text's ends, and a blank between lines."""
    tokenizer = byte_pair.BytePairTokenizer(
        [*byte_pair.SPECIAL_TOKENS, *byte_pair.byte_alphabet(), "he", "Ġt", "Ġthe", "the", "Ġhe"],
        [("h", "e"), ("Ġ", "t"), ("Ġt", "he"), ("t", "he"), ("Ġ", "he")])
    build_encoder(tiny_model.config_of(tokenizer, family="roberta")).save_pretrained(
        str(tmp_path / "model"), tokenizer)
    path = tmp_path / name
    path.write_text(text)
    run(tmp_path, "run", "--drop_unused", "--train_steps", "0", "--input", str(path),
        "--split", split, model="model")
    trimmed = load_tokenizer(str(tmp_path / "run" / "model"))
    assert [trimmed.vocabulary.tokens[number] for number in trimmed.tokenize(
        [piece.replace("Ġ", " ")])[0]] == [piece]


def test_prompts_do_not_make_a_piece_frequent(unexported, tmp_path):
    """"zoo" is in the text once, however many prompts it is read after."""
    (tmp_path / "text.txt").write_text("the the zoo\n")
    tokens = []
    for name, prompts in (("plain", None), ("prompted", {"query": "the ", "passage": "the "})):
        embedder(prompts=prompts).save_pretrained(str(tmp_path / name))
        run(tmp_path, f"{name}_small", "--drop_unused", "--keep_at_least", "2", "--train_steps",
            "0", model=name)
        tokens.append(load_tokenizer(str(tmp_path / f"{name}_small" / "model")).vocabulary.tokens)
    assert tokens[0] == tokens[1] and "the" in tokens[0] and "zoo" not in tokens[0]
