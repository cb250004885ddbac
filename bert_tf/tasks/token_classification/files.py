"""Tagged words and characters: CoNLL columns, KLUE-NER, and custom tables.

Tags are `O`, `B-type` and `I-type`. An `I-` that does not go on with an entity of its type begins
one and is read as `B-`, as conlleval does: so the first form of CoNLL-2003, with `B-` only between
neighbours, becomes the second, and a broken sequence a sound one.
"""

import itertools
import re

from bert_tf.data.table_form import AS_FOUND, is_table
from bert_tf.data.tables import BadRow, attempts, composed, read_rows
from bert_tf.errors import UsageError, explain
from bert_tf.storage import files
from bert_tf.tasks.base.text_files import check_text, short
from bert_tf.tasks.token_classification.examples import TagExample

KLUE_TAGS = tuple(f"{begin}-{kind}" for kind in ("PS", "LC", "OG", "DT", "TI", "QT")
                  for begin in "BI") + ("O",)
_TAG = re.compile(r"O|[BI]-\S+")
_DOCUMENT = "-DOCSTART-"
_COMMENT = "##"
_ABOVE = re.compile(r"#(\s|begin |end )")  # a line about a sentence: `# id 1`, `#begin document`
_SAMPLE = 50  # lines by which a file of tagged words is known
_ENTITY = '{"start": 0, "end": 3, "label": "PER"}'


def sound_tags(tags):
    """Return BIO tags in which every `I-` continues an entity of its type."""
    sound, kind = [], None
    for tag in tags:
        begins = tag.startswith("I-") and tag[2:] != kind
        sound.append("B-" + tag[2:] if begins else tag)
        kind = tag[2:] or None
    return sound


def read_conll(path, _=None, form=AS_FOUND):
    """Yield the sentences of a file in columns: the word first, its tag last (CoNLL-2003, WNUT-17).

    A line is a word; columns are separated by tabs or, on a line without any, by blanks. Lines of
    white space end sentences, and a line that begins with `-DOCSTART-` begins a document, whose
    sentences are one group. Comments above a sentence, `# …`, are left out. A blank is taken to be
    after every word but the last.

    In place of a sentence with a line without a tag, or whose tag is none, stands a BadRow with
    file and line.

    Raises:
        BertTfError: the file cannot be read.
    """
    document = 0

    def example(number, where, lines):
        words, tags = zip(*(_word_and_tag(*line) for line in lines), strict=True)
        return _example(where, str(number), words, tags, [True] * (len(words) - 1) + [False],
                        f"document {document}" if document else None)

    def sentences():
        nonlocal document
        for mark, lines in _blocks(path, form, _DOCUMENT):
            lines = list(itertools.dropwhile(lambda line: _is_comment(line[1]), lines))
            if lines:
                yield lines[0][0], lines
            elif mark:
                document += 1

    return attempts(sentences(), example)


def _blocks(path, form, mark):
    """Yield `(None, lines)` of what blank lines separate, and `(line, [])` of lines of that mark.

    `lines` is a list of `(where, line)`, at least one.
    """
    lines = []
    for number, line in enumerate(files.read_lines(path, form.encoding), 1):
        marked = line.startswith(mark)
        if line.strip() and not marked:
            lines.append((f"{path} line {number}", line))
            continue
        if lines:
            yield None, lines
            lines = []
        if marked:
            yield line, []
    if lines:
        yield None, lines


def _is_comment(line):
    """Return whether a line of columns is about the sentence below; the word `#` has a tag."""
    return _ABOVE.match(line) is not None and not _TAG.fullmatch(line.split()[-1])


def _word_and_tag(where, line):
    # A no-break space, as in 10 000, is of a word.
    fields = line.split("\t") if "\t" in line else [field for field in line.split(" ") if field]
    if len(fields) < 2:
        raise BadRow(explain(f"{where}: one column", "a word and, in the last column, its tag"))
    return check_text(where, fields[0], "word").strip(), _checked_tag(where, fields[-1].strip())


