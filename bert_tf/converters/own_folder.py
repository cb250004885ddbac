"""Any model as a model folder of ours."""

from bert_tf.converters import ours
from bert_tf.converters.formats import find_format, load_format
from bert_tf.converters.tokenizer_files import vocabulary_notes
from bert_tf.models.find import model_folder
from bert_tf.storage import files


def own_folder(path, converted):
    """The model folder at `path`, or else `converted`, made of the model of another format there.

    Args:
        path: model or run folder, or what `convert --from` takes.
        converted: folder to write where there is none yet; what cannot be kept is printed.

    Raises:
        BertTfError, UsageError: as of `find_format` and of the format's reader.
    """
    name = find_format(path)
    if name == "bert_tf":
        return model_folder(path)
    if not files.exists(converted):
        checkpoint = load_format(name).read(path)
        print(f"read {name} {path}: {checkpoint.config.family}, "
              f"{checkpoint.config.num_hidden_layers} layers")
        for note in (*checkpoint.notes,
                     *vocabulary_notes(checkpoint.tokenizer, checkpoint.config.vocab_size)):
            print(f"note: {note}")
        ours.write(checkpoint, converted)
    return converted
