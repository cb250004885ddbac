"""The tokenizer of GPT-2's folders: one special token for every role, nothing around a text."""

import json

import pytest
import tokenizers
from json_folder import both_ways, load, write_classic

from bert_tf.errors import NoTextError
from bert_tf.tasks.pretraining.continuation import prompt_of
from bert_tf.tokenization.byte_pair import BytePairTokenizer
from bert_tf.tokenization.library import LibraryTokenizer
from bert_tf.tokenization.load import load_tokenizer

END = "<|endoftext|>"
TEXTS = ["The quick  brown fox doesn't jump", "한국어 문장을\n\n나눈다 12,345", "",
         " a <|endoftext|>"]
ROLES = dict.fromkeys(("bos_token", "eos_token", "unk_token"), END)
NOTHING = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}


@pytest.fixture
def values():
    """A `tokenizer.json` as the first published ones have it: the last token is the special one."""
    library = tokenizers.ByteLevelBPETokenizer()
    library.train_from_iterator(TEXTS * 3, vocab_size=300, show_progress=False)
    library.add_special_tokens([tokenizers.AddedToken(END, normalized=False)])
    made = json.loads(library.to_str())
    made["model"]["vocab"][END] = made["added_tokens"][0]["id"]
    return {**made, "post_processor": NOTHING}


def check_ids(found, values):
    """The ids of the library, and every role of the one token."""
    assert isinstance(found, BytePairTokenizer)
    assert found.vocabulary.special_tokens == (END,) * 5
    assert found.vocabulary.num_special() == 0
    library = tokenizers.Tokenizer.from_str(json.dumps(values))
    assert found.encode(TEXTS, allow_special=True) == [
        each.ids for each in library.encode_batch(TEXTS)]


def check(found, values):
    """The way back and prompts, too."""
    check_ids(found, values)
    assert found.decode(found.encode(TEXTS)) == TEXTS
    ends = found.vocabulary.cls_id
    assert prompt_of(found, ["a", ""], 5).to_list() == [found.encode("a"), [ends]]


@pytest.mark.parametrize(("processor", "config"), [
    (NOTHING, {"model_max_length": 1024}),  # as published
    ({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
      "special_tokens": {}}, {**ROLES, "tokenizer_class": "GPT2Tokenizer", "pad_token": None}),
    (None, ROLES)])
def test_a_file_of_all_rules(processor, config, values, tmp_path):
    """Whether it says what the special token is for or leaves that to a class."""
    values["post_processor"] = processor
    read = load(tmp_path, values, config)
    check(read, values)
    both_ways(read, tmp_path, "PreTrainedTokenizerFast")
    stated = json.loads((tmp_path / "theirs" / "tokenizer_config.json").read_text())
    assert {role: stated.get(role) for role in (*ROLES, "pad_token", "mask_token")} == {
        **ROLES, "pad_token": END, "mask_token": None}


@pytest.mark.parametrize("config", [
    {}, {"model_max_length": 1024}, {**ROLES, "tokenizer_class": "GPT2Tokenizer"}])
def test_the_classic_files(config, values, tmp_path):
    check(load_tokenizer(write_classic(values, tmp_path / "classic", config)), values)


def test_what_the_configuration_of_classic_files_says(values, tmp_path):
    config = {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "pad_token": "The",
              "add_prefix_space": True}
    values["model"]["vocab"]["The"] = len(values["model"]["vocab"])
    found = load_tokenizer(write_classic(values, tmp_path / "classic", config))
    vocabulary = found.vocabulary
    assert vocabulary.special_tokens == ("The", END, END, END, END) and found.add_prefix_space
    assert found.encode("a") == [vocabulary.cls_id, *found.tokenize([" a"]).to_list()[0]]
    assert found.encode("a", "b") == found.encode("a") + found.encode("b")


@pytest.mark.parametrize("processor", [NOTHING, None])
@pytest.mark.parametrize(("config", "beside"), [
    ({"tokenizer_class": "RobertaTokenizer"}, {"model_type": "gpt2"}),
    ({"tokenizer_class": "LEDTokenizerFast"}, {}), ({}, {"model_type": "xlm-roberta"}),
    ({}, {"model_type": "data2vec-text"}),
    ({}, {"model_type": "gpt2", "tokenizer_class": "RobertaTokenizer"})])
def test_a_file_beside_a_class_that_adds_tokens(processor, config, beside, values, tmp_path):
    """That class, or that of the model, puts them around a text, though the file does not."""
    values["post_processor"] = processor
    (tmp_path / "config.json").write_text(json.dumps(beside))
    name = config.get("tokenizer_class") or [*beside.values()][-1]
    with pytest.raises(NoTextError, match=f"special tokens around a text; .* those of {name}"):
        load(tmp_path, values, config)


@pytest.mark.parametrize("processor", [NOTHING, None])
@pytest.mark.parametrize(("config", "beside"), [
    ({"tokenizer_class": "Qwen2TokenizerFast"}, {"model_type": "roberta"}),
    ({"tokenizer_class": "PreTrainedTokenizerFast"}, {"model_type": "roberta"}),
    ({"tokenizer_class": "LlamaTokenizerFast"}, {"model_type": "gpt2"}),
    ({"tokenizer_class": "OtherTokenizer"}, {}), ({}, {"model_type": "gpt2"}),
    ({}, {"model_type": "gpt_neo"}), ({}, {"model_type": "gemma3_text"}), ({}, {})])
def test_a_file_beside_a_class_that_adds_none(processor, config, beside, values, tmp_path):
    """Nor does it where the configuration names tokens that others put there."""
    values["post_processor"] = processor
    (tmp_path / "config.json").write_text(json.dumps(beside))
    check_ids(load(tmp_path, values, {**config, "cls_token": END, "sep_token": END}), values)


def test_another_kind_of_file_runs_in_python(tmp_path):
    """As KoGPT2 has it: BPE of characters without bytes; `tokenizer_config.json` names the end."""
    library = tokenizers.Tokenizer(tokenizers.models.BPE())
    library.normalizer = tokenizers.normalizers.NFKC()
    library.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    library.decoder = tokenizers.decoders.Metaspace()
    library.train_from_iterator(TEXTS * 3, tokenizers.trainers.BpeTrainer(
        vocab_size=99, show_progress=False,
        special_tokens=["<s>", "</s>", "<pad>", "<unk>", "<mask>"]))
    values = json.loads(library.to_str())
    values["model"] |= {"unk_token": "<unk>"}
    with pytest.raises(NoTextError, match="which token is the cls_token; expected bos_token, eos"):
        load(tmp_path, values)
    found = load(tmp_path, values, {"bos_token": "</s>", "eos_token": "</s>"})
    assert isinstance(found, LibraryTokenizer)
    assert found.vocabulary.special_tokens == ("<pad>", "<unk>", "</s>", "</s>", "<mask>")
    assert found.encode(TEXTS[1]) == library.encode(TEXTS[1]).ids
