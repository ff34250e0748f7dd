"""Kernels that run in bands give the same bits as one after another, for any number of threads."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from support.opencl.models import FLOAT, Models, run

import neurald as nd
from neurald.drivers.cpu import bands
from neurald.drivers.cpu.compiler import Compiled, compile_model
from neurald.drivers.cpu.device import process_settings
from neurald.drivers.cpu.kernels.select import generate
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.native.objects.object_code import ObjectCompilation
from neurald.drivers.cpu.native.records import band_records
from neurald.drivers.cpu.native.thread_pool import Team, process
from neurald.drivers.cpu.target.executable import ANY_THREADS, BandedCalls, BandStream, Executable
from neurald.drivers.cpu.target.target import host_target
from neurald.hal.errors import BadData
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.model.model import Model
from neurald.hal.records import replace

Array = np.ndarray[Any, np.dtype[Any]]

_OP = nd.OperationType
_SAME, _RELU6 = 1, 3
#: Kinds of layers, and the strides of windows.
_LAYERS = ("pointwise", "depthwise", "window", "residual")


class Network:
    """A random sequence of convolutions, some with residuals or results that are outputs, too."""

    def __init__(self, seed: int, kinds: Sequence[str] = ()) -> None:
        self.models = models = Models(seed)
        rng = self.rng = models.generator
        height, width = (int(each) for each in rng.integers(5, 41, 2))
        self.shape = (int(rng.integers(1, 3)), height, width, int(rng.choice([3, 8, 16, 24, 40])))
        self.value = models.input(FLOAT, self.shape)
        #: Values that a residual may add, with their shapes.
        self.earlier = [(self.value, self.shape)]
        self.outputs: list[int] = []
        for kind in kinds or rng.choice(_LAYERS, int(rng.integers(3, 9))):
            getattr(self, f"_{kind}")()
            self.earlier.append((self.value, self.shape))
            if not kinds and rng.random() < 0.1:
                self.outputs.append(self.value)

    def model(self) -> Model:
        return self.models.finish(*dict.fromkeys((*self.outputs, self.value)))

    def _constant(self, *shape: int) -> int:
        return self.models.constant(self.rng.normal(size=shape).astype(np.float32) / np.sqrt(shape[-1]))

    def _numbers(self, *values: int) -> list[int]:
        return [self.models.number(value) for value in values]

    def _convolution(self, outputs: int, window: int, stride: int) -> None:
        images, height, width, channels = self.shape
        self.shape = (images, -(-height // stride), -(-width // stride), outputs)
        weights = self._constant(outputs, window, window, channels), self._constant(outputs)
        numbers = self._numbers(_SAME, stride, stride, int(self.rng.choice([0, _RELU6])))
        self.value = self.models.add(_OP.CONV_2D, [self.value, *weights, *numbers], shape=self.shape)

    def _pointwise(self) -> None:
        self._convolution(int(self.rng.choice([4, 16, 32, 40])), 1, 1)

    def _window(self) -> None:
        self._convolution(int(self.rng.choice([5, 16, 24])), int(self.rng.choice([1, 3, 5])), self._stride())

    def _depthwise(self) -> None:
        images, height, width, channels = self.shape
        stride = self._stride()
        self.shape = (images, -(-height // stride), -(-width // stride), channels)
        weights = self._constant(1, 3, 3, channels), self._constant(channels)
        numbers = self._numbers(_SAME, stride, stride, 1, 0)
        self.value = self.models.add(
            _OP.DEPTHWISE_CONV_2D, [self.value, *weights, *numbers], shape=self.shape
        )

    def _stride(self) -> int:
        return 2 if self.rng.random() < 0.3 else 1

    def _residual(self) -> None:
        same = [value for value, shape in self.earlier if shape == self.shape and value != self.value]
        if not same:
            self._pointwise()
            return
        other = same[int(self.rng.integers(len(same)))]
        inputs = [self.value, other, self.models.number(0)]
        self.value = self.models.add(_OP.ADD, inputs, shape=self.shape)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses bands for small results, too."""
    monkeypatch.setattr(bands, "_MIN_BYTES", 1)
    monkeypatch.setattr(bands, "_MIN_POINTWISE_BYTES", 1)
    monkeypatch.setattr(bands, "_TURN_BYTES", 8 << 10)
    monkeypatch.setattr(band_records, "_MIN_CODE_CACHE_BYTES", 0)


def compiled(model: Model) -> Compiled:
    with ObjectCompilation(host_target(process_settings())) as compilation:
        return compile_model(model, generate, compilation)


def native(found: Compiled, executable: Executable, threads: int) -> NativeModel:
    team = Team(process.step_program(host_target(process_settings())), threads)
    return NativeModel(executable, found.codes, found.constants, team)


