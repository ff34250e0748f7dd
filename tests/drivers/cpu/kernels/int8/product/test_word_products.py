"""Products of words have the sums of integers, for every scheme of the targets that run here."""

import ctypes

import llvmlite.binding as llvm
import numpy as np
import pytest
from support.cpu.native import RUNNABLE, Array, target_machine
from support.cpu.quantized_sums import TYPES, QuantizedSums, check
from support.sweeps import sweep

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.common.addressing import address
from neurald.drivers.cpu.kernels.int8.product.word_products import add_words, joined, separated
from neurald.drivers.cpu.kernels.int8.scheme import MATRIX_WORD_BYTES, WORD_BYTES, Scheme
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.target import TARGETS, Target

_SCHEMES = [
    Scheme(target=target, is_bytes=True, is_signed=is_signed, matrix_words=words)
    for target in RUNNABLE
    if target.has_byte_dots
    for words in (0, *((1, 2) if target.has_byte_matrices else ()))
    for is_signed in ((False, True) if target.has_mixed_dots and target.has_signed_dots else (False,))
]
#: Targets that multiply matrices, on this machine.
_WITH_MATRICES = [target for target in RUNNABLE if target.has_byte_matrices]
_POINTERS = ("%totals", "%inputs", "%weights")


def _called(code: Instructions, scheme: Scheme, totals: Array, *operands: Array) -> Array:
    """Returns the totals after a call of a function with these instructions."""
    parameters = ", ".join(f"ptr {each}" for each in _POINTERS)
    body = (f"define void @words({parameters}) {{", *code.lines, "  ret void", "}")
    module = llvm.parse_assembly("\n".join((*sorted(code.declarations), *body)))
    machine = target_machine(scheme.target if scheme.target in RUNNABLE else TARGETS["generic"])
    library = llvm.JITLibraryBuilder().add_object_img(machine.emit_object(module))
    compiler = llvm.create_lljit_compiler(machine)
    linked = library.export_symbol("words").link(compiler, "words")
    result: Array = totals.copy()
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(linked["words"])
    call(*(each.ctypes.data for each in (result, *operands)))
    return result


def _vectors(code: Instructions, scheme: Scheme, pointer: str, count: int) -> list[str]:
    size, kind = scheme.target.vector_bytes, f"<{scheme.lanes} x i32>"
    places = [address(code, pointer, str(number * size)) for number in range(count)]
    return [code.fresh(f"load {kind}, ptr {each}, align {WORD_BYTES}") for each in places]


def _spill(code: Instructions, scheme: Scheme, totals: list[str]) -> None:
    for number, each in enumerate(totals):
        at = address(code, "%totals", str(number * scheme.target.vector_bytes))
        code.effect(f"store <{scheme.lanes} x i32> {each}, ptr {at}, align {WORD_BYTES}")


@pytest.mark.parametrize(
    "scheme", _SCHEMES, ids=lambda each: f"{each.target.name}-{each.matrix_words}-{each.has_signed_inputs}"
)
@sweep("positions", range(1, 6))
@sweep("vectors", range(1, 4))
def test_words_are_multiplied_and_added(scheme: Scheme, positions: int, vectors: int) -> None:
    random = np.random.default_rng((positions, vectors))
    channels, group = vectors * scheme.lanes, scheme.group
    kind = np.int8 if scheme.has_signed_inputs else np.uint8
    limits = np.iinfo(kind)
    inputs = random.integers(limits.min, limits.max, (positions, group), kind, endpoint=True)
    weights = random.integers(-128, 127, (vectors, scheme.lanes, group), np.int8, endpoint=True)
    totals = random.integers(-(1 << 20), 1 << 20, (positions, channels), np.int32)
    ordered = weights
    if scheme.has_matrices:
        parts = weights.reshape(vectors, scheme.lanes, scheme.matrix_words, MATRIX_WORD_BYTES)
        ordered = np.ascontiguousarray(parts.swapaxes(1, 2))
    code = Instructions(_POINTERS)
    sums = joined(code, scheme, _vectors(code, scheme, "%totals", positions * vectors), vectors)
    columns = _vectors(code, scheme, "%weights", vectors * scheme.word_registers)
    places = (address(code, "%inputs", str(number * group)) for number in range(positions))
    sums = add_words(code, scheme, sums, places, columns)
    _spill(code, scheme, separated(code, scheme, sums, vectors, positions))
    expected = totals + inputs.astype(np.int32) @ weights.reshape(channels, group).astype(np.int32).T
    np.testing.assert_array_equal(_called(code, scheme, totals, inputs, ordered), expected)


