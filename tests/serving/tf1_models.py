"""SavedModels as TensorFlow 1 wrote them, with the signatures of TensorFlow Serving's own ones."""

import pathlib

import tensorflow as tf

v1 = tf.compat.v1
_CLASSIFY, _REGRESS, _PREDICT = (f"tensorflow/serving/{name}" for name in (
    "classify", "regress", "predict"))


def _signature(method, inputs, outputs):
    inputs, outputs = ({name: v1.saved_model.build_tensor_info(tensor)
                        for name, tensor in tensors.items()} for tensors in (inputs, outputs))
    return v1.saved_model.build_signature_def(inputs, outputs, method)


def _save(folder, session, signatures, **init):
    session.run(v1.global_variables_initializer())
    builder = v1.saved_model.Builder(str(folder))
    builder.add_meta_graph_and_variables(
        session, ["serve"], signatures, clear_devices=True,
        assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS), **init)
    builder.save()


def save_half_plus(folder, addend=2.0, legacy=False):
    """`y = x / 2 + addend` of numbers and of `tf.Example`, and the word of a table by its number.

    Variables are references. An asset fills the table: by `main_op`, or by the older
    `legacy_init_op`, which here sets the variable `addend` as well.
    """
    folder = pathlib.Path(folder)
    words = folder.with_name(f"{folder.name}-words.txt")
    words.write_text("no\nyes\n")
    with tf.Graph().as_default(), v1.Session() as session:
        half = v1.Variable(0.5, use_resource=False)
        added = v1.Variable(0.0 if legacy else addend, use_resource=False)
        file = tf.constant(str(words))
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, file)
        table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
            file, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER,
            tf.string, tf.lookup.TextFileIndex.WHOLE_LINE), "")
        tables = v1.tables_initializer()
        examples = v1.placeholder(tf.string, name="tf_example")
        x = tf.identity(v1.parse_example(
            examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"], name="x")
        x.set_shape([None, 1])
        number = v1.placeholder(tf.int64, [None])
        y = half * x + added
        _save(folder, session, {
            "serving_default": _signature(_PREDICT, {"x": x}, {"y": y}),
            "word": _signature(_PREDICT, {"number": number}, {"word": table.lookup(number)}),
            "regress_x_to_y": _signature(_REGRESS, {"inputs": examples}, {"outputs": y}),
            "regress_x2": _signature(_REGRESS, {"inputs": x}, {"outputs": y}),
            "classify_x_to_y": _signature(_CLASSIFY, {"inputs": examples}, {"scores": y})},
            **({"legacy_init_op": tf.group(tables, v1.assign(added, addend))} if legacy else
               {"main_op": tables}))


def save_counter(folder):
    """Signatures that read and change a variable, most of them without inputs."""
    with tf.Graph().as_default(), v1.Session() as session:
        counter = v1.Variable(0.0, use_resource=False)
        delta = v1.placeholder(tf.float32, [])
        outputs = {"get_counter": counter, "incr_counter": v1.assign_add(counter, 1.0),
                   "incr_counter_by": v1.assign_add(counter, delta),
                   "reset_counter": v1.assign(counter, 0.0)}
        _save(folder, session, {name: _signature(
            _PREDICT, {"delta": delta} if name == "incr_counter_by" else {}, {"output": output})
            for name, output in outputs.items()})
