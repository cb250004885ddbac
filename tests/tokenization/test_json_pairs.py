"""Byte-level BPE with the rules of Llama 3 and Qwen: the ids of `tokenizers`, in a graph."""

import json

import pytest
import tensorflow as tf
import tokenizers
from json_folder import both_ways, load

from bert_tf.tasks.pretraining.continuation import prompt_of
from bert_tf.tokenization.byte_pair import BytePairTokenizer
from bert_tf.tokenization.library import LibraryTokenizer
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.word_patterns import EXPRESSIONS


def learned(pattern, **options):
    """A library's byte-level tokenizer with words of a pattern."""
    library = tokenizers.Tokenizer(tokenizers.models.BPE(**options))
    library.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(EXPRESSIONS[pattern]), "isolated"),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    library.train_from_iterator(
        LLAMA_TEXTS[1:] * 3, tokenizers.trainers.BpeTrainer(
            vocab_size=400, show_progress=False,
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    return library


@pytest.fixture
def llama(tmp_path):
    """A `tokenizer.json` like Llama 3's, with pieces that no merge makes."""
    values = json.loads(learned("llama3", ignore_merges=True).to_str())
    for piece in ("Ġunseen", "987", "ĠFTP"):
        values["model"]["vocab"][piece] = len(values["model"]["vocab"])
    library = tokenizers.Tokenizer.from_str(json.dumps(values))
    library.add_special_tokens([tokenizers.AddedToken(
        name, lstrip=name == "<|mask|>", normalized=False) for name in LLAMA_SPECIALS])
    first = LLAMA_SPECIALS[0]
    library.post_processor = tokenizers.processors.Sequence([
        tokenizers.processors.ByteLevel(trim_offsets=False),
        tokenizers.processors.TemplateProcessing(
            single=f"{first} $A", pair=f"{first} $A {first}:1 $B:1",
            special_tokens=[(first, library.token_to_id(first))])])
    return json.loads(library.to_str())


LLAMA_SPECIALS = ["<|begin_of_text|>", "<|end_of_text|>", "<|mask|>", "<|spare|>", "<|pad|>"]
LLAMA_NAMES = {"bos_token": LLAMA_SPECIALS[0], "eos_token": LLAMA_SPECIALS[1],
               "model_input_names": ["input_ids", "attention_mask"]}
LLAMA_TEXTS = ["I CAN'T, she'll 9876543 unseen unseens FTP/1.1 987\n\n\t한국어 문장 😀😀 x",
               "", "   ", "The quick brown fox\r\n\r\n   jumps!!\n \xa0over\u3000the <|mask|>."]


@pytest.mark.parametrize("pad", [
    "<|pad|>", pytest.param("<|end_of_text|>", marks=pytest.mark.long)])
def test_rules_of_llama(tmp_path, llama, pad):
    """As EuroBERT has them: the same ids in a graph, read and written."""
    library = tokenizers.Tokenizer.from_str(json.dumps(llama))
    read = load(tmp_path, llama, {**LLAMA_NAMES, "pad_token": pad})
    assert isinstance(read, BytePairTokenizer) and read.python_only is None
    assert read.vocabulary.special_tokens == (
        pad, "<|spare|>", "<|begin_of_text|>", "<|end_of_text|>", "<|mask|>")
    theirs = both_ways(read, tmp_path, "PreTrainedTokenizerFast")
    graph = tf.function(read.tokenize, autograph=False,
                        input_signature=[tf.TensorSpec([None], tf.string)])
    assert graph(tf.constant(LLAMA_TEXTS[:3])).to_list() == [
        each.ids for each in library.encode_batch(LLAMA_TEXTS[:3], add_special_tokens=False)]
    assert read.encode(LLAMA_TEXTS[3], allow_special=True) == library.encode(LLAMA_TEXTS[3]).ids
    assert read.decode(read.encode(LLAMA_TEXTS)) == LLAMA_TEXTS
    for first, second in (("I'M 9871", "an unseen"), ("", "b")):
        for other in (library, theirs):
            assert read.encode(first) == other.encode(first).ids
            assert read.encode(first, second) == other.encode(first, second).ids
    packed = pack(read.vocabulary, [read.tokenize([text]) for text in ("a 987", "b c")], 32)
    real = packed["input_mask"].numpy()[0] > 0
    assert packed["input_word_ids"].numpy()[0][real].tolist() == read.encode("a 987", "b c")
    assert read.vocabulary.num_special() == 1 and read.vocabulary.num_special(2) == 2


QWEN_SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@pytest.mark.parametrize("second", [0, pytest.param(1, marks=pytest.mark.long)])
def test_rules_of_qwen(tmp_path, second):
    """As Qwen3-Embedding has them: digits one by one, no token before a text and one after it."""
    values = json.loads(learned("qwen2").to_str())
    values["model"]["vocab"]["<unk>"] = len(values["model"]["vocab"])  # text like any other
    library = tokenizers.Tokenizer.from_str(json.dumps(values))
    library.normalizer = tokenizers.normalizers.NFC()
    library.add_special_tokens([tokenizers.AddedToken(name, normalized=False)
                                for name in QWEN_SPECIALS])
    library.add_tokens([tokenizers.AddedToken("<tool_call>", normalized=False)])
    end = QWEN_SPECIALS[0]
    library.post_processor = tokenizers.processors.Sequence([
        tokenizers.processors.ByteLevel(trim_offsets=False),
        tokenizers.processors.TemplateProcessing(
            single=f"$A {end}", pair=f"$A {end} $B:{second} {end}:{second}",
            special_tokens=[(end, library.token_to_id(end))])])
    read = load(tmp_path, json.loads(library.to_str()), {"pad_token": end})
    assert isinstance(read, BytePairTokenizer) and read.normalize_nfc and read.pattern == "qwen2"
    assert read.vocabulary.special_tokens == (end, "<|im_start|>", end, end, "<|im_end|>")
    assert read.decode([read.vocabulary.id("<unk>")]) == "<unk>"
    assert not read.vocabulary.initial_token and not read.vocabulary.pair_types
    theirs = both_ways(read, tmp_path, "Qwen2Tokenizer")
    texts = [*LLAMA_TEXTS[:3], "e\u0301 <tool_call>x\n1234", "<tool_call>"]
    for other in (library, theirs):
        assert read.encode(texts) == [each.ids for each in other.encode_batch(texts)]
        assert read.encode("a 12", "b") == other.encode("a 12", "b").ids
    assert read.decode(read.encode(texts[:3])) == texts[:3]
    assert read.encode("a<|im_end|>", allow_special=True) == library.encode("a<|im_end|>").ids
    vocabulary = read.vocabulary
    assert vocabulary.num_special() == 1 and vocabulary.num_special(2) == 2
    segments = [read.tokenize(["a 12", ""]), read.tokenize(["b c", "d"])]
    for length in (4, 16):  # the end stays where a text is truncated
        for count in (1, 2):
            packed = pack(vocabulary, segments[:count], length)
            real = packed["input_mask"].numpy() > 0
            for row, whole in enumerate(read.encode(["a 12", ""], ["b c", "d"][:2]) if count == 2
                                        else read.encode(["a 12", ""])):
                found = packed["input_word_ids"].numpy()[row][real[row]].tolist()
                assert found[-1] == vocabulary.sep_id and len(found) == min(length, len(whole))
                assert length < len(whole) or found == whole


def test_offsets_of_words_with_other_characters_before_them(tmp_path, llama):
    text = "a\tfox\xa0fox (the"
    _, starts, ends = load(tmp_path, llama, LLAMA_NAMES).tokenize_with_offsets([text])
    found = [text.encode()[start:end].decode() for start, end in zip(
        starts.to_list()[0], ends.to_list()[0], strict=True)]
    assert "".join(found).count("fox") == 2 and not any(
        "fox" in each and each != "fox" for each in found)


@pytest.mark.parametrize(("change", "reason"), [
    ({"pattern": {"Regex": r"\s+"}}, "Split with the pattern"),
    ({"pattern": {"String": " "}}, "Split with the pattern"),
    ({"behavior": "Removed"}, "behavior='Removed'; expected 'Isolated'"),
    ({"invert": True}, "invert=True")])
def test_other_words_run_in_python(tmp_path, llama, change, reason):
    llama["pre_tokenizer"]["pretokenizers"][0] |= change
    tokenizer = load(tmp_path, llama, LLAMA_NAMES)
    assert isinstance(tokenizer, LibraryTokenizer) and reason in tokenizer.python_only
    library = tokenizers.Tokenizer.from_str(json.dumps(llama))
    assert tokenizer.encode(LLAMA_TEXTS[:3]) == [
        each.ids for each in library.encode_batch(LLAMA_TEXTS[:3])]


def test_no_special_tokens_around_a_text(tmp_path):
    """As Qwen's language models have it, and its reranker: their files have no template."""
    library = learned("qwen2")
    library.add_special_tokens([tokenizers.AddedToken(name, normalized=False)
                                for name in QWEN_SPECIALS])
    library.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    end, pad = QWEN_SPECIALS[2], QWEN_SPECIALS[0]
    read = load(tmp_path, json.loads(library.to_str()), {"pad_token": pad, "eos_token": end,
                                                         "bos_token": None})
    both_ways(read, tmp_path, "Qwen2Tokenizer")
    assert isinstance(read, BytePairTokenizer)
    assert read.vocabulary.special_tokens[::3] == (pad, end)
    for pair in (("a 12",), ("a 12", "b c"), ("", "b")):
        ids = read.encode(*pair)
        assert ids == library.encode(*pair).ids
        packed = pack(read.vocabulary, [read.tokenize([text]) for text in pair], 9)
        real = packed["input_mask"].numpy()[0] > 0
        assert packed["input_word_ids"].numpy()[0][real].tolist() == ids
    # What is to be continued begins with a token where there is none.
    prompt = prompt_of(read, tf.constant(["a 12", ""]), 5).to_list()
    assert prompt == [read.encode("a 12"), [read.vocabulary.cls_id]]