@sweep("positions", range(1, 6))
@sweep("vectors", range(1, 4))
def test_joined_sums_have_two_channels_of_two_positions(positions: int, vectors: int) -> None:
    """Any machine exchanges halves of vectors."""
    scheme = Scheme(target=TARGETS["aarch64i8mm"], is_bytes=True, matrix_words=1)
    pairs = -(-positions // 2)
    numbers = np.arange(positions * vectors * scheme.lanes, dtype=np.int32)
    memory = np.zeros((2 * pairs, vectors, scheme.lanes), np.int32)
    memory.reshape(-1)[: numbers.size] = numbers
    code = Instructions(_POINTERS)
    sums = joined(code, scheme, _vectors(code, scheme, "%totals", positions * vectors), vectors)
    assert len(sums) == 2 * pairs * vectors
    assert len(separated(code, scheme, sums, vectors, positions)) == positions * vectors
    _spill(code, scheme, sums)
    result = _called(code, scheme, memory, memory, memory).reshape(pairs, 2, vectors, 2, 2)
    if positions % 2:
        memory[-1] = memory[-2]
    halves = memory.reshape(pairs, 2, vectors, 2, 2)
    np.testing.assert_array_equal(result, halves.transpose(0, 3, 2, 1, 4))


@pytest.mark.parametrize("target", _WITH_MATRICES, ids=lambda target: target.name)
@pytest.mark.parametrize(("source", "weights", "result"), TYPES)
def test_products_of_any_types(source: Scalar, weights: Scalar, result: Scalar, target: Target) -> None:
    """Numbers of positions, channels and terms fill no pair, no vector, no word."""
    for number, (height, width, depth, channels) in enumerate(
        [(5, 7, 33, 21), (1, 1, 64, 40), (3, 5, 16, 6), (1, 3, 95, 17), (7, 7, 24, 64), (2, 9, 8, 96)]
    ):
        sums = QuantizedSums(number, source=source, weights=weights, extreme=number % 2 == 1)
        tail = sums.rescaled(per_channel=number % 2 == 0, type=result)
        case = sums.convolution(
            (1, height, width, depth), (channels, 1, 1, depth), (1, height, width, channels), tail
        )
        check(case, target, number)


@pytest.mark.parametrize("target", _WITH_MATRICES, ids=lambda target: target.name)
@pytest.mark.parametrize(("source", "weights", "result"), TYPES)
def test_windows_of_any_types(source: Scalar, weights: Scalar, result: Scalar, target: Target) -> None:
    for number, (depth, channels, stride, has_phases) in enumerate(
        [(3, 17, 2, False), (16, 40, 1, False), (24, 8, 1, True), (40, 68, 1, True)]
    ):
        sums = QuantizedSums(number, source=source, weights=weights, has_phases=has_phases)
        tail = sums.rescaled(type=result)
        positions = -(-9 // stride), -(-11 // stride)
        case = sums.convolution(
            (1, 9, 11, depth),
            (channels, 3, 3, depth),
            (1, *positions, channels),
            tail,
            stride=(stride, stride),
            padding=((1, 1), (1, 1)),
        )
        check(case, target, number)


@pytest.mark.parametrize(("rows", "kind"), [(1, "int8,"), (2, "int8 matrices,"), (40, "int8 matrices,")])
def test_matrices_are_multiplied_where_there_are_several_positions(rows: int, kind: str) -> None:
    case = QuantizedSums(1, zeros=(3, 0)).product((rows, 64), (40, 64))
    routine = routine_for(case.kernel, TARGETS["aarch64i8mm"])
    assert routine is not None
    assert routine.label.startswith(kind)
    instruction = "smmla" if "matrices" in kind else "sdot"
    texts = routine.text, *(each.text for each in routine.subroutines)
    assert any(f"neon.{instruction}.v4i32" in each for each in texts)
