"""Writes steps of LSTM cells of floats."""

from collections.abc import Callable
from typing import Final

from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.elementwise.expressions import curve
from neurald.drivers.cpu.first_tier.kernels.reduction.rows import SUM, reduced
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter, clamped
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target

#: A cell has the gates input, forget, cell and output, whose products are in this order.
_GATES = 4


_INPUT, _FORGET, _CELL, _OUTPUT = range(_GATES)


#: The row of the weights of the cell state for a gate.
_PEEPHOLES: Final = {_INPUT: 0, _FORGET: 1, _OUTPUT: 2}


#: Is added to variances.
_EPSILON: Final = 1e-8


_POINTERS: Final = ("out", "cell", "sequence", "products", "sums", "before", "peephole")


def lstm_units(target: Target) -> list[Unit]:
    """Returns the units of the kernels of LSTM."""
    return [_lstm_step(target), _normalized_lstm_step(target)]


class _LstmRow:
    """Writes what becomes of the sums of a row of an LSTM cell of floats.

    Words: units; of `%products` and of `%sequence` where the step begins, and the distance of rows;
    two factors, of the input gate and of what the forget gate leaves, one of which is 0; and the
    limit of cell states.

    Args:
        kernel: the function.

    Attributes:
        units: their number.
    """

    def __init__(self, kernel: KernelWriter) -> None:
        self._kernel = kernel
        self.units, first_product, product_step, first_output, output_step = (
            kernel.word(n) for n in range(5)
        )
        self._places = first_product, product_step, first_output, output_step
        self._own, self._left = kernel.word(5, "float"), kernel.word(6, "float")
        self._low, self._high = kernel.word(7, "float"), kernel.word(8, "float")
        self._states = self._sums = self._products = self._place = "0"

    def begin(self, row: str) -> None:
        """Writes where a row begins."""
        kernel, (first_product, product_step, first_output, output_step) = self._kernel, self._places
        self._states = kernel.product(row, self.units)
        self._sums = kernel.product(self._states, str(_GATES))
        self._products = kernel.sum(first_product, kernel.product(row, product_step))
        self._place = kernel.sum(first_output, kernel.product(row, output_step))

    def state(self, v: Vector, pointer: str, index: str) -> str:
        """Loads a state."""
        return self._kernel.element(v, "float", pointer, self._kernel.sum(self._states, index))

    def of_gate(self, v: Vector, pointer: str, gate: int, index: str, start: str = "0") -> str:
        """Loads what there is for each gate."""
        return self._kernel.element(v, "float", pointer, self._kernel.sum(start, self._at(gate, index)))

    def _at(self, number: int, index: str) -> str:
        return self._kernel.sum(self._kernel.product(self.units, str(number)), index)

    def sum(self, v: Vector, gate: int, index: str) -> str:
        """Loads what `replace_sum` has stored."""
        return self.of_gate(v, "%sums", gate, index, self._sums)

    def replace_sum(self, v: Vector, gate: int, index: str, value: str) -> None:
        """Stores another sum of a gate."""
        store(v, "float", value, "%sums", self._kernel.sum(self._sums, self._at(gate, index)))

    def total(self, v: Vector, gate: int, index: str, state: str | None) -> str:
        """Adds the sums of a gate.

        Args:
            v: writes vectors of the width of the values.
            gate: number of the gate.
            index: number of the first unit.
            state: the cell state that the gate sees, if any.
        """
        products = self.of_gate(v, "%products", gate, index, self._products)
        found = v.binary("fadd", "float", products, self.sum(v, gate, index))
        if state is None:
            return found
        weights = self.of_gate(v, "%peephole", _PEEPHOLES[gate], index)
        return v.binary("fadd", "float", found, v.binary("fmul", "float", weights, state))

    def store_cell(self, v: Vector, index: str, total: Callable[[int], str]) -> str:
        """Stores the next cell state, and returns it.

        Args:
            v: writes vectors of the width of the value.
            index: number of the first unit.
            total: returns what the activation of a gate gets.
        """
        before = self.state(v, "%before", index)
        forget = curve(v, Op.LOGISTIC, total(_FORGET))
        admit = curve(v, Op.LOGISTIC, total(_INPUT))
        rest = v.binary("fsub", "float", v.number("float", 1), forget)
        admit = v.binary(
            "fadd",
            "float",
            v.binary("fmul", "float", admit, v.splat("float", self._own)),
            v.binary("fmul", "float", rest, v.splat("float", self._left)),
        )
        candidate = curve(v, Op.TANH, total(_CELL))
        cell = v.binary(
            "fadd",
            "float",
            v.binary("fmul", "float", forget, before),
            v.binary("fmul", "float", admit, candidate),
        )
        cell = clamped(v, cell, self._low, self._high)
        store(v, "float", cell, "%cell", self._kernel.sum(self._states, index))
        return cell

    def store_output(self, v: Vector, index: str, cell: str, total: str) -> None:
        """Stores the output."""
        emit = curve(v, Op.LOGISTIC, total)
        output = v.binary("fmul", "float", emit, curve(v, Op.TANH, cell))
        store(v, "float", output, "%out", self._kernel.sum(self._states, index))
        store(v, "float", output, "%sequence", self._kernel.sum(self._place, index))


