import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from support.opencl.trials import good, slowed

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.kernels.fused.chains import KernelChain
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.executable import KernelCall
from neurald.drivers.opencl.tuning import choices, tuning
from neurald.drivers.opencl.tuning.choices import (
    SEPARATE,
    Choices,
    class_of,
    class_of_step,
    decoded,
    encoded,
    file_name,
    known_as,
)
from neurald.drivers.opencl.tuning.tuning import Tuner, Tuning
from neurald.hal.records import replace

_KEY = "0123456789ab"
_FILES = sorted(Path(choices.__file__).parent.glob("*.json"))


def _labelled(label: str, number: int = 0, shape: tuple[int, ...] = (64, 64)) -> Source:
    output = Value(shape, Scalar.FLOAT32)
    return replace(slowed(number), label=label, arguments=(output, *good().arguments[1:]))


def _class(source: Source, count: int = 1) -> str:
    return class_of([source], is_resident=False, count=count)


def test_files_are_read_as_written() -> None:
    known = {_KEY: "tile 1", "ab" * 6: "tile 2", "cd" * 6: "tile 1"}
    text = encoded("A GPU", known)
    assert decoded(text, "A GPU") == known
    assert len(json.loads(text)["labels"]) == 2
    assert file_name("NVIDIA H100 80GB HBM3") == "nvidia_h100_80gb_hbm3.json"


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_every_file_is_valid(path: Path) -> None:
    text = path.read_text()
    device = json.loads(text)["device"]
    assert path.name == file_name(device)
    assert decoded(text, device)
    assert Choices.of_device(device).label(next(iter(decoded(text, device))))


@pytest.mark.parametrize(
    "change",
    [
        {"device": "B"},
        {"choices": {_KEY: 1}},
        {"choices": {_KEY: -1}},
        {"choices": {"../x": 0}},
        {"choices": []},
        {"labels": ["x" * 301]},
        {"more": 1},
    ],
)
def test_invalid_files_are_refused(change: dict[str, object]) -> None:
    valid = {"device": "A", "labels": ["tile"], "choices": {_KEY: 0}}
    assert decoded(json.dumps(valid), "A") == {_KEY: "tile"}
    with pytest.raises((ValueError, msgspec.DecodeError)):
        decoded(json.dumps({**valid, **change}), "A")
    with pytest.raises(ValueError, match="expected at most"):
        decoded(" " * (1 << 20) + json.dumps(valid), "A")


def test_an_unreadable_file_leaves_everything_to_be_measured(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(choices, "file_content", lambda module, file: "{")
    assert Choices.of_device("A").label(_KEY) is None
    assert "a.json is ignored" in caplog.text


def test_gpus_with_the_same_chip_have_the_same_choices() -> None:
    for name, same in choices._SAME_AS.items():
        path = Path(choices.__file__).with_name(file_name(same))
        assert known_as(name) == known_as(same) == same
        key, label = next(iter(decoded(path.read_text(), same).items()))
        assert Choices.of_device(name).label(key) == label


def test_classes_have_about_the_same_sizes_and_the_same_types() -> None:
    first = _labelled("tile 8", shape=(200, 768))
    assert _class(first) == _class(_labelled("tile 4", shape=(210, 768)))
    for other in (
        _labelled("tile 8", shape=(300, 768)),
        _labelled("tile 8", shape=(200, 7)),
        _labelled("rows", shape=(200, 768)),
        replace(first, arguments=(Value((200, 768), Scalar.FLOAT16), *first.arguments[1:])),
    ):
        assert _class(other) != _class(first)
    assert _class(first, count=2) != _class(first)
    assert class_of([first], is_resident=True) != _class(first)
    call = KernelCall(kernel="k", locations=(), groups=1, local_size=1, label="tile")
    assert class_of_step([call]) != class_of_step([call, call])


def test_known_choices_are_not_measured(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def times_ns(device: DeviceContext, sources: Sequence[Source], **_: object) -> dict[str, float]:
        measured.extend(each.label for each in sources)
        return {each.name: 1.0 + number for number, each in enumerate(sources)}

    monkeypatch.setattr(tuning, "times_ns", times_ns)
    monkeypatch.setattr(tuning, "is_supported", lambda facts: False)
    offered = [_labelled("first", 1), _labelled("second", 2)]
    known = Choices({_class(offered[0]): "second"})
    assert Tuner(opencl, Tuning.BRIEF, choices=known).choose([offered]) == [offered[1]]
    assert not measured
    # Nothing is measured without need, but choices are used.
    assert Tuner(opencl, Tuning.FAST, choices=known).choose([offered]) == [offered[1]]
    # Choices that are not candidates, and exhaustive tuning.
    for unknown, how in ((Choices({_class(offered[0]): "third"}), Tuning.BRIEF), (known, Tuning.EXHAUSTIVE)):
        assert Tuner(opencl, how, choices=unknown).choose([offered]) == [offered[0]]
        assert measured == ["first", "second"]
        assert unknown.measured == {_class(offered[0]): "first"}
        measured.clear()


@pytest.mark.parametrize("is_taken", [False, True])
def test_decisions_about_chains_are_known(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch, is_taken: bool
) -> None:
    """A larger chain that includes the smaller one is taken, or neither."""
    single, pair, block = (
        _labelled("single", 1),
        _labelled("pair", 2, (64, 96)),
        _labelled("block", 3, (64, 32)),
    )
    times = {single.name: 10.0, pair.name: 15.0, block.name: 14.0 if is_taken else 40.0}
    if not is_taken:
        times[pair.name] = 30.0
    monkeypatch.setattr(tuning, "times_ns", lambda device, sources, **_: times)
    monkeypatch.setattr(tuning, "is_supported", lambda facts: False)
    kernels = [[single], [single], [single]]
    chains = [
        KernelChain(members=(0, 1), sources=(pair,), is_likely=False),
        KernelChain(members=(0, 1, 2), sources=(block,), is_likely=False),
    ]
    found = Choices({})
    expected = [None, None, block] if is_taken else [single] * 3
    assert Tuner(opencl, Tuning.BRIEF, choices=found).choose(kernels, chains) == expected
    assert found.measured == {_class(pair, 2): SEPARATE, _class(block, 3): "block" if is_taken else SEPARATE}
    times.clear()
    known = Choices(found.measured)
    assert Tuner(opencl, Tuning.BRIEF, choices=known).choose(kernels, chains) == expected
