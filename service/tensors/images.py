"""Converts photos to model inputs."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct
from PIL import Image, ImageOps, UnidentifiedImageError

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.types import OperandType
from neurald.service.tensors.arrays import Array, describe_type, input_slots
from neurald.service.tensors.files import open_regular
from neurald.service.tensors.packed_normalization import Normalization

#: Default normalisation of float inputs: 0 to 255 becomes -1 to 1.
DEFAULT_MEAN = 127.5
DEFAULT_STD = 127.5

#: What is said of the default.
_GUESS = (
    "the pixels are given as numbers from -1 to 1, since the model's file does not say how; if the results "
    "are wrong, try --mean 0 --std 1 (0 to 255) or --mean 0 --std 255 (0 to 1)"
)
#: The supported formats. Pillow supports many more, some of which start other programs.
_FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
#: Maximum number of pixels, which is also Pillow's limit. A model with a larger input is damaged.
_MAX_PIXELS = 1 << 27
#: The numbers of channels of images: grey, and RGB.
_CHANNELS: Final = (1, 3)
#: A smaller input without channels is not an image.
_MIN_SIDE = 9
_FLOATS = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16)
_BYTES = (OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED)


class ImageLayout(Struct, frozen=True, kw_only=True):
    """Layout of an image in an input: its lengths, and whether channels come first."""

    height: int
    width: int
    channels: int = 1
    has_channels_first: bool = False


def image_layout(shape: Sequence[int] | None) -> ImageLayout | None:
    """Returns the layout of an input of this shape; None if it is not an image."""
    if shape is None or shape[:1] not in ((0,), (1,)):
        return None
    if len(shape) == 4 and shape[3] in _CHANNELS:
        return ImageLayout(height=shape[1], width=shape[2], channels=shape[3])
    if len(shape) == 4 and shape[1] in _CHANNELS:
        return ImageLayout(height=shape[2], width=shape[3], channels=shape[1], has_channels_first=True)
    if len(shape) == 3 and min(shape[1:]) >= _MIN_SIDE:
        return ImageLayout(height=shape[1], width=shape[2])
    return None


def image_input(
    model: Model,
    path: Path,
    mean: float | None = None,
    std: float | None = None,
    packed: Normalization | None = None,
) -> tuple[Array, str]:
    """Reads a photo as the only input of a model.

    The photo is rotated upright, and scaled to the model's size without keeping its aspect ratio.
    Float inputs get (pixel - mean) / std, uint8 inputs the pixels, and int8 inputs pixels - 128. If
    `mean` or `std` is given, quantised inputs get (pixel - mean) / std, quantised with the
    operand's scale and zero point.

    Args:
        model: the model.
        path: the path of the photo.
        mean, std: how pixels are normalised; None for `packed`, or the default.
        packed: what the model's file says; only float inputs are normalised so.

    Returns:
        An array of shape [1, height, width, channels], with 3 channels (RGB) or 1 (grey); with the
        channels before the height, or without them, if the model takes this. And a remark if the
        normalisation is a guess, otherwise "".

    Raises:
        BadData: the model has no such input, or the file is not a photo, is damaged or is too
            large.
        OSError: the file cannot be read.
    """
    operand, layout = _image_operand(model)
    height, width = layout.height, layout.width
    if height * width > _MAX_PIXELS:
        raise BadData(f"the model's input of {height} x {width} pixels is too large for an image")
    pixels = read_image(path, height, width, layout.channels)
    if len(operand.dimensions or ()) == 3:
        pixels = pixels[..., 0]
    values, remark = _as_input(pixels, operand, mean, std, packed)
    if layout.has_channels_first:
        values = np.ascontiguousarray(values.transpose(0, 3, 1, 2))
    return values, remark


def _as_input(
    pixels: Array, operand: Operand, mean: float | None, std: float | None, packed: Normalization | None
) -> tuple[Array, str]:
    """Returns pixels as values of an operand, and a remark; see `image_input`."""
    dtype = operand.type.dtype
    if operand.type in _BYTES and mean is None and std is None:
        lowest: int = np.iinfo(dtype.name).min
        return np.asarray(pixels.astype(np.int16) + lowest, dtype), ""
    is_given = mean is not None or std is not None
    if operand.type in _FLOATS and packed is not None and not is_given:
        return _normalized(pixels, packed).astype(dtype), ""
    mean = DEFAULT_MEAN if mean is None else mean
    std = DEFAULT_STD if std is None else std
    if not (np.isfinite(mean) and np.isfinite(std) and std != 0):
        raise BadData(
            f"mean {mean} and std {std} cannot normalise an image; numbers are expected, "
            "and for std one other than 0"
        )
    real = (pixels.astype(np.float32) - np.float32(mean)) / np.float32(std)
    if operand.type in _FLOATS:
        return np.asarray(real, dtype), "" if is_given else _GUESS
    info = np.iinfo(dtype.name)
    stored = np.round(real / np.float32(operand.scale)) + operand.zero_point
    return np.asarray(np.clip(stored, info.min, info.max), dtype), ""


def _normalized(pixels: Array, how: Normalization) -> Array:
    """Normalises pixels whose last dimension is that of the channels, if they have any."""
    means, stds = np.asarray(how.means, np.float32), np.asarray(how.stds, np.float32)
    channels = pixels.shape[-1] if pixels.ndim == 4 else 1
    if {len(means), len(stds)} - {1, channels}:
        raise BadData(
            f"the model's metadata has {len(means)} means and {len(stds)} standard deviations for pixels of "
            f"{channels} channels; --mean and --std set others"
        )
    return np.asarray((pixels.astype(np.float32) - means) / stds)


def _image_operand(model: Model) -> tuple[Operand, ImageLayout]:
    """Returns the operand of the image, and its layout."""
    slots = input_slots(model)
    if len(slots) != 1:
        raise BadData(
            f"the model has {len(slots)} inputs; an image needs a model with exactly one. --inputs FILE.npz gives "
            "arrays to several"
        )
    operand = slots[0].operand
    layout = image_layout(operand.dimensions)
    if operand.type not in (*_FLOATS, *_BYTES) or layout is None:
        found = describe_type(operand.type.dtype, operand.dimensions)
        raise BadData(
            f"the model's input is {found}; an image needs an input of shape [1, height, width, 3 or 1], "
            "[1, 3 or 1, height, width] or [1, height, width], and of type float32, float16, uint8 or int8"
        )
    return operand, layout


def read_image(path: Path, height: int, width: int, channels: int) -> Array:
    """Reads a photo as uint8 [1, height, width, channels].

    A height or width of 0 stands for that of the photo.

    Raises:
        BadData: the file is not a regular file or a photo, is damaged, or has too many pixels.
        OSError: the file cannot be read.
    """
    Image.init()
    # Pillow may have been built without some of the formats.
    formats = [name for name in _FORMATS if name in Image.OPEN]
    with open_regular(path) as file:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                with Image.open(file, formats=formats) as image:
                    photo = _convert(image, channels)
        except UnidentifiedImageError:
            raise BadData(f"{path} is not an image in a supported format ({', '.join(formats)})") from None
        except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
            raise BadData(f"{path} is too large for an image: {error}") from None
        # Damaged files make Pillow's decoders raise almost any exception.
        except Exception as error:
            raise BadData(f"{path} is damaged: {error}") from None
    size = (width or photo.width, height or photo.height)
    if size != photo.size:
        photo = photo.resize(size, Image.Resampling.BILINEAR)
    return np.asarray(photo, np.uint8).reshape(1, photo.height, photo.width, channels)


def _convert(image: Image.Image, channels: int) -> Image.Image:
    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I;16"):
        # Pillow would clip 16-bit grey at 255 instead of scaling it.
        upright = Image.fromarray((np.asarray(upright) >> 8).astype(np.uint8))
    return upright.convert("RGB" if channels == 3 else "L")