def read_klue(path, _=None, form=AS_FOUND):
    """Yield the sentences of a KLUE-NER file: a character and its tag a line, blanks included.

    Lines of `##` are comments, the last one before a sentence holds its id. A blank, tagged too
    in the file, is no character of the example but kept in `spaces`, as KLUE evaluates it.

    In place of a sentence with a line that is not a character and its tag stands a BadRow with
    file and line.

    Raises:
        BertTfError: the file cannot be read.
    """
    def example(number, where, block):
        id, lines = block
        words, tags, spaces = _without_blanks([_character_and_tag(*line) for line in lines])
        if not words:
            raise BadRow(explain(f"{where}: blanks only", "a sentence"))
        return _example(where, id or str(number), words, tags, spaces, unit="character")

    def sentences():
        id = None
        for comment, lines in _blocks(path, form, _COMMENT):
            if lines:
                yield lines[0][0], (id, lines)
                id = None
            else:
                id = comment.removeprefix(_COMMENT).split("\t")[0].strip()

    return attempts(sentences(), example)


def _character_and_tag(where, line):
    character, tab, tag = line.partition("\t")
    if not tab or len(character) != 1:
        raise BadRow(explain(f"{where}: {line[:40]!r}", "a character, a tab, a tag"))
    if not character.isspace():
        check_text(where, character, "character")
    tag = _checked_tag(where, tag.strip())
    if tag not in KLUE_TAGS:
        raise BadRow(explain(f"{where}: tag {tag!r}", f"one of {', '.join(KLUE_TAGS)}"))
    return character, tag


def _without_blanks(rows):
    """Return characters, tags and spaces of (character, tag) pairs in which blanks are tagged too.

    An entity that begins with a blank begins after it.
    """
    words, tags, spaces = [], [], []
    begins = False
    for (character, _), tag in zip(rows, sound_tags(tag for _, tag in rows), strict=True):
        if character.isspace():
            begins = begins or tag.startswith("B-")
            if spaces:
                spaces[-1] = True
            continue
        words.append(character)
        tags.append("B-" + tag[2:] if begins and tag.startswith("I-") else tag)
        spaces.append(False)
        begins = False
    if spaces:
        spaces[-1] = False
    return words, tags, spaces


def read_tag_table(path, columns, form=AS_FOUND):
    """Read the sentences of a table, see `tables`; of a file of any other name, of `read_conll`'s.

    A row is a sentence: `columns["text"]` its text, `columns["label"]` its tags separated by blanks
    (in JSONL also a list), in the whole file one for each word between white space, or one for
    each character. In JSONL the text may also be a list of words.

    In place of tags, the whole file may have entities as predictions have them: lists of objects
    with `start` and `end`, in characters of the text, and `label`. They tag characters.

    Raises: as `read_texts`.
    """
    if not is_table(path):
        return read_conll(path, form=form)
    needed = [columns["text"], columns["label"], *filter(None, [columns.get("id")])]
    of_entities = _holds_entities(read_rows(path, needed, form=form), columns["label"])
    unit = "character" if of_entities else None

    def example(number, where, row):
        nonlocal unit
        text, tags = row[columns["text"]], row[columns["label"]]
        units = _units(where, text)
        tags = _tags_of_entities(where, tags, text) if of_entities else _checked_tags(where, tags)
        units = {name: parts for name, parts in units.items() if unit in (None, name)}
        fitting = [name for name, parts in units.items() if len(parts) == len(tags)]
        if not fitting:
            counts = " or ".join(f"{len(parts)} {name}s" for name, parts in units.items())
            raise BadRow(explain(f"{where}: {len(tags)} tags for {counts}", "one for each"))
        if len(fitting) == 1:  # a text of one character is one word
            unit = fitting[0]
        parts = units[fitting[0]]
        if fitting[0] == "character":
            words, tags, spaces = _without_blanks(list(zip(parts, tags, strict=True)))
        else:
            words, spaces = parts, [True] * (len(parts) - 1) + [False]
        id = row[columns["id"]] if columns.get("id") else number
        return _example(where, check_text(where, str(id), "id"), words, tags, spaces,
                        unit=fitting[0], original=text if isinstance(text, str) else None)

    return attempts(read_rows(path, needed, form=form), example)


