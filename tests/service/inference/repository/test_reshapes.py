"""Tensors whose shape clients see is not that of the model."""

import pytest

from neurald.hal.lanes.opening import TensorDescription
from neurald.hal.records import replace
from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.repository.model_config import completed, parse_config
from neurald.service.inference.repository.reshapes import Reshapes, reshape_fault
from neurald.service.inference.worker.orders import ModelDescription


def described(*, batch: bool, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> ModelDescription:
    first = (-1,) if batch else ()
    return ModelDescription(
        inputs=(TensorDescription("x", "float32", (*first, *inputs)),),
        outputs=(TensorDescription("y", "float32", (*first, *outputs)),),
        devices=("cpu",),
        drivers=("1",),
    )


def reshapes(text: str, loaded: ModelDescription) -> Reshapes:
    return Reshapes(completed(parse_config("m", text), "m", loaded), loaded)


def test_clients_see_dims_and_the_model_its_own_shape() -> None:
    found = reshapes(
        """max_batch_size: 8
        input [ { name: "x" dims: [ 2, 2, 3 ] reshape: { shape: [ 12 ] } } ]
        output [ { name: "y" dims: [ 1 ] reshape: { } } ]""",
        described(batch=True, inputs=(12,), outputs=()),
    )
    assert found.has_any
    assert found.described.inputs[0].shape == (-1, 2, 2, 3)
    assert found.described.outputs[0].shape == (-1, 1)
    assert found.of_model(0, (5, 2, 2, 3)) == (5, 12)
    assert found.of_client(0, (5,)) == (5, 1)


def test_an_open_length_follows_from_the_elements() -> None:
    found = reshapes(
        'input [ { name: "x" dims: [ -1 ] reshape: { shape: [ -1, 4 ] } } ]',
        described(batch=False, inputs=(-1, 4), outputs=(-1,)),
    )
    assert found.of_model(0, (12,)) == (3, 4)
    assert found.of_model(0, (0,)) == (0, 4)
    assert found.of_client(0, (7,)) == (7,)
    with pytest.raises(ServiceError, match=r"\[13\] cannot have the shape \[-1, 4\]"):
        found.of_model(0, (13,))


def test_models_without_a_reshape_are_as_they_are() -> None:
    loaded = described(batch=False, inputs=(4,), outputs=(4,))
    found = reshapes("", loaded)
    assert not found.has_any
    assert found.described == loaded


def test_dims_fix_open_lengths_for_clients() -> None:
    loaded = described(batch=True, inputs=(-1, 3), outputs=(-1,))
    text = 'max_batch_size: 2 input [ { name: "x" dims: [ 5, -1 ] } ] output [ { name: "y" dims: [ 7 ] } ]'
    config = completed(parse_config("m", text), "m", loaded)
    assert [list(each.dims) for each in (*config.input, *config.output)] == [[5, 3], [7]]
    found = Reshapes(config, loaded)
    assert not found.has_any
    assert found.described.inputs[0].shape == (-1, 5, 3)
    assert found.described.outputs[0].shape == (-1, 7)


def test_dims_of_a_model_of_any_rank_are_those_of_the_configuration() -> None:
    loaded = replace(
        described(batch=False, inputs=(), outputs=()), inputs=(TensorDescription("x", "float32", None),)
    )
    assert reshapes("", loaded).described == loaded
    found = reshapes('input [ { name: "x" dims: [ 2, -1 ] } ]', loaded)
    assert found.described.inputs[0].shape == (2, -1)


def test_the_configuration_shows_both() -> None:
    loaded = described(batch=False, inputs=(12,), outputs=(4,))
    text = 'input [ { name: "x" dims: [ 3, 4 ] reshape: { shape: [ 12 ] } } ]'
    config = completed(parse_config("m", text), "m", loaded)
    assert list(config.input[0].dims) == [3, 4]
    assert list(config.input[0].reshape.shape) == [12]
    assert not config.output[0].HasField("reshape")
    for other in ("dims: [ 3, 4 ] reshape: { shape: [ 6, 2 ] }", "dims: [ 3, 5 ] reshape: { shape: [ 12 ] }"):
        with pytest.raises(ServiceError, match="configuration of the model m: the input 'x' has"):
            completed(parse_config("m", f'input [ {{ name: "x" {other} }} ]'), "m", loaded)


@pytest.mark.parametrize(
    ("dims", "shape", "fault"),
    [
        ([], [4], "no dims"),
        ([0], [0], "1 or more"),
        ([-2], [4], "1 or more"),
        ([-1, -1], [-1], "several open lengths"),
        ([-1], [4], "other numbers"),
        ([4], [-1], "other numbers"),
        ([4], [5], "other numbers"),
        ([4, 1], [2, 2], ""),
        ([1], [], ""),
    ],
)
def test_what_is_wrong_is_said(dims: list[int], shape: list[int], fault: str) -> None:
    found = reshape_fault(dims, shape)
    assert fault in found
    assert bool(found) == bool(fault)
