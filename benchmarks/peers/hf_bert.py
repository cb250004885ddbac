"""Hugging Face transformers on PyTorch as a side of the benchmarks of speed, `speed/worker.py`."""

import numpy as np
import torch
import transformers

PACKAGES = ("torch", "transformers")
NAMES = {"input_word_ids": "input_ids", "input_mask": "attention_mask",
         "input_type_ids": "token_type_ids"}
FIELDS = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
          "intermediate_size", "hidden_dropout_prob", "attention_probs_dropout_prob",
          "max_position_embeddings", "type_vocab_size")


def make_model(model_class, config, dtype):
    """A model with drawn weights of that type, scaled dot-product attention in one operation."""
    torch.manual_seed(1)
    return model_class._from_config(
        transformers.BertConfig(**{name: config[name] for name in FIELDS}),
        attn_implementation="sdpa", dtype=getattr(torch, dtype))


def tensors(batch):
    """What the model takes of a batch."""
    return {name: torch.from_numpy(batch[ours]).long() for ours, name in NAMES.items()}


def example():
    """What it takes of a small batch, to trace it by."""
    return tensors({name: np.ones((2, 5), np.int32) for name in NAMES})


def make_optimizer(model, learning_rate, eps=1e-8):
    """Fused AdamW, as the Trainer's; biases and LayerNorm are not decayed."""
    decayed, others = [], []
    for name, parameter in model.named_parameters():
        plain = name.endswith("bias") or "LayerNorm" in name
        (others if plain else decayed).append(parameter)
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01},
                              {"params": others, "weight_decay": 0.0}],
                             lr=learning_rate, eps=eps, fused=True)


def encoder(config, dtype):
    """Weights of the type that is computed in."""
    model = make_model(transformers.BertModel, config, dtype).eval()

    @torch.inference_mode()
    def run(inputs):
        return model(**inputs).last_hidden_state.float().numpy()

    return lambda batch, fixed: tensors(batch), run


def train_step(config, dtype, batches, gradient_checkpointing=False):
    """Weights float32, `torch.autocast`, fused AdamW.

    The head sees the predicted positions alone, as everywhere here: transformers itself computes
    the logits of all positions, which takes a third longer still.
    """
    model = make_model(transformers.BertForMaskedLM, config, "float32").train()
    if gradient_checkpointing:
        model.gradient_checkpointing_enable()
    optimizer = make_optimizer(model, 1e-4, eps=1e-6)
    prepared = [(tensors(batch), *(torch.from_numpy(batch[name]).long() for name in (
        "masked_lm_positions", "masked_lm_ids"))) for batch in batches]
    done = 0

    def step():
        nonlocal done
        inputs, positions, labels = prepared[done % len(prepared)]
        done += 1
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            hidden = model.bert(**inputs).last_hidden_state
            rows = torch.arange(len(positions))[:, None]
            logits = model.cls(hidden[rows, positions])
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step
