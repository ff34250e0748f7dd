"""Lowers LSTM, and provides the float cell of all LSTM operations.

See `neurald.hal.operations.recurrent.lstm`.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, axis, index, load, reduce, select
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import real
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.drivers.compiler.lowering.recurrent.recurrent import (
    activate_cell,
    all_rows,
    clipped,
    linear,
    stack_outputs,
    to_float32,
    to_output,
)
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.recurrent.lstm import GATES, LSTM_ACTIVATIONS, NORM_EPSILON, is_coupled
from neurald.hal.operations.recurrent.recurrent import cell_activation, is_given, time_steps

#: Pre-activation of a gate at (row, unit).
GateSum = Callable[[Expression, Expression], Expression]
#: An element of a vector operand as FLOAT32.
VectorElement = Callable[[Expression], Expression]
#: Product of a gate's weights at (row, unit).
GateProduct = Callable[[str, Expression, Expression], Expression]


class LstmCellBuilder:
    """Builds a float LSTM cell, one time step after another. All values are FLOAT32.

    Args:
        call: the operation.
        builder: the builder of the operation.
        sequence: (time, batch, elements).
        prefix: the prefix of the names of the cell's operands.
        auxiliary: the cell's auxiliary input, (time, batch, elements), if there is one.
    """

    def __init__(
        self,
        call: Call,
        builder: Builder,
        sequence: Value,
        *,
        prefix: str = "",
        auxiliary: Value | None = None,
    ) -> None:
        self._call, self._builder, self._prefix = call, builder, prefix
        self._gates = GATES[1:] if is_coupled(call, prefix) else GATES
        self._steps, self._batch, _ = sequence.shape
        self._units = call.shape(f"{prefix}input_to_output_weights")[0]
        self._activation = cell_activation(call, LSTM_ACTIVATIONS)
        self._cell_clip, self._projection_clip = call.scalar("cell_clip"), call.scalar("projection_clip")
        # Products that do not depend on the state are computed for all steps at once.
        self._products = [self._product("input_to", sequence)]
        if auxiliary is not None and is_given(call, f"{prefix}aux_input_to_forget_weights"):
            self._products.append(self._product("aux_input_to", auxiliary))

    def run(self, *, backward: bool = False) -> tuple[Value, Value, Value]:
        """Returns the outputs (time, batch, outputs), and the last output and cell states.

        Args:
            backward: True starts with the last step.
        """
        output, state = (
            to_float32(self._builder, self._builder.value(self._call, f"{self._prefix}{name}_state_in"))
            for name in ("output", "cell")
        )
        outputs = [output] * self._steps
        for step in time_steps(self._steps, backward=backward):
            output, state = self._step(step, output, state)
            outputs[step] = output
        return stack_outputs(self._builder, outputs, output), output, state

    def _names(self, kind: str) -> list[str]:
        return [f"{self._prefix}{kind}_{gate}_weights" for gate in self._gates]

    def _product(self, kind: str, sequence: Value) -> Value:
        return linear(self._call, self._builder, self._names(kind), all_rows(self._builder, sequence))

    def _vector(self, name: str) -> VectorElement | None:
        full = f"{self._prefix}{name}"
        if not is_given(self._call, full):
            return None
        value, operand = self._builder.value(self._call, full), self._call.operand(full)
        return lambda unit: real(load(value, (unit,)), operand)

    def _step(self, step: int, output: Value, state: Value) -> tuple[Value, Value]:
        """Returns the next output and cell states."""
        builder = self._builder
        recurrent = linear(self._call, builder, self._names("recurrent_to"), output)

        def product(gate: str, row: Expression, unit: Expression) -> Expression:
            column = unit + self._gates.index(gate) * self._units
            total = load(recurrent, (row, column))
            for each in self._products:
                total = total + load(each, (row + step * self._batch, column))
            return total

        has_peephole = is_given(self._call, f"{self._prefix}cell_to_output_weights")
        sums = self._sums(
            [gate for gate in self._gates if gate != "output" or not has_peephole], product, state
        )

        def next_state(row: Expression, unit: Expression) -> Expression:
            forget = apply(Op.LOGISTIC, sums["forget"](row, unit))
            admit = apply(Op.LOGISTIC, sums["input"](row, unit)) if "input" in sums else 1.0 - forget
            candidate = activate_cell(sums["cell"](row, unit), self._activation)
            return clipped(forget * load(state, (row, unit)) + admit * candidate, self._cell_clip)

        following = builder.compute(state.shape, next_state)
        emitted = (self._sums(["output"], product, following) if has_peephole else sums)["output"]

        def hidden(row: Expression, unit: Expression) -> Expression:
            emit = apply(Op.LOGISTIC, emitted(row, unit))
            return emit * activate_cell(load(following, (row, unit)), self._activation)

        return self._project(builder.compute(state.shape, hidden)), following

    def _sums(self, gates: Sequence[str], product: GateProduct, state: Value) -> Mapping[str, GateSum]:
        """Returns the pre-activations of gates that read this cell state."""
        sums = {gate: self._with_peephole(gate, product, state) for gate in gates}
        norms = {gate: norm for gate in gates if (norm := self._vector(f"{gate}_layer_norm_weights"))}
        return {
            gate: self._biased(gate, total)
            for gate, total in (self._normalized(sums, norms) if norms else sums).items()
        }

    def _with_peephole(self, gate: str, product: GateProduct, state: Value) -> GateSum:
        peephole = self._vector(f"cell_to_{gate}_weights")

        def total(row: Expression, unit: Expression) -> Expression:
            value = product(gate, row, unit)
            return value if peephole is None else value + peephole(unit) * load(state, (row, unit))

        return total

    def _biased(self, gate: str, total: GateSum) -> GateSum:
        bias = self._vector(f"{gate}_gate_bias")
        return total if bias is None else lambda row, unit: total(row, unit) + bias(unit)

    def _normalized(
        self, sums: Mapping[str, GateSum], norms: Mapping[str, VectorElement]
    ) -> Mapping[str, GateSum]:
        """Returns the layer-normalised, weighted pre-activations of all gates."""
        builder, units = self._builder, self._units

        def of_any(row: Expression, which: Expression, unit: Expression) -> Expression:
            first, *others = (total(row, unit) for total in sums.values())
            for number, other in enumerate(others, start=1):
                first = select(which.equals(number), other, first)
            return first

        values = builder.compute((self._batch, len(sums), units), of_any)

        def over_row(body: Callable[..., Expression]) -> Value:
            def mean(row: Expression, which: Expression) -> Expression:
                unit = axis(units, "r0")
                return reduce(ReductionOp.SUM, (unit,), body(row, which, unit)) / float(units)

            return builder.compute((self._batch, len(sums)), mean)

        means = over_row(lambda *at: load(values, at))

        def centred(row: Expression, which: Expression, unit: Expression) -> Expression:
            return load(values, (row, which, unit)) - load(means, (row, which))

        variances = over_row(lambda *at: centred(*at) * centred(*at))

        def normalized(which: Expression, norm: VectorElement) -> GateSum:
            def total(row: Expression, unit: Expression) -> Expression:
                deviation = apply(Op.SQRT, load(variances, (row, which)) + NORM_EPSILON)
                return norm(unit) * (centred(row, which, unit) / deviation)

            return total

        return {gate: normalized(index(number), norms[gate]) for number, gate in enumerate(sums)}

    def _project(self, hidden: Value) -> Value:
        if not is_given(self._call, f"{self._prefix}projection_weights"):
            return hidden
        products = linear(self._call, self._builder, [f"{self._prefix}projection_weights"], hidden)
        bias = self._vector("projection_bias")

        def body(row: Expression, unit: Expression) -> Expression:
            value = load(products, (row, unit))
            if bias is not None:
                value = value + bias(unit)
            return clipped(value, self._projection_clip)

        return self._builder.compute(products.shape, body)


def lower_step(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers one step. The scratch buffer is an unused output, filled with zeros."""
    source = to_float32(builder, builder.value(call, "input"))
    cell = LstmCellBuilder(call, builder, builder.reshape(source, (1, *source.shape)))
    _, output, state = cell.run()
    kind = Scalar.of(call.operand("output").type.dtype)
    units, _ = call.shape("input_to_output_weights")
    width = units * (3 if is_coupled(call) else 4)
    scratch = builder.constant(np.zeros((source.shape[0], width), kind.dtype))
    result = to_output(builder, call, "output", output)
    return scratch, result, to_output(builder, call, "cell_state_out", state), result


LOWERINGS: Lowerings = {OperationType.LSTM: lower_step}
