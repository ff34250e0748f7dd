"""Rules of the contract about cached artifacts."""

from collections.abc import Iterator
from dataclasses import replace

from neurald.hal.device import Artifact, PrepareOptions
from neurald.hal.errors import Error
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.service.conformance.cases.guard_bytes import pattern
from neurald.service.conformance.cases.runner import bind, prepare_options
from neurald.service.conformance.rules.rule import (
    Broken,
    Declined,
    Subject,
    prepared_of,
    require,
    require_error,
    require_right,
)

_DAMAGES = 64


def cache(subject: Subject) -> None:
    """Requires that an artifact restores the model, and that damaged bytes are harmless."""
    device = subject.device
    needed = device.cache_files_needed
    if not needed.model and not needed.data:
        raise Declined("the device caches nothing")
    options = replace(prepare_options(), cache_key=bytes(range(32)))
    artifact = device.prepare_model(subject.case.model, options).artifact()
    if artifact is None:
        raise Broken(f"{needed.model} and {needed.data} cache files are needed, but no artifact is given")
    counts = len(artifact.model), len(artifact.data)
    expected = needed.model, needed.data
    require(counts == expected, f"{counts} cache files are given; {expected} are needed")
    prepared = device.prepare_model_from_cache(artifact, options)
    require_right(subject, bind(subject.case), prepared, "prepared from cache")
    again = prepared.artifact()
    if again is not None:
        restored = device.prepare_model_from_cache(again, options)
        require_right(subject, bind(subject.case), restored, "prepared from the artifact of what was cached")
    unasked = device.prepare_model(subject.case.model, prepare_options()).artifact()
    require(unasked is None, "an artifact is given though no cache key was")
    _same_twice(subject, artifact, options)


def _same_twice(subject: Subject, artifact: Artifact, options: PrepareOptions) -> None:
    """Requires that compiling a model twice under the same key gives equal data files."""
    other = subject.device.prepare_model(subject.case.model, options).artifact()
    require(other is not None, "no artifact is given when a model is prepared a second time")
    if other is not None:
        first, second = ([bytes(memory.view()) for memory in each.data] for each in (artifact, other))
        require(first == second, "the data files of two preparations of the same model differ")


def damaged_cache_files(subject: Subject) -> None:
    """Requires that invalid artifacts cause an error, never a crash, and have no effect."""
    device = subject.device
    options = replace(prepare_options(), cache_key=bytes(range(32)))
    prepared = prepared_of(subject)
    artifact = (
        device.prepare_model(subject.case.model, options).artifact() if device.cache_files_needed else None
    )
    if artifact is None:
        raise Declined("the device caches nothing")
    for what, damaged in _damaged(artifact):
        try:
            device.prepare_model_from_cache(damaged, options)
        except Error:
            continue
        # An in-process device relies on the digest that the cache keeps; a daemon has its own.
        require(not subject.is_remote, f"{what}: it was accepted")
    for what, foreign in _foreign(artifact):
        require_error(lambda foreign=foreign: device.prepare_model_from_cache(foreign, options), what)  # type: ignore[misc]
    require_right(subject, bind(subject.case), prepared, "after damaged cache files")
    require_right(subject, bind(subject.case), prepared_of(subject), "prepared after damaged cache files")


def _foreign(artifact: Artifact) -> Iterator[tuple[str, Artifact]]:
    """Yields artifacts with missing, extra, empty, truncated or another driver's files."""
    for kind in ("model", "data"):
        files: tuple[Memory, ...] = getattr(artifact, kind)
        if not files:
            continue
        yield f"a {kind} file less", _with(artifact, kind, files[:-1])
        yield f"a {kind} file more", _with(artifact, kind, (*files, files[0]))
        for number, memory in enumerate(files):
            content = bytes(memory.view())

            def of(changed: bytes, number: int = number, files: tuple[Memory, ...] = files) -> Artifact:
                return _with(artifact, kind, (*files[:number], HostMemory(changed), *files[number + 1 :]))  # noqa: B023

            if kind == "model":
                yield f"{kind} file {number} is empty", of(b"")
                yield f"{kind} file {number} has lost its end", of(content[: len(content) // 2])
                yield f"{kind} file {number} is random", of(pattern(2, len(content)))
                yield f"{kind} file {number} is of another driver", of(b"another driver" + content)
            elif len(content) > 1:
                yield f"{kind} file {number} has lost its end", of(content[: len(content) // 2])


def _with(artifact: Artifact, kind: str, files: tuple[Memory, ...]) -> Artifact:
    return replace(artifact, model=files) if kind == "model" else replace(artifact, data=files)


def _damaged(artifact: Artifact) -> list[tuple[str, Artifact]]:
    """Returns artifacts with a flipped bit or missing end in a file that determines execution."""
    found = []
    for number, memory in enumerate(artifact.model):
        content = bytes(memory.view())
        for position in range(0, len(content), max(1, len(content) // _DAMAGES)):
            changed = bytearray(content)
            changed[position] ^= 1 << (position % 8)
            found.append((f"a flipped bit in byte {position} of model file {number}", bytes(changed), number))
        found.append((f"model file {number} without its end", content[: len(content) // 2] or b"\0", number))
    return [
        (
            what,
            replace(
                artifact,
                model=(*artifact.model[:number], HostMemory(content), *artifact.model[number + 1 :]),
            ),
        )
        for what, content, number in found
    ]
