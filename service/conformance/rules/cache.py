"""Rules about cached artifacts."""

from collections.abc import Iterator
from functools import partial

from neurald.hal.device import Artifact, PrepareOptions
from neurald.hal.errors import Error
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.records import replace
from neurald.service.conformance.cases.guard_bytes import pattern
from neurald.service.conformance.cases.runner import bind, prepare_options
from neurald.service.conformance.rules.rule import (
    Declined,
    RuleViolation,
    Subject,
    prepare_case,
    require,
    require_correct,
    require_error,
)

#: Number of bits that are flipped in each file, one at a time.
_FLIPPED_BITS = 64


def cache(subject: Subject) -> None:
    """Requires that an artifact restores the model, and that it is only given with a cache key."""
    device = subject.device
    needed = device.cache_files_needed
    if not needed.model and not needed.data:
        raise Declined("the device caches nothing")
    options = replace(prepare_options(), cache_key=bytes(range(32)))
    artifact = device.prepare_model(subject.case.model, options).artifact()
    if artifact is None:
        raise RuleViolation(
            f"no artifact is given; expected {needed.model} model files and {needed.data} data files"
        )
    counts = len(artifact.model), len(artifact.data)
    expected = needed.model, needed.data
    require(counts == expected, f"the artifact has {counts} model and data files; expected {expected}")
    prepared = device.prepare_model_from_cache(artifact, options)
    require_correct(subject, bind(subject.case), prepared, "prepared from cache")
    again = prepared.artifact()
    if again is not None:
        restored = device.prepare_model_from_cache(again, options)
        require_correct(subject, bind(subject.case), restored, "prepared from the artifact of a cached model")
    unasked = device.prepare_model(subject.case.model, prepare_options()).artifact()
    require(unasked is None, "an artifact is given without a cache key")
    _require_reproducible_data(subject, artifact, options)


def _require_reproducible_data(subject: Subject, artifact: Artifact, options: PrepareOptions) -> None:
    """Requires that preparing a model twice with the same key gives equal data files."""
    other = subject.device.prepare_model(subject.case.model, options).artifact()
    require(other is not None, "no artifact is given when a model is prepared a second time")
    if other is not None:
        first, second = ([bytes(memory.view()) for memory in each.data] for each in (artifact, other))
        require(first == second, "the data files of two preparations of the same model differ")


def damaged_cache_files(subject: Subject) -> None:
    """Requires that damaged artifacts do not crash the device or affect other models."""
    device = subject.device
    options = replace(prepare_options(), cache_key=bytes(range(32)))
    prepared = prepare_case(subject)
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
        # For a device in this process, the cache checks a digest. A daemon checks its own.
        require(not subject.is_remote, f"{what}: it was accepted; expected an error")
    for what, foreign in _foreign(artifact):
        require_error(partial(device.prepare_model_from_cache, foreign, options), what)
    require_correct(subject, bind(subject.case), prepared, "after damaged cache files")
    require_correct(subject, bind(subject.case), prepare_case(subject), "prepared after damaged cache files")


def _foreign(artifact: Artifact) -> Iterator[tuple[str, Artifact]]:
    """Yields artifacts with missing, additional, empty, truncated or foreign files."""
    for kind in ("model", "data"):
        files: tuple[Memory, ...] = getattr(artifact, kind)
        if not files:
            continue
        yield f"one {kind} file too few", _with(artifact, kind, files[:-1])
        yield f"one {kind} file too many", _with(artifact, kind, (*files, files[0]))
        for number, memory in enumerate(files):
            content = bytes(memory.view())
            changes: dict[str, bytes] = {}
            if kind == "model":
                changes["is empty"] = b""
                changes["is truncated"] = content[: len(content) // 2]
                changes["is random"] = pattern(2, len(content))
                changes["is of another driver"] = b"another driver" + content
            elif len(content) > 1:
                changes["is truncated"] = content[: len(content) // 2]
            for what, changed in changes.items():
                replaced = (*files[:number], HostMemory(changed), *files[number + 1 :])
                yield f"{kind} file {number} {what}", _with(artifact, kind, replaced)


def _with(artifact: Artifact, kind: str, files: tuple[Memory, ...]) -> Artifact:
    return replace(artifact, model=files) if kind == "model" else replace(artifact, data=files)


def _damaged(artifact: Artifact) -> list[tuple[str, Artifact]]:
    """Returns artifacts with a flipped bit or a missing end in a model file."""
    found = []
    for number, memory in enumerate(artifact.model):
        content = bytes(memory.view())
        for position in range(0, len(content), max(1, len(content) // _FLIPPED_BITS)):
            changed = bytearray(content)
            changed[position] ^= 1 << (position % 8)
            found.append((f"a flipped bit in byte {position} of model file {number}", bytes(changed), number))
        found.append((f"model file {number} is truncated", content[: len(content) // 2] or b"\0", number))
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
