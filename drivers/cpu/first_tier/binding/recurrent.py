"""Binds recurrent cells of floats, whose weights may have 8 bits: LSTM, basic cells, and SVDF.

SVDF may also be of integers.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.drivers.cpu.first_tier.binding.convolution import factors
from neurald.drivers.cpu.first_tier.binding.convolution.factors import SIGNED_WEIGHTS, source
from neurald.drivers.cpu.first_tier.binding.convolution.products import (
    MAX_WEIGHT,
    Batches,
    BoundEpilogue,
    products,
    width_of,
)
from neurald.drivers.cpu.first_tier.binding.convolution.requantization import (
    requantization,
    single_requantization,
)
from neurald.drivers.cpu.first_tier.binding.convolution.windows import rows_table
from neurald.drivers.cpu.first_tier.binding.movement.moving_calls import moving_call
from neurald.drivers.cpu.first_tier.binding.scope import (
    ELEMENTS_PER_NS,
    FLOAT,
    MAX_INT32,
    SIGNED,
    UNLIMITED,
    Bind,
    BindingScope,
    bits,
    count_of,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.drivers.cpu.first_tier.product_kind import Products
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.arithmetic.quantized import quantized_limits, real
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.recurrent.bidirectional import is_merged
from neurald.hal.operations.recurrent.lstm import GATES, LSTM_ACTIVATIONS, is_coupled
from neurald.hal.operations.recurrent.recurrent import (
    BASIC_ACTIVATIONS,
    CellActivation,
    cell_activation,
    is_given,
)

#: Steps of a sequence, each of which has calls of its own.
_MAX_STEPS: Final = 2048
#: The gates that see the cell state.
_SEEING: Final = ("input", "forget", "output")
#: The kernel of each activation, and the limits of those that clamp.
_ACTIVATIONS: Final[Mapping[CellActivation, tuple[str, float, float]]] = {
    CellActivation.NONE: ("clamped", -math.inf, math.inf),
    CellActivation.RELU: ("clamped", 0.0, math.inf),
    CellActivation.RELU1: ("clamped", -1.0, 1.0),
    CellActivation.RELU6: ("clamped", 0.0, 6.0),
    CellActivation.TANH: ("tanh", 0.0, 0.0),
    CellActivation.SIGMOID: ("logistic", 0.0, 0.0),
}


class _Sequence(Struct, frozen=True, kw_only=True):
    """The sequence that a cell runs over, and the places of its outputs.

    Attributes:
        prefix: of the names of its parameters and states.
        given: name of the input.
        steps, batch: number of steps, and of rows of each.
        step, row: rows from one step to the next, and from one row of a step to the next.
        output: the operand of its outputs.
        width, first: elements of a row of outputs, and the first one that belongs to this cell.
        is_backward: whether it starts with the last step.
    """

    prefix: str
    given: str
    steps: int
    batch: int
    step: int
    row: int
    output: int
    width: int
    first: int = 0
    is_backward: bool = False

    @property
    def rows(self) -> int:
        """The number of rows of all steps."""
        return self.steps * self.batch

    def numbers(self) -> range:
        """Returns the numbers of the steps in the order in which they run."""
        return range(self.steps)[:: -1 if self.is_backward else 1]

    def places(self, number: int, width: int) -> tuple[int, ...]:
        """Returns where a step begins among products and outputs, each with the distance of its rows.

        Args:
            number: of the step.
            width: elements of a row of products.
        """
        begin = number * self.step
        return (
            begin * width,
            self.row * width,
            begin * self.width + self.first,
            self.row * self.width,
        )


#: Binds a cell that runs over a sequence.
_BindCell = Callable[[BindingScope, Call, _Sequence], list[BoundCall]]


def _over_sequence(weights: str, bind: _BindCell) -> Bind:
    """Returns what binds a cell over a sequence.

    Args:
        weights: name of weights of the state, with one column for each output.
        bind: binds the cell.
    """

    def bound(scope: BindingScope, call: Call) -> list[BoundCall]:
        output, width = call.index("output"), call.shape(weights)[1]
        return bind(scope, call, _sequence(call, "", "input", output, width))

    return bound


def _in_both_directions(weights: str, bind: _BindCell, auxiliary: str) -> Bind:
    """Returns what binds two cells, the second one from the last step on.

    Args:
        weights: name of weights of the state, after the prefix of the cell.
        bind: binds a cell.
        auxiliary: name of weights of the auxiliary input, after the prefix.
    """

    def bound(scope: BindingScope, call: Call) -> list[BoundCall]:
        is_parallel = is_given(call, "aux_input")
        if is_parallel and is_given(call, f"fw_{auxiliary}"):
            raise NotBound("weights of an auxiliary input have no kernel")
        forward, backward = (call.shape(f"{prefix}{weights}")[1] for prefix in ("fw_", "bw_"))
        output = call.index("fw_output")
        given = "aux_input" if is_parallel else "input"
        if is_merged(call):
            width = forward + backward
            cells = (
                _sequence(call, "fw_", "input", output, width),
                _sequence(call, "bw_", given, output, width, forward, is_backward=True),
            )
        else:
            cells = (
                _sequence(call, "fw_", "input", output, forward),
                _sequence(call, "bw_", given, call.index("bw_output"), backward, is_backward=True),
            )
        return [each for cell in cells for each in bind(scope, call, cell)]

    return bound


def _sequence(
    call: Call, prefix: str, given: str, output: int, width: int, first: int = 0, *, is_backward: bool = False
) -> _Sequence:
    """Returns the sequence of a cell; see `_Sequence`."""
    outer, inner, _ = call.shape(given)
    if call.scalar("time_major"):
        steps, batch, step, row = outer, inner, inner, 1
    else:
        steps, batch, step, row = inner, outer, 1, inner
    return _Sequence(
        prefix=prefix,
        given=given,
        steps=steps,
        batch=batch,
        step=step,
        row=row,
        output=output,
        width=width,
        first=first,
        is_backward=is_backward,
    )


def _one_step(call: Call, width: int) -> _Sequence:
    """Returns the sequence of a cell that runs once."""
    batch, _ = call.shape("input")
    output = call.index("output")
    return _Sequence(
        prefix="", given="input", steps=1, batch=batch, step=batch, row=1, output=output, width=width
    )


def bind_lstm_step(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds LSTM, which is one step. The scratch buffer is an unused output that is filled with zeros."""
    units, outputs = call.shape("recurrent_to_output_weights")
    calls = _bind_lstm(scope, call, _one_step(call, outputs))
    batch, width = call.shape("input")[0], (len(GATES) - is_coupled(call)) * units
    zeros = scope.zeros(np.uint32, width)
    return [
        *calls,
        moving_call(call.index("scratch_buffer"), zeros, 4, (batch, width), (width, 1), (0, 1)),
    ]


