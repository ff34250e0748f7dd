"""Sources that are generated on demand: a kernel has many candidates, and most are never tried."""

from collections.abc import Iterator, Sequence
from typing import overload

from neurald.drivers.opencl.codegen.kernel_source import Source


class LazySources(Sequence[Source]):
    """Sequence of sources that are taken from an iterator when they are needed.

    Args:
        sources: generates the sources, in order.
    """

    def __init__(self, sources: Iterator[Source]) -> None:
        self._pending = sources
        self._generated: list[Source] = []

    def _generate(self, count: int) -> bool:
        """Generates sources up to this number; returns False if there are fewer."""
        while len(self._generated) < count:
            source = next(self._pending, None)
            if source is None:
                return False
            self._generated.append(source)
        return True

    def __bool__(self) -> bool:
        return self._generate(1)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Source]:
        position = 0
        while self._generate(position + 1):
            yield self._generated[position]
            position += 1

    @overload
    def __getitem__(self, position: int) -> Source: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Source, ...]: ...
    def __getitem__(self, position: int | slice) -> Source | tuple[Source, ...]:
        if isinstance(position, slice):
            return tuple(self._all[position])
        if position >= 0:
            self._generate(position + 1)
            return self._generated[position]
        return self._all[position]

    @property
    def _all(self) -> list[Source]:
        self._generated += self._pending
        return self._generated
