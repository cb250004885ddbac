"""What a model is: one frozen set of fields, refused where they contradict each other."""

import dataclasses
import math

from bert_tf.bottlenecks import check_bottlenecks
from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.family_defaults import FAMILY_DEFAULTS
from bert_tf.fields import Config
from bert_tf.storage import files

ACTIVATIONS = ("gelu", "gelu_approximate", "relu", "tanh", "silu")
_CHOICES = {
    "family": FAMILY_DEFAULTS,
    "hidden_act": ACTIVATIONS,
    "head_act": ("", *ACTIVATIONS),
    "attention": ("bidirectional", "causal"),
    "position_embedding": ("learned", "sinusoidal", "none"),
    "relative_position": ("none", "bias", "disentangled", "rotary"),
    "pos_att_type": ("c2p|p2c", "c2p", "p2c"),
    "norm": ("layer_norm", "rms_norm", "rms_norm_plus_one", "no_norm"),
    "norm_position": ("post", "pre", "both"),
    "feed_forward": ("dense", "conv", "gated"),
    "pooling": ("dense", "first", "last", "mean", "late"),
    "masked_lm_head": ("transform", "linear", "tied", "extended"),
    "label_head": ("linear", "no_bias", "dense", "transform"),
    "label_act": ACTIVATIONS,
    "first_conv_act": ACTIVATIONS,
}
# Keys of published bert_config.json files that the original code does not read.
UNREAD_KEYS = ("directionality", "pooler_fc_size", "pooler_num_attention_heads",
               "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type")
# Input forms of pre-training examples; the first two hold pairs of segments, the second of them
# random for half of the examples, swapped with the first for half, or always what comes next.
NEXT_SENTENCE_FORMATS = ("segment_pair", "sentence_pair")
FORMATS = (*NEXT_SENTENCE_FORMATS, "full_sentences", "doc_sentences", "packed")
PAIRS = ("random", "swapped", "next")
_MOST_HEADS = 1024  # that an error proposes


def as_list(option):
    """Return an option that is None, one dict or a list of them as a list of dicts."""
    return [] if option is None else [option] if isinstance(option, dict) else list(option)


