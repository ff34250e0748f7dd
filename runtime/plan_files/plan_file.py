"""Makes plan files, and loads them.

A file has the model (its `.tflite` file and what that was converted to), the devices and operations
of each step, the compiled artifacts with the keys that they were made under, and what the devices
were measured to cost. On another machine with the same devices, drivers and version of neurald,
everything is taken from the file. Otherwise only what does not fit is made again, and the reason is
kept.
"""

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from neurald._version import __version__
from neurald.hal.api_arguments import file_path, integer, member
from neurald.hal.cache.key import KeyParts
from neurald.hal.cache.sources import sources_digest
from neurald.hal.cache.store import Cache, Loaded
from neurald.hal.decoding import from_json
from neurald.hal.device import Artifact, Device
from neurald.hal.errors import BadData, BadState
from neurald.hal.memory.mapped_file import FileMemory
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.types import Preference, Priority
from neurald.hal.records import DECODE_ERRORS
from neurald.runtime.compilation import Compilation
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.costs.store import export_costs, seed_costs
from neurald.runtime.devices.discovery import devices as discovered
from neurald.runtime.devices.named_devices import chosen_devices
from neurald.runtime.partitioning.groups import StepGroup
from neurald.runtime.plan.plan import ExecutionStep
from neurald.runtime.plan.provided_plan import PLAN_TOKEN, ProvidedPlan, ProvidedStep
from neurald.runtime.plan.startup import Startup
from neurald.runtime.plan_files.container import verified_container, write_container
from neurald.runtime.plan_files.keys import SigningKey, own_keys, read_keys, trusted_keys
from neurald.runtime.tflite import load_tflite
from neurald.runtime.tflite.file.content import file_content
from neurald.runtime.tflite.kept.converted import CONVERSION_SOURCES
from neurald.runtime.tflite.kept.stored_model import restored_model, stored_model

_FILE: Final = "file"
_OUTLINE: Final = "outline"
_GRAPHS: Final = "graphs"
_ADDED: Final = "added"


class _StoredStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The compiled artifact of a step, whose memories are parts of the file."""

    parts: KeyParts
    compile_ms: float
    model: int
    data: int


class _Content(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The description of a plan file."""

    neurald: str
    conversion: str
    name: str
    created_s: float
    signature: str | None
    threads: int | None
    preference: str
    priority: str
    devices: dict[str, str]
    groups: list[tuple[str, tuple[int, ...]]]
    steps: list[_StoredStep]
    costs: dict[str, msgspec.Raw]


class SavedStep(Struct, frozen=True, kw_only=True):
    """A step of a plan file that was made.

    Attributes:
        device: the device of the step.
        operations: how many there are.
        size_bytes: the size in bytes of its artifact; 0 if there is none.
        reason: why there is none; empty otherwise.
    """

    device: str
    operations: int
    size_bytes: int
    reason: str


