"""Moves the arguments of a request to other memory during its execution, on both sides of a socket.

A client copies data that a daemon cannot map to shared memory. A daemon in turn gives its device
private copies of shared arguments: the client can still write to the shared memory while a kernel
runs, and a kernel that checks an index and then uses it reads it twice. With a copy, the checked
value is the used one. So every argument in memory that a client can write is copied, regardless of
type and size: only the kernel knows which values determine addresses (sorting does so with floats),
and a copy costs a small part of a call.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from neurald.hal.device import OutputShape
from neurald.hal.errors import BadData
from neurald.hal.memory.alignment import ALIGNMENT, align
from neurald.hal.memory.pool import Memory
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.model.types import OperandType
from neurald.hal.records import replace

#: A copy: target bytes and source bytes.
ByteCopy = tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]


class Staged(Struct, frozen=True, kw_only=True):
    """A request after `stage` moved its arguments.

    Attributes:
        request: the request to run instead of the original.
        arenas: the pools of `request` that hold moved arguments.
        input_copies: for each moved input, its bytes in an arena and the original ones. They have
            already been copied; another execution needs to copy them again.
        results: for each output, its original location and its bytes in an arena; None if it was
            not moved.
    """

    request: Request
    arenas: tuple[Memory, ...]
    input_copies: tuple[ByteCopy, ...]
    results: tuple[ByteCopy | None, ...]

    def write_back(self, types: Sequence[OperandType], shapes: Sequence[OutputShape]) -> None:
        """Copies moved outputs to their original locations, limited to their actual sizes.

        Args:
            types: the types of all outputs.
            shapes: the shapes of all outputs; all are sufficient.
        """
        copy(self.output_copies(types, shapes))

    def output_copies(self, types: Sequence[OperandType], shapes: Sequence[OutputShape]) -> list[ByteCopy]:
        """Returns the copies that `write_back` makes."""
        copies = []
        for kind, original_and_copy, shape in zip(types, self.results, shapes, strict=True):
            if original_and_copy is not None:
                target, source = original_and_copy
                length = shape.size_bytes(kind)
                copies.append((target[:length], source[:length]))
        return copies


def stage(
    request: Request,
    *,
    is_passthrough: Callable[[Memory], bool],
    allocate: Callable[[int], Memory],
    separate_output_arena: bool = False,
) -> Staged:
    """Moves arguments to arenas.

    Copies inputs, and reserves memory for outputs, aligned to `ALIGNMENT`.

    Args:
        request: any request; unused pools are dropped from the new one.
        is_passthrough: returns True if arguments in that memory are not moved.
        allocate: creates an arena of at least that many bytes.
        separate_output_arena: use separate arenas for inputs and outputs.

    Raises:
        BadData: an argument exceeds its pool, or an output is in read-only memory.
    """
    kept: list[Memory] = []
    numbers: dict[int, int] = {}
    moved: dict[bool, list[tuple[int, Memory]]] = {}
    arguments = [*request.inputs, *request.outputs]
    for position, argument in enumerate(arguments):
        if argument.pool is None:
            continue
        is_output = position >= len(request.inputs)
        if not 0 <= argument.pool < len(request.pools):
            raise BadData(f"pool {argument.pool}; the request has {len(request.pools)}")
        pool = request.pools[argument.pool]
        if is_output and pool.readonly:
            raise BadData(
                f"output {position - len(request.inputs)}: its memory is read-only; an output needs memory that can be written"
            )
        if not is_passthrough(pool):
            moved.setdefault(is_output and separate_output_arena, []).append((position, pool))
            continue
        if argument.pool not in numbers:
            numbers[argument.pool] = len(kept)
            kept.append(pool)
        if numbers[argument.pool] != argument.pool:
            arguments[position] = replace(argument, pool=numbers[argument.pool])
    arenas: list[Memory] = []
    input_copies: list[ByteCopy] = []
    results: list[ByteCopy | None] = [None] * len(request.outputs)
    for group in moved.values():
        arena = allocate(max(ALIGNMENT, sum(align(arguments[position].length) for position, _ in group)))
        offset = 0
        for position, pool in group:
            argument = arguments[position]
            original = np.asarray(pool.view(argument.offset, argument.length))
            copied = np.asarray(arena.view(offset, argument.length))
            if position < len(request.inputs):
                input_copies.append((copied, original))
            else:
                results[position - len(request.inputs)] = original, copied
            arguments[position] = replace(argument, pool=len(kept) + len(arenas), offset=offset, padding=0)
            offset += align(argument.length)
        arenas.append(arena)
    staged = Staged(
        request=Request(
            inputs=tuple(arguments[: len(request.inputs)]),
            outputs=tuple(arguments[len(request.inputs) :]),
            pools=(*kept, *arenas),
        ),
        arenas=tuple(arenas),
        input_copies=tuple(input_copies),
        results=tuple(results),
    )
    copy(staged.input_copies)
    return staged


def output_types(model: Model) -> tuple[OperandType, ...]:
    """Returns the operand types of a model's outputs, for `Staged.write_back`."""
    return tuple(model.main.operands[index].type for index in model.main.outputs)


class ArenaPool:
    """A pool of reusable arenas: touching fresh pages costs more than the copy. Thread-safe.

    Args:
        allocate: creates an arena of at least that many bytes.
        max_kept: how many idle arenas are kept.
        max_kept_bytes: how large an arena may be to be kept.
    """

    def __init__(self, allocate: Callable[[int], Memory], *, max_kept: int, max_kept_bytes: int) -> None:
        self._allocate = allocate
        self._max_kept = max_kept
        self._max_kept_bytes = max_kept_bytes
        self._free: list[Memory] = []

    def take(self, size_bytes: int) -> Memory:
        """Returns an arena for exclusive use until it is given back."""
        try:
            arena = self._free.pop()
        except IndexError:
            return self._allocate(size_bytes)
        return arena if arena.size >= size_bytes else self._allocate(size_bytes)

    def give_back(self, arenas: Iterable[Memory]) -> None:
        """Takes back arenas that are no longer used."""
        for arena in arenas:
            if arena.size <= self._max_kept_bytes and len(self._free) < self._max_kept:
                self._free.append(arena)


def copy(copies: Iterable[ByteCopy]) -> None:
    """Executes copies; NumPy releases the GIL during each."""
    for target, source in copies:
        target[...] = source
