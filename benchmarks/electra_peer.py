"""How soon does ours find replaced tokens as well as ELECTRA by the Trainer of transformers?

    python benchmarks/electra_peer.py --input reviews.txt.gz --minutes 90 --folder FOLDER \\
        --hf_python PYTHON

The peer (`benchmarks/peers/hf_electra.py` in `hf_pretraining.py`, by an interpreter that has torch
and transformers) trains ELECTRA for so many minutes. Ours, "recipe", has half of them (or
`--ours`): three quarters for an encoder of modern blocks that predicts masked tokens, 20 % of all,
the rest for finding replaced ones, of 15 %, much as `--recipe budget --masked_lm_first 0.75`, which
divides steps, masks 20 % in both and packs its rows full. "electra" is the peer's very model by
bert_tf. All have one vocabulary and the same rows of 64 tokens, 32 a step, as many steps as their
own speed, measured first, allows; no dropout. The peer's minutes are of its steps alone; ours
contain the input, the building of graphs and the evaluation. `--clock cpu` counts processor time,
for a machine that others use as well.

Every discriminator is measured on the tokens of every generator: 15 % of held-out rows are chosen
once, masked, and drawn anew from the generator's distribution, by one seed. Only on the same tokens
do losses compare: the worse a generator, the easier its tokens are to find. All is measured by
bert_tf, which reads the peer's weights.

What is done is a list of parts, which other commands can go on with in the same folder: `--parts
prepare`, then `--parts peer` and `--parts recipe` at the same time, then `--parts measure`.
"""

import contextlib
import os
import sys

import numpy as np
import tensorflow as tf
from pretraining_budget import CLOCKS, COMMON, ROWS, SIZES, first_lines, prepare, sizes, train
from pretraining_peer import RECIPE, add_flags, rows_of, run_peer
from speed.report import Targets, benchmark_parser, finish

from bert_tf import learn_vocab
from bert_tf.data.pretraining_input import PretrainingInput
from bert_tf.load import from_pretrained
from bert_tf.storage import files
from bert_tf.tasks.pretraining.replaced_tokens import draw, put
from bert_tf.training.evaluate import binary_entropy
from bert_tf.training.strategy import make_strategy

SIDES = ("peer", "recipe", "electra")
PARTS = ("prepare", *SIDES, "measure")
SEED = 1
MASKED_LM_FIRST = 0.75
# Half the rate of masked tokens is what the paper has for small models.
REPLACED = {"objective": "rtd", "masked_lm_prob": 0.15, "learning_rate": 5e-4}


class Comparison:
    """Its parts, each a method; one takes what those before it left in the folder."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.ours = arguments.ours or arguments.minutes / 2
        self.strategy = make_strategy(COMMON["strategy"], 1)
        self.text, self.vocab = self.path("text.txt"), self.path("vocab", "vocab.txt")
        self.sizes = sizes(arguments, {"family": "electra", "hidden_act": "gelu"})

    def path(self, *names):
        """Return a path in the folder."""
        return os.path.join(self.arguments.folder, *names)

    def prepare(self):
        """Make what all sides read: text, vocabulary, rows."""
        os.makedirs(self.path(), exist_ok=True)
        first_lines(self.arguments.input, self.arguments.lines, self.text)
        learn_vocab(input=self.text, output=self.vocab, vocab_size=SIZES["vocab_size"],
                    overwrite=True)
        run = prepare(self.strategy, self.text, self.vocab, self.path("rows"),
                      {**REPLACED, "train_steps": 1000}, self.sizes)
        np.save(self.path("rows.npy"), rows_of(run))

    def peer(self):
        """Train the peer."""
        made = files.read_json(self.path("rows", "data", "manifest.json"))
        outcome = run_peer(self.arguments, self.path("peer"), made["vocabulary"]["size"],
                           "--model", "electra", "--learning_rate", str(REPLACED["learning_rate"]))
        self.note("peer", [
            {"model": self.path("peer", f"step_{each['step']}"), "steps": each["step"],
             "minutes": each["seconds"] / 60} for each in outcome["saved"]], [outcome])

    def recipe(self):
        """Train the recipe's encoder on masked tokens, then on replaced ones."""
        fields = sizes(self.arguments, ROWS["modernbert"]["model"])
        self.train("recipe", fields, {
            "recipe_masked": (MASKED_LM_FIRST, RECIPE),
            "recipe": (1 - MASKED_LM_FIRST,
                       {**REPLACED, "init": self.path("recipe_masked", "model")})})

    def electra(self):
        """Train the peer's model by bert_tf."""
        self.train("electra", self.sizes, {"electra": (1, REPLACED)})

    def train(self, side, fields, trainings):
        """Train one of ours in `{run: (share of its minutes, flags)}`."""
        rows = [train(self.arguments, self.strategy, self.text, self.vocab, self.path(run), flags,
                      fields, share * self.ours) for run, (share, flags) in trainings.items()]
        self.note(side, [
            {"model": self.path(side, "model"), "steps": sum(row["steps"] for row in rows),
             "minutes": sum(row[f"{self.arguments.clock}_minutes"] for row in rows)}], rows)

    def note(self, side, saved, trainings):
        """Note that a side is there: the models it saved, the last one at the end."""
        files.write_json(self.path(f"{side}.json"), {"saved": saved, "trainings": trainings})

    def measure(self):
        """Measure each discriminator on each generator's tokens; what `report` takes."""
        sides = {side: files.read_json(self.path(f"{side}.json")) for side in SIDES
                 if side == "peer" or files.exists(self.path(f"{side}.json"))}
        rows = HeldOut(self.path("rows", "data"))
        models = {side: from_pretrained(noted["saved"][-1]["model"])
                  for side, noted in sides.items()}
        generators = {side: rows.generated(model) for side, model in models.items()}
        for noted in sides.values():
            for each in noted["saved"]:
                model = from_pretrained(each["model"])
                each["found"] = {side: rows.found(model, generated["word_ids"])
                                 for side, generated in generators.items()}
        for generated in generators.values():
            del generated["word_ids"]
        return sides, generators

    def report(self, sides, generators):
        """Print and write what was measured; the exit code."""
        print(f"{'generator':12}{'masked-LM loss':>15}{'replaced':>10}{'entropy of that':>17}")
        for side, row in generators.items():
            print(f"{side:12}{row['masked_lm_loss']:15.4f}{row['replaced']:10.4f}"
                  f"{row['entropy']:17.4f}")
        print(f"\n{'finds':12}{'tokens of':12}{'loss':>8}{'precision':>11}{'recall':>8}{'steps':>9}"
              f"{'minutes':>9}")
        for side, noted in sides.items():
            for each in noted["saved"]:
                for generator, row in each["found"].items():
                    print(f"{side:12}{generator:12}{row['loss']:8.4f}{row['precision']:11.4f}"
                          f"{row['recall']:8.4f}{each['steps']:9}{each['minutes']:9.2f}")
        targets, ends = Targets(), {side: noted["saved"][-1] for side, noted in sides.items()}
        for side in list(ends)[1:]:
            targets.check(f"minutes of {side}, of the peer's",
                          ends[side]["minutes"] / ends["peer"]["minutes"], most=0.5)
            for generator in ("peer", side):
                losses = [ends[each]["found"][generator]["loss"] for each in (side, "peer")]
                targets.check(f"loss of {side} on tokens of {generator}, less the peer's",
                              losses[0] - losses[1], most=0)
        return finish("electra_peer", self.arguments, targets, sides=sides, generators=generators,
                      sizes=self.sizes)


