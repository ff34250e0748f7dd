"""Models that a worker loads, and those that it refuses."""

import os

import numpy as np
import pytest
from support.inference import zoo
from support.inference.lanes import Repeater
from support.inference.loading import load

from neurald.hal.errors import BadData, Error, MissedDeadlineTransient, UnavailableDevice
from neurald.hal.lanes.packets import RunAnswer, TensorAt
from neurald.service.inference.worker import sized_runs
from neurald.service.inference.worker.loaded_model import LoadedModel
from neurald.service.inference.worker.orders import LoadOrder, Warmup


def test_models_describe_themselves() -> None:
    description = load(zoo.addition()).description
    assert [each.name for each in description.inputs] == ["a", "b"]
    assert [(each.name, each.kind, each.shape) for each in description.outputs] == [
        ("sum", "int32", (1, 4)),
        ("difference", "int32", (1, 4)),
    ]
    assert description.devices == ("cpu",)
    assert load(zoo.open_addition()).description.inputs[0].shape == (-1, 3)


def test_batches_open_the_first_length() -> None:
    warmups = (Warmup(shapes={}, batch=3, is_random=True, count=2),)
    model = load(zoo.dense(), is_batched=True, warmups=warmups, devices=("cpu",))
    assert model.description.inputs[0].shape == (-1, 4)
    assert model.description.outputs[0].shape == (-1, 3)
    assert model.health().is_ready
    for content in (zoo.counting(), zoo.reshaping(), zoo.one_row()):
        with pytest.raises(BadData, match="batch"):
            load(content, is_batched=True)


@pytest.mark.parametrize("kind", ["FLOAT32", "INT32"])
def test_requests_are_joined_only_if_entries_of_batches_are_independent(kind: str) -> None:
    dependent = zoo.centred(kind)
    with pytest.raises(BadData, match="the output y of an entry of a batch depends on the other entries"):
        load(dependent, is_batched=True, joins_requests=True)
    # Batches of a single client are as it wants them.
    load(dependent, is_batched=True)
    for content in (zoo.centred(kind, axis=1), zoo.open_addition(), zoo.dense(), zoo.repeating(3)):
        load(content, is_batched=True, joins_requests=True)


@pytest.mark.parametrize("kind", ["BYTES", "BOOL", "INT8", "UINT8", "FP16", "FP64", "INT64"])
def test_independent_entries_of_every_type(kind: str) -> None:
    load(zoo.passing(zoo.TYPES[kind]), is_batched=True, joins_requests=True)


def test_random_numbers_do_not_make_entries_dependent() -> None:
    load(zoo.random_numbers(), is_batched=True, joins_requests=True)


@pytest.mark.parametrize(
    "warmup",
    [
        Warmup(shapes={"z": (1,)}, batch=0, is_random=False, count=1),
        Warmup(shapes={"x": (9, 9)}, batch=0, is_random=False, count=1),
        Warmup(shapes={}, batch=0, is_random=False, count=0),
        Warmup(shapes={}, batch=0, is_random=False, count=10**9),
    ],
)
def test_warm_ups_that_do_not_fit_are_refused(warmup: Warmup) -> None:
    with pytest.raises(BadData):
        load(zoo.dense(), warmups=(warmup,))


def test_outputs_are_limited_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = load(zoo.addition(), devices=("cpu",)).create_runs()
    inputs = [np.ones((1, 4), np.int32)] * 2
    monkeypatch.setattr(sized_runs, "_MAX_OUTPUT_BYTES", 2 * inputs[0].nbytes)
    assert [each.tolist() for each in runs.compute(inputs)] == [[[2] * 4], [[0] * 4]]
    monkeypatch.setattr(sized_runs, "_MAX_OUTPUT_BYTES", 2 * inputs[0].nbytes - 1)
    with pytest.raises(BadData, match="take 32 bytes; 31 may be"):
        runs.compute(inputs)


@pytest.mark.parametrize("is_batched", [False, True])
def test_the_limit_of_loops_holds_for_warm_ups_and_the_check_of_batches(is_batched: bool) -> None:
    """A loop that ends by itself, in less than the limit of models without a configuration."""
    content = zoo.repeating(100_000)
    warmups = () if is_batched else (Warmup(shapes={}, batch=0, is_random=True, count=2),)
    order = {"is_batched": is_batched, "warmups": warmups, "devices": ("cpu",)}
    load(content, **order)
    with pytest.raises(MissedDeadlineTransient, match="loop timeout"):
        load(content, **order, loop_timeout_s=0)


def test_what_is_no_model_is_refused() -> None:
    good = zoo.dense()
    for content in (b"x", bytes(1000), good[:100]):
        with pytest.raises(Error):
            load(content)
    with pytest.raises(UnavailableDevice, match="no device"):
        load(good, devices=("missing",))
    read, write = os.pipe()
    with pytest.raises(BadData, match="regular"):
        LoadedModel(read, LoadOrder(name="m"))
    os.close(read)
    os.close(write)
    with pytest.raises(BadData, match="0 bytes"):
        load(b"")


def test_shapes_of_outputs_are_certain_unless_they_depend_on_elements() -> None:
    x = np.zeros((1, 5), np.float32)
    fixed, row, found = load(zoo.reshaping(count=5)), load(zoo.one_row()), load(zoo.finding())
    assert fixed.create_runs().are_certain((x.shape,), fixed.create_runs().compute([x]))
    outputs = row.create_runs().compute([x])
    assert row.create_runs().are_certain((x.shape,), outputs)
    assert not row.create_runs().are_certain(((1, 6),), outputs)
    given = np.ones((1, 8), bool)
    assert not found.create_runs().are_certain((given.shape,), found.create_runs().compute([given]))


def test_repeated_runs_of_open_length_have_the_places_of_the_first() -> None:
    model = load(zoo.one_row())
    caller = Repeater(model, is_trusted=True, arena_bytes=8192)
    values = np.frombuffer(caller.arena.view(), np.float32)
    for number, count in enumerate((4, 4, 4, 6, 6, 4)):
        values[:count] = np.arange(count) + number
        place = TensorAt(kind="float32", shape=(1, count), offset=0, size=4 * count)
        answer, _ = caller.run(place)
        assert isinstance(answer, RunAnswer)
        (output,) = answer.outputs
        assert output.shape == (1, count)
        assert output.in_arena(caller.arena.view()).tolist() == [[number + each for each in range(count)]]
    caller.end.close()
