"""Tokenizers: in a graph as outside, batch as single, against another implementation, offsets.

What is not UTF-8 must do no harm; what is must give what the reference gives.
"""

import functools
import io
import json
import unicodedata

from fuzzing.target import Bytes, Target, folder, write

LETTERS = "abcdefghijklmnopqrstuvwxyzABCÉéß½가각한국ㅋㅠσςΑάıжИ𐍈"
PUNCTUATION = "[].,!?-#中"
CORPUS = ["The quick brown fox doesn't jump over the lazy dog's tail, 1,000 times!",
          "한국어 문장을 토큰으로 나눈다. 토큰은 문장의 조각이다.", "😀😀 we'll see in 2000, 12,"]
_TEXTS = (*CORPUS, "", "[MASK]b [SEP]", "İstanbul ΟΔΟΣ ﬁ½", "가각각 e\u0301\u0307", "a" * 201,
          "\x1c\x85\u2028\ufeff\u200b\xad", "don't  we'll 's\n\n\ttabs", "``x'' 12,000,")
_SEEDS = tuple(bytes([option]) + text.encode() for option in (0, 3, 7) for text in _TEXTS)
_BROKEN = (b"\0a\xff\xfe b\xe3\x81", b"\1\xf0\x9f", b"\2\xed\xa0\x80",
           b"\3\xc0\x80\0\xf4\x90\x80\x80")


def _graph(function):
    """A function of texts as a graph, and what it gives as lists."""
    import tensorflow as tf

    traced = tf.function(function, input_signature=[tf.TensorSpec([None], tf.string)])

    def run(texts):
        return [part.to_list() if isinstance(part, tf.RaggedTensor) else part.numpy().tolist()
                for part in traced(tf.constant(texts))]

    return run


def _is_text(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def check_offsets(text, starts, ends):
    """Offsets of one text stand in order, inside it and between characters.

    They are into the text that has U+FFFD for what is not UTF-8.
    """
    text = text.decode(errors="replace").encode()
    edges = {len(text)} | {place for place, byte in enumerate(text) if byte & 0xC0 != 0x80}
    before = 0
    for start, end in zip(starts, ends, strict=True):
        assert before <= start <= end <= len(text), (text, starts, ends)
        assert {start, end} <= edges, (text, starts, ends)
        before = start


def _word_piece():
    """Against google-research/bert's algorithm in Python, of the text that is normalized."""
    from bert_tf.tokenization.tokenizer import Tokenizer
    from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

    tokens = [*SPECIAL_TOKENS, *PUNCTUATION, *LETTERS, *(f"##{c}" for c in LETTERS), "hello",
              "##llo", "한국", "mask"]
    vocabulary = Vocabulary(tokens)

    @functools.cache
    def graph_of(option):
        tokenizer, split = Tokenizer(vocabulary, bool(option & 1), bool(option & 2)), option > 3
        return _graph(lambda text: (*tokenizer.tokenize_with_offsets(text, split),
                                    tokenizer.tokenize(text, split), tokenizer.normalize(text)))

    def check(data):
        option, texts = (3, 4)[data[0] % 2 if data else 0], data[1:].split(b"\0")
        graph = graph_of(option)
        ids, starts, ends, plain, normal = graph(texts)
        assert ids == plain
        pieces = []  # that the text at their place is to give
        for row, text in enumerate(texts):
            check_offsets(text, starts[row], ends[row])
            if not _is_text(text):
                continue
            if len(texts) > 1:
                assert graph([text])[0][0] == ids[row], text
            if option < 4:
                assert [tokens[number] for number in ids[row]] == word_pieces(
                    normal[row].decode(), set(tokens)), text
                pieces += _sources(text, tokens, ids[row], starts[row], ends[row])
        if pieces:
            for (source, piece), found in zip(pieces, graph([source for source, _ in pieces])[4],
                                              strict=True):
                assert found.decode().strip() == piece, (source, piece)

    return check


def _sources(text, tokens, ids, starts, ends):
    """`(text of a piece, piece)`, but where one character gave two, or its place matters."""
    places = [*zip(starts, ends, strict=True)]
    for number, (start, end) in zip(ids, places, strict=True):
        if places.count((start, end)) == 1 and tokens[number] != "[UNK]" \
                and "Σ".encode() not in text:
            yield text[start:end], tokens[number].removeprefix("##")


def word_pieces(text, vocabulary):
    """The greedy algorithm of google-research/bert `tokenization.py` on normalized text."""
    pieces = []
    for word in _words(text):
        found, start = [], 0
        while start < len(word) <= 200:
            end = next((end for end in range(len(word), start, -1)
                        if "##" * (start > 0) + word[start:end] in vocabulary), None)
            if end is None:
                break
            found.append("##" * (start > 0) + word[start:end])
            start = end
        pieces += found if start == len(word) else ["[UNK]"]
    return pieces


def _words(text):
    word = ""
    for character in text:
        point = ord(character)
        alone = (unicodedata.category(character).startswith("P")
                 or character in "$+<=>^`|~" or 0x4E00 <= point <= 0x9FFF
                 or 0x3400 <= point <= 0x4DBF or 0xF900 <= point <= 0xFAFF
                 or 0x20000 <= point <= 0x2A6DF or 0x2A700 <= point <= 0x2B73F
                 or 0x2B740 <= point <= 0x2B81F or 0x2B820 <= point <= 0x2CEAF
                 or 0x2F800 <= point <= 0x2FA1F)
        if (alone or character == " ") and word:
            yield word
            word = ""
        if alone:
            yield character
        elif character != " ":
            word += character
    if word:
        yield word


def _byte_pair():
    """Against the library tokenizers."""
    import tokenizers

    from bert_tf.tokenization.byte_pair import BytePairTokenizer

    learned = tokenizers.ByteLevelBPETokenizer()
    learned.train_from_iterator(CORPUS * 3, vocab_size=400, show_progress=False,
                                special_tokens=["<s>", "<pad>", "</s>", "<unk>"])
    learned.save_model(folder())
    with open(f"{folder()}/vocab.json", encoding="utf-8") as stream:
        vocabulary = json.load(stream)
    write("vocab.json", {**vocabulary, "<mask>": len(vocabulary)})
    tokenizer = BytePairTokenizer.load(folder())

    def everything(text):
        ids = tokenizer.tokenize(text)
        return *tokenizer.tokenize_with_offsets(text), ids, tokenizer.detokenize(ids)

    graph = _graph(everything)

    def check(data):
        texts = data[1:].split(b"\0")
        ids, starts, ends, plain, written = graph(texts)
        assert ids == plain
        for row, text in enumerate(texts):
            if not _is_text(text):
                continue
            check_offsets(text, starts[row], ends[row])
            assert written[row] == text
            if all(map(_is_assigned, text.decode())):
                assert learned.encode(text.decode()).ids == ids[row], text

    return check


def _is_assigned(character):
    """Whether Unicode 12, the oldest of the libraries' tables, knows the character."""
    return character.isascii() or (ord(character) < 0xD7FF and unicodedata.ucd_3_2_0.category(
        character) == unicodedata.category(character) != "Cn")


def _sentence_piece():
    """Against ALBERT's rules in Python around the bare model."""
    import sentencepiece
    import tensorflow_text as tf_text

    from bert_tf.tokenization.sentence_piece import SentencePieceTokenizer

    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 20), model_writer=stream, hard_vocab_limit=False,
        minloglevel=3, vocab_size=160, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"])
    bare = tf_text.SentencepieceTokenizer(stream.getvalue())
    bare_graph = _graph(lambda text: [bare.tokenize(text)])
    tokenizer = SentencePieceTokenizer(stream.getvalue())
    graph = _graph(lambda text: (tokenizer.tokenize(text), tokenizer.tokenize(text, True)))

    def check(data):
        texts = data[1:].split(b"\0")
        ids, split = graph(texts)
        for row, text in enumerate(texts):
            if not _is_text(text):
                continue
            if b"[" not in text and b"<" not in text:
                assert ids[row] == split[row], text
            plain = " ".join(text.decode().split())
            if any(unicodedata.category(c) in ("Cn", "Cc", "Co") for c in plain) or not all(
                    map(_is_assigned, plain)) or "," in plain:
                continue
            plain = "".join(c for c in unicodedata.normalize("NFKD", plain)
                            if not unicodedata.combining(c)).lower()
            assert bare_graph([plain])[0][0] == ids[row], text

    return check


