"""The inputs of a request, compared with those of its model. Errors are worded as Triton's."""

import math
from collections.abc import Collection, Sequence
from typing import Final

from neurald.hal.lanes.opening import TensorDescription
from neurald.hal.lanes.packets import BYTES, type_named
from neurald.service.inference.models.requests.job import JobInput
from neurald.service.inference.protocol.element_types import datatype_of
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import Bytes, InputTensor, Zeros, quoted

#: How many names of inputs an error lists.
_MAX_NAMED: Final = 32
#: Bytes of the length of a string.
_LENGTH_BYTES: Final = 4
#: What errors about shapes say of models with batches, as Triton's do.
_BATCH_NOTE: Final = (
    ". NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended "
    "to each input shape. If you want to specify the full shape including the batch dim in your input dims "
    "config, try setting max_batch_size to zero."
)


def checked_inputs(
    given_inputs: Sequence[InputTensor],
    inputs: Sequence[TensorDescription],
    model: str,
    max_batch_size: int,
    optional: Collection[str] = (),
) -> list[JobInput]:
    """Checks the inputs of a request, and returns them in the order of the model.

    Args:
        given_inputs: the inputs of the request.
        inputs: the inputs of the model.
        model: its name, for errors.
        max_batch_size: zero if the first dimension is not that of a batch.
        optional: names of inputs that may be left out, and are zeros or empty strings then, with 1
            for open lengths.

    Raises:
        ServiceError: they are not the model's inputs.
    """
    positions = {each.name: n for n, each in enumerate(inputs)}
    found: list[JobInput | None] = [None] * len(inputs)
    if len(given_inputs) != len(inputs):
        _require_all(given_inputs, list(positions), model, optional)
    rows: int | None = None
    for given in given_inputs:
        position = positions.get(given.name)
        if position is None:
            raise ServiceError(
                Status.INVALID,
                f"unexpected inference input {quoted(given.name)} for model {quoted(model)}; its "
                f"inputs are {', '.join(map(quoted, positions))}",
            )
        if found[position] is not None:
            raise _given_twice(given)
        described = inputs[position]
        _require_described(given, described, model, has_batches=max_batch_size > 0)
        if max_batch_size:
            if not 1 <= given.shape[0] <= max_batch_size:
                raise ServiceError(
                    Status.INVALID,
                    f"inference request batch-size must be <= {max_batch_size} for "
                    f"{quoted(model)}, and at least 1; it is {given.shape[0]}",
                )
            if rows is not None and rows != given.shape[0]:
                raise ServiceError(
                    Status.INVALID,
                    f"input {quoted(given.name)} batch size does not match other inputs for model "
                    f"{quoted(model)}: it is {given.shape[0]}, and theirs is {rows}",
                )
            rows = given.shape[0]
        found[position] = JobInput(kind=described.kind, shape=given.shape, source=given.source)
    return [
        _left_out(described, rows if max_batch_size else None) if each is None else each
        for each, described in zip(found, inputs, strict=True)
    ]


def _require_described(
    given: InputTensor, described: TensorDescription, model: str, *, has_batches: bool
) -> None:
    """Raises ServiceError if an input has not the type, the shape and the size of the model's."""
    datatype = datatype_of(described.kind)
    if given.datatype != datatype:
        raise ServiceError(
            Status.INVALID,
            f"inference input {quoted(given.name)} data-type is {quoted(given.datatype)}, but model "
            f"{quoted(model)} expects '{datatype}'",
        )
    if not _fits(given.shape, described.shape):
        raise ServiceError(
            Status.INVALID,
            f"unexpected shape for input {quoted(given.name)} for model {quoted(model)}. Expected "
            f"{_lengths(described.shape or ())}, got {_lengths(given.shape)}"
            f"{_BATCH_NOTE if has_batches else ''}",
        )
    if described.kind != BYTES:
        size = math.prod(given.shape) * type_named(described.kind).itemsize
        if given.source.size != size:
            raise ServiceError(
                Status.INVALID,
                f"input byte size mismatch for input {quoted(given.name)} for model "
                f"{quoted(model)}. Expected {size}, got {given.source.size}",
            )