def as_option(dicts):
    """Return one or more dicts as such an option: the inverse."""
    return dict(dicts[0]) if len(dicts) == 1 else [dict(each) for each in dicts]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig(Config):
    """Sizes and options of an encoder; keys are those of the official `bert_config.json`.

    `from_dict` and `load` fill in the defaults of the family, `FAMILY_DEFAULTS`.

    Raises:
        UsageError: a value is out of range or two values contradict each other.
    """

    vocab_size: int  # entries of the vocabulary
    hidden_size: int = 768  # width D of every layer's output
    num_hidden_layers: int = 12  # transformer blocks
    num_attention_heads: int = 12  # heads N; hidden_size is a multiple, but with
    #     attention_head_size
    num_key_value_heads: int = 0  # heads of keys and values, each for as many of queries (Ainslie
    #     et al. 2023, "GQA"); 0 for num_attention_heads
    attention_head_size: int = 0  # width of a head; 0 for hidden_size / num_attention_heads
    score_size: int = 0  # scores are divided by its square root; 0 for the width of a head
    query_key_norm: bool = False  # whether each head of queries and keys is normalized by `norm`
    intermediate_size: int = 3072  # width of the feed-forward layer
    num_feedforward_networks: int = 1  # of a block, one after the other
    intra_bottleneck_size: int = 0  # width within blocks, between dense layers; 0: hidden_size
    key_query_shared_bottleneck: bool = False  # whether queries and keys are made of a bottleneck
    use_bottleneck_attention: bool = False  # or with values of the one into the block
    hidden_act: str = "gelu_approximate"  # "gelu" is erf; "gelu_approximate" the tanh form
    hidden_dropout_prob: float = 0.1  # after embeddings and every output dense
    attention_probs_dropout_prob: float = 0.1  # on the attention probabilities
    max_position_embeddings: int = 512  # longest sequence
    type_vocab_size: int = 2  # segments; with 1 its row is added everywhere, 0: no segments
    initializer_range: float = 0.02  # standard deviation of the truncated normal
    family: str = "bert"  # one of FAMILIES
    layer_norm_eps: float = 1e-12  # added to the variance
    padding_id: int = 0  # id of [PAD]; RoBERTa counts positions from the one after it
    embedding_size: int = 0  # width E of the embedding tables; 0 for hidden_size
    trigram_input: bool = False  # whether words are embedded with both neighbours; all tables but
    #     theirs are as wide as the layers then
    num_hidden_groups: int = 0  # groups of layers that share weights; 0: every layer its own
    attention: str = "bidirectional"  # "causal": a position sees itself and those before it
    position_embedding: str = "learned"  # "sinusoidal": fixed, Vaswani et al. 2017, section 3.5
    positions_from_padding: bool = False  # counted over real tokens from padding_id + 1 on
    relative_position: str = "none"  # in the scores: "bias", "disentangled" or "rotary"
    position_buckets: int = 0  # of distances: of "bias" in all, of "disentangled" on either side
    max_relative_position: int = 0  # distance at which the last bucket begins
    pos_att_type: str = "c2p|p2c"  # of "disentangled": content to position, the reverse, or both
    share_att_key: bool = True  # of "disentangled": whether distances have the keys and queries of
    #     tokens, growing buckets and LayerNorm; else projections of each layer's, and a row each
    rotary_base: float = 10000.0  # of layers that see the whole sequence
    local_rotary_base: float = 10000.0  # of layers that see a window
    rotary_factor: float = 1.0  # by which positions are divided before they turn anything
    local_attention: int = 0  # tokens of a window, half on either side; 0: every layer sees all
    global_attention_every: int = 1  # where there are windows: every n-th layer sees all,
    first_global_layer: int = 0  # from this one on
    norm: str = "layer_norm"  # of the embeddings and the stack; "rms_norm": without mean and bias;
    #     "rms_norm_plus_one": such a one that scales by 1 + gamma; "no_norm": gamma and beta alone
    norm_position: str = "post"  # of LayerNorm: after each residual; "pre": before each half;
    #     "both": before each half and after it, before the residual is added
    scale_embeddings: bool = False  # whether word embeddings are multiplied by √E
    embedding_norm: bool = True  # whether what enters the first layer is normalized
    use_bias: bool = True  # of dense layers and LayerNorms within the encoder, and of heads
    dense_bias: bool = True  # of the dense layers of blocks; with use_bias=False there is none
    key_bias: bool = True  # of the one of keys, likewise
    intermediate_bias: bool = True  # of the one of the feed-forward layer, likewise
    feed_forward: str = "dense"  # "conv": of conv_kernel_size positions; "gated": act(x W) * (x V)
    conv_kernel_size: int = 1  # odd
    first_conv_kernel_size: int = 0  # of a convolution beside the first layer, odd; 0: none
    first_conv_act: str = "tanh"  # activation of that convolution
    pooling: str = "dense"  # pooled_output: tanh dense on the first token; "first", "last", "mean";
    #     "late": the mean, but of labels that of what their head's dense layer makes of each token
    masked_lm_head: str = "transform"  # and the word embeddings; "tied": these alone, as always in
    #     family "gpt" for "transform"; "linear": a matrix of its own; "extended": a transform as
    #     wide as the layers, and beside narrower word embeddings columns of its own
    masked_lm_head_size: int = 0  # of "linear": before it two dense layers without bias, this wide
    #     and as wide as the layers, each with head_act; 0: none
    head_act: str = ""  # activation of the masked-LM and ELECTRA heads; "" for hidden_act
    label_head: str = "linear"  # of labels; "no_bias": without one; "dense": a dense layer before
    #     those of a text; "transform": dense and LayerNorm before those of tokens too
    label_act: str = "tanh"  # activation of that layer
    bilstm: bool = False  # a bidirectional LSTM on top (BERT paper, section 5.1)

    def __post_init__(self):
        super().__post_init__()
        if self.family == "gpt" and self.masked_lm_head == "transform":
            # Files of GPT say so that were written before "tied" had a name.
            object.__setattr__(self, "masked_lm_head", "tied")
        self._refuse(("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size",
                      "max_position_embeddings", "global_attention_every",
                      "num_feedforward_networks"),
                     lambda value: value >= 1, "at least 1")
        if self.family == "static":
            self._refuse(("num_hidden_layers",), lambda value: value == 0, "0 of family='static'")
        else:
            self._refuse(("num_hidden_layers",), lambda value: value >= 1, "at least 1")
        self._refuse(("type_vocab_size", "embedding_size", "attention_head_size", "score_size",
                      "masked_lm_head_size", "intra_bottleneck_size"),
                     lambda value: value >= 0, "at least 0")
        self._refuse(("hidden_dropout_prob", "attention_probs_dropout_prob"),
                     lambda value: 0 <= value < 1, "in [0, 1)")
        self._refuse(("initializer_range", "layer_norm_eps", "rotary_base", "local_rotary_base",
                      "rotary_factor"),
                     lambda value: 0 < value < math.inf, "above 0")
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        self._check_fields_against_each_other()
        self._check_positions()
        check_bottlenecks(self)

    def _check_fields_against_each_other(self):
        if not 0 <= self.padding_id < self.vocab_size:
            raise UsageError(explain(f"padding_id={self.padding_id}",
                                     f"an id below vocab_size={self.vocab_size}"))
        if not 0 <= self.num_hidden_groups <= self.num_hidden_layers:
            raise UsageError(explain(f"num_hidden_groups={self.num_hidden_groups}",
                                     f"0 to num_hidden_layers={self.num_hidden_layers}"))
        if self.conv_kernel_size % 2 == 0 or self.conv_kernel_size < 1:
            raise UsageError(explain(f"conv_kernel_size={self.conv_kernel_size}",
                                     "an odd number, as many neighbours on either side"))
        if self.conv_kernel_size > 1 and self.feed_forward != "conv":
            raise UsageError(explain(
                f"conv_kernel_size={self.conv_kernel_size} with feed_forward="
                f"{self.feed_forward!r}", attempt="feed_forward='conv'"))
        if self.conv_kernel_size > 1 and self.attention == "causal":
            raise UsageError("conv_kernel_size above 1 shows a position its right neighbour, "
                             "which attention='causal' must not see")
        beside = self.first_conv_kernel_size
        if beside and (beside < 1 or beside % 2 == 0):
            raise UsageError(explain(f"first_conv_kernel_size={beside}", "0, or an odd number"))
        if beside and (self.attention == "causal" or self.norm_position != "post"):
            raise UsageError(explain(
                f"first_conv_kernel_size={beside} with attention={self.attention!r}, "
                f"norm_position={self.norm_position!r}", "'bidirectional' and 'post'"))
        for name in ("use_bias", "dense_bias", "intermediate_bias"):
            if self.feed_forward == "conv" and not getattr(self, name):
                raise UsageError(f"feed_forward='conv' has biases: {name}=False cannot be")
        if self.masked_lm_head_size and self.masked_lm_head != "linear":
            raise UsageError(explain(
                f"masked_lm_head_size={self.masked_lm_head_size} with masked_lm_head="
                f"{self.masked_lm_head!r}", attempt="masked_lm_head='linear'"))
        if self.family == "gpt" and (self.attention != "causal" or self.type_vocab_size):
            raise UsageError(explain("family='gpt'", "attention='causal' and type_vocab_size=0"))
        if not self.type_vocab_size and FAMILY_DEFAULTS[self.family].get("type_vocab_size", 2):
            raise UsageError(explain(f"type_vocab_size=0 with family={self.family!r}",
                                     "at least 1"))
        if self.longest < 1:
            raise UsageError(explain(
                f"max_position_embeddings={self.max_position_embeddings} leaves no position "
                f"after padding_id={self.padding_id}", f"at least {self.padding_id + 2}"))
        if self.bilstm and self.hidden_size % 2:
            raise UsageError(explain(f"bilstm with hidden_size={self.hidden_size}",
                                     "an even number, half for each direction"))
        if self.block_width % self.num_attention_heads and not self.attention_head_size:
            heads = (n for n in range(1, _MOST_HEADS + 1) if self.block_width % n == 0)
            near = min(heads, key=lambda n: abs(n - self.num_attention_heads))
            name = "intra_bottleneck_size" if self.intra_bottleneck_size else "hidden_size"
            raise UsageError(explain(
                f"{name}={self.block_width} over "
                f"num_attention_heads={self.num_attention_heads} leaves a remainder",
                attempt=f"num_attention_heads={near}"))
        self._check_key_value_heads()

    def _check_key_value_heads(self):
        groups = self.num_key_value_heads
        if groups < 0 or groups and self.num_attention_heads % groups:
            raise UsageError(explain(
                f"num_key_value_heads={groups}", f"0, or a divisor of num_attention_heads="
                f"{self.num_attention_heads}"))
        if self.relative_position != "disentangled":
            return
        for name, value, right in (
                ("num_key_value_heads", self.key_value_heads, self.num_attention_heads),
                ("attention_head_size", self.query_size, self.hidden_size),
                ("intra_bottleneck_size", self.block_width, self.hidden_size),
                ("query_key_norm", self.query_key_norm, False)):
            if value != right:
                raise UsageError(explain(
                    f"{name}={getattr(self, name)} with relative_position='disentangled', where "
                    "distances have keys and queries like the tokens",
                    attempt=f"leaving {name} out"))

    def _check_positions(self):
        """Positions within the attention."""
        kind = f"relative_position={self.relative_position!r}"
        exact = {"bias": self.position_buckets // 4, "disentangled": self.position_buckets // 2,
                 }.get(self.relative_position)
        if exact is not None and exact < 1:
            raise UsageError(explain(f"position_buckets={self.position_buckets} with {kind}",
                                     "at least 4" if kind.endswith("'bias'") else "at least 2"))
        if exact is not None and self.share_att_key and self.max_relative_position < exact + 2:
            raise UsageError(explain(
                f"max_relative_position={self.max_relative_position} with "
                f"position_buckets={self.position_buckets}", f"at least {exact + 2}"))
        if self.relative_position == "rotary" and self.head_size % 2:
            raise UsageError(explain(f"{kind} with heads of {self.head_size}", "an even number"))
        if self.local_attention < 0 or self.local_attention % 2:
            raise UsageError(explain(f"local_attention={self.local_attention}",
                                     "an even number of tokens, half on either side"))
        if self.local_attention and exact is not None:
            raise UsageError(explain(f"local_attention={self.local_attention} with {kind}",
                                     "'rotary' or 'none'"))
        if not 0 <= self.first_global_layer < self.global_attention_every:
            raise UsageError(explain(
                f"first_global_layer={self.first_global_layer}",
                f"0 to global_attention_every - 1, {self.global_attention_every - 1}"))
        if self.num_hidden_groups and (self.local_attention or self.norm_position != "post"):
            raise UsageError(explain(
                f"num_hidden_groups={self.num_hidden_groups} with layers that differ",
                "norm_position='post' and local_attention=0"))

    @property
    def block_width(self):
        """Width of what attention and feed-forward networks take and give."""
        return self.intra_bottleneck_size or self.hidden_size

    @property
    def has_bottleneck_blocks(self):
        """Whether layers are `BottleneckBlock`s."""
        return self.intra_bottleneck_size > 0 or self.num_feedforward_networks > 1

    @property
    def projects_embeddings(self):
        """Whether a dense layer makes embeddings, after their sum, as wide as the layers."""
        return self.embedding_width != self.hidden_size and not self.trigram_input

    @property
    def head_size(self):
        """Width H of one attention head."""
        return self.attention_head_size or self.block_width // self.num_attention_heads

    @property
    def query_size(self):
        """Width of queries and of what attention makes, of all heads."""
        return self.head_size * self.num_attention_heads

    @property
    def key_value_heads(self):
        """Heads of keys and values."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def key_value_size(self):
        """Width of keys and values, of all heads."""
        return self.head_size * self.key_value_heads

    def sees_all(self, layer):
        """Whether the layer of that number, from 0 on, sees the whole sequence."""
        return (not self.local_attention
                or layer % self.global_attention_every == self.first_global_layer)

    def norms_entering(self, layer):
        """Whether that layer has a norm for what enters it, if any layer has: what enters the first
        may be normalized already."""
        return self.norm_position != "pre" or layer > 0 or not self.embedding_norm

    @property
    def embedding_width(self):
        """Width E of the embedding tables."""
        return self.embedding_size or self.hidden_size

    @property
    def head_activation(self):
        """Activation of the masked-LM head and of ELECTRA's heads."""
        return self.head_act or self.hidden_act

    @property
    def sees_neighbours(self):
        """Whether more than attention shows a position its neighbours, past any mask."""
        return (self.bilstm or self.trigram_input or self.conv_kernel_size > 1
                or self.first_conv_kernel_size > 0)

    @property
    def longest(self):
        """Tokens of a sequence at most."""
        reserved = self.padding_id + 1 if self.positions_from_padding else 0
        return self.max_position_embeddings - reserved

    def spelled_out(self):
        """A copy in which fields that may stand for another one have its value."""
        return self.replace(
            embedding_size=self.embedding_width, num_key_value_heads=self.key_value_heads,
            attention_head_size=self.head_size, score_size=self.score_size or self.head_size,
            head_act=self.head_activation)

    @classmethod
    def _with_defaults(cls, values):
        family = values.get("family")
        if not isinstance(family, str) or family not in FAMILY_DEFAULTS:
            return values
        # Files of 0.1 have all fields of then, and every head was linear.
        earlier = {"label_head": "linear"} if "bilstm" in values else {}
        return {**FAMILY_DEFAULTS[family], **earlier, **values}

    @classmethod
    def load_any(cls, path):
        """Read ours, with a `family`, or google-research/bert's, whose `gelu` is the tanh form."""
        values = files.read_json(path)
        if isinstance(values, dict) and "family" not in values:
            values = {key: value for key, value in values.items() if key not in UNREAD_KEYS}
            if values.setdefault("hidden_act", "gelu") == "gelu":
                values["hidden_act"] = "gelu_approximate"
        return cls.from_dict(values, path)
