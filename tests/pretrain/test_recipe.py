"""The choice of size and steps from rates, text and hours."""

import pytest

from bert_tf.converters import hf_safetensors
from bert_tf.errors import UsageError
from bert_tf.presets import PRESETS, preset
from bert_tf.pretrain import recipe

MUCH = 1e9  # tokens of text


def sizes(family="bert"):
    return [recipe.Size.of(name, preset(family, name), 2048)
            for name in recipe.sizes_of(family)]


def rates(all_sizes, speed):
    """As if a step took as long as its products: `speed` in parameters times steps a second."""
    return {size: speed / (size.parameters + 3e5) for size in all_sizes}


def chosen(hours, speed=1.9e7, corpus=MUCH, family="bert"):
    """What is chosen, measuring only what is asked for."""
    known, budgets = rates(sizes(family), speed), []
    seconds = recipe.train_seconds(hours, 60, 60)
    while (size := recipe.to_measure(sizes(family), budgets)) is not None:
        budgets.append(recipe.Budget(size, known[size], int(known[size] * seconds), corpus))
    return recipe.choose(budgets, seconds), [each.size for each in budgets]


@pytest.mark.parametrize("name, millions", [("mini", 11.17), ("base", 109.48)])
def test_parameters_without_embeddings(name, millions):
    """Those published (Well-Read Students, BERT) but the embeddings, and biases, within 3 %."""
    config = preset("bert", name)
    rest = millions * 1e6 - (30522 + 512 + 2) * config.hidden_size
    assert recipe.Size.of(name, config, 1).parameters == pytest.approx(rest, rel=0.03)


def test_a_run_that_is_known():
    """4 x 256 at 32 x 64 made 30,000 steps in 83 minutes on two cores, 20 tokens a parameter."""
    budget, measured = chosen(1.5)
    assert budget.size.name == "mini" and budget.steps == pytest.approx(28_000, rel=0.1)
    assert 10 < budget.tokens / budget.size.parameters < 25
    assert [size.name for size in measured] == ["tiny", "mini", "small"]
    assert "4 x 256, 3.1 million parameters" in str(budget)
    assert budget.tokens == budget.steps * 2048


def test_more_time_is_never_a_smaller_model_nor_fewer_tokens_of_one():
    last, names = None, []
    for hours in (0.05, 0.2, 1, 3, 10, 30, 100, 300, 1000, 10_000):
        budget, measured = chosen(hours, corpus=1e12)
        if last is not None:
            assert budget.size.parameters >= last.size.parameters
            assert budget.size != last.size or budget.steps > last.steps
        names.append(budget.size.name)
        last = budget
    assert names[0] == "tiny" and names[-1] == "large" and "mini" in names and "small" in names


def test_a_faster_machine_trains_a_larger_model():
    assert chosen(1.5, speed=1.9e7 * 300)[0].size.parameters > chosen(1.5)[0].size.parameters


def test_of_a_small_text_a_small_model_learns_as_much():
    budget, _ = chosen(1.5, corpus=5e5)
    assert budget.size.name == "tiny" and budget.passes > recipe.USEFUL_PASSES


def test_nothing_larger_than_what_does_not_suffice_is_measured():
    budget, measured = chosen(0.04)
    assert budget.size.name == "tiny" and len(measured) == 1
    assert budget.tokens / budget.size.parameters < recipe.TOKENS_PER_PARAMETER
    with pytest.raises(UsageError, match="--hours: what is done before and after training takes"):
        chosen(0.01)


def test_the_time_of_measuring_a_larger_size_takes_steps_but_not_the_size():
    tiny, mini, small = (recipe.Budget(size, rate, int(rate * seconds), MUCH)
                         for size, rate, seconds in zip(sizes(), (25, 6, 1.5),
                                                        (2700, 2650, 2500), strict=False))
    assert tiny.suffices and mini.suffices and not small.suffices
    budget = recipe.choose([tiny, mini, small], 2400)
    assert not budget.suffices and budget.size == mini.size and budget.steps == 6 * 2400


def test_of_sizes_that_share_weights_the_deepest_is_chosen():
    budget, measured = chosen(2, family="albert")
    same = [each for each in measured if each.parameters == budget.size.parameters]
    assert [each.layers for each in same] == [4, 8] and budget.size == same[-1]


def test_tokens_of_useless_passes_are_not_told():
    size = sizes()[1]
    budget = recipe.Budget(size, 1, 10**6, size.parameters / 8)
    assert "5.0 a parameter" in str(budget) and not budget.suffices


@pytest.mark.parametrize("family", PRESETS)
def test_sizes_of_every_family(family):
    names = recipe.sizes_of(family)
    assert names[0] == "tiny" and set(names) == set(PRESETS[family])
    for size in sizes(family):
        values = recipe.by_width(size.width)
        assert set(values) == {"learning_rate", "batch_size", "masked_lm_prob"}
        assert preset(family, size.name).replace(**recipe.model(family))


def test_labels_of_what_it_trains_are_told_by_the_mean_also_in_transformers():
    config = preset(recipe.FAMILY, "mini").replace(**recipe.model(recipe.FAMILY))
    task = {"task": "classifier", "labels": ["a", "b"], "problem": "single_label"}
    assert config.pooling == "mean" and hf_safetensors.refusal(config, task) is None
    assert "pooling" not in recipe.model("bert")  # whose pooler pairs of sentences teach


def test_what_is_kept_for_the_rest():
    """From rates: 58 MB of text take a vocabulary of 22 s on two cores (benchmarks/RESULTS.md)."""
    options = {"cores": 2, "learns_vocabulary": True, "passes": 0, "looks_for_copies": False,
               "splits_morphemes": False}
    assert recipe.kept_seconds(58e6, **options) - recipe.END_SECONDS == pytest.approx(22, abs=1)
    more = recipe.kept_seconds(58e6, **{**options, "passes": 10, "looks_for_copies": True})
    assert more - recipe.END_SECONDS == pytest.approx(22 + 58 / 16 * 10 + 58 / 10, abs=1)
    korean = recipe.kept_seconds(58e6, **{**options, "passes": 1, "splits_morphemes": True})
    assert korean - recipe.END_SECONDS == pytest.approx(22 + 58 / 16 + 58 / 0.34 * 2, abs=1)
    assert recipe.by_text(5e7, 1) == {"vocab_size": 16_000, "max_seq_length": 64}
    assert recipe.by_text(5e5, 24) == {"vocab_size": 2000, "max_seq_length": 128}
