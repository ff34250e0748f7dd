"""Products of a cell: the weights of all gates times the inputs of all steps, or times a state."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.drivers.cpu.first_tier.binding.convolution import factors
from neurald.drivers.cpu.first_tier.binding.convolution.factors import SIGNED_WEIGHTS, source
from neurald.drivers.cpu.first_tier.binding.convolution.products import (
    MAX_WEIGHT,
    BoundEpilogue,
    SumsOfProducts,
    bind_sums,
    width_of,
)
from neurald.drivers.cpu.first_tier.binding.recurrent.sequence import CellSequence
from neurald.drivers.cpu.first_tier.binding.scope import (
    FLOAT,
    MAX_INT32,
    UNLIMITED,
    BindingScope,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.drivers.cpu.first_tier.product_kind import Products
from neurald.hal.operations.machinery.call import Call

#: Steps of a sequence, each of which has calls of its own.
_MAX_STEPS: Final = 2048


class CellProducts(Struct, frozen=True, kw_only=True):
    """The products of a cell.

    Attributes:
        cell: what it runs over.
        kind: the kind of the products.
        units: the number of units of the cell.
        size, outputs: the number of elements of an input, and of the state that is multiplied.
        width: elements of a row of sums, those of all gates.
        inputs, recurrent: the weights in panels, and what becomes of the sums.
        state: name of the state that is multiplied.
    """

    cell: CellSequence
    kind: Products
    units: int
    size: int
    outputs: int
    width: int
    inputs: tuple[BoundConstant, BoundEpilogue]
    recurrent: tuple[BoundConstant, BoundEpilogue]
    state: str

    @classmethod
    def of(
        cls,
        scope: BindingScope,
        call: Call,
        cell: CellSequence,
        *,
        weights: Sequence[str | None],
        recurrent: Sequence[str | None],
        biases: Sequence[str | None],
        states: Sequence[str],
    ) -> "CellProducts":
        """Returns the products.

        Args:
            scope: the scope of the operation.
            call: the operation.
            cell: what the cell runs over.
            weights, recurrent, biases: names of each gate's parameters; None for a gate without.
            states: names of the states, the one that is multiplied first.

        Raises:
            NotBound: the cell has no kernel.
        """
        present = [each for each in (*weights, *recurrent) if each is not None]
        (units, size), (_, outputs) = call.shape(present[0]), call.shape(present[-1])
        if not (cell.rows and units and size and outputs) or cell.steps > _MAX_STEPS:
            raise NotBound("there are no steps, or too many")
        floats = [call.operand(each).type for each in (cell.given, *states)]
        floats.append(call.operand_at(cell.output).type)
        if any(each is not FLOAT for each in floats):
            raise NotBound("the types have no kernel")
        kind = product_kind(call, present, max(outputs, size))
        return cls(
            cell=cell,
            kind=kind,
            units=units,
            size=size,
            outputs=outputs,
            width=len(weights) * units,
            inputs=(
                packed_gates(scope, call, kind, weights, cell.rows),
                gate_epilogue(scope, call, kind, weights, biases, cell.rows),
            ),
            recurrent=(
                packed_gates(scope, call, kind, recurrent, cell.batch),
                gate_epilogue(scope, call, kind, recurrent, (None,) * len(recurrent), cell.batch),
            ),
            state=states[0],
        )

    def of_inputs(self, scope: BindingScope, call: Call) -> tuple[list[BoundCall], BoundTemporary]:
        """Returns the calls for the inputs of all steps, and their sums."""
        return self._bound(scope, call, self.cell.given, self.size, None, self.cell.rows, self.inputs)

    def of_state(
        self, scope: BindingScope, call: Call, state: int | BoundTemporary
    ) -> tuple[list[BoundCall], BoundTemporary]:
        """Returns the calls for the state before a step, and their sums."""
        return self._bound(scope, call, self.state, self.outputs, state, self.cell.batch, self.recurrent)

    def _bound(
        self,
        scope: BindingScope,
        call: Call,
        name: str,
        size: int,
        moved: int | BoundTemporary | None,
        rows: int,
        constants: tuple[BoundConstant, BoundEpilogue],
    ) -> tuple[list[BoundCall], BoundTemporary]:
        given = source(
            call,
            self.kind,
            size,
            name=name,
            row_length=size,
            repeats=1,
            asymmetric=is_asymmetric(call, self.kind),
            moved=moved,
        )
        weights, epilogue = constants
        products = SumsOfProducts.of_rows(
            scope,
            self.kind,
            rows=rows,
            channels=self.width,
            depth=size,
            given=given,
            weights=weights,
            epilogue=epilogue,
        )
        sums = BoundTemporary(size_bytes=4 * rows * self.width)
        return bind_sums(scope, products, sums), sums


def product_kind(call: Call, weights: Sequence[str], depth: int) -> Products:
    """Returns what is multiplied.

    Args:
        call: the operation.
        weights: names of all weights.
        depth: the largest number of elements that are summed.

    Raises:
        NotBound: they have no kernel.
    """
    kinds = {call.operand(name).type for name in weights}
    if kinds == {FLOAT}:
        return Products.FLOAT
    if len(kinds) == 1 and kinds <= set(SIGNED_WEIGHTS):
        if depth * MAX_WEIGHT * MAX_WEIGHT > MAX_INT32:
            raise NotBound("sums may exceed 32 bits")
        return Products.HYBRID
    raise NotBound("the types have no kernel")


def is_asymmetric(call: Call, kind: Products) -> bool:
    """Returns whether inputs are quantised with zero points of their own."""
    return kind is Products.HYBRID and bool(call.scalar("asymmetric"))


def packed_gates(
    scope: BindingScope, call: Call, kind: Products, names: Sequence[str | None], rows: int
) -> BoundConstant:
    """Returns the weights of all gates in panels; those of a gate without are 0."""
    parts = [None if name is None else scope.constant(call, name) for name in names]
    (like,) = {each.shape: each for each in parts if each is not None}.values()
    whole = np.concatenate([np.zeros_like(like) if each is None else each for each in parts])
    return factors.packed(kind, whole[np.newaxis, :, np.newaxis], call, width_of(scope, rows, len(whole)))


def gate_epilogue(
    scope: BindingScope,
    call: Call,
    kind: Products,
    names: Sequence[str | None],
    biases: Sequence[str | None],
    rows: int,
    limits: tuple[int, int] = UNLIMITED,
) -> BoundEpilogue:
    """Returns the parameters of products: biases, scales of weights, and limits."""
    (units,) = {call.shape(name)[0] for name in names if name is not None}
    width = width_of(scope, rows, len(names) * units)
    padded = -(-len(names) * units // width) * width
    table = np.zeros((2 if kind is Products.HYBRID else 1, padded), np.float32)
    for number, (name, bias) in enumerate(zip(names, biases, strict=True)):
        place = slice(number * units, (number + 1) * units)
        if bias is not None:
            table[0, place] = scope.constant(call, bias)
        if kind is Products.HYBRID and name is not None:
            table[1, place] = call.operand(name).scale
    return BoundEpilogue(constants=(BoundConstant.of(table),), words=(*limits, padded))
