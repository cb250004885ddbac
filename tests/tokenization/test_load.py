"""Folders with the classic files of a tokenizer: only those whose rules are ours are read."""

import json

import pytest
import tiny_model

from bert_tf.converters.hf_tokenizer import to_json
from bert_tf.errors import NoTextError, UsageError
from bert_tf.tokenization.byte_pair import SPECIAL_TOKENS as BYTE_PAIR_SPECIALS
from bert_tf.tokenization.byte_pair import BytePairTokenizer
from bert_tf.tokenization.load import TokenizerSource, load_tokenizer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, AddedToken, Vocabulary


@pytest.fixture
def folder(tmp_path):
    """`folder(further, …)` is one with a `vocab.txt` and `further` in its configuration."""
    def make(**further):
        tokens = [*SPECIAL_TOKENS, "the", "fox"]
        (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
        config = {"do_lower_case": True, **further}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        return tmp_path
    return make


@pytest.mark.parametrize("name", ["BertTokenizer", "ElectraTokenizerFast"])
def test_a_class_with_these_rules(folder, name):
    assert load_tokenizer(str(folder(tokenizer_class=name))).encode("The fox") == [2, 5, 6, 3]


def test_a_configuration_without_casing(folder):
    path = folder(do_lower_case=None, model_max_length=512)
    assert load_tokenizer(str(path)).encode("The fox") == [2, 5, 6, 3]  # no piece has a capital
    for lower_case in (True, False):
        found = load_tokenizer(f"{path}/vocab.txt", lower_case=lower_case)
        assert found.lower_case == lower_case and found.normalization == "huggingface"
    (path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "The", "fox"]))
    (path / "tokenizer_config.json").write_text('{"unk_token": "[UNK]"}')
    assert load_tokenizer(str(path)).encode("The fox") == [2, 5, 6, 3]
    (path / "tokenizer_config.json").write_text('{"lower_cased": true}')
    with pytest.raises(UsageError, match='expected true or false for "lower_case" and'):
        load_tokenizer(str(path))


@pytest.mark.parametrize("file", ["", "/vocab.txt"])
@pytest.mark.parametrize("name", ["BertJapaneseTokenizer", "XLMRobertaTokenizer", 3])
def test_a_class_with_other_rules_is_refused(folder, name, file):
    with pytest.raises(NoTextError, match="tokenizer_class=.*; expected one of BertTokenizer"):
        load_tokenizer(f"{folder(tokenizer_class=name)}{file}")


@pytest.mark.parametrize(("further", "model", "stated"), [
    ({}, {"tokenizer_class": "KoBertTokenizer"}, "/config.json: tokenizer_class="),
    ({"auto_map": {"AutoTokenizer": ["kobert.KoBertTokenizer", None]}}, {},
     "/tokenizer_config.json: auto_map="),
    ({"auto_map": [None, "kobert.KoBertTokenizer"]}, {}, "/tokenizer_config.json: auto_map="),
    ({}, {"auto_map": {"AutoTokenizer": "kobert.KoBertTokenizer"},
          "tokenizer_class": "BertTokenizer"}, "/config.json: auto_map="),
    ({"auto_map": {"AutoModel": "bert.Model"}}, {"tokenizer_class": "BertTokenizerFast"}, None),
    ({"tokenizer_class": "BertTokenizer"}, {"tokenizer_class": "KoBertTokenizer"}, None),
    ({"lower_case": True}, {"tokenizer_class": "KoBertTokenizer"}, None)])
def test_a_class_that_another_file_or_key_names(folder, further, model, stated):
    path = folder(**further)
    (path / "config.json").write_text(json.dumps({"model_type": "bert"} | model))
    for name in (str(path), f"{path}/vocab.txt"):
        if stated is None:
            assert load_tokenizer(name).encode("The fox") == [2, 5, 6, 3]
        else:
            with pytest.raises(NoTextError, match=f"{stated}'.*KoBertTokenizer', whose rules"):
                load_tokenizer(name)


def test_a_sentence_piece_model_of_a_class_with_other_rules(tmp_path):
    (tmp_path / "spiece.model").write_bytes(tiny_model.sentence_piece().model)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "MBartTokenizer"}')
    with pytest.raises(NoTextError, match="tokenizer_class='MBartTokenizer', whose rules"):
        load_tokenizer(str(tmp_path))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer"}')
    with pytest.raises(UsageError, match="spiece.model of T5 begins with <pad>, <unk>, .*; exp"):
        load_tokenizer(str(tmp_path))


@pytest.mark.parametrize("key", ["do_lower_case", "split_by_punct"])
def test_a_sentence_piece_model_of_deberta_with_rules_of_its_own(tmp_path, key):
    (tmp_path / "spm.model").write_bytes(tiny_model.sentence_piece().model)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "DebertaV2Tokenizer", key: True}))
    with pytest.raises(NoTextError, match=f"{key}=True beside it, .*; expected false; try"):
        load_tokenizer(str(tmp_path))


