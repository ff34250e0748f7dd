"""Random graphs, split over drivers with disjoint operations, give the results of one device bit
for bit.

Restates TestPartitioningRandom. All drivers compute with references;
`test_random_graphs_compiled.py` tests compiled code.
"""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.devices.modes import MODES, compute
from support.models.random_graphs import SIGNATURES, Driver, RandomModel

import neurald as nd
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.memory.pool import HostMemory

SEEDS = 225


def drivers(rng: random.Random) -> list[nd.Device]:
    signatures = SIGNATURES.copy()
    rng.shuffle(signatures)
    count = rng.randint(2, 5)
    return [Driver(f"driver-{n}", signatures[n::count]) for n in range(count)]


def computed(
    compilation: nd.Compilation, arrays: Sequence["np.ndarray[Any, Any]"], shape: tuple[int, ...], mode: str
) -> list[bytes]:
    execution = nd.Execution(compilation, reusable=True)
    for position, array in enumerate(arrays):
        execution.set_input(position, array)
    outputs = [np.full(shape, np.nan, np.float32) for _ in compilation.model.outputs]
    for position, output in enumerate(outputs):
        execution.set_output_from_memory(position, HostMemory(output), 0, output.nbytes, shape)
    compute(execution, mode)
    return [output.tobytes() for output in outputs]


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.sampled(3)
def test_partitioned_equals_unpartitioned(seed: int) -> None:
    rng = random.Random(seed)
    graph = RandomModel(rng)
    arrays = graph.arrays()
    whole = nd.CompilationBuilder(graph.model, [ReferenceDevice()]).finish()
    builder = nd.CompilationBuilder(graph.model, drivers(rng))
    builder.set_caching(None)
    split = builder.finish()
    expected = [output.tobytes() for output in whole.run(*arrays)]
    assert [output.tobytes() for output in split.run(*arrays)] == expected
    mode = rng.choice(MODES)
    assert computed(split, arrays, graph.shape, mode) == expected
