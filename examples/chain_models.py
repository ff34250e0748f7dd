"""Runs two models one after the other without waiting in between; a fence starts the second one."""

import numpy as np

import neurald as nd

ELEMENTS = 1 << 16


def unary(operation: nd.OperationType) -> nd.Compilation:
    """Compiles a model of one operation on ELEMENTS floats."""
    builder = nd.ModelBuilder()
    x, y = (builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (ELEMENTS,)) for _ in range(2))
    builder.add_operation(operation, inputs=[x], outputs=[y])
    builder.identify_inputs_and_outputs([x], [y])
    return nd.CompilationBuilder(builder.finish()).finish()


def main() -> None:
    """Computes sqrt(abs(x)) with one model for each operation, and device memory between them."""
    first, second = unary(nd.OperationType.ABS), unary(nd.OperationType.SQRT)
    # The device that runs both models may keep the values in its own memory.
    between = nd.MemoryDesc().add_output_role(first, 0).add_input_role(second, 0).finish().allocate()

    x = np.linspace(-4, 4, ELEMENTS, dtype=np.float32)
    y = np.empty_like(x)
    producer = nd.Execution(first)
    producer.set_input(0, x)
    producer.set_output_from_memory(0, between, 0, 0)
    consumer = nd.Execution(second)
    consumer.set_input_from_memory(0, between, 0, 0)
    consumer.set_output(0, y)

    written = producer.start_compute_with_dependencies([])
    done = consumer.start_compute_with_dependencies([written])
    done.wait()
    print(f"the largest difference is {np.abs(y - np.sqrt(np.abs(x))).max():.1e}")


if __name__ == "__main__":
    main()
