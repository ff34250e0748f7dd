"""Steps of each multiplication scheme add the products of words, for all targets that run here."""

import ctypes

import llvmlite.binding as llvm
import numpy as np
import pytest
from support.cpu.native import RUNNABLE, Array, target_machine
from support.sweeps import sweep

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES, Scheme
from neurald.drivers.cpu.target.target import TARGETS, Target

_SCHEMES = [
    Scheme(target=target, is_bytes=is_bytes, is_signed=is_signed)
    for target in RUNNABLE
    for is_bytes in (False, *([True] if target.has_byte_dots else []))
    for is_signed in (
        False,
        *([True] if is_bytes and target.has_mixed_dots and target.has_signed_dots else []),
    )
]


def _elements(scheme: Scheme, count: int, seed: int, *, are_inputs: bool) -> Array:
    """Returns elements of words, of which a quarter are the smallest or the largest number."""
    dtype = np.uint8 if are_inputs and not scheme.has_signed_inputs else scheme.dtype
    # The sum of two products of the smallest shorts exceeds 32 bits, and kernels have none.
    info = np.iinfo(dtype)
    low = max(int(info.min), -0x7FFF)
    rng = np.random.default_rng((seed, count, are_inputs))
    numbers = rng.integers(low, info.max, (count, scheme.group), endpoint=True)
    ends = rng.choice([low, int(info.max)], numbers.shape)
    return np.where(rng.random(numbers.shape) < 0.25, ends, numbers).astype(dtype)


def _stepped(scheme: Scheme, totals: Array, inputs: Array, weights: Array, *, is_broadcast: bool) -> Array:
    code = Instructions(("%totals", "%inputs", "%weights"))
    kind = f"<{scheme.lanes} x i32>"
    total, columns = (
        code.fresh(f"load {kind}, ptr {each}, align {WORD_BYTES}") for each in ("%totals", "%weights")
    )
    if is_broadcast:
        words = scheme.broadcast(code, code.fresh("load i32, ptr %inputs, align 1"))
    else:
        words = code.fresh(f"load {kind}, ptr %inputs, align {WORD_BYTES}")
    result = scheme.step(code, total, words, columns, is_broadcast=is_broadcast)
    code.effect(f"store {kind} {result}, ptr %totals, align {WORD_BYTES}")
    parameters = "ptr %totals, ptr %inputs, ptr %weights"
    body = (f"define void @step({parameters}) {{", *code.lines, "  ret void", "}")
    machine = target_machine(scheme.target)
    module = llvm.parse_assembly("\n".join((*sorted(code.declarations), *body)))
    compiler = llvm.create_lljit_compiler(machine)
    library = llvm.JITLibraryBuilder().add_object_img(machine.emit_object(module))
    linked = library.export_symbol("step").link(compiler, "step")
    result_words: Array = totals.copy()
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(linked["step"])
    call(*(each.ctypes.data for each in (result_words, inputs, weights)))
    return result_words


@pytest.mark.parametrize(
    "scheme", _SCHEMES, ids=lambda each: f"{each.target.name}-{each.label}-{each.has_signed_inputs}"
)
@sweep("is_broadcast", [False, True])
@sweep("seed", range(4))
def test_a_step_adds_the_products_of_words(scheme: Scheme, is_broadcast: bool, seed: int) -> None:
    count = scheme.lanes
    inputs = _elements(scheme, 1 if is_broadcast else count, seed, are_inputs=True)
    weights = _elements(scheme, count, seed, are_inputs=False)
    totals = np.random.default_rng(seed).integers(-(1 << 20), 1 << 20, count, np.int32)
    sums = totals + np.sum(inputs.astype(np.int64) * weights, axis=1)
    result = _stepped(scheme, totals, inputs, weights, is_broadcast=is_broadcast)
    np.testing.assert_array_equal(result, sums.astype(np.int32))


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
@sweep("kind", [Scalar.INT8, Scalar.UINT8])
def test_shifted_bytes_have_the_signedness_of_inputs(target: Target, kind: Scalar) -> None:
    takes_both = target.has_mixed_dots and target.has_signed_dots
    is_signed = takes_both and kind is Scalar.INT8
    scheme = Scheme(target=target, is_bytes=target.has_byte_dots, is_signed=is_signed)
    info = np.iinfo(kind.dtype.name)
    shifted = {int(each) + scheme.shift_of(kind) for each in (info.min, info.max)}
    if takes_both:
        assert scheme.has_signed_inputs == is_signed
    if scheme.is_bytes and not takes_both:
        assert shifted == ({-128, 127} if target.has_signed_dots else {0, 255})
    else:
        assert shifted == {info.min, info.max}
