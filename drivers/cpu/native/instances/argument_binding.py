"""Bindings of the inputs and outputs of a step to memory."""

from collections.abc import Sequence
from typing import Final

from neurald.drivers.cpu.native.python_calls.python_call import Words
from neurald.drivers.cpu.target.executable import Executable
from neurald.drivers.cpu.target.step_sizes import StepSizes
from neurald.hal.lazy_numpy import np


class ArgumentBinding:
    """Memory for the inputs and outputs of an execution. Compared by identity.

    Args:
        executable: the step, or its sizes.
        inputs: address of each input, which has exactly its size; None if it is an array that is
            given with each call.
        outputs: address of each output; None likewise. It may be that of an input, too.

    Attributes:
        words: the binding for native code; see `python_call`.
        arrays: number of inputs and of outputs that are arrays; they are the first ones.
        key: equal for bindings to the same addresses.
    """

    __slots__ = ("arrays", "key", "words")

    def __init__(
        self,
        executable: Executable | StepSizes,
        inputs: Sequence[int | None],
        outputs: Sequence[int | None],
    ) -> None:
        self.arrays = inputs.count(None), outputs.count(None)
        ranges = [
            None if address is None else (address, address + port.size_bytes)
            for address, port in zip(
                (*inputs, *outputs), (*executable.inputs, *executable.outputs), strict=True
            )
        ]
        # An output that overlaps an input or another output is copied when the step has ended.
        places = [
            (address or 0, int(position >= len(inputs) and _overlaps(ranges, position)))
            for position, address in enumerate((*inputs, *outputs))
        ]
        self.words: Final[Words] = np.array(places, np.int64).reshape(-1)
        self.key: Final = self.arrays, self.words.tobytes()


def _overlaps(ranges: Sequence[tuple[int, int] | None], position: int) -> bool:
    """Returns True if a range of addresses overlaps another one."""
    own = ranges[position]
    others = (each for number, each in enumerate(ranges) if number != position)
    return own is not None and any(
        each is not None and each[0] < own[1] and own[0] < each[1] for each in others
    )
