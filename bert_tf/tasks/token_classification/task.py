"""A tag for every word or character of a text, and the entities that the tags make."""

import collections
import os

import numpy as np
import tensorflow as tf

from bert_tf.data.tables import composed
from bert_tf.errors import BertTfError, UsageError, explain, print_note
from bert_tf.storage import files
from bert_tf.tasks.base.task_type import SCORE_DIGITS, TaskType, served_answers
from bert_tf.tasks.token_classification.entities import join_units
from bert_tf.tasks.token_classification.examples import OUTSIDE
from bert_tf.tasks.token_classification.features import tag_features
from bert_tf.tasks.token_classification.metrics import (
    entities_of,
    entity_report,
    klue_f1,
    tag_macro_f1,
    tagging_metrics,
)
from bert_tf.tasks.token_classification.model import TokenClassifier
from bert_tf.tasks.token_classification.preprocessor import WordPreprocessor
from bert_tf.tokenization.morphemes import analyse, in_original

ENTITY_REPORT, WRONG_SENTENCES = "entities.json", "wrong_sentences.jsonl"
_ENTITY = ("text", "label", "start", "end")


class TokenClassification(TaskType):
    """Tasks of a `TokenClassifier`.

    The words (of KLUE-NER the characters, as KLUE evaluates them without the blanks) are those of
    the examples; the tag of one is that of its first piece, and `O` where the tokenizer leaves
    nothing of it.
    """

    models = (TokenClassifier,)
    answered_by = ("tag",)

    def __init__(self, task, options):
        super().__init__(task, options)
        self.measures_rows = task.columns is not None  # else its files are no tables
        self.unit = options.unit or "word"  # what a tag is of, until the examples are known
        self.unknown = {}  # entities of the examples by type, of those that the model has no tag of
        if options.class_weights:
            raise UsageError(f"--class_weights with --task {task.name}: weights are for one label "
                             "a text; leave it out")

    def labels(self, train):
        """Return the tags, sorted: `O`, and for every type `B-` and `I-`.

        Raises:
            BertTfError: no example has an entity.
        """
        self.unit = self.options.unit or _unit_of(train)
        if not self.options.unit and self.unit == "character" and all(map(_tags_words, train)):
            print_note("every entity begins and ends with a word; with --unit word the model reads "
                       "words whole, as in its pre-training")
        if self.task.labels:
            return list(self.task.labels)
        kinds = {tag[2:] for example in train for tag in example.tags if tag != OUTSIDE}
        if not kinds:
            raise BertTfError(explain(f"{len(train)} examples without any entity",
                                      "tags B-type and I-type"))
        return [f"{begin}-{kind}" for kind in sorted(kinds) for begin in "BI"] + [OUTSIDE]

    def check_examples(self, examples, about, served):
        """See `TaskType.check_examples`: of these, what a tag is of is learned, and which types of
        entities the model does not know; that is no error, as it may know others."""
        self.unit = self.options.unit or _unit_of(examples)
        known = {composed(label)[2:] for label in about.get("labels", ())}
        self.unknown = collections.Counter(
            kind for example in examples for tag in map(composed, example.tags)
            if tag.startswith("B-") and (kind := tag[2:]) not in known)

    def model_options(self, labels, tokenizer):
        """See `TaskType.model_options`; the text is read by `seq_length` and `unit`."""
        preprocessor = WordPreprocessor(tokenizer, self.options.max_seq_length, self.unit)
        return "tagger", {"labels": labels, "preprocessor": preprocessor, **self.feature_options()}

    def features(self, examples, model, training):
        """See `TaskType.features`: a row a window, with the tags for training."""
        return tag_features(examples, model.preprocessor, model.labels if training else None)

    def notes(self, examples, predictions, metrics):
        """See `TaskType.notes`: entities that cannot be found, or are by chance at best."""
        tags = [tag for example in examples for tag in example.tags]
        notes = []
        if self.unknown:
            kinds = ", ".join(f"{kind!r} ({count:,})"
                              for kind, count in sorted(self.unknown.items()))
            notes.append(f"the model does not know the types {kinds}: none of these entities is "
                         "found")
        return notes + ([] if {tag[2:] for tag in tags} <= {"", *self.unknown} else
                        self._chance_notes(tags, predictions, metrics))

    def _chance_notes(self, tags, predictions, metrics):
        found = sum(len(line["entities"]) for line in predictions)
        if not found:
            return ["no entity is predicted, as by an untrained model"]
        if not metrics["f1"]:
            return [f"none of the {found:,} predicted entities is correct, as by an untrained "
                    "model"]
        without = tags.count(OUTSIDE) / len(tags)
        return [] if metrics["accuracy"] > without else [
            f"tag accuracy {metrics['accuracy']:.4f} is no better than without any entity "
            f"({without:.4f})"]

    def predict(self, model, examples):
        """Return `{"id", "tags", "entities"}`: a tag for each word of the example, and the
        entities.

        An entity is `{"text", "label", "start", "end", "score"}`, with characters of the text as
        the file has it; of words without one, of the words with one blank between them.
        """
        features = self.features_to_predict(model, examples)
        splits = features.rows["input_word_ids"].splits
        logits = np.zeros([splits[-1], len(model.labels)], np.float32)
        for rows, predicted, _ in self.outputs(model, features):
            for row, values in zip(rows, predicted, strict=True):
                logits[splits[row]:splits[row + 1]] = values[:splits[row + 1] - splits[row]]
        word, row, position = features.units.T
        first = np.diff(word, prepend=-1) > 0
        probabilities = tf.nn.softmax(logits[(splits[row] + position)[first]]).numpy()

        labels = [*model.labels, *({OUTSIDE} - set(model.labels))]
        counts = [len(example.words) for example in examples]
        label_ids = np.full(sum(counts), labels.index(OUTSIDE))
        scores = np.ones(sum(counts), np.float32)
        label_ids[word[first]] = probabilities.argmax(axis=1)
        scores[word[first]] = probabilities.max(axis=1)
        if model.preprocessor.unit == "word":
            _carry_on(examples, labels, word[first], label_ids, scores)
        label_ids, scores = (tf.RaggedTensor.from_row_lengths(values, counts)
                             for values in (label_ids, scores))
        found = [column.to_list() for column in join_units(labels, label_ids, scores)]
        lines = []
        for example, numbers, *entities in zip(examples, label_ids.to_list(), *found, strict=True):
            starts = example.starts
            lines.append(_line(example, [labels[number] for number in numbers], [
                (starts[first], starts[last] + len(example.words[last]), label.decode(), score)
                for first, last, label, score in zip(*entities, strict=True)]))
        return lines

    def predict_served(self, signatures, about, examples):
        """See `TaskType.predict_served`; the SavedModel splits the text into words itself.

        The tags are those of the entities that it finds: of the words that begin in one.
        """
        lines = [None] * len(examples)
        texts = [example.text for example in examples]
        if about.get("pretokenize"):
            texts = analyse(texts, progress=True)
        for row, answer in served_answers(signatures, "tag", {"text": texts}, about):
            starts, ends, labels, scores = (answer[name][:answer["num_entities"]]
                                            for name in ("starts", "ends", "labels", "scores"))
            starts, ends, _ = in_original(examples[row].text, texts[row], starts, ends)
            entities = [(int(start), int(end), label.decode(), float(score))
                        for start, end, label, score in zip(starts, ends, labels, scores,
                                                            strict=True)]
            lines[row] = _line(examples[row], _tags(examples[row], entities), entities)
        return lines

    def prediction(self, example, row):
        """See `TaskType.prediction`: the tags of the entities, as of `predict_served`."""
        return {"tags": _tags(example, [(entity["start"], entity["end"], entity["label"], None)
                                        for entity in row["entities"]])}

    def metrics(self, examples, predictions):
        """Return the metrics of `tagging_metrics`; of characters also `character_f1`, see
        `tag_macro_f1`, and of KLUE's also `klue_f1`."""
        gold, predicted = _both(examples, predictions)
        further = {}
        if _unit_of(examples) == "character":
            further["character_f1"] = tag_macro_f1(gold, predicted)
        if self.task.name == "klue_ner":
            further["klue_f1"] = klue_f1(gold, predicted)
        return {**tagging_metrics(gold, predicted), **further}

    def report(self, examples, predictions, folder):
        """Write `entities.json`, how well each type was found, and `wrong_sentences.jsonl`.

        The latter has the sentences where an entity was missed or one predicted that is none: the
        labelled entities (`right`), and the predicted ones (`entities`).
        """
        files.write_json(os.path.join(folder, ENTITY_REPORT),
                         entity_report(*_both(examples, predictions)))
        files.write_json_lines(os.path.join(folder, WRONG_SENTENCES), (
            {"id": example.id, "text": example.text, "right": right, "entities": line["entities"],
             "where": example.where}
            for example, line in zip(examples, predictions, strict=True)
            if (right := _right(example)) != [
                {**{name: entity[name] for name in _ENTITY}, "label": composed(entity["label"])}
                for entity in line["entities"]]))


