"""Keys of a `config.json` that we do not read: what no number depends on passes, else it is
refused."""

from bert_tf.errors import UsageError, explain

_ABOUT = """architectures model_type _name_or_path name_or_path transformers_version torch_dtype
    dtype id2label label2id num_labels _num_labels problem_type finetuning_task
    task_specific_params
    tokenizer_class language languages name adapters sentence_transformers license tags
    author created_date
    sbert_ce_default_activation_function"""
_TOKENS = """bos_token_id eos_token_id sep_token_id cls_token_id mask_token_id unk_token_id
    decoder_start_token_id eos_token_ids forced_bos_token_id forced_eos_token_id pad_token_id"""
_RUNNING = """use_cache gradient_checkpointing output_attentions output_hidden_states output_past
    return_dict torchscript xla_device use_bfloat16 tf_legacy_loss chunk_size_feed_forward
    deterministic_flash_attn reference_compile repad_logits_with_grad attn_implementation
    _attn_implementation _attn_implementation_autoset _flash_attn_2_enabled use_flash_attn
    tie_word_embeddings tie_weights_ tie_encoder_decoder memory_efficient_gradient"""
_TRAINING = """classifier_dropout classifier_dropout_prob seq_classif_dropout qa_dropout
    pooler_dropout embd_pdrop summary_first_dropout summary_last_dropout initializer_cutoff_factor
    sparse_prediction sparse_pred_ignore_index ignore_index layerdrop"""
# Of classes that we do not read, such as multiple choice.
_OTHER_HEADS = """summary_type summary_use_proj summary_activation summary_proj_to_labels
    predict_special_tokens conv_act"""
_GENERATION = """max_length min_length do_sample early_stopping num_beams num_beam_groups
    diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty
    no_repeat_ngram_size encoder_no_repeat_ngram_size num_return_sequences output_scores
    remove_invalid_values"""
# Written by the original projects, read by none of transformers' classes.
_UNREAD = """directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers
    pooler_size_per_head pooler_type emb_size net_structure_type gap_size num_memory_blocks
    down_scale_factor n_ctx n_special model_max_length max_seq_length layer_types rope_parameters"""
_PASSED = frozenset(" ".join((_ABOUT, _TOKENS, _RUNNING, _TRAINING, _OTHER_HEADS, _GENERATION,
                              _UNREAD)).split())
_ADAPTERS = "lora_adaptations"  # in jinaai/jina-embeddings-v3's weights, where its code has them
_OFF = (None, False, "", [], {})


def check_adapters(values, source):
    """Refuse weights that code of their own puts together, by the task at hand.

    Args:
        values: the JSON object.
        source: the file's name, for messages.

    Raises:
        UsageError: it is jinaai/jina-embeddings-v3's, or of what began with it.
    """
    if values.get(_ADAPTERS) and values.get("model_type") == "xlm-roberta":
        raise UsageError(explain(
            f"{source}: {_ADAPTERS}={values[_ADAPTERS]!r}, adapters that code of the folder's own "
            "adds to the weights", "an encoder as a class of transformers computes it",
            "jinaai/jina-embeddings-v3-hf, the same without them"))


def check_keys(values, known, source):
    """Refuse what may change the numbers.

    Args:
        values: the JSON object.
        known: the keys that are read.
        source: the file's name, for messages.

    Raises:
        UsageError: a key is neither known nor off; it is named.
    """
    for key, value in values.items():
        off = any(value == each and type(value) is type(each) for each in _OFF)
        if not off and key not in known and key not in _PASSED:
            raise UsageError(explain(
                f"{source}: {key}={value!r}, which we do not know and may change the numbers",
                attempt="a copy of the folder without that key, if it changes none"))
