"""ELECTRA to be pre-trained by the Trainer of transformers: both models of the library, one loss.

The library has the generator (`ElectraForMaskedLM`) and the discriminator (`ElectraForPreTraining`)
but nothing that trains them together. This does, as google-research/electra: a generator of a
quarter of the width, shared embeddings, 50 times the discriminator's loss. The generator's logits
are those of the masked positions alone, which is quicker than what its own `forward` does.
"""

import os

import torch
import transformers
from torch.nn import functional

DISCRIMINATOR_WEIGHT = 50.0
# Fractions of the chosen tokens that become [MASK] and a random one; the others stay.
REPLACEMENTS = {"mask_replace_prob": 0.85, "random_replace_prob": 0.0}


class Electra(torch.nn.Module):
    """Both models.

    Args:
        sizes: fields of `ElectraConfig`, of the discriminator.
    """

    def __init__(self, sizes):
        super().__init__()
        width = sizes["hidden_size"]
        sizes = {**sizes, "embedding_size": width}
        self.discriminator = transformers.ElectraForPreTraining(
            transformers.ElectraConfig(**sizes))
        narrow = max(1, width // 4)
        self.generator = transformers.ElectraForMaskedLM(transformers.ElectraConfig(**{
            **sizes, "hidden_size": narrow, "num_attention_heads": max(1, narrow // 64),
            "intermediate_size": 4 * narrow}))
        self.generator.electra.embeddings = self.discriminator.electra.embeddings
        self.generator.tie_weights()

    def forward(self, input_ids, attention_mask, labels):
        """The loss of a batch of masked rows; `labels` are -100 where nothing is predicted."""
        real, chosen = attention_mask > 0, labels != -100
        hidden = self.generator.electra(input_ids, attention_mask).last_hidden_state[chosen]
        logits = self.generator.generator_lm_head(
            self.generator.generator_predictions(hidden)).float()
        drawn = torch.multinomial(logits.detach().softmax(-1), 1)[:, 0]
        corrupted = input_ids.masked_scatter(chosen, drawn)
        replaced = corrupted != torch.where(chosen, labels, input_ids)
        called = self.discriminator(corrupted, attention_mask).logits.float()
        return {"loss": functional.cross_entropy(logits, labels[chosen])
                + DISCRIMINATOR_WEIGHT * functional.binary_cross_entropy_with_logits(
                    called[real], replaced[real].float())}

    def save_pretrained(self, folder):
        """Write each model to a folder of its own in this one."""
        self.discriminator.save_pretrained(os.path.join(folder, "discriminator"))
        self.generator.save_pretrained(os.path.join(folder, "generator"))
