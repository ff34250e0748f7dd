"""Requests moved to other memory for the time of their execution, on both sides of a socket.

A client puts what a daemon cannot map into shared memory. A daemon in turn gives its device copies of what
the client shares: that memory stays writable for the client while a kernel runs, and a kernel that first
checks an index and then uses it reads it twice. With a copy, what it checked is what it uses. So every
argument in memory that a client can write is copied, whatever its type and size: which values decide about
addresses is the business of each kernel (sorting does it with floats), and a copy costs a small part of
what a call costs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neurald.hal.device import OutputShape
from neurald.hal.errors import BadData
from neurald.hal.memory.pool import ALIGNMENT, Memory, align
from neurald.hal.model.types import Model, OperandType, Request

#: Bytes, and where they are copied from.
Move = tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What `stage` made of a request.

    Attributes:
        request: the one to run instead.
        arenas: the pools of `request` that arguments were moved to.
        moves: for each input that was moved, its bytes in an arena and where they come from. They have been copied; another
            execution needs that again.
        results: for each output where its bytes are wanted and those in an arena; None for one that was not moved.
    """

    request: Request
    arenas: tuple[Memory, ...]
    moves: tuple[Move, ...]
    results: tuple[Move | None, ...]

    def write_back(self, types: Sequence[OperandType], shapes: Sequence[OutputShape]) -> None:
        """Copies outputs that were moved to where the original request wants them, as long as they really are.

        Args:
            types: of all outputs.
            shapes: of all outputs, which all fitted.
        """
        copy(self.returns(types, shapes))

    def returns(self, types: Sequence[OperandType], shapes: Sequence[OutputShape]) -> list[Move]:
        """What `write_back` copies."""
        moves = []
        for kind, move, shape in zip(types, self.results, shapes, strict=True):
            if move is not None:
                target, source = move
                length = shape.size_bytes(kind)
                moves.append((target[:length], source[:length]))
        return moves


def stage(
    request: Request,
    *,
    stays: Callable[[Memory], bool],
    allocate: Callable[[int], Memory],
    outputs_apart: bool = False,
) -> Staged:
    """Moves arguments to arenas: inputs are copied there, outputs get room. Each is aligned to `ALIGNMENT`.

    Args:
        request: any request; pools that no argument lies in are left out of the new one.
        stays: whether arguments in that memory stay there.
        allocate: makes an arena of at least that many bytes.
        outputs_apart: inputs and outputs get an arena each, not one together.

    Raises:
        BadData: an argument does not lie in its pool, or an output in read-only memory.
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
            raise BadData(f"output {position - len(request.inputs)}: its memory is read-only")
        if not stays(pool):
            moved.setdefault(is_output and outputs_apart, []).append((position, pool))
            continue
        if argument.pool not in numbers:
            numbers[argument.pool] = len(kept)
            kept.append(pool)
        arguments[position] = replace(argument, pool=numbers[argument.pool])
    arenas: list[Memory] = []
    moves: list[Move] = []
    results: list[Move | None] = [None] * len(request.outputs)
    for group in moved.values():
        arena = allocate(max(ALIGNMENT, sum(align(arguments[position].length) for position, _ in group)))
        offset = 0
        for position, pool in group:
            argument = arguments[position]
            there = np.asarray(pool.view(argument.offset, argument.length))
            here = np.asarray(arena.view(offset, argument.length))
            if position < len(request.inputs):
                moves.append((here, there))
            else:
                results[position - len(request.inputs)] = there, here
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
        moves=tuple(moves),
        results=tuple(results),
    )
    copy(staged.moves)
    return staged


def output_types(model: Model) -> tuple[OperandType, ...]:
    """The operand types of a model's outputs, for `Staged.write_back`."""
    return tuple(model.main.operands[index].type for index in model.main.outputs)


class Arenas:
    """Arenas that are used again: fresh pages cost more than the copy into them. Thread-safe.

    Args:
        allocate: makes an arena of at least that many bytes.
        kept: how many are kept at most, and only those of at most `kept_bytes`.
    """

    def __init__(self, allocate: Callable[[int], Memory], *, kept: int, kept_bytes: int) -> None:
        self._allocate = allocate
        self._kept = kept
        self._kept_bytes = kept_bytes
        self._free: list[Memory] = []

    def take(self, size_bytes: int) -> Memory:
        """An arena that nobody else has until it is given back."""
        try:
            arena = self._free.pop()
        except IndexError:
            return self._allocate(size_bytes)
        return arena if arena.size >= size_bytes else self._allocate(size_bytes)

    def give_back(self, arenas: Iterable[Memory]) -> None:
        """Takes arenas that nobody uses any more."""
        for arena in arenas:
            if arena.size <= self._kept_bytes and len(self._free) < self._kept:
                self._free.append(arena)


def copy(moves: Iterable[Move]) -> None:
    """Copies; NumPy lets other threads run meanwhile."""
    for target, source in moves:
        target[...] = source
