"""Sources that are generated on demand: a kernel has many candidates, and most are never tried."""

from collections.abc import Iterator, Sequence
from typing import overload

from neurald.drivers.opencl.codegen.kernel_source import Source


class LazySources(Sequence[Source]):
    """Sequence of the sources from an iterator, each generated once.

    Args:
        making: generates them, in order.
    """

    def __init__(self, making: Iterator[Source]) -> None:
        self._making = making
        self._made: list[Source] = []

    def _make(self, count: int) -> bool:
        """Generates sources up to this number; returns False if there are fewer."""
        while len(self._made) < count:
            source = next(self._making, None)
            if source is None:
                return False
            self._made.append(source)
        return True

    def __bool__(self) -> bool:
        return self._make(1)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Source]:
        position = 0
        while self._make(position + 1):
            yield self._made[position]
            position += 1

    @overload
    def __getitem__(self, position: int) -> Source: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Source, ...]: ...
    def __getitem__(self, position: int | slice) -> Source | tuple[Source, ...]:
        if isinstance(position, slice):
            return tuple(self._all[position])
        if position >= 0:
            self._make(position + 1)
            return self._made[position]
        return self._all[position]

    @property
    def _all(self) -> list[Source]:
        self._made += self._making
        return self._made