def save_plan(
    model: str | os.PathLike[str] | bytes | bytearray | memoryview,
    path: str | os.PathLike[str],
    devices: Sequence[Device | str] | None = None,
    threads: int | None = None,
    *,
    signature: str | None = None,
    preference: Preference = Preference.FAST_SINGLE_ANSWER,
    priority: Priority = Priority.MEDIUM,
) -> tuple[SavedStep, ...]:
    """Compiles a model and writes a plan file, signed with this user's key.

    Args:
        model: a `.tflite` file, or the bytes of one.
        path: the path of the plan file, which is replaced if there is one.
        devices, threads: as for `CompilationBuilder`.
        signature: as for `load_tflite`.
        preference, priority: as for the setters of `CompilationBuilder`.

    Returns:
        The steps of the plan.

    Raises:
        BadData: the model cannot be loaded or stored, or an argument is wrong.
        BadState: the file cannot be written.
        UnavailableDevice: the package `cryptography` is not installed.
        Error: the model does not compile.
    """
    key = SigningKey()
    target = file_path(path, "the plan file")
    preference = member(preference, Preference, "the preference")
    priority = member(priority, Priority, "the priority")
    loaded = load_tflite(model, signature)
    stored = stored_model(loaded)
    if stored is None:
        raise BadData(
            "the model has variables of strings, which a plan file cannot hold; load the .tflite file instead"
        )
    with tempfile.TemporaryDirectory(prefix="neurald-") as folder:
        builder = CompilationBuilder(loaded, devices, threads)
        builder.set_startup(Startup.OPTIMIZED)
        builder.set_preference(preference)
        builder.set_priority(priority)
        builder.set_caching(folder, PLAN_TOKEN)
        compilation = builder.finish()
        cache = Cache(Path(folder))
        parts: dict[str, memoryview] = {
            _FILE: loaded.pools[0].view(),
            _OUTLINE: memoryview(stored.outline),
            _GRAPHS: memoryview(stored.graphs),
            _ADDED: stored.added.view(),
        }
        saved, steps = _store_steps(compilation, cache, parts)
        used = {step.device.name: step.device for step in compilation.plan.steps}
        content = _Content(
            neurald=__version__,
            conversion=_conversion(),
            name=_name(model),
            created_s=time.time(),
            signature=signature,
            threads=None if threads is None else integer(threads, "threads"),
            preference=preference.name,
            priority=priority.name,
            devices={name: device.version for name, device in used.items()},
            groups=_groups(compilation),
            steps=steps,
            costs={name: msgspec.Raw(export_costs(device)) for name, device in used.items()},
        )
        try:
            write_container(target, msgspec.json.encode(content), parts, key)
        except OSError as error:
            raise BadState(f"{target} cannot be written: {error.strerror or error}") from None
    return tuple(saved)


def _store_steps(
    compilation: Compilation, cache: Cache, parts: dict[str, memoryview]
) -> tuple[list[SavedStep], list[_StoredStep]]:
    """Adds the artifacts of all steps to the parts of a plan file.

    Args:
        compilation: the compilation of the model.
        cache: the cache that has its artifacts.
        parts: the parts of the file, to which their memories are added.

    Returns:
        A description of each step, and the steps that have artifacts.
    """
    saved: list[SavedStep] = []
    stored: list[_StoredStep] = []
    for step, report in zip(compilation.plan.steps, compilation.report.steps, strict=True):
        found = cache.load(bytes.fromhex(report.key), step.device.cache_files_needed) if report.key else None
        if not isinstance(found, Loaded):
            reason = report.reason if found is None or report.is_later else found.reason
            saved.append(_saved(step, 0, reason or "the device needs no artifacts"))
            continue
        artifact = found.artifact
        memories = _memories(artifact)
        parts |= {f"step {len(stored)} {name}": memory.view() for name, memory in memories.items()}
        stored.append(
            _StoredStep(
                parts=found.manifest.parts,
                compile_ms=found.manifest.origin.compile_ms,
                model=len(artifact.model),
                data=len(artifact.data),
            )
        )
        saved.append(_saved(step, sum(memory.size for memory in memories.values()), ""))
    return saved, stored


def _name(model: str | os.PathLike[str] | bytes | bytearray | memoryview) -> str:
    """Returns the name of a model's file as text, which the name of a file need not be."""
    if isinstance(model, bytes | bytearray | memoryview):
        return ""
    return os.fsencode(Path(model).name).decode("utf-8", "replace")


def _saved(step: ExecutionStep, size_bytes: int, reason: str) -> SavedStep:
    return SavedStep(
        device=step.device.name, operations=len(step.operations), size_bytes=size_bytes, reason=reason
    )


def _memories(artifact: Artifact) -> dict[str, Memory]:
    """Returns the memories of an artifact by name."""
    return {
        **{f"model {number}": memory for number, memory in enumerate(artifact.model)},
        **{f"data {number}": memory for number, memory in enumerate(artifact.data)},
        "seal": HostMemory(artifact.seal),
    }


def _groups(compilation: Compilation) -> list[tuple[str, tuple[int, ...]]]:
    """Returns the device and the operations of each step; none if control flow is interpreted."""
    partitioned = compilation.partitioned
    groups = partitioned.result.groups
    if compilation.report.fallback:
        return []
    return (
        [
            (partitioned.candidates[group.device].name, group.operations)
            for group in groups
            if isinstance(group, StepGroup)
        ]
        if all(isinstance(group, StepGroup) for group in groups)
        else []
    )