class HeldOut:
    """Rows of held-out text and which of their tokens are chosen, the same for all.

    Args:
        data_dir: folder of examples.
    """

    def __init__(self, data_dir):
        data = PretrainingInput(data_dir, "eval", batch_size=COMMON["batch_size"], seed=SEED,
                                objective="rtd")
        batches = list(data.dataset())
        rows = {name: np.concatenate([batch[name].numpy() for batch in batches])
                for name in batches[0] if name != "first_example"}
        here = rows.pop("example_weights") > 0
        self.rows = {name: values[here] for name, values in rows.items()}
        self.positions = self.rows["masked_lm_positions"]
        self.used = self.rows["masked_lm_weights"] > 0
        self.word_ids = self.put(self.rows["input_word_ids"], self.rows["masked_lm_ids"])
        self.rows["input_word_ids"] = self.put(
            self.word_ids, np.full_like(self.positions, data.masking.mask_id))
        self.uniform = np.random.default_rng(SEED).random(self.positions.shape, np.float32)

    def put(self, word_ids, ids):
        """Return word ids with those of the chosen positions replaced."""
        return put(word_ids, self.positions, ids, self.used).numpy()

    def batches(self, rows):
        """Yield parts of a dict of rows."""
        for start in range(0, len(self.word_ids), COMMON["batch_size"]):
            yield {name: values[start:start + COMMON["batch_size"]]
                   for name, values in rows.items()}

    def generated(self, model):
        """What a model's generator makes of the masked tokens: `word_ids`, and figures of them."""
        drawn, losses = [], []
        for batch in self.batches({**self.rows, "uniform": self.uniform}):
            uniform = batch.pop("uniform")
            logits = model(batch)["masked_lm_logits"]
            drawn.append(draw(logits, uniform))
            losses.append(tf.nn.sparse_softmax_cross_entropy_with_logits(
                batch["masked_lm_ids"], logits))
        drawn, losses = np.concatenate(drawn), np.concatenate(losses)
        word_ids = self.put(self.word_ids, drawn)
        real = self.rows["input_mask"] > 0
        replaced = float(np.mean((word_ids != self.word_ids)[real]))
        return {"word_ids": word_ids, "masked_lm_loss": float(np.mean(losses[self.used])),
                "replaced": replaced, "entropy": binary_entropy(replaced)}

    def found(self, model, word_ids):
        """Loss, precision and recall of a discriminator, over real tokens."""
        inputs = {**{name: self.rows[name] for name in ("input_mask", "input_type_ids")},
                  "input_word_ids": word_ids}
        logits = np.concatenate([model.discriminate(batch).numpy()
                                 for batch in self.batches(inputs)])
        real = self.rows["input_mask"] > 0
        logits, replaced = logits[real], (word_ids != self.word_ids)[real]
        losses = np.logaddexp(0, np.where(replaced, -logits, logits))
        called = logits > 0
        right = int(np.sum(called & replaced))
        return {"loss": float(np.mean(losses, dtype=np.float64)),
                "precision": right / max(1, int(called.sum())),
                "recall": right / max(1, int(replaced.sum()))}


def main():
    parser = benchmark_parser(__doc__)
    add_flags(parser)
    parser.add_argument("--parts", nargs="+", choices=PARTS,
                        default=[part for part in PARTS if part != "electra"],
                        help="what is done (default: all but electra)")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    arguments = parser.parse_args()
    comparison = Comparison(arguments)
    with contextlib.redirect_stdout(sys.stderr):
        for part in (part for part in PARTS if part in arguments.parts):
            measured = getattr(comparison, part)()
    return comparison.report(*measured) if "measure" in arguments.parts else 0


if __name__ == "__main__":
    sys.exit(main())
