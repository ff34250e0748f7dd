"""Reads the inputs of a run from the files that a user names: a photo, a sound or arrays."""

from dataclasses import dataclass
from pathlib import Path

from neurald.hal.model.model import Model
from neurald.service.tensors.arrays import SEED, Array, input_slots, random_inputs, read_inputs
from neurald.service.tensors.packed_normalization import Normalization
from neurald.service.tensors.shapes import Shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFiles:
    """At most one file with inputs, and how it is read.

    Attributes:
        image: a photo.
        mean: see `image_input`.
        std: see `image_input`.
        packed: see `image_input`.
        audio: a sound.
        rate: see `audio_input`; None for its default.
        arrays: a `.npz` file.
    """

    image: Path | None = None
    mean: float | None = None
    std: float | None = None
    packed: Normalization | None = None
    audio: Path | None = None
    rate: int | None = None
    arrays: Path | None = None


def read_given(model: Model, files: InputFiles, shapes: Shapes) -> tuple[str, list[Array], list[str]]:
    """Returns the inputs of a model, where they come from for messages, and remarks on them.

    Without files the inputs are random, and have the given shapes.

    Raises:
        BadData: a file does not go with the model, or is damaged.
        OSError: a file cannot be read.
    """
    if files.image is not None:
        from neurald.service.tensors.images import image_input

        array, remark = image_input(model, files.image, files.mean, files.std, files.packed)
        return str(files.image), [array], [remark] if remark else []
    if files.audio is not None:
        from neurald.service.tensors.audio import DEFAULT_RATE, audio_input

        array, remark = audio_input(model, files.audio, files.rate or DEFAULT_RATE)
        return str(files.audio), [array], [remark] if remark else []
    if files.arrays is not None:
        return str(files.arrays), read_inputs(files.arrays, input_slots(model)), []
    return f"random (seed {SEED})", random_inputs(input_slots(model), shapes), []
