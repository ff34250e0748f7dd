"""Random kernels: random shapes, index expressions and nested reductions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from support.cpu.native import Array

from neurald.drivers.compiler.ir.expression import (
    Axis,
    Expression,
    apply,
    axis,
    constant,
    index,
    load,
    maximum,
    minimum,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.graph import inside
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value

_T = TypeVar("_T")

_EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 64, 70)
_TYPES = (
    Scalar.FLOAT32,
    Scalar.INT32,
    Scalar.INT8,
    Scalar.UINT8,
    Scalar.INT16,
    Scalar.BOOL,
    Scalar.FLOAT16,
    Scalar.INT64,
)
_FOLDS = (ReductionOp.SUM, ReductionOp.MINIMUM, ReductionOp.MAXIMUM)


@dataclass
class RandomKernel:
    """A random kernel and its inputs, which are small integers, so that no sum is rounded."""

    seed: int
    inputs: dict[Value, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        rank = int(self._random.integers(0, 5))
        shape = [self._pick(_EXTENTS) for _ in range(rank)]
        while np.prod(shape, dtype=np.int64) > 6000:
            shape[int(np.argmax(shape))] //= 2
        if rank and self._chance(0.03):
            shape[-1] = 0
        axes = tuple(axis(length, f"i{d}") for d, length in enumerate(shape))
        body = self._number(axes, 3)
        requirements = ((self._condition(axes), "it must"),) if self._chance(0.1) else ()
        output = Value(tuple(shape), body.type, name="output")
        self.kernel = Kernel(output=output, axes=axes, body=body, requirements=requirements)

    def _pick(self, choices: Sequence[_T]) -> _T:
        return choices[int(self._random.integers(len(choices)))]

    def _chance(self, share: float) -> bool:
        return bool(self._random.random() < share)

    def _value(self, shape: tuple[int, ...], kind: Scalar, low: int = 0, high: int = 4) -> Value:
        value = Value(shape, kind, name=f"v{len(self.inputs)}")
        numbers = self._random.integers(low, high, shape)
        self.inputs[value] = np.asarray(numbers).astype(kind.dtype)
        return value

    def _number(self, axes: tuple[Axis, ...], depth: int, kind: Scalar | None = None) -> Expression:
        """Creates a random expression, of the given type if there is one."""
        kind = kind or self._pick(_TYPES)
        choice = self._random.random()
        if depth and choice < 0.12:
            return self._number(axes, depth - 1).to(kind)
        if depth and choice < 0.2:
            return select(
                self._condition(axes), self._number(axes, depth - 1, kind), self._number(axes, 0, kind)
            )
        if depth and choice < 0.5 and kind is not Scalar.BOOL:
            op = self._pick((Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.MINIMUM, Op.MAXIMUM))
            return apply(op, self._number(axes, depth - 1, kind), self._number(axes, depth - 1, kind))
        if depth > 1 and choice < 0.68 and kind is not Scalar.BOOL:
            folded = tuple(
                axis(self._pick((1, 2, 3, 5, 16, 19, 40)), f"r{d}")
                for d in range(self._random.integers(1, 3))
            )
            return reduce(self._pick(_FOLDS), folded, self._number((*axes, *folded), 1, kind))
        if choice < 0.72 and axes:
            return (self._place(axes) % 5).to(kind)
        if choice < 0.75:
            return constant(3, kind)
        return self._load(axes, kind)

    def _condition(self, axes: tuple[Axis, ...]) -> Expression:
        if axes and self._chance(0.5):
            return self._place(axes) < int(self._random.integers(1, 40))
        return self._load(axes, Scalar.INT8) < 3

    def _place(self, axes: tuple[Axis, ...]) -> Expression:
        """Creates a computed index."""
        place = self._pick(axes) * int(self._random.integers(1, 4)) + int(self._random.integers(0, 5))
        if self._chance(0.4):
            place = place + self._pick(axes)
        return place

    def _load(self, axes: tuple[Axis, ...], kind: Scalar) -> Expression:
        """Creates a load whose index depends on random axes."""
        chosen = [each for each in axes if self._chance(0.8)][-4:]
        if self._chance(0.1):
            self._random.shuffle(chosen)
        if self._chance(0.15) and axes:
            chosen.append(self._pick(axes))
        places, lengths, is_guarded = [], [], False
        for each in chosen:
            place, guarded = self._along(each, axes)
            low, high = max(0, place.low), max(0, place.high)
            length = high + 1
            if guarded:
                length, is_guarded = max(0, high - low - 2), True
            elif self._chance(0.2):
                length += 3
            places.append(place)
            lengths.append(length)
        if np.prod(lengths, dtype=np.int64) > 300_000:
            return constant(2, kind)
        value = self._value(tuple(lengths), kind)
        if is_guarded:
            guard = inside(places, value.shape)
            if guard.operands or self._chance(1):
                return load(value, tuple(places), guard, 1)
        return load(value, tuple(places))

    def _along(self, each: Axis, axes: tuple[Axis, ...]) -> tuple[Expression, bool]:
        """Creates an index along a dimension; returns it and whether the load needs a guard.

        Without a guard the index is not negative.
        """
        choice = self._random.random()
        if choice < 0.55 or not each.extent:
            return each + 0, False
        if choice < 0.65:
            return each - int(self._random.integers(0, 3)), True
        if choice < 0.7:
            return each * 2 + 1, False
        if choice < 0.75:
            return index(each.extent - 1) - each, False
        if choice < 0.8:
            return each // 2, False
        if choice < 0.85:
            return each % 3, False
        if choice < 0.9:
            return index(2), False
        places = self._value(tuple(axis.extent for axis in axes[-1:]), Scalar.INT32, -2, 9)
        place = load(places, axes[-1:]).to(Scalar.INDEX)
        if self._chance(0.5):
            return minimum(maximum(place, 0), 7), False
        return minimum(place, 8), True