def _lstm_step(target: Target) -> Unit:
    """Writes a step of an LSTM cell of floats without layer normalisation.

    `%products` has the products of the inputs with the weights of all gates, and `%sums` those of
    the output state. `%out` and `%cell` are the next states, `%before` is the last cell state, and
    `%sequence` gets the output, too. `%peephole` has weights of the cell state for the gates input,
    forget and output. Words: see `_LstmRow`. A work item is a row.
    """
    kernel = KernelWriter(target, "first_lstm_step", _POINTERS)
    of = _LstmRow(kernel)
    with kernel.each_item() as row:
        of.begin(row)

        def write(v: Vector, index: str) -> None:
            before = of.state(v, "%before", index)
            cell = of.store_cell(
                v, index, lambda gate: of.total(v, gate, index, None if gate == _CELL else before)
            )
            of.store_output(v, index, cell, of.total(v, _OUTPUT, index, cell))

        kernel.each_element(kernel.vector, "0", of.units, write)
    return kernel.unit()


def _normalized_lstm_step(target: Target) -> Unit:
    """Writes a step of an LSTM cell of floats with layer normalisation.

    `%norms` and `%biases` have a row for each gate: what its normalised sums are multiplied with,
    and what is added then. The other pointers and the words are those of `_lstm_step`, but `%sums`
    is written, too. A work item is a row.
    """
    pointers = (*_POINTERS, "norms", "biases")
    kernel = KernelWriter(target, "first_normalized_lstm_step", pointers)
    of, single = _LstmRow(kernel), kernel.single
    count = single.cast("uitofp", "i64", of.units, "float")

    def normalize(gate: int, state: str | None) -> None:
        """Replaces the sums of a gate; `state` is the pointer of the cell state that it sees."""

        def total(v: Vector, index: str) -> str:
            seen = None if state is None else of.state(v, state, index)
            found = of.total(v, gate, index, seen)
            of.replace_sum(v, gate, index, found)
            return found

        mean = single.binary("fdiv", "float", reduced(kernel, of.units, SUM, total), count)

        def centred(v: Vector, index: str) -> str:
            return v.binary("fsub", "float", of.sum(v, gate, index), v.splat("float", mean))

        def square(v: Vector, index: str) -> str:
            distance = centred(v, index)
            return v.binary("fmul", "float", distance, distance)

        variance = single.binary("fdiv", "float", reduced(kernel, of.units, SUM, square), count)
        variance = single.binary("fadd", "float", variance, single.number("float", _EPSILON))
        deviation = single.call("llvm.sqrt", "float", variance)

        def finish(v: Vector, index: str) -> None:
            found = v.binary("fdiv", "float", centred(v, index), v.splat("float", deviation))
            found = v.binary("fmul", "float", found, of.of_gate(v, "%norms", gate, index))
            found = v.binary("fadd", "float", found, of.of_gate(v, "%biases", gate, index))
            of.replace_sum(v, gate, index, found)

        kernel.each_element(kernel.vector, "0", of.units, finish)

    with kernel.each_item() as row:
        of.begin(row)
        for gate in (_INPUT, _FORGET, _CELL):
            normalize(gate, None if gate == _CELL else "%before")

        def cell(v: Vector, index: str) -> None:
            of.store_cell(v, index, lambda gate: of.sum(v, gate, index))

        kernel.each_element(kernel.vector, "0", of.units, cell)
        normalize(_OUTPUT, "%cell")

        def output(v: Vector, index: str) -> None:
            of.store_output(v, index, of.state(v, "%cell", index), of.sum(v, _OUTPUT, index))

        kernel.each_element(kernel.vector, "0", of.units, output)
    return kernel.unit()
