"""Integer LSTM cells, bit-exact with `neurald.hal.operations.recurrent.quantized_lstm_cell`."""

from collections.abc import Callable, Mapping

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    axis,
    clamp,
    constant,
    load,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.gemmlowp import (
    int64_constant,
    inverse_square_root,
    product16,
    saturate16,
    saturate32,
    scaled,
    shift_right,
    sigmoid16,
    tanh16,
)
from neurald.drivers.compiler.lowering.arithmetic.quantized import fixed_point, requantized
from neurald.drivers.compiler.lowering.movement.indexing import concatenated
from neurald.drivers.compiler.lowering.recurrent.recurrent import all_rows, stack_outputs
from neurald.hal.operations.arithmetic.fixed_point import Rounding, quantize_multiplier
from neurald.hal.operations.machinery.call import Array
from neurald.hal.operations.recurrent.quantized_lstm_cell import (
    NORM_BITS,
    VARIANCE_BITS,
    QuantizedGate,
    QuantizedLstmCell,
    ScaledWeights,
    norm_multiplier,
)

_MAX_INT16 = (1 << 15) - 1
#: Bound on the magnitude of (8-bit number - zero point) × 8-bit weight.
_MAX_PRODUCT = 1 << 15

#: A 16-bit number as INT64 at (row, unit).
IntegerGateSum = Callable[[Expression, Expression], Expression]


def run_quantized_lstm(
    builder: Builder, cell: QuantizedLstmCell, sequence: Value, output_state: Value, cell_state: Value
) -> tuple[Value, Value, Value]:
    """Runs a cell with constant weights over a sequence.

    Args:
        builder: the builder of the operation.
        cell: the cell.
        sequence: INT8, (time, batch, elements).
        output_state, cell_state: INT8 and INT16, (batch, outputs) and (batch, units).

    Returns:
        The outputs, INT8 of shape (time, batch, outputs), and the last output and cell states.
    """
    run = _QuantizedLstmBuilder(builder, cell, sequence)
    outputs = []
    for step in range(sequence.shape[0]):
        output_state, cell_state = run.step(step, output_state, cell_state)
        outputs.append(output_state)
    return stack_outputs(builder, outputs, output_state), output_state, cell_state