def _morphemes():
    """Blanks come in and nothing else; the offsets lead back."""
    from bert_tf.tokenization import morphemes

    def check(data):
        texts = Bytes(data).texts()
        for text, analysed in zip(texts, morphemes.analyse(texts), strict=True):
            assert analysed.replace(" ", "") == text.replace(" ", "")
            offsets = morphemes.original_offsets(text, analysed)
            assert offsets[0] == 0 and offsets[-1] == len(text)
            assert all(0 <= after - before <= 1 for before, after in zip(
                offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))

    return check


def _offsets_of_analysis():
    """Texts that are, or are not, analyses of each other."""
    from bert_tf.tokenization import morphemes

    def check(data):
        text, *others = Bytes(data).texts()
        for analysed in others or [text.replace("a", "a ")]:
            offsets = morphemes.original_offsets(text, analysed)
            assert len(offsets) == len(analysed) + 1
            assert all(text[first:last] == character or character == " " for character, first, last
                       in zip(analysed, offsets, offsets[1:], strict=False))

    return check


def _units():
    from bert_tf.tokenization import units

    graphs = [_graph(lambda text, unit=unit: units.split_units(text, unit)[:2])
              for unit in units.UNITS]

    def check(data):
        texts = data[1:].split(b"\0")
        for graph in graphs:
            starts, ends = graph(texts)
            for row, text in enumerate(texts):
                characters = text.decode("utf-8", "replace") if _is_text(text) else None
                before = 0
                for start, end in zip(starts[row], ends[row], strict=True):
                    assert before <= start < end
                    before = end
                    if characters is not None:
                        assert end <= len(characters) and characters[start:end].strip(" \n\t")

    return check


def _split_sentences():
    from bert_tf.data.documents import split_sentences

    def check(data):
        for text in Bytes(data).texts():
            sentences = split_sentences(text)
            assert all(sentences)
            assert "".join("".join(sentences).split()) == "".join(text.split())

    return check


TARGETS = (
    Target("word_piece", _word_piece, _SEEDS + _BROKEN, 100_000, 128),
    Target("byte_pair", _byte_pair, _SEEDS + _BROKEN, 60_000, 128),
    Target("sentence_piece", _sentence_piece, _SEEDS + _BROKEN, 60_000, 128),
    Target("units", _units, _SEEDS + _BROKEN, 60_000, 128),
    Target("morphemes", _morphemes, tuple(text.encode() for text in (
        *CORPUS, "영화를 재밌게 봤다", "가는곳이\0ㅋㅋㅋ 1개", "한" * 40)), 60_000, 128),
    Target("analysis_offsets", _offsets_of_analysis, (b"ab a\0a b a", b"a\0b"), 300_000, 128),
    Target("split_sentences", _split_sentences, tuple(text.encode() for text in (
        *CORPUS, 'He said "no." Mr. J. left! 中。国')), 400_000),
)
