"""`--recipe budget --hours H`: rates are measured, a size and its steps chosen, once for a run.

What is chosen stands in the run folder's `run.json`; the same command takes it from there, whatever
the machine does then, so that a run that was stopped ends as it would have.
"""

import gc
import json
import os
import time

from bert_tf import cores
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.pretrain import recipe
from bert_tf.pretrain.complete import complete
from bert_tf.pretrain.sources import source_digests, source_files
from bert_tf.storage import files, manifest
from bert_tf.training.config import RATES

_MEASURED = 15  # seconds of steps of a size, at most
_MEASURED_OF_HOURS = 0.02  # and of all seconds
_SOME_STEPS = 10_000  # until the steps are known, or ten times those of the warm-up
# How it is said that what is compared of a run changed, where it is no option.
_CHANGED = {"bytes": "the input files changed",
            "sources": "the files of --init, --vocab, --exclude or --config changed"}


class BudgetRun:
    """A run whose options a recipe fills in.

    Args:
        options: `PretrainConfig` with a recipe, as given.

    Attributes:
        options, config: as of `complete`, before anything is chosen.
        facts: for the manifest, once it is.

    Raises:
        UsageError: options contradict each other or the recipe.
    """

    def __init__(self, options):
        self.started = time.monotonic()
        self.given = options
        _check(options)
        self.options, self.config = complete(self._filled(
            {"max_seq_length": recipe.seq_length(options.hours)}))
        if not files.exists(self._record()):
            self._refuse_workers()
        # `complete` tells once where the SavedModel goes.
        self.given = options.replace(export_dir=self.options.export_dir)
        self.is_causal = self.options.objective == "lm"
        self.fixed_config = self.config if options.config or options.init else None
        self.facts = {}

    def chosen(self, strategy, chief=True, ready=lambda: None):
        """Return the options with what the recipe chose, measured now or found in the run folder.

        Args:
            strategy: from `make_strategy`.
            chief: whether this process reads the text and tells what was chosen; others find it in
                the run folder.
            ready: function that refuses what a new run would delete; called before measuring.
        """
        # Another text or another option is another choice; as JSON, to compare with what is stored.
        stated = manifest.result_options(self.given.stored())
        if chief:
            size, corpus_tokens = self._text()
            stated |= {"bytes": size, "sources": self._source_digests()}
        stated = json.loads(json.dumps(stated))
        found = self._chosen_before(stated)
        if found is None:
            self._refuse_workers()
            ready()
            found = {**self._choose(strategy, size, corpus_tokens), "given": stated}
        elif chief:
            print(f"recipe {self.given.recipe}: as it was chosen for {self.options.output_dir}")
        if chief:
            print("\n".join(found["told"]))
        self.facts = {"recipe": found}
        return self._filled(found["options"])

    def _record(self):
        return os.path.join(self.options.output_dir, "run.json")

    def _refuse_workers(self):
        if self.given.strategy == "multi_worker":
            raise UsageError(explain(
                f"--recipe {self.given.recipe} with --strategy multi_worker, whose workers would "
                "measure different rates",
                attempt="one machine, or the options that it chooses there"))

    def _source_digests(self):
        """What the files beside the text hold; of a configuration what it says, however written."""
        config = self.given.config
        return [*source_digests(self.options.stored()),
                *([manifest.fingerprint(files.read_json(config))] if config else ())]

    def _chosen_before(self, stated):
        path = self._record()
        if not files.exists(path):
            return None
        try:
            made = manifest.read(path)
        except BertTfError:
            if self.given.overwrite:
                return None
            raise
        found = made.get("recipe") or {}
        before = manifest.result_options(found.get("given") or {})
        # Sources are not noted of runs from before, and workers beside the chief know neither.
        apart = {"bytes", "sources"} - (before.keys() & stated.keys())
        changed = manifest.changed_options(*({
            name: value for name, value in values.items() if name not in apart}
            for values in (before, stated)))
        if before and not changed:
            return found
        if not self.given.overwrite and files.exists(
                os.path.join(self.options.output_dir, "vocab.json")):
            what = [_CHANGED.get(name, f"{name} was {before.get(name)!r}, now {stated.get(name)!r}")
                    for name in changed if before or name == "recipe"]
            raise UsageError(explain(
                f"{self.options.output_dir} holds another run ({'; '.join(what)})",
                attempt="another output folder, or --overwrite"))
        return None

    def _choose(self, strategy, size, corpus_tokens):
        import tensorflow as tf

        from bert_tf.converters.formats import read_model
        from bert_tf.pretrain.step_rate import computes_bfloat16, steps_per_second
        from bert_tf.tokenization.load import TokenizerSource
        from bert_tf.tokenization.morphemes import pretokenize

        values = {**recipe.OPTIONS, **recipe.by_text(size, self.given.hours),
                  "dtype": "bfloat16" if computes_bfloat16() else "float32"}
        candidates = self._candidates(values)
        given = self.given.vocab or (self.given.init and read_model(self.given.init).tokenizer)
        tokenizer = given and TokenizerSource(given, **self.given.text_options()).load()
        kept = recipe.kept_seconds(
            size, cores=min(self.given.num_processes, cores.usable()),
            learns_vocabulary=not given,
            passes=self.options.dupe_factor or (10 if self.options.masking == "static" else 1),
            looks_for_copies=bool(self.given.dedupe or self.given.exclude),
            splits_morphemes=bool(getattr(tokenizer or self.given, "pretokenize", None)))
        entries = tokenizer and len(tokenizer.vocabulary)
        pretokenize(tokenizer or self.given, ["가다"])  # an analyser that is missing is told first
        budgets = []

        def left():
            return recipe.train_seconds(self.given.hours, time.monotonic() - self.started, kept)

        seconds = min(_MEASURED, _MEASURED_OF_HOURS * 3600 * self.given.hours)
        while (candidate := recipe.to_measure(list(candidates), budgets)) is not None:
            options, config = complete(self._filled(candidates[candidate]))
            try:
                rate = _rate(options, lambda options, config=config: steps_per_second(
                    options, config, entries or options.vocab_size, strategy, seconds))
            except tf.errors.ResourceExhaustedError:
                if not budgets:
                    raise UsageError(explain(
                        f"no memory for a step of the smallest model, {candidate.layers} x "
                        f"{candidate.width}", attempt="--batch_size")) from None
                print(f"no memory for a step of {candidate.layers} x {candidate.width}")
                rate = 0.0
            budgets.append(recipe.Budget(candidate, rate, int(rate * left()), corpus_tokens))
            gc.collect()  # graphs are in cycles, and the next model may be large
        spent = time.monotonic() - self.started
        budget = recipe.choose(budgets, left())
        chosen = {**candidates[budget.size], "train_steps": budget.steps}
        told = [f"recipe {self.given.recipe}, {self.given.hours:g} hours: {spent:.0f} s measured, "
                f"{kept:.0f} s are kept for all but training, "
                f"{recipe.MARGIN:.0%} in reserve; about {corpus_tokens / 1e6:,.1f} million tokens "
                "of text; steps as of when a size was measured",
                *(f"  {each}" for each in budgets)]
        options = self._filled(chosen)
        told.append(f"chosen: {budget.size.name or 'the model given'}, " + " ".join(
            f"--{name} {getattr(options, name)}" for name in chosen if name != "preset"))
        return {"options": {name: value for name, value in chosen.items()
                            if getattr(self.given, name) is None},
                "rates": {each.size.name: each.rate for each in budgets}, "told": told}

    def _text(self):
        """Bytes of text, and its tokens, about."""
        from bert_tf.data import python_prose
        from bert_tf.data.documents import expand_inputs, read_documents
        from bert_tf.data.plan import make_sections

        if self.given.input:
            paths = expand_inputs(self.given.input, self.options.output_dir, self.given.overwrite,
                                  source_files(self.options.stored()),
                                  tell=lambda *_, **__: None)  # the run does
            next(read_documents(paths, self.options.split))  # an error where there is none
            size = make_sections(paths)[1]
        else:
            size = len(python_prose.text().encode())
        return size, max(size, 1) / recipe.BYTES_PER_TOKEN

    def _candidates(self, values):
        """`{Size: options}` of the models that may be chosen, the smallest first."""
        given = self.given
        names = [""] if self.fixed_config else (
            [given.preset] if given.preset else recipe.sizes_of(self.config.family))
        found = {}
        for name in names:
            config = self.fixed_config
            if config is None:
                _, config = complete(given.replace(preset=name))
            own = {**values, **recipe.by_width(config.hidden_size)}
            own["learning_rate"] *= RATES.get(given.optimizer, 1)
            if not self.fixed_config:
                own["preset"] = name
            for option, is_set in (
                    ("format", self.is_causal),
                    ("masked_lm_prob", self.is_causal), ("batch_size", given.batch_tokens),
                    ("format", given.objective not in (None, "mlm", "rtd")),
                    ("vocab_size", given.vocab or given.init or given.config
                     or not given.input)):
                if is_set:
                    own.pop(option, None)
            options = self._filled(own)
            tokens = options.batch_tokens or options.batch_size * options.max_seq_length
            found[recipe.Size.of(name, config, tokens)] = own
        return found

    def _filled(self, values):
        """The options as given, with `values` where nothing is."""
        values = {"train_steps": max(_SOME_STEPS, 10 * (self.given.warmup_steps or 0)), **values}
        return self.given.replace(**{name: value for name, value in values.items()
                                     if getattr(self.given, name) is None})


def _check(options):
    if options.hours is None:
        raise UsageError(explain(f"--recipe {options.recipe}", "the time that it may take",
                                 f"--recipe {options.recipe} --hours 1"))
    if "-" in (options.input or ()):
        raise UsageError(explain(f"--recipe {options.recipe} with --input -, whose size is not "
                                 "known", attempt="a file"))


def _rate(options, measure):
    """Return the steps a second of a run, over both of its trainings where there are two."""
    if not options.masked_lm_first:
        return measure(options)
    first = options.masked_lm_first / measure(options.replace(objective="mlm"))
    return 1 / (first + (1 - options.masked_lm_first) / measure(options))


def budget_run(options):
    """Return the `BudgetRun` of options with a recipe, None of others.

    Raises: as `BudgetRun`; UsageError: `--hours` without a recipe.
    """
    if options.recipe:
        return BudgetRun(options)
    if options.hours is not None:
        raise UsageError(explain(f"--hours {options.hours:g} without --recipe",
                                 attempt="--recipe budget, which chooses size and steps by them"))
    return None