def bind_rnn_step(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds RNN, which is one step."""
    return _bind_rnn(scope, call, _one_step(call, call.shape("weights")[0]))


def _bind_lstm(scope: BindingScope, call: Call, cell: _Sequence) -> list[BoundCall]:
    """Binds an LSTM cell."""
    prefix = cell.prefix
    if cell_activation(call, LSTM_ACTIVATIONS) is not CellActivation.TANH:
        raise NotBound("the activation has no kernel")
    is_normalized = _has(call, f"{prefix}{_norm('output')}")
    gates: list[str | None] = [*GATES]
    if is_coupled(call, prefix):
        gates[0] = None
    parts = _Products.of(
        scope,
        call,
        cell,
        weights=[gate and f"{prefix}input_to_{gate}_weights" for gate in gates],
        recurrent=[gate and f"{prefix}recurrent_to_{gate}_weights" for gate in gates],
        # They are added to normalised sums.
        biases=[None if is_normalized else gate and f"{prefix}{_bias(gate)}" for gate in gates],
        states=(f"{prefix}output_state_in", f"{prefix}cell_state_in"),
    )
    units = parts.units
    constants = [_rows(scope, call, units, [f"{prefix}cell_to_{gate}_weights" for gate in _SEEING])]
    if is_normalized:
        norms = [gate and f"{prefix}{_norm(gate)}" for gate in gates]
        added = [gate and f"{prefix}{_bias(gate)}" for gate in gates]
        constants += [_rows(scope, call, units, norms), _rows(scope, call, units, added)]
    words = _words(call, prefix)
    project = _projection(scope, call, cell, units) if _has(call, f"{prefix}projection_weights") else None
    calls, of_inputs = parts.of_inputs(scope, call)
    state: int | BoundTemporary = call.index(f"{prefix}output_state_in")
    before: int | BoundTemporary = call.index(f"{prefix}cell_state_in")
    for number in cell.numbers():
        more, sums = parts.of_state(scope, call, state)
        is_last = number == cell.numbers()[-1]
        state, after = (
            _state(call, f"{prefix}{name}_state_out", 4 * cell.batch * width, is_last=is_last)
            for name, width in (("output", parts.outputs), ("cell", units))
        )
        places = cell.places(number, parts.width)
        arguments: tuple[int | BoundTemporary, ...] = (state, after, cell.output)
        if project is not None:
            hidden, unused = (BoundTemporary(size_bytes=4 * cell.batch * units) for _ in range(2))
            places, arguments = (*places[:2], 0, units), (hidden, after, unused)
        step = BoundCall(
            function=f"first_{'normalized_' if is_normalized else ''}lstm_step",
            arguments=(*arguments, of_inputs, sums, before, *constants),
            words=(units, *places, *words),
            work_items=cell.batch,
            cost_ns=cell.batch * parts.width * 4 / ELEMENTS_PER_NS,
        )
        calls += [*more, step]
        if project is not None:
            calls += project(arguments[0], state, number)
        before = after
    return calls


#: Projects outputs to the next state, and to the outputs of a step.
_Project = Callable[["int | BoundTemporary", "int | BoundTemporary", int], list[BoundCall]]


def _projection(scope: BindingScope, call: Call, cell: _Sequence, units: int) -> _Project:
    """Returns what binds the projection of a step.

    Args:
        scope: of the operation.
        call: the operation.
        cell: what the cell runs over.
        units: number of units of the cell.
    """
    prefix, batch = cell.prefix, cell.batch
    weights, bias = [f"{prefix}projection_weights"], f"{prefix}projection_bias"
    outputs, kind = call.shape(weights[0])[0], _kind(call, weights, units)
    biases = [bias if _has(call, bias) else None]
    packed = _packed(scope, call, kind, weights, batch)
    clip = float(call.scalar("projection_clip")) or math.inf
    epilogue = _epilogue(scope, call, kind, weights, biases, batch, (bits(-clip), bits(clip)))

    def project(hidden: int | BoundTemporary, state: int | BoundTemporary, number: int) -> list[BoundCall]:
        given = source(
            call,
            kind,
            units,
            # It has as many elements.
            name=f"{prefix}cell_state_in",
            row_length=units,
            asymmetric=_is_asymmetric(call, kind),
            moved=hidden,
        )
        calls = products(
            scope,
            kind,
            (batch, outputs, 1, units),
            given,
            packed,
            epilogue,
            rows_table(scope, batch, given.padded),
            Batches.single(outputs),
            state,
        )
        *_, begin, step = cell.places(number, 0)
        copy = moving_call(cell.output, state, 4, (batch, outputs), (step, 1), (outputs, 1), begin)
        return [*calls, copy]

    return project


def _bind_rnn(scope: BindingScope, call: Call, cell: _Sequence) -> list[BoundCall]:
    """Binds a basic cell."""
    prefix = cell.prefix
    kernel, low, high = _ACTIVATIONS[cell_activation(call, BASIC_ACTIVATIONS)]
    parts = _Products.of(
        scope,
        call,
        cell,
        weights=[f"{prefix}weights"],
        recurrent=[f"{prefix}recurrent_weights"],
        biases=[f"{prefix}bias"],
        states=(f"{prefix}hidden_state_in",),
    )
    calls, of_inputs = parts.of_inputs(scope, call)
    state: int | BoundTemporary = call.index(f"{prefix}hidden_state_in")
    for number in cell.numbers():
        more, sums = parts.of_state(scope, call, state)
        is_last = number == cell.numbers()[-1]
        state = _state(call, f"{prefix}hidden_state_out", 4 * cell.batch * parts.units, is_last=is_last)
        step = BoundCall(
            function=f"first_rnn_step_{kernel}",
            arguments=(state, cell.output, of_inputs, sums),
            words=(parts.units, *cell.places(number, parts.width), bits(low), bits(high)),
            work_items=cell.batch,
            cost_ns=cell.batch * parts.width * 2 / ELEMENTS_PER_NS,
        )
        calls += [*more, step]
    return calls


def bind_svdf(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds SVDF."""
    if call.operand("input").type is SIGNED:
        return _bind_integer_svdf(scope, call)
    kernel, low, high = _ACTIVATIONS[cell_activation(call, BASIC_ACTIVATIONS)]
    (batch, size), (filters, _) = call.shape("input"), call.shape("weights_time")
    rank = call.scalar("rank")
    if kernel != "clamped" or not batch or not size or not filters:
        raise NotBound("the activation has no kernel, or there are no elements")
    if any(call.operand(name).type is not FLOAT for name in ("input", "state_in", "output")):
        raise NotBound("the types have no kernel")
    kind = _kind(call, ["weights_feature"], size)
    given = source(
        call, kind, size, row_length=size, repeats=1, asymmetric=_is_asymmetric(call, kind), name="input"
    )
    features = BoundTemporary(size_bytes=4 * batch * filters)
    calls = products(
        scope,
        kind,
        (batch, filters, 1, size),
        given,
        _packed(scope, call, kind, ["weights_feature"], batch),
        _epilogue(scope, call, kind, ["weights_feature"], (None,), batch),
        rows_table(scope, batch, given.padded),
        Batches.single(filters),
        features,
    )
    units = filters // rank
    times = _real(scope, call, "weights_time")
    biases = (
        np.asarray(scope.constant(call, "bias"), np.float32)
        if is_given(call, "bias")
        else np.zeros(units, np.float32)
    )
    constants = BoundConstant.of(times), BoundConstant.of(biases)
    return [*calls, _svdf_step(call, "first_svdf_step", features, constants, (bits(low), bits(high)))]


def _svdf_step(
    call: Call,
    function: str,
    features: BoundTemporary,
    constants: tuple[BoundConstant, BoundConstant],
    words: tuple[int, ...],
) -> BoundCall:
    """Returns the call that stores features and weights the memory.

    Args:
        call: the operation.
        function: name of the kernel.
        features: one for each filter.
        constants: weights of the places of memories, and biases.
        words: what becomes of sums.
    """
    (filters, length), rank, batch = call.shape("weights_time"), call.scalar("rank"), call.shape("input")[0]
    units = filters // rank
    places = call.index("state_out"), call.index("output")
    return BoundCall(
        function=function,
        arguments=(*places, features, call.index("state_in"), *constants),
        words=(units, rank, length, *words),
        work_items=batch * units,
        cost_ns=batch * filters * length / ELEMENTS_PER_NS,
    )


def _bind_integer_svdf(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds SVDF of integers: features of 16 bits, of which there is a memory."""
    from neurald.hal.operations.tflite.recurrent.svdf import factor

    (batch, size), (filters, _) = call.shape("input"), call.shape("weights_time")
    if not batch or not size or not filters or size * MAX_WEIGHT * MAX_WEIGHT > MAX_INT32:
        raise NotBound("there are no elements, or sums may exceed 32 bits")
    given = source(call, Products.INT, size)
    width = width_of(scope, batch, filters)
    padded = -(-filters // width) * width
    low, high = quantized_limits(call.operand("state_in"))
    mantissa, exponent = factor(call, "input", "weights_feature", "state_in")
    mantissas, parameters = requantization(np.array([math.ldexp(mantissa, exponent - 31)]))
    sums = np.zeros((2, padded), np.int32)
    sums[1] = mantissas
    scales = np.repeat(parameters, padded, axis=1)
    features = BoundTemporary(size_bytes=2 * batch * filters)
    weights = scope.constant(call, "weights_feature").reshape(1, filters, 1, size)
    calls = products(
        scope,
        Products.SHORT,
        (batch, filters, 1, size),
        given,
        factors.packed(Products.SHORT, weights, call, width),
        BoundEpilogue(
            constants=(BoundConstant.of(sums), BoundConstant.of(scales)), words=(0, low, high, padded)
        ),
        rows_table(scope, batch, given.padded),
        Batches.single(filters),
        features,
    )
    units, output = filters // call.scalar("rank"), call.operand("output")
    biases = scope.constant(call, "bias") if is_given(call, "bias") else np.zeros(units, np.int32)
    times = BoundConstant.of(np.ascontiguousarray(scope.constant(call, "weights_time"), np.int16))
    requantized = single_requantization(*factor(call, "state_in", "weights_time", "output"))
    words = (*requantized, output.zero_point, *quantized_limits(output))
    constants = times, BoundConstant.of(biases)
    return [*calls, _svdf_step(call, "first_svdf_step_short", features, constants, words)]


class _Products(Struct, frozen=True, kw_only=True):
    """The products of a cell.

    Attributes:
        cell: what it runs over.
        kind: of the products.
        units, size, outputs: of the cell, of an input, and of the state that is multiplied.
        width: elements of a row of sums, those of all gates.
        inputs, recurrent: the weights in panels, and what becomes of the sums.
        state: name of the state that is multiplied.
    """

    cell: _Sequence
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
        cell: _Sequence,
        *,
        weights: Sequence[str | None],
        recurrent: Sequence[str | None],
        biases: Sequence[str | None],
        states: Sequence[str],
    ) -> "_Products":
        """Returns the products.

        Args:
            scope: of the operation.
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
        kind = _kind(call, present, max(outputs, size))
        return cls(
            cell=cell,
            kind=kind,
            units=units,
            size=size,
            outputs=outputs,
            width=len(weights) * units,
            inputs=(
                _packed(scope, call, kind, weights, cell.rows),
                _epilogue(scope, call, kind, weights, biases, cell.rows),
            ),
            recurrent=(
                _packed(scope, call, kind, recurrent, cell.batch),
                _epilogue(scope, call, kind, recurrent, (None,) * len(recurrent), cell.batch),
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
            asymmetric=_is_asymmetric(call, self.kind),
            moved=moved,
        )
        sums = BoundTemporary(size_bytes=4 * rows * self.width)
        calls = products(
            scope,
            self.kind,
            (rows, self.width, 1, size),
            given,
            *constants,
            rows_table(scope, rows, given.padded),
            Batches.single(self.width),
            sums,
        )
        return calls, sums


def _state(call: Call, name: str, size_bytes: int, *, is_last: bool) -> int | BoundTemporary:
    """Returns where a step writes a state: to the output, if that is wanted, in the last step."""
    if is_last and name in call.binding.outputs:
        return call.index(name)
    return BoundTemporary(size_bytes=size_bytes)


def _kind(call: Call, weights: Sequence[str], depth: int) -> Products:
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


def _is_asymmetric(call: Call, kind: Products) -> bool:
    return kind is Products.HYBRID and bool(call.scalar("asymmetric"))


def _packed(
    scope: BindingScope, call: Call, kind: Products, names: Sequence[str | None], rows: int
) -> BoundConstant:
    """Returns the weights of all gates in panels; those of a gate without are 0."""
    parts = [None if name is None else scope.constant(call, name) for name in names]
    (like,) = {each.shape: each for each in parts if each is not None}.values()
    whole = np.concatenate([np.zeros_like(like) if each is None else each for each in parts])
    return factors.packed(kind, whole[np.newaxis, :, np.newaxis], call, width_of(scope, rows, len(whole)))


def _epilogue(
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


def _bias(gate: str) -> str:
    return f"{gate}_gate_bias"


def _norm(gate: str) -> str:
    return f"{gate}_layer_norm_weights"


def _has(call: Call, name: str) -> bool:
    """Returns True if an input exists and is given."""
    return name in call.binding.inputs and is_given(call, name)


def _rows(scope: BindingScope, call: Call, units: int, names: Sequence[str | None]) -> BoundConstant:
    """Returns parameters of units, a row for each name; 0 for those that are omitted."""
    found = np.zeros((len(names), units), np.float32)
    for row, name in zip(found, names, strict=True):
        if name is not None and _has(call, name):
            row[:] = _real(scope, call, name)
    return BoundConstant.of(found)


def _real(scope: BindingScope, call: Call, name: str) -> Array:
    """Returns a constant as floats, which may be stored as integers."""
    if count_of(call, name) == 0:
        raise NotBound("there are no elements")
    scope.constant(call, name)
    return np.asarray(real(call, name), np.float32)


def _words(call: Call, prefix: str) -> tuple[int, ...]:
    clip = float(call.scalar("cell_clip")) or math.inf
    own = 0.0 if is_coupled(call, prefix) else 1.0
    return bits(own), bits(1.0 - own), bits(-clip), bits(clip)


_bind_lstm_sequence: Final = _over_sequence("recurrent_to_output_weights", _bind_lstm)
_bind_both_lstm: Final = _in_both_directions(
    "recurrent_to_output_weights", _bind_lstm, "aux_input_to_output_weights"
)
_bind_rnn_sequence: Final = _over_sequence("recurrent_weights", _bind_rnn)
_bind_both_rnn: Final = _in_both_directions("recurrent_weights", _bind_rnn, "aux_weights")

BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM: _bind_lstm_sequence,
    OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM: _bind_lstm_sequence,
    OperationType.BIDIRECTIONAL_SEQUENCE_LSTM: _bind_both_lstm,
    OperationType.TFLITE_BIDIRECTIONAL_SEQUENCE_LSTM: _bind_both_lstm,
    OperationType.LSTM: bind_lstm_step,
    OperationType.TFLITE_LSTM: bind_lstm_step,
    OperationType.RNN: bind_rnn_step,
    OperationType.TFLITE_RNN: bind_rnn_step,
    OperationType.UNIDIRECTIONAL_SEQUENCE_RNN: _bind_rnn_sequence,
    OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_RNN: _bind_rnn_sequence,
    OperationType.BIDIRECTIONAL_SEQUENCE_RNN: _bind_both_rnn,
    OperationType.TFLITE_BIDIRECTIONAL_SEQUENCE_RNN: _bind_both_rnn,
    OperationType.SVDF: bind_svdf,
    OperationType.TFLITE_SVDF: bind_svdf,
}
