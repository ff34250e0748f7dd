"""Drivers in this process that raise or return the wrong things: the API raises only nd.Error.

Each method and property of `Device`, `PreparedModel`, `Burst` and `FencedExecution` is replaced in
turn, once by one that raises and once by one that returns an object of a wrong type. Then each
field of each honest answer is replaced. Everything that an application can do with such a device is
done.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from support.devices.misbehaving import SampleDevice
from support.models.small import add_model

import neurald as nd
from neurald.hal.device import Artifact, PreparedModel, PrepareOptions
from neurald.hal.wording import MAX_DESCRIBED, described

DEVICE = (
    "type",
    "version",
    "feature_level",
    "extensions",
    "cache_files_needed",
    "capabilities",
    "supported_operations",
    "prepare_model",
    "prepare_model_from_cache",
    "allocate",
)
PREPARED_MODEL = ("execute", "execute_fenced", "create_burst", "artifact", "profile")
BURST = ("execute", "close")
FENCED = ("fence", "result", "timing_after_fences")
#: The attributes of a device that are read, not called.
PROPERTIES = (
    "type",
    "version",
    "feature_level",
    "extensions",
    "cache_files_needed",
    "fence",
    "timing_after_fences",
)

NONSENSE: dict[str, Any] = {
    "None": None,
    "a number": 3,
    "text": "nonsense",
    "an empty tuple": (),
    "a list of None": [None],
    "an object": object(),
}


class Unspeakable(Exception):
    """An exception whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("there is none")


#: Maximum length of an error's text with what neurald says about it.
MOST_CHARACTERS = 2 * MAX_DESCRIBED

ERRORS = (
    Unspeakable(),
    ValueError("x" * 20_000),
    nd.OpFailed("x" * 20_000),
    ValueError("a mistake"),
    KeyError("a mistake"),
    OSError(5, "a mistake"),
    MemoryError(),
    StopIteration(),
    SystemExit("a mistake"),
)


class Proxy:
    """Passes all attributes on to `real`, except for one name, which behaves as `fault` says."""

    def __init__(self, real: Any, name: str, fault: "Fault") -> None:
        self._real, self._name, self._fault = real, name, fault

    def __getattr__(self, name: str) -> Any:
        if name != self._name:
            return getattr(self._real, name)
        found = getattr(self._real, name)
        if name in PROPERTIES:
            return self._fault(lambda: found)
        return lambda *arguments, **options: self._fault(lambda: found(*arguments, **options))


@dataclass(frozen=True)
class Fault:
    """The place where a driver misbehaves, and the way."""

    part: str
    name: str
    answer: Any

    def __call__(self, real: Callable[[], Any]) -> Any:
        """Answers in place of `real`, which gives the honest answer."""
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def __str__(self) -> str:
        return f"{self.part}.{self.name}"


#: The way to a part of an answer: names of fields, positions and keys.
Way = tuple[Any, ...]


@dataclass(frozen=True)
class Recorded(Fault):
    """A place where a driver is honest; the ways to all parts of its answers are added."""

    answer: set[Way]

    def __call__(self, real: Callable[[], Any]) -> Any:
        found = real()
        self.answer.update(ways(found))
        return found


@dataclass(frozen=True)
class Lie(Fault):
    """A place where one part of each answer is wrong."""

    way: Way

    def __call__(self, real: Callable[[], Any]) -> Any:
        return changed(real(), self.way, self.answer)

    def __str__(self) -> str:
        return f"{super().__str__()}{list(self.way)}"


def ways(answer: object) -> Iterator[Way]:
    """Yields the ways to all parts of an answer; of a collection, to its first element."""
    found: Iterable[tuple[object, object]] = ()
    if isinstance(answer, msgspec.Struct):
        found = [(name, getattr(answer, name)) for name in answer.__struct_fields__]
    elif isinstance(answer, Mapping):
        found = list(answer.items())[:1]
    elif isinstance(answer, tuple | list):
        found = list(enumerate(answer))[:1]
    for each, part in found:
        yield (each,)
        yield from ((each, *rest) for rest in ways(part))


def changed(answer: Any, way: Way, value: object) -> Any:
    """Returns a copy of an answer with another value at the end of a way, if that is in it."""
    if not way:
        return value
    each, *rest = way
    if isinstance(answer, msgspec.Struct):
        fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
        return type(answer)(**fields | {each: changed(fields[each], tuple(rest), value)})
    if isinstance(answer, Mapping):
        return {**answer, each: changed(answer[each], tuple(rest), value)}
    if isinstance(answer, tuple | list) and len(answer) > each:
        return type(answer)(
            changed(part, tuple(rest), value) if position == each else part
            for position, part in enumerate(answer)
        )
    return answer


class FaultyDevice(SampleDevice):
    """A device with one fault, which is preferred to the CPU device."""

    def __init__(self, fault: Fault) -> None:
        super().__init__("faulty", performance=0.5)
        self._fault_of = fault

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        return self.wrap(super().prepare_model_from_cache(artifact, options))

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        fault = self._fault_of

        class Prepared(Proxy):
            def create_burst(self) -> Any:
                burst = prepared.create_burst()
                return Proxy(burst, fault.name, fault) if fault.part == "burst" else burst

            def execute_fenced(self, *arguments: Any) -> Any:
                fenced = prepared.execute_fenced(*arguments)
                return Proxy(fenced, fault.name, fault) if fault.part == "fenced" else fenced

        found: Any = Prepared(prepared, "", fault)
        if fault.part == "prepared":
            found = Proxy(found, fault.name, fault)
        return found  # type: ignore[no-any-return]


def faulty(fault: Fault) -> nd.Device:
    device: Any = FaultyDevice(fault)
    return Proxy(device, fault.name, fault) if fault.part == "device" else device


