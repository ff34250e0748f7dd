"""Translates what follows the flags of other benchmark tools."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from neurald.hal.errors import BadData

Translation = Callable[[str], list[str]]


class BadValue(BadData):
    """Something else was expected to follow a flag; the message says what."""


TRUE: Final = ("", "1", "true")
FALSE: Final = ("0", "false")

#: A shape in brackets, after a name or without one.
_BRACKETS: Final = re.compile(r"([^\[\]]*)\[([0-9, ]*)\]")
_LENGTHS: Final = re.compile(r"[0-9]+(x[0-9]+)*")
#: The name of the only input.
_ONLY: Final = "input_0"

_DEVICES: Final = {"CPU": "cpu", "GPU": "opencl"}


def same(flag: str) -> Translation:
    """Returns what gives a value to another flag."""
    return lambda value: [flag, value]


def if_true(*flags: str) -> Translation:
    """Returns what translates a truth to flags."""
    return lambda value: list(flags) if value.lower() in TRUE else []


def scaled(flag: str, factor: float) -> Translation:
    """Returns what gives a value in another unit to another flag."""
    return lambda value: [flag, f"{_number(value) * factor:g}"]


def unless_negative(flag: str) -> Translation:
    """Returns what gives a value to another flag, unless it is below 0, which stands for none."""
    return lambda value: [] if value.startswith("-") else [flag, value]


def at_least(flag: str, least: int) -> Translation:
    """Returns what gives a value to another flag, which has a minimum."""
    return lambda value: [flag, value if _number(value) >= least else str(least)]


def chosen(value: str, *known: str) -> str:
    """Returns one of some words.

    Raises:
        BadValue: it is something else.
    """
    if value not in known:
        raise BadValue(f"one of {', '.join(known)} is expected")
    return value


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise BadValue("a number is expected") from None


def unless_zero(flag: str) -> Translation:
    """Returns what gives a value to another flag, unless it is 0, which stands for none."""
    return lambda value: [] if value in ("", "0") else [flag, value]


def positional(value: str) -> list[str]:
    """Translates the file of a model.

    Raises:
        BadValue: there is none.
    """
    if not value:
        raise BadValue("the file of a model is expected")
    return [value]


def bracketed_shapes(value: str) -> list[str]:
    """Translates `x[1,3],y[2]`, and `[1,3]` for the only input.

    Raises:
        BadData: it is something else, or has lengths that are not numbers.
    """
    flags: list[str] = []
    rest = value
    while rest:
        match = _BRACKETS.match(rest)
        name = match[1].strip().strip(",").strip() if match else ""
        if match is None or not match[2] or (flags and not name):
            raise BadData(
                f"the shapes {value!r} cannot be read; expected one for each input with numbers for lengths, "
                "such as x[1,3],y[2]"
            )
        flags += ["--shape", f"{name or _ONLY}={match[2].replace(' ', '').replace(',', 'x')}"]
        rest = rest[match.end() :]
    return flags


def named_shapes(value: str) -> list[str]:
    """Translates `x:1x3,y:2`, where names may have colons, and may be quoted.

    Raises:
        BadData: it is something else.
    """
    flags: list[str] = []
    for each in value.split(","):
        name, colon, lengths = each.replace("'", "").rpartition(":")
        if not colon or not _LENGTHS.fullmatch(lengths):
            raise BadData(f"the shapes {value!r} cannot be read; expected NAME:SHAPE, such as x:1x3,y:2")
        flags += ["--shape", f"{name}={lengths}"]
    return flags


def named_files(value: str) -> list[str]:
    """Translates `x:one.bin,y:two.bin`, where names may have colons, and may be quoted."""
    flags: list[str] = []
    for each in value.split(","):
        name, _, path = each.replace("'", "").rpartition(":")
        flags += ["--input", f"{name or _ONLY}={path}"]
    return flags


def input_files(value: str) -> list[str]:
    """Translates `x:one.bin` and `one.bin`; photos are not an input here."""
    if value.endswith(".npz"):
        return ["--inputs", value]
    if value.endswith((".bin", ".npy")):
        return named_files(value)
    return []


def devices(value: str) -> list[str]:
    """Translates `CPU`, `GPU.0`, `MULTI:CPU(2),GPU`."""
    if value.upper() in ("AUTO", "HETERO", ""):
        return []
    listed = [re.sub(r"\(\d+\)$", "", each) for each in value.rpartition(":")[2].split(",")]
    return [
        flag for each in listed for flag in ("--device", _DEVICES.get(each.upper().removesuffix(".0"), each))
    ]


def precision(value: str) -> list[str]:
    """Translates `f16` and `CPU:f32,GPU:f16`. Other types are not chosen here."""
    named = {each.rpartition(":")[2].lower() for each in value.split(",")}
    return ["--relaxed"] if named & {"f16", "fp16"} else []


def layers(names: str, shapes: str, ranges: str, files: str) -> list[str]:
    """Translates the flags of `benchmark_model` that describe inputs.

    They name all inputs, in the order of the model. The names only refer to each other.

    Args:
        names: such as `x,y`.
        shapes: such as `1,224,224,3:1,8`.
        ranges: such as `x,0,9:y,1,2`.
        files: such as `x:one.bin,y:two.bin`; `::` is a colon of a name.

    Raises:
        BadData: they do not go together.
    """
    listed = names.split(",") if names else []
    lengths = shapes.split(":") if shapes else []
    if len(listed) != len(lengths):
        raise BadData(
            f"--input_layer names {len(listed)} inputs, and --input_layer_shape has {len(lengths)} shapes; as "
            "many are expected"
        )
    flags: list[str] = []
    for position, each in enumerate(lengths):
        if each:
            flags += ["--shape", f"input_{position}={each.replace(',', 'x')}"]
    for each in ranges.split(":") if ranges else ():
        name, *limits = each.split(",")
        if len(limits) != 2:
            raise BadData(f"--input_layer_value_range {each!r} cannot be read; expected NAME,LOW,HIGH")
        position = _position(name, listed, "--input_layer_value_range")
        flags += ["--input-range", f"input_{position}={':'.join(limits)}"]
    for each in files.split(",") if files else ():
        name, path = _name_and_file(each)
        flags += ["--input", f"input_{_position(name, listed, '--input_layer_value_files')}={path}"]
    return flags


def _position(name: str, listed: Sequence[str], flag: str) -> int:
    if name not in listed:
        raise BadData(f"{flag} names {name!r}; --input_layer has {', '.join(listed) or 'none'}")
    return listed.index(name)


def _name_and_file(text: str) -> tuple[str, str]:
    parts = [each.replace("\0", ":") for each in text.replace("::", "\0").split(":")]
    if len(parts) != 2:
        raise BadData(f"--input_layer_value_files {text!r} cannot be read; expected NAME:FILE")
    return parts[0], parts[1]
