"""Sums of float16 products have the precision of relaxed models.

On processors without arithmetic of float16, LLVM converts numbers before and after each operation.
"""

import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from support.compiler.contractions import Case
from support.cpu.float_kernels import windows
from support.cpu.native import RUNNABLE, Array, assembly_module, run, target_machine
from support.sweeps import sweep

from neurald.drivers.compiler.ir.graph import Convolution
from neurald.drivers.cpu.kernels.common.tile import MAX_HALF_TERMS
from neurald.drivers.cpu.kernels.gemm import tiled_product
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import TARGETS, Target
from neurald.hal.records import replace

_PLAIN = next(target for target in RUNNABLE if target.has_half and not target.has_tiles)
#: Vectors are as short as those of the processors for Arm that have it.
TARGET = replace(_PLAIN, has_half_products=True, is_relaxed=True, vector_bytes=16)
#: Vectors are as long as those of the processors for x86-64 that have it, if there are any here.
_LONG = replace(TARGET, vector_bytes=_PLAIN.vector_bytes)
#: Largest error, relative to the largest result: that of relaxed models on other devices.
_MAX_ERROR = 2.0**-8

#: Source, weights, stride, dilation and padding.
WINDOWS = [
    ((1, 7, 7, 32), (32, 1, 1, 32), 1, 1, 0),
    ((1, 7, 7, 24), (40, 1, 1, 24), 1, 1, 0),
    ((2, 6, 6, 32), (33, 3, 3, 32), 1, 1, 1),
    ((1, 11, 11, 8), (40, 3, 3, 8), 2, 1, 1),
    ((1, 13, 14, 24), (32, 3, 3, 24), 2, 1, 1),
    ((1, 4, 5, 512), (16, 1, 1, 512), 1, 1, 0),
    ((1, 4, 5, 131), (24, 1, 1, 131), 1, 1, 0),
    ((1, 3, 5, 300), (16, 2, 2, 300), 1, 1, 1),
    ((1, 10, 10, 64), (32, 1, 1, 64), 2, 1, 0),
    ((1, 3, 40, 16), (16, 3, 3, 16), 1, 1, 1),
    ((1, 7, 7, 32), (32, 3, 3, 32), 1, 2, 2),
    ((1, 10, 3, 48), (48, 3, 3, 48), 1, 1, 1),
    ((1, 1, 1, 640), (72, 1, 1, 640), 1, 1, 0),
    ((3, 1, 1, 40), (136, 1, 1, 40), 1, 1, 0),
]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses float16 also where it is not expected to be faster."""
    monkeypatch.setattr(tiled_product, "_MAX_RELATIVE_COST", float("inf"))


def routine_of(case: Case, target: Target = TARGET) -> Routine:
    routine = routine_for(case.kernel, target)
    assert routine is not None
    assert routine.label.startswith("float16 tiles")
    return routine


def results(
    case: Case, source: Array | None = None, splits: tuple[int, ...] = (), target: Target = TARGET
) -> Array:
    """Computes a case, with other elements of its input if they are given."""
    inputs = dict(case.arrays) if source is None else dict.fromkeys(case.arrays, source)
    found, status = run(routine_of(case, target), inputs, target, splits=splits)
    assert not status
    return found


def _constant(case: Case) -> Array:
    node = case.kernel.contraction
    assert isinstance(node, Convolution)
    assert node.weights.constant is not None
    return node.weights.constant


@pytest.mark.usefixtures("always")
@sweep("number", range(len(WINDOWS)))
def test_windows(number: int) -> None:
    """Results have the precision of float16, and do not depend on their division."""
    source, weights, stride, dilation, pad = WINDOWS[number]
    case = windows(source, weights, stride=stride, dilation=dilation, pad=pad)
    items = routine_of(case).work_items
    found = results(case, splits=(items // 3, items // 2 + 1))
    assert np.abs(found - case.expected).max() < _MAX_ERROR * np.abs(case.expected).max()
    np.testing.assert_array_equal(found, results(case, splits=(items,)))


@pytest.mark.usefixtures("always")
@sweep("number", [n for n, window in enumerate(WINDOWS) if window[1][0] >= _LONG.lanes(2)])
def test_long_vectors(number: int) -> None:
    source, weights, stride, dilation, pad = WINDOWS[number]
    case = windows(source, weights, stride=stride, dilation=dilation, pad=pad)
    found = results(case, target=_LONG)
    assert np.abs(found - case.expected).max() < _MAX_ERROR * np.abs(case.expected).max()


@pytest.mark.usefixtures("always")
@sweep(("positions", "depth", "channels"), [(5, MAX_HALF_TERMS, 16), (5, 8192, 16), (700, 1920, 72)])
def test_long_sums_are_float32(positions: int, depth: int, channels: int) -> None:
    """In float16, a sum of so many equal products would stop growing.

    Many tiles prefetch little of the next panel each.
    """
    case = windows((1, 1, positions, depth), (channels, 1, 1, depth))
    _constant(case)[:] = 1
    found = results(case, np.full((1, 1, positions, depth), 1.5, np.float32))
    # A bias is added.
    assert np.abs(found - 1.5 * depth).max() < 4


@pytest.mark.usefixtures("always")
def test_infinities_reach_the_same_results_as_in_float32() -> None:
    case = windows((1, 5, 5, 32), (32, 1, 1, 32))
    source = np.zeros((1, 5, 5, 32), np.float32)
    source[0, 0, 0, 3], source[0, 1, 0, 4] = np.inf, -np.inf
    found = results(case, source).reshape(25, 32)
    for position, term, sign in ((0, 3, 1), (5, 4, -1)):
        positive = sign * _constant(case).reshape(32, 32)[:, term] > 0
        assert np.isposinf(found[position][positive]).all()
        assert not found[position][~positive].any()
    assert np.isfinite(np.delete(found, (0, 5), axis=0)).all()


@pytest.mark.usefixtures("always")
def test_weights_beyond_float16_are_multiplied_as_float32() -> None:
    case = windows((1, 5, 5, 32), (32, 1, 1, 32))
    _constant(case)[3, 0, 0, 5] = 1e5
    routine = routine_for(case.kernel, TARGET)
    assert routine is not None
    assert "float16" not in routine.label


@sweep("changed", [{"is_relaxed": False}, {"has_half_products": False}])
def test_other_models_and_targets_add_up_float32(changed: dict[str, bool]) -> None:
    case = windows((1, 14, 14, 64), (64, 1, 1, 64))
    assert routine_of(case)
    routine = routine_for(case.kernel, replace(TARGET, **changed))
    assert routine is not None
    assert "float16" not in routine.label


@sweep("name", [target.name for target in TARGETS.values() if target.has_half_products])
def test_targets_with_float16_multiply_as_many_numbers_as_a_register_holds(name: str) -> None:
    case = windows((1, 14, 14, 64), (64, 1, 1, 64))
    target = replace(TARGETS[name], is_relaxed=True)
    routine = routine_for(case.kernel, target)
    assert routine is not None
    assert f"<{target.lanes(2)} x half>" in routine.text


def test_a_processor_for_x86_multiplies_and_adds_float16_by_one_instruction() -> None:
    case = windows((1, 14, 14, 64), (64, 1, 1, 64))
    target = replace(TARGETS["avx512fp16"], is_relaxed=True)
    machine = target_machine(target)
    if not machine.triple.startswith("x86_64"):
        pytest.skip("LLVM generates code for another architecture")
    text = machine.emit_assembly(llvm.parse_assembly(assembly_module(routine_of(case, target))))
    assert re.search(r"vfmadd231ph\t%zmm", text)
    assert not re.search(r"vfmadd\w+ps", text)
