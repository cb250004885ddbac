"""The first stage of a pre-training run: its vocabulary, with the tokenizer's options."""

import os

from bert_tf.storage import checksums, files, manifest
from bert_tf.tokenization.learn_wordpiece import learn_wordpiece
from bert_tf.tokenization.load import (
    TokenizerSource,
    load_tokenizer,
    stated_options,
    tokenizer_files,
)
from bert_tf.tokenization.tokenizer import CONFIG_NAME, VOCABULARY_NAME, Tokenizer


class MakesVocabulary:
    """Mixin of a run with `options`, `path` and `init_folder`."""

    def given_tokenizer(self, start):
        """`TokenizerSource` of `--vocab` or `--init`; None where a vocabulary is learned.

        Args:
            start: function that gives the folder, or file, with the tokenizer of `--init`.
        """
        given = start() if self.options.init else self.options.vocab
        return TokenizerSource(given, **self.options.text_options()) if given else None

    def tokenizer_folder(self):
        """The folder that holds the run's tokenizer: the run's own where it is WordPiece."""
        own = self.path("tokenizer")
        return own if files.exists(own) else self.path()

    def tokenizer(self):
        """The run's tokenizer."""
        return load_tokenizer(self.tokenizer_folder())

    def make_vocabulary(self, inputs, resumes):
        """Learn or copy the vocabulary, with its tokenizer's options, unless a run that `resumes`
        did so."""
        record = self.path("vocab.json")
        if resumes and files.exists(record) and not self.options.overwrite:
            manifest.check_made(record)
            self._say_reused()
            return
        source = self.given_tokenizer(self._init_vocabulary)
        text_options = {name: value or False for name, value in self.options.text_options().items()
                        if value or name != "pretokenize"}
        if source:
            tokenizer = source.load()
            options, sources = {"vocab": source.path, **stated_options(tokenizer)}, source.files()
        else:
            options = {"vocab_size": self.options.vocab_size, **text_options}
            sources = inputs
        if manifest.finished(record, options, sources, self.options.overwrite):
            self._say_reused()
            return
        files.remove(self.path("tokenizer"))
        if not source:
            tokenizer = Tokenizer(learn_wordpiece(inputs, self.options.vocab_size, **text_options),
                                  **text_options)
        if not isinstance(tokenizer, Tokenizer):
            files.make_folder(self.path("tokenizer"))
        folder = self.tokenizer_folder()
        tokenizer.save(folder)
        made = [name if folder == self.path() else f"tokenizer/{name}"
                for name in (*tokenizer_files(folder), CONFIG_NAME)]
        manifest.write(record, options, sources, entries=len(tokenizer.vocabulary),
                       files=checksums.facts(self.path(), made))
        print(f"vocabulary: {len(tokenizer.vocabulary):,} entries in {self.path(made[0])}")

    def _init_vocabulary(self):
        """Return the vocabulary file of `--init`, whose casing is told beside it, or its folder."""
        path = os.path.join(self.init_folder(), VOCABULARY_NAME)
        return path if files.exists(path) else self.init_folder()

    def _say_reused(self):
        print(f"vocabulary: that in {self.tokenizer_folder()} is reused")
