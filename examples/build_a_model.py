"""Builds a network of two layers with Android NN's calls and checks it against NumPy."""

import numpy as np

import neurald as nd

INPUTS, HIDDEN, CLASSES = 4, 16, 3


def build(weights: np.ndarray, bias: np.ndarray, last_weights: np.ndarray, last_bias: np.ndarray) -> nd.Model:
    """Returns softmax(last(relu(first(x)))) for any number of rows.

    Args:
        weights, last_weights: of shape (outputs, inputs), as in Android NN.
        bias, last_bias: one element for each output.
    """
    builder = nd.ModelBuilder()

    def tensor(*shape: int) -> int:
        return builder.add_operand(nd.OperandType.TENSOR_FLOAT32, shape)

    def constant(value: np.ndarray) -> int:
        index = tensor(*value.shape)
        builder.set_operand_value(index, value)
        return index

    def scalar(operand_type: nd.OperandType, value: float) -> int:
        index = builder.add_operand(operand_type)
        builder.set_operand_value(index, value)
        return index

    # 0 is an open dimension, which takes the length of the input.
    x, hidden, logits, probabilities = (
        tensor(0, INPUTS),
        tensor(0, HIDDEN),
        tensor(0, CLASSES),
        tensor(0, CLASSES),
    )
    relu = scalar(nd.OperandType.INT32, nd.FusedActivation.RELU)
    none = scalar(nd.OperandType.INT32, nd.FusedActivation.NONE)
    beta = scalar(nd.OperandType.FLOAT32, 1.0)

    dense = nd.OperationType.FULLY_CONNECTED
    builder.add_operation(dense, inputs=[x, constant(weights), constant(bias), relu], outputs=[hidden])
    builder.add_operation(
        dense, inputs=[hidden, constant(last_weights), constant(last_bias), none], outputs=[logits]
    )
    builder.add_operation(nd.OperationType.SOFTMAX, inputs=[logits, beta], outputs=[probabilities])
    builder.identify_inputs_and_outputs([x], [probabilities])
    return builder.finish()


def main() -> None:
    """Runs the network on two batches of different sizes."""
    rng = np.random.default_rng(0)
    weights, last_weights = rng.normal(size=(HIDDEN, INPUTS)), rng.normal(size=(CLASSES, HIDDEN))
    bias, last_bias = rng.normal(size=HIDDEN), rng.normal(size=CLASSES)
    model = build(*(each.astype(np.float32) for each in (weights, bias, last_weights, last_bias)))
    compilation = nd.CompilationBuilder(model).finish()

    for rows in (1, 5):
        x = rng.normal(size=(rows, INPUTS)).astype(np.float32)
        (found,) = compilation.run(x)
        exponentials = np.exp(np.maximum(x @ weights.T + bias, 0) @ last_weights.T + last_bias)
        expected = exponentials / exponentials.sum(axis=1, keepdims=True)
        print(f"{rows} rows: the largest difference is {np.abs(found - expected).max():.1e}")


if __name__ == "__main__":
    main()
