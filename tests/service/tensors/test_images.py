import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import Dimensions, Lifetime, OperandType
from neurald.service.tensors.images import ImageLayout, image_input, image_layout, read_image
from neurald.service.tensors.packed_normalization import Normalization

Array = np.ndarray[Any, np.dtype[Any]]

BYTES = OperandType.TENSOR_QUANT8_ASYMM
SIGNED = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
FLOAT = OperandType.TENSOR_FLOAT32
HALF = OperandType.TENSOR_FLOAT16


def model(*shapes: Dimensions, kind: OperandType = FLOAT, scale: float = 0.0, zero_point: int = 0) -> Model:
    operands = tuple(
        Operand(
            type=kind,
            dimensions=shape,
            scale=scale,
            zero_point=zero_point,
            lifetime=Lifetime.SUBGRAPH_INPUT,
        )
        for shape in shapes
    )
    graph = Subgraph(operands=operands, operations=(), inputs=tuple(range(len(operands))), outputs=())
    return Model(main=graph)


@pytest.fixture
def pixels() -> Array:
    return np.random.default_rng(0).integers(0, 256, (7, 5, 3), np.uint8)


@pytest.fixture
def photo(tmp_path: Path, pixels: Array) -> Path:
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (BYTES, lambda p: p),
        (SIGNED, lambda p: p.astype(np.int16) - 128),
        (FLOAT, lambda p: (p.astype(np.float32) - np.float32(127.5)) / np.float32(127.5)),
        (HALF, lambda p: ((p.astype(np.float32) - np.float32(127.5)) / np.float32(127.5)).astype(np.float16)),
    ],
    ids=["uint8", "int8", "float32", "float16"],
)
def test_pixels_become_inputs(
    photo: Path, pixels: Array, batch: int, kind: OperandType, expected: Callable[[Array], Array]
) -> None:
    array, _ = image_input(model((batch, 7, 5, 3), kind=kind, scale=0.5), photo)
    assert array.dtype == kind.dtype
    np.testing.assert_array_equal(array[0], expected(pixels))
    assert array.shape == (1, 7, 5, 3)


def test_mean_and_std(photo: Path, pixels: Array) -> None:
    array, _ = image_input(model((1, 7, 5, 3)), photo, mean=0.0, std=255.0)
    np.testing.assert_allclose(array[0], pixels / 255, rtol=1e-6)


def test_the_files_normalisation_is_for_float_inputs_without_another(photo: Path, pixels: Array) -> None:
    packed = Normalization(means=(10.0, 20.0, 30.0), stds=(2.0,))
    array, remark = image_input(model((1, 7, 5, 3)), photo, packed=packed)
    np.testing.assert_allclose(array[0], (pixels - np.array([10.0, 20.0, 30.0])) / 2, rtol=1e-6)
    assert remark == ""
    array, remark = image_input(model((1, 7, 5, 3)), photo, mean=0.0, std=1.0, packed=packed)
    np.testing.assert_array_equal(array[0], pixels)
    assert remark == ""
    array, remark = image_input(model((1, 7, 5, 3), kind=BYTES), photo, packed=packed)
    np.testing.assert_array_equal(array[0], pixels)
    assert remark == ""
    with pytest.raises(BadData, match="3 means and 1 standard deviations for pixels of 1 channels"):
        image_input(model((1, 28, 28, 1)), photo, packed=packed)


def test_a_guessed_normalisation_is_said_to_be_one(photo: Path) -> None:
    _, remark = image_input(model((1, 7, 5, 3)), photo)
    assert "numbers from -1 to 1" in remark
    assert "--mean 0 --std 1 (0 to 255)" in remark


@pytest.mark.parametrize(("kind", "zero_point"), [(BYTES, 100), (SIGNED, -20)])
def test_mean_and_std_of_quantised_inputs_give_real_values(
    photo: Path, pixels: Array, kind: OperandType, zero_point: int
) -> None:
    array, _ = image_input(
        model((1, 7, 5, 3), kind=kind, scale=0.01, zero_point=zero_point), photo, mean=127.5, std=127.5
    )
    real = (array[0].astype(np.float64) - zero_point) * 0.01
    info = np.iinfo(kind.dtype.name)
    wanted = np.clip((pixels - 127.5) / 127.5, (info.min - zero_point) * 0.01, (info.max - zero_point) * 0.01)
    np.testing.assert_allclose(real, wanted, atol=0.0051)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.0), (float("nan"), 1.0), (0.0, float("inf"))])
