"""Sources are generated in order, each once, and only on demand."""

from collections.abc import Iterator

import pytest
from support.opencl.trials import slowed

from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_sources import LazySources

SOURCES = [slowed(number) for number in range(5)]


class Maker:
    """Counts the sources that it has generated."""

    def __init__(self, sources: list[Source]) -> None:
        self.made = 0
        self.sources = LazySources(self._making(sources))

    def _making(self, sources: list[Source]) -> Iterator[Source]:
        for source in sources:
            self.made += 1
            yield source


def test_sources_are_generated_on_demand() -> None:
    maker = Maker(SOURCES)
    assert maker.made == 0
    assert maker.sources
    assert maker.made == 1
    assert maker.sources[2] == SOURCES[2]
    assert maker.sources[0] == SOURCES[0]
    assert maker.made == 3
    for source in maker.sources:
        if source == SOURCES[3]:
            break
    assert maker.made == 4


def test_sources_are_a_sequence() -> None:
    maker = Maker(SOURCES)
    assert list(maker.sources) == list(maker.sources) == SOURCES
    assert len(maker.sources) == maker.made == 5
    assert maker.sources[-1] == SOURCES[-1]
    assert maker.sources[1:3] == tuple(SOURCES[1:3])
    assert SOURCES[4] in maker.sources
    with pytest.raises(IndexError):
        maker.sources[5]


def test_empty_sequence() -> None:
    maker = Maker([])
    assert not maker.sources
    assert len(maker.sources) == 0
    assert list(maker.sources) == []
