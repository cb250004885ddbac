"""Fields of a configuration about MobileBERT's parts (Sun et al. 2020), and what they exclude."""

from bert_tf.errors import UsageError, explain


def check_bottlenecks(config):
    """Refuse a `ModelConfig` with bottlenecks, trigrams or an extended head that cannot be.

    Raises:
        UsageError: two fields contradict each other; they are named.
    """
    shared, within = config.key_query_shared_bottleneck, config.use_bottleneck_attention
    if shared + within > bool(config.intra_bottleneck_size):
        raise UsageError(explain(
            f"key_query_shared_bottleneck={shared} and use_bottleneck_attention={within} with "
            f"intra_bottleneck_size={config.intra_bottleneck_size}",
            "one of them at most, and a size with it"))
    if config.has_bottleneck_blocks and (
            config.norm_position != "post" or config.feed_forward == "conv"):
        raise UsageError(explain(
            f"intra_bottleneck_size={config.intra_bottleneck_size}, num_feedforward_networks="
            f"{config.num_feedforward_networks} with norm_position={config.norm_position!r}, "
            f"feed_forward={config.feed_forward!r}", "'post', and 'dense' or 'gated'"))
    if config.trigram_input and config.attention == "causal":
        raise UsageError("trigram_input=True shows a position its right neighbour, which "
                         "attention='causal' must not see")
    if config.masked_lm_head == "extended" and config.embedding_width >= config.hidden_size:
        raise UsageError(explain(f"embedding_size={config.embedding_width} with masked_lm_head="
                                 "'extended'", f"less than hidden_size={config.hidden_size}"))