class _QuantizedLstmBuilder:
    """Builds a quantised LSTM cell, one time step after another."""

    def __init__(self, builder: Builder, cell: QuantizedLstmCell, sequence: Value) -> None:
        self._builder, self._cell = builder, cell
        self._batch = sequence.shape[1]
        gates = {"input": cell.input, "forget": cell.forget, "cell": cell.cell, "output": cell.output}
        self._gates: Mapping[str, QuantizedGate] = {
            name: gate for name, gate in gates.items() if gate is not None
        }
        self._units = len(cell.output.inputs.values)
        self._columns = {name: index * self._units for index, name in enumerate(self._gates)}
        self._sigmoid, self._tanh3 = sigmoid16(builder), tanh16(builder, 3)
        self._tanh = tanh16(builder, cell.cell_bits)
        # Products that do not depend on the state are computed for all steps at once.
        weights = np.concatenate([gate.inputs.values for gate in self._gates.values()])
        self._inputs = _product(builder, all_rows(builder, sequence), weights, cell.input_zero_point)
        self._weights = np.concatenate([gate.recurrent.values for gate in self._gates.values()])
        self._biases = {name: builder.constant(gate.bias) for name, gate in self._gates.items()}

    def step(self, step: int, output_state: Value, cell_state: Value) -> tuple[Value, Value]:
        builder, cell = self._builder, self._cell
        recurrent = _product(builder, output_state, self._weights, cell.output_zero_point)

        def gate_sum(name: str, state: Value) -> IntegerGateSum:
            return self._sum(name, step * self._batch, recurrent, state)

        sums = {name: gate_sum(name, cell_state) for name in self._gates if name != "output"}

        def next_state(row: Expression, unit: Expression) -> Expression:
            forget = self._sigmoid(sums["forget"](row, unit))
            admit = self._sigmoid(sums["input"](row, unit)) if "input" in sums else _MAX_INT16 - forget
            admitted = shift_right(admit * self._tanh3(sums["cell"](row, unit)), 15 + cell.cell_bits)
            kept = shift_right(forget * load(cell_state, (row, unit)).to(Scalar.INT64), 15)
            state = saturate16(kept + admitted)
            if cell.cell_clip is not None:
                state = clamp(state, -cell.cell_clip, cell.cell_clip)
            return state.to(Scalar.INT16)

        following = builder.compute(cell_state.shape, next_state)
        emitted = gate_sum("output", following)

        def hidden(row: Expression, unit: Expression) -> Expression:
            seen = self._tanh(load(following, (row, unit)).to(Scalar.INT64))
            value = scaled(self._sigmoid(emitted(row, unit)) * seen, cell.hidden_multiplier)
            return clamp(value + cell.hidden_zero_point, -128, 127).to(Scalar.INT8)

        return self._project(builder.compute(cell_state.shape, hidden)), following

    def _sum(self, name: str, first_row: int, recurrent: Value, state: Value) -> IntegerGateSum:
        """Returns a gate's pre-activation with 3 integer bits; each added term saturates."""
        gate, bias = self._gates[name], self._biases[name]
        peephole = None if gate.peephole is None else self._builder.constant(gate.peephole.values)

        def plain(row: Expression, unit: Expression) -> Expression:
            column = unit + self._columns[name]
            products = load(self._inputs, (row + first_row, column)).to(Scalar.INT64)
            if gate.norm is None:
                products = products + load(bias, (unit,))
            total = saturate16(scaled(products, gate.inputs.multiplier))
            again = load(recurrent, (row, column)).to(Scalar.INT64)
            total = saturate16(total + scaled(again, gate.recurrent.multiplier))
            if gate.peephole is not None and peephole is not None:
                seen = self._peephole_term(peephole, gate.peephole_width, row, unit)
                seen = seen * load(state, (row, unit)).to(Scalar.INT64)
                total = saturate16(total + scaled(seen, gate.peephole.multiplier))
            return total

        return plain if gate.norm is None else self._normalized(plain, gate, gate.norm, bias)

    def _peephole_term(
        self, weights: Value, width: int | None, row: Expression, unit: Expression
    ) -> Expression:
        """Returns the peephole's weight for a cell state; see `QuantizedGate.peephole_width`."""
        if width is None:
            return load(weights, (unit,)).to(Scalar.INT64)
        index = row * self._units + unit
        return load(weights, (index % width,), index < self._batch * width).to(Scalar.INT64)

    def _normalized(
        self, plain: IntegerGateSum, gate: QuantizedGate, norm: ScaledWeights, bias: Value
    ) -> IntegerGateSum:
        """Applies layer normalisation; see `normalize_rows16`."""
        builder, units = self._builder, self._units
        sums = builder.compute((self._batch, units), plain)

        def row_sum(row: Expression, *, squared: bool) -> Expression:
            unit = axis(units, "r0")
            value = load(sums, (row, unit))
            return reduce(ReductionOp.SUM, (unit,), value * value if squared else value)

        means = builder.compute(
            (self._batch,), lambda row: _truncated(row_sum(row, squared=False) << NORM_BITS, units)
        )

        def variance(row: Expression) -> Expression:
            mean = load(means, (row,))
            squares = row_sum(row, squared=True) * ((1 << VARIANCE_BITS) // units)
            value = _truncated(squares - mean * mean, 1 << VARIANCE_BITS)
            return select(value < 1, int64_constant(gate.variance_guard), value)

        variances = builder.compute((self._batch,), variance)
        mantissas, exponents = (
            builder.compute(
                (self._batch,),
                lambda row, part=part: inverse_square_root(load(variances, (row,)))[part].to(Scalar.INT32),
            )
            for part in (0, 1)
        )
        weights = builder.constant(norm.values)

        def total(row: Expression, unit: Expression) -> Expression:
            centred = (load(sums, (row, unit)) << NORM_BITS) - load(means, (row,))
            normalized = fixed_point(centred, load(mantissas, (row,)), load(exponents, (row,)))
            weighted = normalized * load(weights, (unit,)).to(Scalar.INT64) + load(bias, (unit,))
            return saturate16(scaled(shift_right(weighted, NORM_BITS), norm_multiplier(norm)))

        return total

    def _project(self, hidden: Value) -> Value:
        builder, cell = self._builder, self._cell
        projection = cell.projection
        if projection is None:
            return hidden
        products = _product(builder, hidden, projection.values, cell.hidden_zero_point)
        bias = builder.constant(
            np.broadcast_to(np.asarray(cell.projection_bias, np.int64), products.shape[1:])
        )

        def body(row: Expression, unit: Expression) -> Expression:
            total = load(products, (row, unit)).to(Scalar.INT64) + load(bias, (unit,))
            value = scaled(total, projection.multiplier) + cell.output_zero_point
            return clamp(value, *cell.output_limits).to(Scalar.INT8)

        return builder.compute(products.shape, body)


def _product(builder: Builder, rows: Value, weights: Array, zero: int) -> Value:
    kind = Scalar.INT32 if _MAX_PRODUCT * weights.shape[1] < 1 << 31 else Scalar.INT64
    return builder.matrix_product(rows, builder.constant(weights), type=kind, left_zero=zero)


def _truncated(dividend: Expression, divisor: int) -> Expression:
    return apply(Op.TRUNCATE_DIVIDE, dividend, int64_constant(divisor))


class Lowered16BitLstmCell(Struct, frozen=True, kw_only=True):
    """A cell with input and output scale 1/128 and zero point 128.

    Attributes:
        weights: UINT8, (4 × units, elements + units): rows of the input, cell, forget and output
            gates.
        weights_zero: zero point of the weights.
        bias: INT32, (4 × units,).
        multiplier: from the scale of the products to 2^-12.
        rounding: the rounding of the sums.
    """

    weights: Value
    weights_zero: int
    bias: Value
    multiplier: float
    rounding: Rounding = Rounding.TWICE


def run_quantized_16bit_lstm(
    builder: Builder, cell: Lowered16BitLstmCell, source: Value, output_state: Value, cell_state: Value
) -> tuple[Value, Value]:
    """Runs one step.

    Args:
        builder: the builder of the operation.
        cell: the cell.
        source, output_state: UINT8, (batch, elements) and (batch, units).
        cell_state: INT16 with 4 integer bits, (batch, units).

    Returns:
        The next cell state and the output.
    """
    units = cell_state.shape[1]
    rows = concatenated(builder, [source, output_state], 1)
    kind = Scalar.INT32 if 2 * _MAX_PRODUCT * rows.shape[1] < 1 << 31 else Scalar.INT64
    products = builder.matrix_product(
        rows, cell.weights, type=kind, left_zero=128, right_zero=cell.weights_zero
    )
    mantissa, exponent = (constant(part, Scalar.INT32) for part in quantize_multiplier(cell.multiplier))
    sigmoid, tanh = sigmoid16(builder), tanh16(builder, 3)

    def gate(index: int, row: Expression, unit: Expression) -> Expression:
        column = unit + index * units
        total = load(products, (row, column)).to(Scalar.INT64) + load(cell.bias, (column,)).to(Scalar.INT64)
        return saturate16(requantized(saturate32(total), mantissa, exponent, cell.rounding))

    def next_state(row: Expression, unit: Expression) -> Expression:
        admitted = product16(sigmoid(gate(0, row, unit)), tanh(gate(1, row, unit)))
        kept = product16(sigmoid(gate(2, row, unit)), load(cell_state, (row, unit)).to(Scalar.INT64))
        return saturate16(shift_right(admitted, 4) + kept).to(Scalar.INT16)

    following = builder.compute(cell_state.shape, next_state)

    def output(row: Expression, unit: Expression) -> Expression:
        # This activation reads the state with 3 integer bits, since it is flat beyond them.
        doubled = saturate16(load(following, (row, unit)).to(Scalar.INT64) << 1)
        value = shift_right(product16(sigmoid(gate(3, row, unit)), tanh(doubled)), 8)
        return (clamp(value, -128, 127) + 128).to(Scalar.UINT8)

    return following, builder.compute(cell_state.shape, output)
