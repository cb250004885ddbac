"""Views of what a model does, as numbers, pictures and pages.

Each module is a view: functions that return plain arrays, one that draws them, `add_flags(parser)`
and `show(arguments)`, which `python -m bert_tf.visualize` calls.
"""