@pytest.mark.parametrize("name", ["big_bird", "rembert"])
def test_a_sentence_piece_model_whose_class_is_not_named(tmp_path, name):
    """It keeps case and accents, unlike ALBERT, whose rules stand for those of no name."""
    (tmp_path / "spiece.model").write_bytes(tiny_model.sentence_piece().model)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": name}))
    with pytest.raises(NoTextError, match=f"model of {name}, whose rules we do not run"):
        load_tokenizer(str(tmp_path))


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("form", ["vocab.txt", "tokenizer.json"])
def test_the_words_of_jieba(tmp_path, name, form):
    """RoFormer's files look like BERT's; its class splits text otherwise."""
    pieces = tiny_model.word_piece()
    (tmp_path / "vocab.txt").write_text("\n".join(pieces.vocabulary.tokens))
    if form == "tokenizer.json":
        (tmp_path / form).write_text(json.dumps(to_json(pieces)))
    (tmp_path / name).write_text(json.dumps(
        {"model_type": "roformer"} if name == "config.json" else
        {"tokenizer_class": "RoFormerTokenizer"}))
    with pytest.raises(NoTextError, match="which splits text into the words of jieba"):
        load_tokenizer(str(tmp_path))


def test_the_files_of_two_tokenizers(folder):
    path = folder()
    (path / "tokenizer_78b3253a26.model").write_bytes(tiny_model.sentence_piece().model)
    with pytest.raises(UsageError, match="holds vocab.txt and .*model; expected the files of one"):
        load_tokenizer(str(path))


@pytest.mark.parametrize("kind", [tiny_model.word_piece, tiny_model.byte_pair,
                                  tiny_model.sentence_piece])
def test_white_space_after_a_token_stays_but_in_word_pieces(tmp_path, kind):
    tokenizer = kind()
    tokenizer.save(str(tmp_path))
    path = tmp_path / "tokenizer_config.json"
    added = [AddedToken(tokenizer.vocabulary.special_tokens[-1], rstrip=True)._asdict()]
    path.write_text(json.dumps(tokenizer.options | {"added_tokens": added}))
    if isinstance(tokenizer, Tokenizer):
        assert load_tokenizer(str(tmp_path)).vocabulary.added_tokens[0].rstrip
    else:
        with pytest.raises(UsageError, match="tokenizer_config.json: the added token .* has rstri"):
            load_tokenizer(str(tmp_path))


def test_special_tokens_by_their_roles(folder):
    path = folder()
    roles = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"),
                     ("[PAD]", "[UNK]", {"content": "[MASK]"}, "fox", "[SEP]"), strict=True))
    (path / "special_tokens_map.json").write_text(json.dumps(roles))
    assert load_tokenizer(str(path)).encode("the") == [4, 5, 6]
    Tokenizer(Vocabulary.load(f"{path}/vocab.txt")).save(str(path))
    assert load_tokenizer(str(path)).encode("the") == [2, 5, 3]
    folder(added_tokens_decoder={})
    assert load_tokenizer(str(path)).encode("the") == [2, 5, 3]


@pytest.mark.parametrize("added", [{"<ent>": 7}, {"fox": 7}])
def test_tokens_that_were_added_beside_the_vocabulary(folder, added):
    path = folder()
    (path / "added_tokens.json").write_text('{"[MASK]": 4}')
    assert load_tokenizer(str(path)).encode("fox") == [2, 6, 3]
    (path / "added_tokens.json").write_text(json.dumps(added))
    for place in (path, path / "vocab.txt"):
        with pytest.raises(UsageError, match="the added tokens '<?(ent>|fox)'.*a tokenizer.json"):
            load_tokenizer(str(place))


def test_an_added_token_of_byte_pairs(tmp_path):
    BytePairTokenizer([*BYTE_PAIR_SPECIALS, "a", "b", "ab"], [("a", "b")]).save(str(tmp_path))
    config = {"tokenizer_class": "RobertaTokenizer",
              "added_tokens_decoder": {"8": {"content": "<ent>"}}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="the added tokens '<ent>' are not in the vocabulary"):
        load_tokenizer(str(tmp_path))


def test_a_run_keeps_its_tokenizer_in_the_folder_of_its_model(tmp_path):
    run = tmp_path / "run"
    Tokenizer(Vocabulary([*SPECIAL_TOKENS, "the"]), lower_case=True).save(str(run / "model"))
    assert load_tokenizer(str(run)).encode("The") == [2, 5, 3]
    assert TokenizerSource(str(run)).files() == TokenizerSource(str(run / "model")).files()