def check_untagged(path, form=AS_FOUND):
    """Refuse a file of words, each with its tag, where a line is to be a text.

    Raises:
        UsageError: by the file's name or its first lines it is one.
    """
    klue = files.suffix(path) == ".tsv"  # as it is published, comments first; others are tables
    if is_table(path) and not klue:
        return
    begin = list(itertools.islice(files.read_lines(path, form.encoding, "surrogateescape"),
                                  _SAMPLE))
    if klue and not "".join(begin[:1]).startswith(_COMMENT):
        return
    words = [line for line in begin
             if line.strip() and not line.startswith((_DOCUMENT, _COMMENT))
             and not _is_comment(line)]
    if files.suffix(path) == ".conll" or len(words) > 1 and all(
            _TAG.fullmatch(line.split()[-1]) for line in words):
        raise UsageError(explain(f"{path}: words with their tags", "a text a line, without tags",
                                 "bert_tf.evaluate, which reads tags"))


def _units(where, text):
    """Return what each tag of a text may be of."""
    if isinstance(text, list):
        if not text:
            raise BadRow(explain(f"{where}: no words", attempt="removing the row"))
        return {"word": [check_text(where, word, "word").strip() for word in text]}
    return {"word": check_text(where, text).split(), "character": list(text)}


def _holds_entities(rows, column):
    """Return whether the labels of `read_rows` are entities, by the first one that is not empty."""
    label = None
    for label in (row[column] for _, row in rows if not isinstance(row, BadRow)):
        if label:
            return isinstance(label, list) and isinstance(label[0], dict)
    return label == []


def _tags_of_entities(where, entities, text):
    """Return a tag for each character of a text, by the objects of its entities."""
    if not isinstance(text, str):
        raise BadRow(explain(f"{where}: {type(text).__name__} as text of entities", "a string"))
    if not isinstance(entities, list):
        raise BadRow(explain(f"{where}: {type(entities).__name__} as entities",
                             f"a list, as in other rows, of objects such as {_ENTITY}"))
    tags = ["O"] * len(text)
    for entity in entities:
        start, end, label = _checked_entity(where, entity, text)
        if any(tag != "O" for tag in tags[start:end]):
            raise BadRow(explain(f"{where}: entity {short(text[start:end])} at {start} to {end} "
                                 "overlaps another one", "a character in one entity at most"))
        tags[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]
    return tags


def _checked_entity(where, entity, text):
    """Return `(start, end, label)` of an entity's object; what it says of its text must be so."""
    given = entity if isinstance(entity, dict) else {}
    start, end, label, told = map(given.get, ("start", "end", "label", "text"))
    if type(start) is not int or type(end) is not int:
        raise BadRow(explain(f"{where}: entity {str(entity)[:60]}", _ENTITY))
    label = composed(check_text(where, label, "label of an entity").strip())
    if not label.isprintable():
        raise BadRow(explain(f"{where}: label {label[:40]!r} of an entity",
                             "no control characters"))
    place = f"{where}: entity {label} at {start} to {end}"
    if min(start, end) < 0 or max(start, end) > len(text):
        raise BadRow(explain(f"{place} of a text of {len(text)} characters", "both within it"))
    if not text[start:end].strip():
        raise BadRow(explain(f"{place} is empty", "the end exclusive: of one character, its "
                                                  "start + 1"))
    if told not in (None, text[start:end]):
        raise BadRow(explain(f"{place} is {short(text[start:end])} there and {short(str(told))} in "
                             "its object", "characters counted from 0, the end exclusive"))
    return start, end, label


def _checked_tags(where, tags):
    """Return the tags of a row, a list of str."""
    tags = tags.split() if isinstance(tags, str) else tags
    if not isinstance(tags, list):
        raise BadRow(explain(f"{where}: {type(tags).__name__} as tags",
                             "a list, or tags separated by blanks"))
    return [_checked_tag(where, tag) for tag in tags]


def _checked_tag(where, tag):
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):
        objects = not isinstance(tag, str) or tag.startswith("[{")
        raise BadRow(explain(f"{where}: tag {str(tag)[:40]!r}", "O, B-type or I-type",
                             f"entities such as {_ENTITY}, in JSON or Parquet" * objects))
    return composed(tag)


def _example(where, id, words, tags, spaces, group=None, **of_table):
    return TagExample(id, tuple(words), tuple(sound_tags(tags)), tuple(spaces), group, where,
                      **of_table)