def load_plan(
    path: str | os.PathLike[str],
    devices: Sequence[Device | str] | None = None,
    *,
    trust: str | os.PathLike[str] | None = None,
    startup: Startup | None = None,
    sample: float | None = None,
) -> Compilation:
    """Loads a plan file that `neurald compile` or `nd.save_plan` made.

    Parts that fit this machine are taken from the file. The rest is planned or compiled again;
    `Compilation.explain` and `Compilation.report` say why.

    A file is only used if it is signed with the key of this user, or with one that is trusted: in a
    file of `$XDG_CONFIG_HOME/neurald/plan_keys` or `/etc/neurald/plan_keys`, or in `trust`. It
    contains machine code, so anyone with such a key can run programs as this user.

    Args:
        path: the path of the file. It may be removed or replaced afterwards.
        devices: the only devices that may be used; None for those of this machine.
        trust: a file with further public keys.
        startup: see `CompilationBuilder.set_startup`.
        sample: see `CompilationBuilder.set_verification`.

    Raises:
        BadData: the file cannot be read, is damaged, or is not signed with a trusted key.
        BadState: others may change which keys are trusted.
        UnavailableDevice: the package `cryptography` is not installed.
        Error: the model cannot be compiled here.
    """
    chosen = None if devices is None else chosen_devices(devices)
    name, memory = file_content(file_path(path, "the plan file"))
    if not isinstance(memory, FileMemory):
        raise BadData(f"{name} is not a regular file; one that `neurald compile` wrote is expected")
    container = verified_container(name, memory, _trusted(trust))
    try:
        content = from_json(container.content, _Content)
        preference, priority = Preference[content.preference], Priority[content.priority]
    except (ValueError, KeyError, *DECODE_ERRORS) as error:
        raise BadData(f"{name}: it was made by another version of neurald: {error}") from None
    # Everything is read and verified now, since the file may be replaced later.
    parts = container.read_all({_FILE, _ADDED})
    try:
        file, outline, graphs, added = (parts[each] for each in (_FILE, _OUTLINE, _GRAPHS, _ADDED))
        steps = [_provided(parts, number, step) for number, step in enumerate(content.steps)]
    except KeyError as error:
        raise BadData(f"{name}: it has no part {error}; make it again with `neurald compile`") from None
    model, note = None, "the plan file was used"
    if (content.neurald, content.conversion) == (__version__, _conversion()):
        model = restored_model(outline.view(), file, lambda: (graphs.view(), added))
    if model is None:
        note = f"the model in the plan file was converted again: neurald {content.neurald} made it"
        model = load_tflite(file.view(), content.signature)
    for device in discovered() if chosen is None else chosen:
        costs = content.costs.get(device.name)
        if costs is not None:
            seed_costs(device, content.devices.get(device.name, ""), bytes(costs))
    builder = CompilationBuilder(model, chosen, content.threads)
    builder.set_preference(preference)
    builder.set_priority(priority)
    builder.set_startup(startup or Startup.OPTIMIZED)
    builder.set_verification(sample)
    builder.use_plan(ProvidedPlan(content.devices, content.groups, steps), note)
    return builder.finish()


def _conversion() -> str:
    return sources_digest(*CONVERSION_SOURCES)


def _provided(parts: Mapping[str, Memory], number: int, step: _StoredStep) -> ProvidedStep:
    def memories(kind: str, count: int) -> tuple[Memory, ...]:
        return tuple(parts[f"step {number} {kind} {each}"] for each in range(count))

    return ProvidedStep(
        parts=step.parts,
        compile_ms=step.compile_ms,
        artifact=Artifact(
            model=memories("model", step.model),
            data=memories("data", step.data),
            seal=bytes(parts[f"step {number} seal"].view()),
        ),
    )


def _trusted(trust: str | os.PathLike[str] | None) -> frozenset[bytes]:
    named = frozenset() if trust is None else frozenset(read_keys(trust))
    return named | trusted_keys() | own_keys()