def variants(found: Compiled) -> Iterator[tuple[int, NativeModel]]:
    """Yields the number of threads and a model for each, with and without limits on threads."""
    executable = found.executable
    unlimited = replace(
        executable,
        banded=tuple(replace(each, min_threads=1, max_threads=ANY_THREADS) for each in executable.banded),
    )
    for threads in (1, 2, 3, 5):
        for each in (executable, unlimited):
            yield threads, native(found, each, threads)


@pytest.mark.parametrize("seed", range(12))
def test_bands_change_no_bit(seed: int) -> None:
    model = Network(seed).model()
    found = compiled(model)
    rng = np.random.default_rng(seed)
    inputs = [
        rng.normal(size=model.main.operands[each].dimensions or ()).astype(np.float32)
        for each in model.inputs
    ]
    expected = native(found, replace(found.executable, banded=()), 1).run_arrays(inputs)
    assert expected is not None
    for one, other in zip(expected, run(ReferenceModel(model), model, inputs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
    for threads, other_model in variants(found):
        for _ in range(2):
            results = other_model.run_arrays(inputs)
            assert results is not None
            for one, other in zip(results, expected, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"{threads} threads")
        other_model.profile()


def test_sequences() -> None:
    layers = ("pointwise", "depthwise", "pointwise", "depthwise", "pointwise")
    executable = compiled(Network(3, layers).model()).executable
    first, *others = executable.banded
    assert (first.first, first.calls, len(first.streams)) == (0, 5, 4)
    assert first.max_threads < ANY_THREADS
    assert [(each.first, each.calls, len(each.streams)) for each in others] == [(1, 2, 1), (3, 2, 1)]


def test_results_that_others_read_are_not_streamed() -> None:
    network = Network(5, ("pointwise", "pointwise", "pointwise"))
    _, (kept, _), *_ = network.earlier
    network.outputs.append(kept)
    found, *_ = compiled(network.model()).executable.banded
    assert found.calls == 3
    assert [stream.places[0] for stream in found.streams] == [(1, 0)]


def test_weights_that_are_computed_are_not_read_in_bands() -> None:
    network = Network(23, ("pointwise",))
    weights, channels = network.value, network.shape[3]
    network._convolution(channels, 1, 1)
    inputs = [network.value, weights, network._constant(channels), *network._numbers(_SAME, 1, 1, 1, 0)]
    network.value = network.models.add(_OP.DEPTHWISE_CONV_2D, inputs, shape=network.shape)
    model = network.model()
    found = compiled(model)
    assert [(each.first, each.calls) for each in found.executable.banded] == [(0, 2)]
    array = network.rng.normal(size=model.main.operands[model.inputs[0]].dimensions).astype(np.float32)
    (expected,) = run(ReferenceModel(model), model, [array])
    for threads, each in variants(found):
        results = each.run_arrays([array])
        assert results is not None
        np.testing.assert_allclose(results[0], expected, rtol=1e-3, atol=1e-2, err_msg=f"{threads} threads")


def described(**changes: Any) -> BandedCalls:
    """Returns bands of two kernels with 4 and 2 work items, with some changes."""
    words = [0, 2, 2, 4, 0, 1, 1, 2, 0, 64, 64, 128]
    words[: len(changes.get("words", ()))] = changes.pop("words", ())
    known = BandedCalls(
        first=1,
        calls=2,
        turn=1,
        min_threads=1,
        max_threads=1,
        streams=(BandStream(offset=64, size_bytes=64, places=((0, 0), (1, 1))),),
        table=np.array(words, np.int64).tobytes(),
    )
    return replace(known, **changes)


def check(banded: BandedCalls) -> None:
    banded.check(work_items=(7, 4, 2), counts=(3, 3, 3), scratch_bytes=128)


@pytest.mark.parametrize(
    "changes",
    [
        {"first": 2},
        {"first": -1},
        {"calls": 1},
        {"turn": 0},
        {"turn": 2},
        {"turn": 1 << 40},
        {"table": b""},
        {"table": bytes(40)},
        {"words": [1, 2, 2, 4]},
        {"words": [0, 2, 2, 5]},
        {"words": [0, 3, 2, 2]},
        {"words": [0, 2, 2, 4, 0, 2, 1, 1]},
        {"words": [0, 2, 2, 4, 0, 1, 1, 2, -64, 0, 64, 128]},
        {"words": [0, 2, 2, 4, 0, 1, 1, 2, 0, 128, 64, 128]},
        {"streams": (BandStream(offset=65, size_bytes=64, places=()),)},
        {"streams": (BandStream(offset=-1, size_bytes=64, places=()),)},
        {"streams": (BandStream(offset=0, size_bytes=64, places=((2, 0),)),)},
        {"streams": (BandStream(offset=0, size_bytes=64, places=((0, 3),)),)},
    ],
)
def test_damaged_bands_are_refused(changes: dict[str, Any]) -> None:
    check(described())
    with pytest.raises(BadData):
        check(described(**changes))