def _require_all(
    given_inputs: Sequence[InputTensor], names: Sequence[str], model: str, optional: Collection[str]
) -> None:
    """Raises ServiceError if a request has not all inputs that are not optional, or too many.

    Args:
        given_inputs, model, optional: see `checked_inputs`.
        names: the names of all inputs.
    """
    given_names: set[str] = set()
    for given in given_inputs:
        if given.name in given_names:
            raise _given_twice(given)
        given_names.add(given.name)
    missing = [quoted(name) for name in names if name not in given_names and name not in optional]
    if not missing and len(given_inputs) <= len(names):
        return
    least = len(names) - len(optional)
    expected = f"number of inputs between {least} and {len(names)}" if optional else f"{least} inputs"
    raise ServiceError(
        Status.INVALID,
        f"expected {expected} but got {len(given_inputs)} inputs for model "
        f"{quoted(model)}. Got input(s) [{','.join(map(quoted, sorted(given_names)[:_MAX_NAMED]))}], "
        f"but missing required input(s) [{','.join(missing[:_MAX_NAMED])}]. Please provide all required "
        "input(s).",
    )


def _left_out(described: TensorDescription, rows: int | None) -> JobInput:
    """Returns an optional input that a request has left out.

    Args:
        described: the input.
        rows: the entries of the batch; None without batches. Those of a request without any input
            are 1.
    """
    shape = [abs(length) for length in described.shape or ()]
    if rows is not None:
        shape[0] = rows
    # An empty string is its length, of zeros.
    size = math.prod(shape) * (
        _LENGTH_BYTES if described.kind == BYTES else type_named(described.kind).itemsize
    )
    return JobInput(kind=described.kind, shape=tuple(shape), source=Zeros(size), is_given=False)


def raw_input(
    content: memoryview, inputs: Sequence[TensorDescription], model: str, max_batch_size: int
) -> InputTensor:
    """Returns the only input of a model, whose bytes are given without a description.

    Args:
        content: the bytes.
        inputs: the inputs of the model.
        model: its name, for errors.
        max_batch_size: zero if the first dimension is not that of a batch.

    Raises:
        ServiceError: the model has other inputs, or the shape does not follow from the bytes.
    """
    if len(inputs) != 1:
        raise ServiceError(
            Status.INVALID,
            f"Raw request must only have 1 input (found 1) to be deduced but got {len(inputs)} inputs in "
            f"{quoted(model)} model configuration",
        )
    (described,) = inputs
    shape = list(described.shape or ())
    if max_batch_size:
        shape[0] = 1
    is_text = described.kind == BYTES
    if is_text and (described.shape is None or any(length != 1 for length in shape)):
        raise ServiceError(
            Status.INVALID,
            f"For BYTE datatype raw input {quoted(described.name)}, the model must have input shape [1]",
        )
    unknown = [n for n, length in enumerate(shape) if length < 0]
    if described.shape is None or len(unknown) > 1:
        raise ServiceError(
            Status.INVALID,
            f"The shape of the raw input {quoted(described.name)} can not be deduced because there are more "
            "than one variable-sized dimension",
        )
    if is_text:
        content = memoryview(b"".join((content.nbytes.to_bytes(_LENGTH_BYTES, "little"), content)))
    elif unknown:
        known = math.prod(length for length in shape if length >= 0) * type_named(described.kind).itemsize
        shape[unknown[0]] = content.nbytes // known if known else 0
    return InputTensor(
        name=described.name,
        datatype=datatype_of(described.kind),
        shape=tuple(shape),
        source=Bytes(content),
    )


def _given_twice(given: InputTensor) -> ServiceError:
    return ServiceError(Status.INVALID, f"input {quoted(given.name)} already exists in request")


def _lengths(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _fits(shape: tuple[int, ...], described: tuple[int, ...] | None) -> bool:
    if described is None:
        return True
    return len(shape) == len(described) and all(
        length in (-1, given) for length, given in zip(described, shape, strict=True)
    )
