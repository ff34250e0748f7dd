"""How kernels that are to be measured are shared out among programs, so that several of them can be built at the same time.

What takes time to build are functions: one that several kernels call (see `neurald.drivers.opencl.codegen.template`) is built once
for each program that has any of them, and so these kernels stay together.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from neurald.drivers.opencl.codegen.kernel_source import Source

#: A function that several kernels call, in the text of each.
_SHARED = re.compile(r"^#ifndef (\w+)_is_there\n.*?^#endif\n", re.MULTILINE | re.DOTALL)


@dataclass(slots=True)
class _Shard:
    work_bytes: int = 0
    sources: list[int] = field(default_factory=list)


def work_bytes(texts: Iterable[str]) -> int:
    """Bytes that a compiler has to do with in a program of these texts: functions that several of them call count once."""
    shared: dict[str, int] = {}
    own = 0
    for text in texts:
        rest = len(text)
        for found in _SHARED.finditer(text):
            length = found.end() - found.start()
            shared[found[1]] = length
            rest -= length
        own += rest
    return own + sum(shared.values())


def functions_of(source: Source) -> tuple[str, ...]:
    """What takes time to build of a source: the functions that it shares with others, or if there are none its own."""
    return tuple(found[1] for found in _SHARED.finditer(source.text)) or (source.name,)


def shards_of(sources: Sequence[Source], least_bytes: int) -> list[tuple[Source, ...]]:
    """The sources in groups that take about the same time to build; those that take longest come first.

    Args:
        sources: no two of the same text.
        least_bytes: how much work a group has, if there is so much in all.
    """
    families: dict[tuple[str, ...], list[int]] = {}
    for position, source in enumerate(sources):
        families.setdefault(functions_of(source), []).append(position)
    sized = [(work_bytes(sources[each].text for each in family), family) for family in families.values()]
    sized.sort(key=lambda pair: -pair[0])
    count = max(1, min(sum(size for size, _ in sized) // max(1, least_bytes), len(sized)))
    shards = [_Shard() for _ in range(count)]
    for size, family in sized:
        least = min(shards, key=lambda shard: shard.work_bytes)
        least.work_bytes += size
        least.sources += family
    shards.sort(key=lambda shard: -shard.work_bytes)
    return [tuple(sources[each] for each in sorted(shard.sources)) for shard in shards if shard.sources]
