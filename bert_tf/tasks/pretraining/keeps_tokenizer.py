"""The tokenizer of a model that is called on token ids alone, kept where the model is saved."""

from bert_tf.tokenization.load import holds_tokenizer, load_tokenizer


class KeepsTokenizer:
    """Mixin of Keras models whose folders and `.keras` files keep a `tokenizer`: that of methods
    which take text, or of what is made of the model later."""

    tokenizer = None  # `from_pretrained` reads the folder's

    def save_assets(self, folder):
        """Write the tokenizer's files, if there is one, into a `.keras` file. See Keras."""
        if self.tokenizer is not None:
            self.tokenizer.save(folder)

    def load_assets(self, folder):
        """See Keras; of a file without assets `folder` is None."""
        if folder is not None and holds_tokenizer(folder):
            self.tokenizer = load_tokenizer(folder)
