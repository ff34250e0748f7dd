"""Shows what operations cost on devices, what a rule would change, and what an execution did."""

import sys

import numpy as np

import neurald as nd


def branches() -> nd.Model:
    """Returns y = x·a + tanh(x) for matrices, whose two parts do not need each other."""
    builder = nd.ModelBuilder()
    tensor = nd.OperandType.TENSOR_FLOAT32
    x, product, curve, y = (builder.add_operand(tensor, (256, 256)) for _ in range(4))
    weights = builder.add_operand(tensor, (256, 256))
    bias = builder.add_operand(tensor, (256,))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(weights, np.full((256, 256), 1 / 256, np.float32))
    builder.set_operand_value(bias, np.zeros(256, np.float32))
    builder.set_operand_value(activation, 0)
    builder.add_operation(nd.OperationType.FULLY_CONNECTED, [x, weights, bias, activation], [product])
    builder.add_operation(nd.OperationType.TANH, [x], [curve])
    builder.add_operation(nd.OperationType.ADD, [product, curve, activation], [y])
    builder.identify_inputs_and_outputs([x], [y])
    return builder.finish()


def main() -> int:
    """Prints the plan, a what-if, and a receipt."""
    model = branches()
    # A sample device, which runs operations on their references, represents an accelerator.
    devices = [nd.devices()[0], nd.open_device("sample-all")]
    builder = nd.CompilationBuilder(model, devices)
    builder.set_partitioning("min_cost")
    compilation = builder.finish()
    print(compilation.explain())
    print()
    print("if the product was on the accelerator:")
    what_if = compilation.explain(pin=nd.pin("sample-all", operation_type=nd.OperationType.FULLY_CONNECTED))
    print(what_if.notes[0])

    x = np.linspace(-1, 1, 256 * 256, dtype=np.float32).reshape(256, 256)
    execution = nd.Execution(compilation)
    execution.set_input(0, x)
    y = np.empty_like(x)
    execution.set_output(0, y)
    execution.enable_receipt()
    execution.compute()
    for step in execution.receipt.steps:
        print(f"step {step.step} ran on {step.ran_on}, {step.calls[0].duration_ns / 1e6:.3g} ms")

    # Several executions at once keep all devices of a plan busy.
    results = [result for (result,) in compilation.stream([(x,)] * 4, depth=2)]
    are_right = all(np.allclose(result, y) for result in results)
    print(f"{len(results)} more results, {'all' if are_right else 'not all'} as expected")
    return 0 if are_right else 1


if __name__ == "__main__":
    sys.exit(main())
