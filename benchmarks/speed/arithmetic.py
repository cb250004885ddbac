"""How much arithmetic an encoder and its training are: multiplications and additions, two each.

Counted is what has to be done, matrix products of real tokens; what a side does beyond that, at
padding for one, makes it slower and not its rate higher.
"""


def layer_products(config):
    """`(in, out)` of the products that every token goes through in a layer."""
    hidden, intermediate = config["hidden_size"], config["intermediate_size"]
    return [(hidden, hidden)] * 4 + [(hidden, intermediate), (intermediate, hidden)]


def product_flops(config, tokens):
    """Of these products in all layers."""
    return 2 * tokens * config["num_hidden_layers"] * sum(
        rows * columns for rows, columns in layer_products(config))


def encoder_flops(config, rows, length):
    """Of a forward pass of full rows; scores and weighted sums of attention are products too."""
    attention = 4 * rows * length * length * config["hidden_size"] * config["num_hidden_layers"]
    return product_flops(config, rows * length) + attention


def training_flops(config, rows, length, predictions):
    """Of a step of masked-token prediction: the gradient costs twice the forward pass."""
    hidden, count = config["hidden_size"], rows * predictions
    head = 2 * count * hidden * (hidden + config["vocab_size"])
    return 3 * (encoder_flops(config, rows, length) + head)
