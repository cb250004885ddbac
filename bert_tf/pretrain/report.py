"""What a finished pre-training run tells: figures beside their baselines, and the model at work."""

import itertools
import shlex

import numpy as np
import tensorflow as tf

from bert_tf.data.pretraining_input import PretrainingInput
from bert_tf.errors import BertTfError, print_note
from bert_tf.saved_model.next_commands import (
    print_next,
    python_command,
    query_command,
    serve_command,
)
from bert_tf.saved_model.save import export_notes
from bert_tf.storage import files, local_copies

_TEXTS, _PIECES = 3, 24  # how many beginnings of texts are shown, and how long they are


def report(run, metrics, version):
    """Print how good the model is, what it makes of three texts, and the next commands.

    Args:
        run: the `PretrainingRun`.
        metrics: held-out losses, metrics and baselines; empty where nothing is held out.
        version: path of the SavedModel.
    """
    if metrics:
        print("\nheld-out documents:")
        print("\n".join(f"  {line}" for line in figures(metrics)))
    signatures = tf.saved_model.load(local_copies.local(version)).signatures
    texts = held_out_words(run)
    tokenizer = run.tokenizer()
    mask = tokenizer.vocabulary.special_tokens[-1]
    for name, show in (("fill_mask", _fill_mask), ("replaced", _replaced),
                       ("generate", _generate)):
        if name in signatures:
            for lines in show(signatures[name], texts, mask):
                print("\n  " + "\n  ".join(lines))
    print(f"\nexported {version}")
    for note in export_notes(version):
        print_note(note)
    export_dir = run.options.export_dir
    words, place = texts[0] if texts else (["A", "text", "."], 1)
    text = _with_word(words, place, mask) if "fill_mask" in signatures else " ".join(words)
    print_next({
        "serve it": serve_command(export_dir),
        "ask it, from another terminal": query_command(  # its words are split already
            export_dir, text, pretokenize="none" if tokenizer.pretokenize else None),
        "see how it learned": _show_training(run),
        "export another version": python_command(
            "export", "--model", run.path(), "--export_dir", export_dir, "--dtype", "bfloat16")})


def _show_training(run):
    if files.is_remote(run.path()):  # where TensorBoard reads with further packages only
        return python_command("visualize", "training", "--run", run.path())
    return shlex.join(["tensorboard", "--logdir", run.path(*([] if run.masked_lm else ["logs"]))])


def figures(metrics):
    """A line for each loss of a run, with its baseline: a list of texts."""
    lines = []
    for task, title in (("masked_lm", "MLM"), ("language_model", "LM")):
        if f"{task}_loss" in metrics:
            loss, entropy = metrics[f"{task}_loss"], metrics["unigram_entropy"]
            perplexity = f" (perplexity {np.exp(loss):,.1f})" if title == "LM" else ""
            lines.append(f"{title} loss {loss:.3f} nats{perplexity}, unigram entropy of the "
                         f"same tokens {entropy:.3f}, {title} accuracy "
                         f"{metrics[f'{task}_accuracy']:.3f}")
    for task, title in (("next_sentence", "NSP"), ("sentence_order", "SOP")):
        if f"{task}_accuracy" in metrics:
            low, high = metrics[f"{task}_accuracy_interval"]
            line = (f"{title} accuracy {metrics[f'{task}_accuracy']:.3f}, in 95 of 100 cases "
                    f"between {low:.3f} and {high:.3f}")
            if f"{task}_majority" in metrics:  # not of runs from before
                line += f"; the more frequent label alone gives {metrics[f'{task}_majority']:.3f}"
            lines.append(line)
    if "replaced_loss" in metrics:
        loss, entropy = metrics["replaced_loss"], metrics["replaced_rate_entropy"]
        lines[0] = f"generator: {lines[0]}"
        lines.append(
            f"discriminator: loss {loss:.4f} nats a token, entropy of the fraction of replaced "
            f"ones ({metrics['replaced_rate']:.3f}) {entropy:.4f}; accuracy "
            f"{metrics['replaced_accuracy']:.3f}, precision {metrics['replaced_precision']:.3f}, "
            f"recall {metrics['replaced_recall']:.3f}")
    return lines


def held_out_words(run):
    """Beginnings of held-out texts, `[(words, place)]`, with the place of a word in the middle.

    They are read back from the records, so that punctuation stands apart. None where a user
    deleted these, the largest part of a finished run.
    """
    tokenizer = run.tokenizer()
    vocabulary = tokenizer.vocabulary
    try:
        data = PretrainingInput(run.data(), "eval" if run.has_held_out() else "train",
                                batch_size=1, seed=run.train_config.seed)
    except BertTfError:
        return []
    texts = []
    for batch in data.dataset(num_steps=min(20 * _TEXTS, data.num_examples)):
        ids, used = batch["input_word_ids"][0].numpy(), batch["masked_lm_weights"][0].numpy() > 0
        ids[batch["masked_lm_positions"][0].numpy()[used]] = batch["masked_lm_ids"][0].numpy()[used]
        groups = _words(vocabulary, ids[vocabulary.initial_token:_PIECES].tolist())
        words = [word.strip() for word in tokenizer.decode(groups)] if groups else []
        places = [i for i, word in enumerate(words)
                  if len(groups[i]) == 1 and word.isalpha() and len(word) > 1]
        if len(places) > 4:
            texts.append((words, places[len(places) // 2]))
            if len(texts) == _TEXTS:
                break
    return texts


def _words(vocabulary, ids):
    """The ids of each whole word of the first segment."""
    words = []
    ends = (vocabulary.sep_id, vocabulary.pad_id)
    for number in itertools.takewhile(lambda number: number not in ends, ids):
        if not vocabulary.continuation[number]:
            words.append([number])
        elif words:
            words[-1].append(number)
    return words


def _with_word(words, place, word):
    return " ".join([*words[:place], word, *words[place + 1:]])


def _fill_mask(signature, texts, mask):
    """Each text with a word blanked out, and what the model would put there."""
    for words, place in texts:
        text = _with_word(words, place, mask)
        filled = signature(text=tf.constant([text]))
        texts = filled.get("texts", filled["tokens"])  # not of versions from before
        guesses = ", ".join(
            f"{(written or token).decode()} {score:.2f}" for written, token, score in zip(*(
                output.numpy()[0, 0] for output in (texts, filled["tokens"], filled["scores"])),
                strict=True))
        yield text, f"-> {guesses}   (was: {words[place]})"


def _replaced(signature, texts, _, count=5):
    """Each text with a word of the text before in place of its own, and what seems replaced."""
    for (words, place), (others, other) in zip(texts, texts[-1:] + texts[:-1], strict=True):
        text = _with_word(words, place, others[other])
        told = signature(text=tf.constant([text]))
        tokens, probability = told["tokens"].numpy()[0], told["probability"].numpy()[0]
        suspects = ", ".join(f"{tokens[i].decode()} {probability[i]:.2f}"
                             for i in (-probability).argsort()[:count])
        yield text, f"-> {suspects}   (was: {words[place]}, now: {others[other]})"


def _generate(signature, texts, _):
    """How the model goes on from the beginning of each text."""
    for words, place in texts:
        begin = " ".join(words[:place])
        told = signature(text=tf.constant([begin]))
        yield f"{begin} …", f"-> {told['text'].numpy()[0].decode().strip()}"
