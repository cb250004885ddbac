"""Kinds of tasks for `hf_finetune.py`, each with transformers' own head.

A kind has `model_class`; `config()`, what it asks of the model; `features(examples, training)`,
list of dicts; `inputs(features)`, of those what the model takes; `collate`, a batch of them;
`logits(output)`, a tuple of tensors; and `lines(examples, features, *logits)`, a dict an example.
"""

import transformers

NO_LABEL = -100  # positions that transformers' loss leaves out


class Texts:
    """One label for a text or a pair of texts, or without labels a number."""

    model_class = transformers.AutoModelForSequenceClassification

    def __init__(self, tokenizer, arguments):
        self.tokenizer = tokenizer
        self.labels = arguments.labels
        self.seq_length = arguments.seq_length
        self.collate = transformers.DataCollatorWithPadding(tokenizer)

    def config(self):
        if not self.labels:
            return {"num_labels": 1, "problem_type": "regression"}
        return {"num_labels": len(self.labels)}

    def features(self, examples, training):
        columns = [[example["text_a"] for example in examples]]
        if examples[0]["text_b"] is not None:
            columns.append([example["text_b"] for example in examples])
        rows = _rows(self.tokenizer(*columns, truncation=True, max_length=self.seq_length))
        if training:
            for row, example in zip(rows, examples, strict=True):
                label = example["label"]
                row["label"] = self.labels.index(label) if self.labels else float(label)
        return rows

    def inputs(self, features):
        return features

    def logits(self, output):
        return (output.logits,)

    def lines(self, examples, features, logits):
        for example, values in zip(examples, logits, strict=True):
            if self.labels:
                yield {"id": example["id"], "label": self.labels[int(values.argmax())]}
            else:
                yield {"id": example["id"], "score": float(values[0])}


class Tags:
    """A tag for each word, learned and told at its first piece; `O` for a word that is cut off."""

    model_class = transformers.AutoModelForTokenClassification

    def __init__(self, tokenizer, arguments):
        self.tokenizer = tokenizer
        self.labels = arguments.labels
        self.seq_length = arguments.seq_length
        self.collate = transformers.DataCollatorForTokenClassification(tokenizer)

    def config(self):
        return {"num_labels": len(self.labels)}

    def features(self, examples, training):
        encoded = self.tokenizer([example["words"] for example in examples], truncation=True,
                                 is_split_into_words=True, max_length=self.seq_length)
        rows = _rows(encoded)
        for number, (row, example) in enumerate(zip(rows, examples, strict=True)):
            row["first"], before = [], None  # (position, word) of the words' first pieces
            for position, word in enumerate(encoded.word_ids(number)):
                if word is not None and word != before:
                    row["first"].append((position, word))
                before = word
            if training:
                row["labels"] = [NO_LABEL] * len(row["input_ids"])
                for position, word in row["first"]:
                    row["labels"][position] = self.labels.index(example["tags"][word])
        return self.inputs(rows) if training else rows

    def inputs(self, features):
        return [{name: values for name, values in row.items() if name != "first"}
                for row in features]

    def logits(self, output):
        return (output.logits.argmax(dim=-1),)

    def lines(self, examples, features, told):
        for example, row, numbers in zip(examples, features, told, strict=True):
            tags = ["O"] * len(example["words"])
            for position, word in row["first"]:
                tags[word] = self.labels[int(numbers[position])]
            yield {"id": example["id"], "tags": tags}


class Spans:
    """Answers in a context; one that there is none is told by the first token.

    As transformers' question-answering example does it: windows of a long context, the `n_best`
    first and last tokens paired, the answer of the best pair, and how much better than it the
    lowest score of no answer among the windows is.
    """

    model_class = transformers.AutoModelForQuestionAnswering

    def __init__(self, tokenizer, arguments):
        self.tokenizer = tokenizer
        self.arguments = arguments
        self.collate = transformers.DataCollatorWithPadding(tokenizer)

    def config(self):
        return {}

    def features(self, examples, training):
        encoded = self.tokenizer(
            [example["question"].lstrip() for example in examples],
            [example["context"] for example in examples], truncation="only_second",
            max_length=self.arguments.seq_length, stride=self.arguments.doc_stride,
            return_overflowing_tokens=True, return_offsets_mapping=True)
        rows = _rows(encoded)
        for number, row in enumerate(rows):
            offsets = [offset if part == 1 else None for offset, part in zip(
                row.pop("offset_mapping"), encoded.sequence_ids(number), strict=True)]
            example = row.pop("overflow_to_sample_mapping")
            if training:
                row["start_positions"], row["end_positions"] = _positions(
                    offsets, examples[example]["answers"])
            else:
                row["example"], row["offsets"] = example, offsets
        return rows

    def inputs(self, features):
        return [{name: values for name, values in row.items()
                 if name not in ("example", "offsets")} for row in features]

    def logits(self, output):
        return output.start_logits, output.end_logits

    def lines(self, examples, features, starts, ends):
        windows = [[] for _ in examples]
        for row, *scores in zip(features, starts, ends, strict=True):
            windows[row["example"]].append((row["offsets"], *scores))
        for example, own in zip(examples, windows, strict=True):
            none = min(float(start[0] + end[0]) for _, start, end in own)
            score, first, last = max((best for window in own for best in self._pairs(*window)),
                                     default=(float("-inf"), 0, 0))
            yield {"id": example["id"], "answer": example["context"][first:last],
                   "no_answer_score": max(-1e9, min(1e9, none - score))}

    def _pairs(self, offsets, start_scores, end_scores):
        """`(score, first character, character behind the last)` of possible answers."""
        count = len(offsets)
        best = [scores[:count].argsort()[::-1][:self.arguments.n_best]
                for scores in (start_scores, end_scores)]
        for start in best[0]:
            for end in best[1]:
                if (offsets[start] and offsets[end]
                        and 0 <= end - start < self.arguments.max_answer_length):
                    yield (float(start_scores[start] + end_scores[end]), offsets[start][0],
                           offsets[end][1])


def _positions(offsets, answers):
    """First and last token of the first answer; the first token where it is not in the window."""
    if not answers:
        return 0, 0
    text, first = answers[0]
    inside = [position for position, offset in enumerate(offsets) if offset
              and offset[0] < first + len(text) and offset[1] > first]
    whole = inside and offsets[inside[0]][0] <= first and (
        offsets[inside[-1]][1] >= first + len(text))
    return (inside[0], inside[-1]) if whole else (0, 0)


def _rows(encoded):
    """A dict for each row of what a tokenizer gave."""
    return [dict(zip(encoded, values, strict=True))
            for values in zip(*encoded.values(), strict=True)]


KINDS = {"classification": Texts, "token_classification": Tags, "question_answering": Spans}
