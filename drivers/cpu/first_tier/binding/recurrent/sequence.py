"""Sequences over which recurrent cells run, in one direction or in both."""

from collections.abc import Callable

from msgspec import Struct

from neurald.drivers.cpu.first_tier.binding.scope import (
    Bind,
    BindingScope,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundTemporary, NotBound
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.recurrent.bidirectional import is_merged
from neurald.hal.operations.recurrent.recurrent import (
    is_given,
)


class CellSequence(Struct, frozen=True, kw_only=True):
    """The sequence that a cell runs over, and the places of its outputs.

    Attributes:
        prefix: the prefix of the names of its parameters and states.
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
        """Returns a step's begin among products and outputs, each with the distance of its rows.

        Args:
            number: the number of the step.
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
BindCell = Callable[[BindingScope, Call, CellSequence], list[BoundCall]]


def over_sequence(weights: str, bind: BindCell) -> Bind:
    """Returns what binds a cell over a sequence.

    Args:
        weights: name of weights of the state, with one column for each output.
        bind: binds the cell.
    """

    def bound(scope: BindingScope, call: Call) -> list[BoundCall]:
        output, width = call.index("output"), call.shape(weights)[1]
        return bind(scope, call, _sequence(call, "", "input", output, width))

    return bound


def in_both_directions(weights: str, bind: BindCell, auxiliary: str) -> Bind:
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
) -> CellSequence:
    """Returns the sequence of a cell; see `CellSequence`."""
    outer, inner, _ = call.shape(given)
    if call.scalar("time_major"):
        steps, batch, step, row = outer, inner, inner, 1
    else:
        steps, batch, step, row = inner, outer, 1, inner
    return CellSequence(
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


def one_step(call: Call, width: int) -> CellSequence:
    """Returns the sequence of a cell that runs once."""
    batch, _ = call.shape("input")
    output = call.index("output")
    return CellSequence(
        prefix="", given="input", steps=1, batch=batch, step=batch, row=1, output=output, width=width
    )


def next_state(call: Call, name: str, size_bytes: int, *, is_last: bool) -> int | BoundTemporary:
    """Returns where a step writes a state: to the output, if that is wanted, in the last step."""
    if is_last and name in call.binding.outputs:
        return call.index(name)
    return BoundTemporary(size_bytes=size_bytes)
