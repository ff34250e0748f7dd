"""A client that computes on a daemon: `python -m support.daemon.computing_client ADDRESS`."""

import sys

import numpy as np

import neurald as nd

SIZE = 1200


def main(address: str) -> None:
    """Computes hundreds of matrix products on a daemon, and says when it begins."""
    builder = nd.ModelBuilder()
    kind = nd.OperandType.TENSOR_FLOAT32
    first = value = builder.add_operand(kind, (SIZE, SIZE))
    weights, bias = builder.add_operand(kind, (SIZE, SIZE)), builder.add_operand(kind, (SIZE,))
    none = builder.add_operand(nd.OperandType.INT32, ())
    builder.set_operand_value(none, 0)
    builder.set_operand_value(bias, np.zeros(SIZE, np.float32))
    for _ in range(400):
        result = builder.add_operand(kind, (SIZE, SIZE))
        builder.add_operation(nd.OperationType.FULLY_CONNECTED, [value, weights, bias, none], [result])
        value = result
    builder.identify_inputs_and_outputs([first, weights], [value])
    compilation = nd.CompilationBuilder(builder.finish(), [nd.connect(address)]).finish()
    execution = nd.Execution(compilation)
    for index in range(2):
        execution.set_input(index, np.full((SIZE, SIZE), 1e-3, np.float32))
    execution.set_output(0, np.zeros((SIZE, SIZE), np.float32))
    sys.stdout.write("computing\n")
    sys.stdout.flush()
    execution.compute()


if __name__ == "__main__":
    main(sys.argv[1])
