"""Client process that fills a cache.

    python -m faults.scenarios.writer ADDRESS FOLDER SEED COUNT LIMIT

It compiles COUNT models, few different ones determined by SEED, or runs until killed if COUNT is 0.
If LIMIT is not 0, it limits the size of files that the process writes. It reports failures as a
line of JSON.
"""

import itertools
import json
import random
import resource
import sys
from pathlib import Path

import numpy as np

import neurald as nd
from neurald.hal.memory.pool import SharedMemory

SHAPE = (64, 64)
CONSTANTS = 8
CONSTANT_BYTES = 64 * 64 * 4
MODELS = 12


def _model(number: int) -> nd.Model:
    """Builds `input + constant + …`; an artifact combines the constants in one file."""
    builder = nd.ModelBuilder()
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    value = source = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, SHAPE)
    for index in range(CONSTANTS):
        content = SharedMemory.constant(np.full(SHAPE, number + index, np.float32).data.cast("B"))
        constant, output = (builder.add_operand(nd.OperandType.TENSOR_FLOAT32, SHAPE) for _ in range(2))
        builder.set_operand_value_from_memory(constant, content, 0, CONSTANT_BYTES)
        builder.add_operation(nd.OperationType.ADD, [value, constant, activation], [output])
        value = output
    builder.identify_inputs_and_outputs([source], [value])
    return builder.finish()


def compile_and_check(device: nd.Device, folder: Path, number: int) -> str:
    """Compiles a model with a cache, and runs it; returns what was wrong.

    Args:
        device: the device that adds.
        folder: the folder of the cache.
        number: the number of the model.
    """
    builder = nd.CompilationBuilder(_model(number), [device])
    builder.set_caching(folder, bytes(32))
    (result,) = builder.finish().run(np.full(SHAPE, 1, np.float32))
    expected = 1 + sum(number + index for index in range(CONSTANTS))
    return "" if np.all(result == expected) else f"model {number}: {result.flat[0]}; expected {expected}"


def main(address: str, folder: Path, seed: int, count: int, limit_bytes: int) -> list[str]:
    """Fills the cache; returns what was wrong."""
    device = nd.connect(address)
    numbers = random.Random(seed)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if limit_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
    wrong = []
    for _ in range(count) if count else itertools.count():
        try:
            line = compile_and_check(device, folder, numbers.randrange(MODELS))
        except Exception as error:  # a cache must never cause a failure
            line = f"{type(error).__name__}: {error}"
        if line:
            wrong.append(line)
    return wrong


if __name__ == "__main__":
    report = main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:6]))
    sys.stdout.write(json.dumps(report) + "\n")
