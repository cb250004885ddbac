"""Any model as a model folder of ours."""

import contextlib
import os
import tempfile

from bert_tf.converters import ours
from bert_tf.converters.formats import FORMATS, find_format, read_model
from bert_tf.converters.stack import stacked
from bert_tf.converters.tokenizer_files import vocabulary_notes
from bert_tf.errors import print_note, printable
from bert_tf.models.find import find_model
from bert_tf.storage import files, hub
from bert_tf.tokenization.load import load_tokenizer


def own_folder(path, converted, stack=1, reads_text=False):
    """Return `path` if it is a model folder, or else `converted`, made of the other format there.

    Args:
        path: model or run folder, or what `convert --from` takes.
        converted: folder to write where there is none yet; what cannot be kept is printed.
        stack: how often the layers are repeated, see `stacked`; `converted` holds these.
        reads_text: refuse a model without a usable tokenizer, before anything is written.

    Raises:
        BertTfError, UsageError: as of `find_format` and of the format's reader.
        NoTextError: there is no such tokenizer.
    """
    name = find_format(path)
    if name == "bert_tf" and stack == 1:
        return find_model(path).folder
    if not files.exists(converted):
        checkpoint = read_model(path)
        print(printable(f"read {name} {path}: {checkpoint.config.family}, "
                        f"{checkpoint.config.num_hidden_layers} layers"))
        for note in (*checkpoint.notes,
                     *vocabulary_notes(checkpoint.tokenizer, checkpoint.config.vocab_size)):
            print_note(note)
        if reads_text:
            load_tokenizer(checkpoint.tokenizer or path)
        if stack > 1:
            count = checkpoint.config.num_hidden_layers
            checkpoint = stacked(checkpoint, stack)
            groups = checkpoint.config.num_hidden_groups
            print(f"its {count} layers, repeated {stack} times, begin as the new model's "
                  f"{count * stack}: " + (
                      f"weights shared in {groups} group{'s'[:groups > 1]}, as they were" if groups
                      else f"layer i as layer i modulo {count}"))
        ours.write(checkpoint, converted)
    return converted


@contextlib.contextmanager
def own_path(path):
    """Yield the path of a model or run folder of ours: `path`, or one made of what is there.

    Args:
        path: as of `own_folder`; what is made is called as it is, and goes at the end.
    """
    found = find_model(path, FORMATS)
    if found.kind == "bert_tf":
        yield found.path
        return
    with tempfile.TemporaryDirectory(prefix="bert_tf-") as folder:
        name = files.base_name(hub.repository(path) or path)
        yield own_folder(path, os.path.join(folder, name))