def test_numbers_that_normalise_nothing(photo: Path, mean: float, std: float) -> None:
    with pytest.raises(BadData, match="std"):
        image_input(model((1, 7, 5, 3)), photo, mean=mean, std=std)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (14, 10), (3, 11), (0, 0), (0, 4)])
def test_sizes(photo: Path, height: int, width: int) -> None:
    assert read_image(photo, height, width, 3).shape == (1, height or 7, width or 5, 3)


def test_resizing_is_bilinear(tmp_path: Path) -> None:
    ramp = np.linspace(0, 255, 16, dtype=np.uint8)[None, :].repeat(4, 0)
    Image.fromarray(ramp).save(tmp_path / "ramp.png")
    wide = read_image(tmp_path / "ramp.png", 4, 32, 1)[0, 0, :, 0].astype(int)
    assert (np.diff(wide) >= 0).all()
    assert np.diff(wide).max() <= 10


def test_grey_from_colour_and_colour_from_grey(tmp_path: Path, photo: Path) -> None:
    grey = read_image(photo, 0, 0, 1)
    np.testing.assert_array_equal(grey[0, :, :, 0], np.asarray(Image.open(photo).convert("L")))
    Image.open(photo).convert("L").save(tmp_path / "grey.png")
    colour = read_image(tmp_path / "grey.png", 0, 0, 3)
    np.testing.assert_array_equal(colour, grey.repeat(3, -1))


def test_sixteen_bits_are_scaled_not_cut(tmp_path: Path) -> None:
    values = np.array([[0, 256, 32768, 65535]], np.uint16)
    Image.fromarray(values).save(tmp_path / "deep.png")
    assert read_image(tmp_path / "deep.png", 0, 0, 1).reshape(-1).tolist() == [0, 1, 128, 255]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
@pytest.mark.parametrize("form", ["PNG", "TIFF", "GIF", "BMP", "JPEG"])
def test_modes_and_formats(tmp_path: Path, pixels: Array, mode: str, form: str) -> None:
    try:
        Image.fromarray(pixels).convert(mode).save(tmp_path / "photo", form)
    except (OSError, ValueError):
        pytest.skip(f"{form} has no mode {mode}")
    assert read_image(tmp_path / "photo", 4, 4, 3).shape == (1, 4, 4, 3)


def test_photos_are_turned_upright(tmp_path: Path, pixels: Array) -> None:
    image = Image.fromarray(pixels)
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.png", exif=exif)
    turned = read_image(tmp_path / "turned.png", 0, 0, 3)
    np.testing.assert_array_equal(turned[0], np.rot90(pixels, -1))


@pytest.mark.parametrize(
    ("shapes", "kind", "words"),
    [
        ([(1, 4, 4, 3), (1, 4, 4, 3)], FLOAT, "2 inputs"),
        ([], FLOAT, "0 inputs"),
        ([(1, 16)], FLOAT, r"float32 \[1, 16\]"),
        ([None], FLOAT, "float32 of any shape"),
        ([(1, 4, 4, 2)], FLOAT, r"\[1, 4, 4, 2\]"),
        ([(1, 2, 4, 4)], FLOAT, r"\[1, 2, 4, 4\]"),
        ([(2, 4, 4, 3)], FLOAT, r"\[2, 4, 4, 3\]"),
        ([(1, 4, 4, 3)], OperandType.TENSOR_INT32, "int32"),
        ([(1, 2**31 - 1, 2**31 - 1, 3)], FLOAT, "too large"),
    ],
)
def test_models_that_take_no_image(
    photo: Path, shapes: list[tuple[int, ...]], kind: OperandType, words: str
) -> None:
    with pytest.raises(BadData, match=words):
        image_input(model(*shapes, kind=kind), photo)


