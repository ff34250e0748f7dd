"""Decodes a sequence step by step; the cache of all steps stays in memory of the device.

Each step adds a row to the cache, and attends to all rows so far. It reads the cache in one memory
and writes it to another one, and the next step uses them the other way round. Steps are started one
after another without waiting: each begins when the one before has ended.
"""

import numpy as np

import neurald as nd

STEPS, WIDTH = 24, 64


def step_model() -> nd.Model:
    """Builds a step: (row, mask, place, cache) to (result, cache with the row at its place)."""
    builder = nd.ModelBuilder()
    floats, ints = nd.OperandType.TENSOR_FLOAT32, nd.OperandType.TENSOR_INT32
    row = builder.add_operand(floats, (1, 1, WIDTH))
    mask = builder.add_operand(floats, (1, 1, STEPS))
    place = builder.add_operand(ints, (3,))
    cache, kept = (builder.add_operand(floats, (1, STEPS, WIDTH)) for _ in range(2))
    scores, masked, weights = (builder.add_operand(floats, (1, 1, STEPS)) for _ in range(3))
    result = builder.add_operand(floats, (1, 1, WIDTH))

    def scalar(kind: nd.OperandType, value: float) -> int:
        number = builder.add_operand(kind)
        builder.set_operand_value(number, value)
        return number

    no, yes = scalar(nd.OperandType.BOOL, False), scalar(nd.OperandType.BOOL, True)
    none, one = scalar(nd.OperandType.INT32, 0), scalar(nd.OperandType.FLOAT32, 1.0)
    operations = nd.OperationType
    builder.add_operation(operations.TFLITE_DYNAMIC_UPDATE_SLICE, [cache, row, place], [kept])
    builder.add_operation(operations.BATCH_MATMUL, [row, kept, no, yes], [scores])
    builder.add_operation(operations.ADD, [scores, mask, none], [masked])
    builder.add_operation(operations.SOFTMAX, [masked, one], [weights])
    builder.add_operation(operations.BATCH_MATMUL, [weights, kept, no, no], [result])
    builder.identify_inputs_and_outputs([row, mask, place, cache], [result, kept])
    return builder.finish()


def decode(compilation: nd.Compilation, rows: np.ndarray) -> np.ndarray:
    """Returns the results of all steps."""
    caches = [
        nd.MemoryDesc().add_input_role(compilation, 3).add_output_role(compilation, 1).finish().allocate()
        for _ in range(2)
    ]
    # The memory of a new object is zero.
    nd.Memory.copy(nd.Memory.allocate(4 * STEPS * WIDTH), caches[0])
    results = np.empty((STEPS, 1, 1, WIDTH), np.float32)
    events: list[nd.Event] = []
    for number in range(STEPS):
        step = nd.Execution(compilation)
        step.set_input(0, rows[number])
        step.set_input(1, np.where(np.arange(STEPS) <= number, 0, -1e9).astype(np.float32).reshape(1, 1, -1))
        step.set_input(2, np.array([0, number, 0], np.int32))
        step.set_input_from_memory(3, caches[number % 2], 0, 0)
        step.set_output(0, results[number])
        step.set_output_from_memory(1, caches[1 - number % 2], 0, 0)
        events.append(step.start_compute_with_dependencies(events[-1:]))
    events[-1].wait()
    return results.reshape(STEPS, WIDTH)


def expected(rows: np.ndarray) -> np.ndarray:
    """Returns the same, computed by NumPy from all rows at once."""
    flat = rows.reshape(STEPS, WIDTH).astype(np.float64)
    scores = np.where(np.tri(STEPS, dtype=bool), flat @ flat.T, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True) @ flat)


def main() -> None:
    """Decodes random rows."""
    rows = np.random.default_rng(0).standard_normal((STEPS, 1, 1, WIDTH)).astype(np.float32) / 4
    results = decode(nd.CompilationBuilder(step_model()).finish(), rows)
    print(f"{STEPS} steps; the largest difference is {np.abs(results - expected(rows)).max():.1e}")


if __name__ == "__main__":
    main()
