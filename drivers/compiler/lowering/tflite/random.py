"""Lowers RANDOM_UNIFORM, RANDOM_STANDARD_NORMAL, MULTINOMIAL and STABLEHLO_RNG_BIT_GENERATOR.

`neurald.hal.operations.tflite.random` describes the generators. Words are UINT64 numbers below
2^32.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from neurald.drivers.compiler.ir.algorithm import Entropy
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, constant, index, load, maximum, select
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.drivers.compiler.lowering.random import chosen, drawn
from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.random import (
    EPSILON,
    MULTIPLIERS,
    PARITY,
    ROTATIONS,
    ROUNDS,
    STEPS,
    THREEFRY,
)

#: Returns a word by its position.
_Words: TypeAlias = Callable[[Expression], Expression]

_WORD, _HALF = 0xFFFF_FFFF, 32
#: Results of known seeds up to this number of elements become constants.
_MAX_CONSTANT_ELEMENTS = 1 << 14


def _wide(number: int) -> Expression:
    return constant(number, Scalar.UINT64)


def _philox(key: Expression, counter: Expression, upper: Expression) -> list[Expression]:
    """Returns the four words of a counter."""
    words = [counter & _WORD, counter >> _HALF, upper & _WORD, upper >> _HALF]
    keys = [key & _WORD, key >> _HALF]
    for number in range(ROUNDS):
        if number:
            keys = [(each + int(step)) & _WORD for each, step in zip(keys, STEPS, strict=True)]
        one, other = (word * int(factor) for word, factor in zip(words[::2], MULTIPLIERS, strict=True))
        words = [
            (other >> _HALF) ^ words[1] ^ keys[0],
            other & _WORD,
            (one >> _HALF) ^ words[3] ^ keys[1],
            one & _WORD,
        ]
    return words


def _threefry(key: Expression, counter: Expression) -> list[Expression]:
    """Returns the two words of a counter."""
    keys = [key & _WORD, key >> _HALF]
    keys.append(keys[0] ^ keys[1] ^ int(PARITY))
    first, second = ((counter & _WORD) + keys[0]) & _WORD, ((counter >> _HALF) + keys[1]) & _WORD
    for group in range(5):
        for bits in ROTATIONS[group % 2]:
            first = (first + second) & _WORD
            second = (((second << bits) | (second >> (_HALF - bits))) & _WORD) ^ first
        first = (first + keys[(group + 1) % 3]) & _WORD
        second = (second + keys[(group + 2) % 3] + (group + 1)) & _WORD
    return [first, second]


def _of_seeds(builder: Builder, seeds: Value) -> _Words:
    """Returns Philox's words for two seeds: the key, and the upper half of the counter."""
    wide = builder.compute((2,), lambda at: load(seeds, (at,)).to(Scalar.UINT64))
    if seeds.constant is None or not seeds.constant.any():
        wide = builder.procedure(Entropy(number=builder.position), wide, output=(2,), type=Scalar.UINT64)
    low, high = (load(wide, (index(number),)) for number in range(2))
    return lambda at: chosen(_philox(low, (at // 4).to(Scalar.UINT64), high), at % 4)


def _uniform_row(builder: Builder, words: _Words, count: int) -> Value:
    """Returns numbers from 0 to 1, made of the lower 23 bits of words."""

    def body(at: Expression) -> Expression:
        bits = ((words(at) & 0x7F_FFFF) | 0x3F80_0000).to(Scalar.UINT32)
        return apply(Op.REINTERPRET, bits, type=Scalar.FLOAT32) - 1.0

    return builder.compute((count,), body)


def _seeds(call: Call, builder: Builder) -> Value:
    if call.shape("seeds") != (2,):
        raise BadData(f"{call.name('seeds')} has shape {list(call.shape('seeds'))}; [2] is expected")
    return builder.value(call, "seeds")


def _known(call: Call, builder: Builder, seeds: Value) -> tuple[Value, ...] | None:
    """Returns the result as a constant, if it is always the same and not large."""
    (shape,) = output_shapes(call)
    if seeds.constant is None or not seeds.constant.any() or math.prod(shape) > _MAX_CONSTANT_ELEMENTS:
        return None
    return tuple(builder.constant(each) for each in DEFINITIONS[call.binding.type].reference(call))


def _uniform(call: Call, builder: Builder) -> tuple[Value, ...]:
    (shape,), seeds = output_shapes(call), _seeds(call, builder)
    known = _known(call, builder, seeds)
    if known is not None:
        return known
    return (builder.reshape(_uniform_row(builder, _of_seeds(builder, seeds), math.prod(shape)), shape),)


def _normal(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Computes two numbers from each pair of words by the Box-Muller transform."""
    (shape,), seeds = output_shapes(call), _seeds(call, builder)
    known = _known(call, builder, seeds)
    if known is not None:
        return known
    count = math.prod(shape)
    numbers = _uniform_row(builder, _of_seeds(builder, seeds), count + count % 2)

    def body(at: Expression) -> Expression:
        first = at - at % 2
        square = apply(Op.LOG, maximum(load(numbers, (first,)), float(EPSILON))) * -2.0
        angle = load(numbers, (first + 1,)) * float(np.float32(2 * np.pi))
        turned = select((at % 2).equals(0), apply(Op.SIN, angle), apply(Op.COS, angle))
        return turned * apply(Op.SQRT, square)

    return (builder.reshape(builder.compute((count,), body), shape),)


def _multinomial(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Draws classes at points that are made of 52 bits of each pair of words."""
    ((rows, samples),), words = output_shapes(call), _of_seeds(builder, _seeds(call, builder))

    def point(row: Expression, sample: Expression) -> Expression:
        at = (row * samples + sample) * 2
        bits = ((words(at) & 0xF_FFFF | 0x3FF0_0000) << _HALF) | words(at + 1)
        return apply(Op.REINTERPRET, bits, type=Scalar.FLOAT64) - 1.0

    kind = Scalar.of(call.operand("output").type.dtype)
    found = drawn(call, builder, builder.compute((rows, samples), point))
    if kind is found.type:
        return (found,)
    return (builder.compute(found.shape, lambda *at: load(found, at).to(kind)),)


def _bits(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers STABLEHLO_RNG_BIT_GENERATOR; the state is key, counter and its upper half."""
    (length,), shape = output_shapes(call)
    state, kind = builder.value(call, "state"), Scalar.of(call.operand("output").type.dtype)
    key, start, upper = (load(state, (index(each),)) for each in (0, 1, length - 1 if length > 2 else 0))
    is_threefry = call.scalar("algorithm") == THREEFRY
    per_counter, per_element = 2 if is_threefry else 4, kind.size_bytes // 4
    count = math.prod(shape)

    def word(at: Expression) -> Expression:
        counter = start + (at // per_counter).to(Scalar.UINT64)
        words = _threefry(key, counter) if is_threefry else _philox(key, counter, upper)
        return chosen(words, at % per_counter)

    def body(at: Expression) -> Expression:
        if per_element == 1:
            narrow = word(at).to(Scalar.UINT32)
            return narrow if kind is Scalar.UINT32 else apply(Op.REINTERPRET, narrow, type=kind)
        both = word(at * 2) | (word(at * 2 + 1) << _HALF)
        return both if kind is Scalar.UINT64 else apply(Op.REINTERPRET, both, type=kind)

    used = -(-count * per_element // per_counter)

    def following(at: Expression) -> Expression:
        own = load(state, (at,))
        return select(at.equals(1), own + _wide(used), own)

    result = builder.reshape(builder.compute((count,), body), shape)
    return builder.compute((length,), following), result


LOWERINGS: Lowerings = {
    OperationType.TFLITE_RANDOM_UNIFORM: _uniform,
    OperationType.TFLITE_RANDOM_STANDARD_NORMAL: _normal,
    OperationType.TFLITE_MULTINOMIAL: _multinomial,
    OperationType.TFLITE_STABLEHLO_RNG_BIT_GENERATOR: _bits,
}