def png_of_size(width: int, height: int) -> bytes:
    def chunk(name: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


def test_files_that_are_no_images(tmp_path: Path) -> None:
    path = tmp_path / "image"
    rng = np.random.default_rng(0)
    for content in (
        b"",
        b"just text\n",
        rng.bytes(500),
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    ):
        path.write_bytes(content)
        with pytest.raises(BadData, match="is not an image"):
            read_image(path, 4, 4, 3)
    with pytest.raises(FileNotFoundError):
        read_image(tmp_path / "absent", 4, 4, 3)
    with pytest.raises(IsADirectoryError):
        read_image(tmp_path, 4, 4, 3)


@sweep("side", [12_000, 2_000_000])
def test_absurd_sizes(tmp_path: Path, side: int) -> None:
    (tmp_path / "bomb.png").write_bytes(png_of_size(side, side))
    with pytest.raises(BadData, match="too large"):
        read_image(tmp_path / "bomb.png", 4, 4, 3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "TIFF", "BMP", "WEBP"])
def test_damaged_images_are_refused_or_read(tmp_path: Path, pixels: Array, form: str) -> None:
    stream = io.BytesIO()
    Image.fromarray(pixels).resize((40, 40)).save(stream, form)
    good = stream.getvalue()
    rng = np.random.default_rng(2)
    path = tmp_path / "image"
    for round_ in range(60):
        content = bytearray(good[: rng.integers(1, len(good))] if round_ % 2 else good)
        for position in rng.integers(0, len(content), 4):
            content[position] = rng.integers(0, 256)
        path.write_bytes(content)
        try:
            assert read_image(path, 4, 4, 3).shape == (1, 4, 4, 3)
        except BadData:
            continue


def test_a_truncated_photo_is_refused(tmp_path: Path, photo: Path) -> None:
    (tmp_path / "half.png").write_bytes(photo.read_bytes()[:-60])
    with pytest.raises(BadData, match=r"half\.png is damaged"):
        read_image(tmp_path / "half.png", 4, 4, 3)


def test_an_input_without_channels_gets_a_grey_image(photo: Path) -> None:
    with_channels, _ = image_input(model((1, 28, 28, 1)), photo)
    array, _ = image_input(model((1, 28, 28)), photo)
    np.testing.assert_array_equal(array, with_channels[..., 0])
    with pytest.raises(BadData, match=r"or \[1, height, width\]"):
        image_input(model((1, 28, 3)), photo)


@pytest.mark.parametrize("kind", [BYTES, SIGNED, FLOAT])
def test_channels_may_come_first(photo: Path, kind: OperandType) -> None:
    last, remark = image_input(model((1, 6, 4, 3), kind=kind), photo)
    first, same_remark = image_input(model((1, 3, 6, 4), kind=kind), photo)
    np.testing.assert_array_equal(first, last.transpose(0, 3, 1, 2))
    assert first.flags.c_contiguous
    assert same_remark == remark
    packed = Normalization(means=(1, 2, 3), stds=(4, 5, 6))
    if kind is FLOAT:
        last, _ = image_input(model((1, 6, 4, 3)), photo, packed=packed)
        first, _ = image_input(model((1, 3, 6, 4)), photo, packed=packed)
        np.testing.assert_array_equal(first, last.transpose(0, 3, 1, 2))


def test_layouts() -> None:
    assert image_layout((1, 6, 4, 3)) == ImageLayout(height=6, width=4, channels=3)
    # Channels are last where both is possible.
    assert image_layout((1, 3, 4, 3)) == ImageLayout(height=3, width=4, channels=3)
    assert image_layout((1, 1, 28, 28)) == ImageLayout(height=28, width=28, has_channels_first=True)
    assert image_layout((1, 28, 28)) == ImageLayout(height=28, width=28)
    for shape in ((2, 6, 4, 3), (1, 6, 4, 7), (1, 8, 8), (6, 4, 3), (1, 2, 3, 4, 3), None):
        assert image_layout(shape) is None