def _unit_of(examples):
    """Return what a tag of the examples is of."""
    # A text of one character fits both: a file of characters may have some read as words.
    return "character" if "character" in {example.unit for example in examples} else "word"


def _tags_words(example):
    """Return whether no entity begins or ends inside a word."""
    text = example.text
    return all(not text[:each["start"]][-1:].isalnum() and not text[each["end"]:][:1].isalnum()
               for each in _right(example))


def _carry_on(examples, labels, known, label_ids, scores):
    """Give characters that were read as parts of words what these words have: in `label_ids` and
    `scores`, those of all examples, only the places `known` are predicted."""
    runs = np.cumsum([begins for example in examples for begins in (True, *example.spaces[:-1])],
                     dtype=int)
    places = np.zeros(len(runs), int)
    places[known] = known
    places = np.maximum.accumulate(places)  # of the word that each is in
    carried = np.array([example.unit == "character" for example in examples
                        for _ in example.words], bool)
    carried &= runs == runs[places]
    carried[known] = False
    inside = np.array([labels.index(name) if (name := f"I-{label[2:]}") in labels else number
                       for number, label in enumerate(labels)])
    label_ids[carried] = inside[label_ids[places[carried]]]
    scores[carried] = scores[places[carried]]


def _right(example):
    """Return the entities that the example's tags make, `_ENTITY` of each."""
    text, starts = example.text, example.starts
    spans = [(kind, starts[first], starts[last] + len(example.words[last]))
             for kind, first, last in entities_of(map(composed, example.tags))]
    return [dict(zip(_ENTITY, (text[start:end], kind, start, end), strict=True))
            for kind, start, end in spans]


def _line(example, tags, entities):
    """Return a line of `predict`; `entities` are `(start, end, label, score)`."""
    text = example.text
    return {"id": example.id, "tags": tags, "entities": [
        {**dict(zip(_ENTITY, (text[start:end], label, start, end), strict=True)),
         "score": round(score, SCORE_DIGITS)} for start, end, label, score in entities]}


def _tags(example, entities):
    """Return the tags of the words that begin in an entity."""
    tags, starts = [OUTSIDE] * len(example.words), example.starts
    for start, end, label, _ in entities:
        first, after = np.searchsorted(starts, [start, end])
        for word in range(first, after):
            tags[word] = f"{'B' if word == first else 'I'}-{label}"
    return tags


def _both(examples, predictions):
    """Return the labels and the predicted tags, composed: a model may have its own in jamo."""
    return ([list(map(composed, example.tags)) for example in examples],
            [list(map(composed, line["tags"])) for line in predictions])


TYPE = TokenClassification