def faults() -> Iterator[Fault]:
    parts = {"device": DEVICE, "prepared": PREPARED_MODEL, "burst": BURST, "fenced": FENCED}
    for part, names in parts.items():
        for name in names:
            yield from (Fault(part, name, error) for error in ERRORS)
            yield from (Fault(part, name, answer) for answer in NONSENSE.values())


def attempts(
    compile_model: Callable[[], nd.Compilation], device: nd.Device
) -> Iterator[Callable[[], object]]:
    """Returns everything that an application does with a device."""
    model = add_model()
    ones, twos = np.full((2, 3), 1, np.float32), np.full((2, 3), 2, np.float32)

    def bound(compilation: nd.Compilation, *, reusable: bool = True) -> nd.Execution:
        execution = nd.Execution(compilation, reusable=reusable)
        execution.set_input(0, ones)
        execution.set_input(1, twos)
        execution.set_output(0, np.zeros((2, 3), np.float32))
        return execution

    def burst(compilation: nd.Compilation) -> None:
        execution = bound(compilation)
        with compilation.create_burst() as created:
            for _ in range(3):
                execution.compute(burst=created)

    def fenced(compilation: nd.Compilation) -> None:
        for reusable in (False, True):
            bound(compilation, reusable=reusable).start_compute_with_dependencies().wait()

    def remember(compilation: nd.Compilation) -> None:
        memory = nd.MemoryDesc().add_output_role(compilation, 0).finish().allocate()
        execution = nd.Execution(compilation)
        execution.set_input(0, ones)
        execution.set_input(1, twos)
        execution.set_output_from_memory(0, memory, 0, 0)
        execution.compute()

    def again(compilation: nd.Compilation) -> None:
        execution = bound(compilation)
        for _ in range(3):
            execution.compute()

    def measured(compilation: nd.Compilation) -> None:
        for compute in (nd.Execution.compute, nd.Execution.start_compute_with_dependencies):
            execution = bound(compilation)
            execution.set_measure_timing(True)
            event = compute(execution)
            if event is not None:
                event.wait()
            times = [execution.duration(duration) for duration in nd.Duration]
            times += [step.total_ns for step in execution.step_durations()]
            assert all(each is None or 0 <= each < 1 << 64 for each in times)

    yield lambda: nd.supported_operations(model, [device])
    yield compile_model
    yield lambda: compile_model().run(ones, twos)
    yield lambda: again(compile_model())
    yield lambda: burst(compile_model())
    yield lambda: fenced(compile_model())
    yield lambda: bound(compile_model()).start_compute().wait()
    yield lambda: compile_model().profile()
    yield lambda: str(compile_model().explain())
    yield lambda: compile_model().preferred_memory_padding_for_input(0)
    yield lambda: remember(compile_model())
    yield lambda: measured(compile_model())


PARTS = sorted({str(fault) for fault in faults()})


@pytest.mark.parametrize("is_explicit", [False, True], ids=["by default", "explicit"])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.sampled(4)
def test_nothing_but_errors_leaves_the_api(
    part: str, is_explicit: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cases = [fault for fault in faults() if str(fault) == part]
    wrong = list(faults_that_leave(cases, monkeypatch, tmp_path, is_explicit=is_explicit))
    assert not wrong, "\n".join(wrong)


#: Other values for parts of answers, of any types.
LIES: tuple[Any, ...] = (None, -1, 1 << 70, float("nan"), float("-inf"), "nonsense", b"", (), {}, object())


@pytest.mark.parametrize("is_explicit", [False, True], ids=["by default", "explicit"])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.sampled(4)
def test_no_part_of_an_answer_is_believed(
    part: str, is_explicit: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place, name = part.split(".")
    honest = Recorded(place, name, set())
    assert not list(faults_that_leave([honest], monkeypatch, tmp_path / "honest", is_explicit=True))
    cases = [Lie(place, name, lie, way) for way in honest.answer for lie in LIES]
    wrong = list(faults_that_leave(cases, monkeypatch, tmp_path, is_explicit=is_explicit))
    assert not wrong, "\n".join(wrong)


def faults_that_leave(
    faults: Sequence[Fault], monkeypatch: pytest.MonkeyPatch, folder: Path, *, is_explicit: bool
) -> Iterator[str]:
    """Does everything with a device with each of some faults; yields what leaves the API."""
    cpu = nd.devices()[0]
    ended: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda found: ended.append(described(found.exc_value)))
    for case, fault in enumerate(faults):
        device, directory = faulty(fault), folder / str(case)
        monkeypatch.setattr(
            "neurald.runtime.compilation_builder.devices", lambda device=device: (cpu, device)
        )

        def compile_model(device: nd.Device = device, directory: Path = directory) -> nd.Compilation:
            builder = nd.CompilationBuilder(add_model(), [device] if is_explicit else None)
            builder.set_caching(directory, bytes(32))
            return builder.finish()

        for number, attempt in enumerate(attempts(compile_model, device)):
            try:
                attempt()
            except nd.Error as error:
                # Without a list of devices the CPU device takes over after every failure; that an
                # output does not fit is none.
                is_failure = not isinstance(error, nd.OutputInsufficientSize)
                if is_failure and not is_explicit and number not in (0, 10):
                    yield f"{fault} {case}, attempt {number}: {str(error)[:200]!r}"
                if len(str(error)) > MOST_CHARACTERS:
                    yield f"{fault} {case}, attempt {number}: {len(str(error))} characters"
            except Exception as error:
                yield f"{fault} {case}, attempt {number}: {described(error)[:200]}"
            while ended:
                yield f"{fault} {case}, attempt {number}: a thread has ended with {ended.pop()[:200]}"
