"""Lowers RANDOM_MULTINOMIAL, and the drawing of classes.

The generator is NumPy's `Philox`: Philox 4x64-10 with 64-bit words (Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3"). Its counter begins at 1.
"""

import math
from collections.abc import Sequence

from neurald.drivers.compiler.ir.algorithm import Entropy, Sampling
from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    axis,
    constant,
    index,
    load,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call

#: Message of failed executions.
NO_CLASS = "a row of logits has no finite element"

_ROUNDS = 10
_MULTIPLIERS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_STEPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
_WORD, _HALF = 0xFFFF_FFFF, 32
#: Bits of a word that are not part of a number, and the distance of two numbers.
_UNUSED_BITS, _SPACING = 11, 2.0**-53


def _wide(number: int) -> Expression:
    return constant(number, Scalar.UINT64)


def chosen(words: Sequence[Expression], lane: Expression) -> Expression:
    """Returns the word of a lane."""
    result = words[-1]
    for number, word in enumerate(words[:-1]):
        result = select(lane.equals(number), word, result)
    return result


def _upper_product(word: Expression, factor: int) -> Expression:
    """Returns the upper 64 bits of a product."""
    low, high = factor & _WORD, factor >> _HALF
    right = (word & _WORD) * _wide(low)
    middle = (word >> _HALF) * _wide(low) + (right >> _HALF)
    other = (word & _WORD) * _wide(high) + (middle & _WORD)
    return (word >> _HALF) * _wide(high) + (middle >> _HALF) + (other >> _HALF)


def _philox(key: Sequence[Expression], counter: Expression) -> list[Expression]:
    """Returns the four words of a counter."""
    words, keys = [counter, _wide(0), _wide(0), _wide(0)], list(key)
    for number in range(_ROUNDS):
        if number:
            keys = [each + _wide(step) for each, step in zip(keys, _STEPS, strict=True)]
        (one, one_high), (other, other_high) = (
            (word * _wide(factor), _upper_product(word, factor))
            for word, factor in zip(words[::2], _MULTIPLIERS, strict=True)
        )
        words = [other_high ^ words[1] ^ keys[0], other, one_high ^ words[3] ^ keys[1], one]
    return words


def drawn(call: Call, builder: Builder, points: Value) -> Value:
    """Draws classes whose probabilities have logits, of which those that are not finite have none.

    Args:
        call: has the logits, (rows, classes).
        builder: the builder of the operation.
        points: FLOAT64 (rows, samples), from 0 to below 1.

    Returns:
        INT32 (rows, samples).

    Raises:
        Unsupported: there are no classes.
    """
    logits = builder.value(call, "logits")
    rows, classes = logits.shape
    if not classes:
        raise Unsupported("without classes it is not supported")
    if not points.count:
        return builder.compute(points.shape, lambda *_: constant(0, Scalar.INT32))
    lowest = constant(-math.inf, Scalar.FLOAT64)

    def finite(row: Expression, kind: Expression) -> Expression:
        """Returns a logit, minus infinity if it is not finite."""
        logit = load(logits, (row, kind)).to(Scalar.FLOAT64)
        return select(apply(Op.ABSOLUTE, logit) < math.inf, logit, lowest)

    def highest(row: Expression) -> Expression:
        along = axis(classes, "c")
        return reduce(ReductionOp.MAXIMUM, (along,), finite(row, along))

    maxima = builder.compute((rows,), highest)

    def weight(row: Expression, kind: Expression) -> Expression:
        return apply(Op.EXP, finite(row, kind) - load(maxima, (row,)))

    def requirements(row: Expression, _: Expression) -> list[tuple[Expression, str]]:
        return [(lowest < load(maxima, (row,)), NO_CLASS)]

    weights = builder.compute((rows, classes), weight, requirements)
    return builder.procedure(Sampling(), weights, points, output=points.shape)


def _multinomial(call: Call, builder: Builder) -> tuple[Value, ...]:
    ((rows, samples),), seeds = output_shapes(call), builder.value(call, "seeds")

    def key(at: Expression) -> Expression:
        first, second = (load(seeds, (index(each),)).to(Scalar.UINT64) & _WORD for each in (0, 1))
        return select(at.equals(0), (first << _HALF) | second, _wide(0))

    wide = builder.compute((2,), key)
    if seeds.constant is None or not seeds.constant.any():
        wide = builder.procedure(Entropy(number=builder.position), wide, output=(2,), type=Scalar.UINT64)

    def point(row: Expression, sample: Expression) -> Expression:
        at = row * samples + sample
        words = _philox([load(wide, (index(each),)) for each in (0, 1)], (at // 4 + 1).to(Scalar.UINT64))
        return (chosen(words, at % 4) >> _UNUSED_BITS).to(Scalar.FLOAT64) * _SPACING

    return (drawn(call, builder, builder.compute((rows, samples), point)),)


LOWERINGS: Lowerings = {OperationType.RANDOM_MULTINOMIAL: _multinomial}
