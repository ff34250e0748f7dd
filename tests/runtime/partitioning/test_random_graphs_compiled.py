"""Code that the CPU device compiles gives the same bits however a model is split.

This includes models in which some values follow from constants.
"""

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest
from support.models.random_graphs import SIGNATURES, Driver, RandomModel, Signature
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.device import Verdict

T = nd.OperationType
#: Functions whose last bit depends on the implementation.
CURVES = (T.EXP, T.LOG, T.LOGISTIC, T.RSQRT, T.SIN, T.TANH)
#: Seeds whose results differed when NumPy folded constants.
KNOWN_SEEDS = (23, 63, 80, 97)


class CompiledDriver(CpuDevice):
    """The compiling CPU device, restricted to some signatures."""

    def __init__(self, name: str, signatures: Sequence[Signature]) -> None:
        super().__init__()
        self.name = name
        self._chooser = Driver(name, signatures)

    def supported_operations(self, model: nd.Model) -> Sequence[Verdict]:
        return self._chooser.supported_operations(model)


def results(
    model: nd.Model,
    devices: Sequence[nd.Device],
    arrays: Sequence["np.ndarray[tuple[int, ...], np.dtype[np.float32]]"],
) -> list[bytes]:
    builder = nd.CompilationBuilder(model, devices)
    builder.set_caching(None)
    return [output.tobytes() for output in builder.finish().run(*arrays)]


def drivers(signatures: Sequence[Signature], count: int) -> list[nd.Device]:
    return [CompiledDriver(f"driver-{n}", signatures[n::count]) for n in range(count)]


def check_random_graph(seed: int) -> None:
    rng = random.Random(seed)
    graph = RandomModel(rng)
    arrays = graph.arrays()
    signatures = SIGNATURES.copy()
    rng.shuffle(signatures)
    expected = results(graph.model, [CpuDevice()], arrays)
    assert results(graph.model, drivers(signatures, rng.randint(2, 5)), arrays) == expected


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("seed", sorted({*KNOWN_SEEDS, *range(100, 116)}))
def test_partitioned_equals_unpartitioned(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    check_random_graph(seed)
    # Operations that the compiler fails to compile run on references, which is logged.
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


@sweep(("first", "second"), list(itertools.permutations(CURVES, 2))[::3])
def test_a_constant_is_folded_by_the_code_of_its_kernel(
    first: nd.OperationType, second: nd.OperationType
) -> None:
    """The inner function runs on one device, the outer one on another.

    If one device runs both, it folds both results.
    """
    shape = (37,)
    values = np.random.default_rng(first).uniform(0.1, 3, shape).astype(np.float32)
    builder = nd.ModelBuilder()
    x, constant, inner, outer, total = (
        builder.add_operand(nd.OperandType.TENSOR_FLOAT32, shape) for _ in range(5)
    )
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    builder.set_operand_value(constant, values)
    builder.add_operation(first, [constant], [inner])
    builder.add_operation(second, [inner], [outer])
    builder.add_operation(T.ADD, [outer, x, none], [total])
    builder.identify_inputs_and_outputs([x], [inner, outer, total])
    model = builder.finish()
    zeros = [np.zeros(shape, np.float32)]
    expected = results(model, [CpuDevice()], zeros)
    split = [CompiledDriver("inner", [(first, None)]), CompiledDriver("outer", [(second, None), (T.ADD, 0)])]
    assert results(model, split, zeros) == expected
    # An input instead of a constant.
    fed = nd.ModelBuilder()
    a, b, c = (fed.add_operand(nd.OperandType.TENSOR_FLOAT32, shape) for _ in range(3))
    fed.add_operation(first, [a], [b])
    fed.add_operation(second, [b], [c])
    fed.identify_inputs_and_outputs([a], [b, c])
    assert results(fed.finish(), [CpuDevice()], [values]) == expected[:2]
