"""Sources that were measured to be fastest on known GPUs, so that these need not be measured again.

A file beside this one for each GPU (`NAME.json`) has the choices for classes of work: kernels whose
arguments have the same types and about the same sizes. A choice is the label of a source, which
names its tiling. Classes without a choice, or whose choice is not a candidate, are measured.
`benchmarks/opencl/batches.py --choices` makes these files.
"""

import hashlib
import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Final

import msgspec

from neurald.drivers.compiler.support.kernel_file import file_content
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.runtime.executable import KernelCall
from neurald.hal.decoding import from_json
from neurald.hal.records import DECODE_ERRORS

_LOG = logging.getLogger(__name__)

#: The choice of running the kernels of a chain, or all kernels of a step, separately.
SEPARATE: Final = "separate"
#: Limits on a file and on the candidates among which a choice is looked for.
_MAX_FILE_BYTES, _MAX_SOURCES = 1 << 20, 24
#: Sizes are the same if they differ by less than a quarter of an octave or so.
_PER_OCTAVE = 4
#: Largest size that must be equal.
_MAX_EQUAL = 16
_KEY_BYTES = 6
#: GPUs whose choices are those of another one, because they have the same chip.
_SAME_AS: Final = {"NVIDIA H200": "NVIDIA H100 80GB HBM3"}

_Label = Annotated[str, msgspec.Meta(max_length=300)]
_Key = Annotated[str, msgspec.Meta(pattern=f"^[0-9a-f]{{{2 * _KEY_BYTES}}}$")]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of a file.

    Attributes:
        device: the name of the GPU.
        labels: the labels of sources.
        choices: the index of a label for each class.
    """

    device: str
    labels: Annotated[list[_Label], msgspec.Meta(max_length=4096)]
    choices: Annotated[dict[_Key, int], msgspec.Meta(max_length=65536)]


class Choices:
    """Choices for a device, and those that were measured since. Thread-safe.

    Attributes:
        measured: labels by class, of what this process has measured first.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known
        self.measured: dict[str, str] = {}

    @classmethod
    def of_device(cls, name: str) -> "Choices":
        """Returns the choices for the GPU of this name; none without a valid file."""
        name = known_as(name)
        file = file_name(name)
        try:
            return cls(decoded(file_content(__name__, file), name))
        except FileNotFoundError:
            return cls({})
        except (ValueError, *DECODE_ERRORS) as error:
            _LOG.warning("%s is ignored: %s", file, error)
            return cls({})

    def label(self, key: str) -> str | None:
        """Returns the choice for a class; None if there is none."""
        return self._known.get(key)

    def source(self, key: str, sources: Sequence[Source]) -> Source | None:
        """Returns the choice for a class if it is among the first of these sources."""
        label = self._known.get(key)
        if label is None:
            return None
        return next((each for each in islice(sources, _MAX_SOURCES) if each.label == label), None)

    def record(self, key: str, label: str) -> None:
        """Records what was measured to be fastest."""
        self.measured.setdefault(key, label)


def known_as(device: str) -> str:
    """Returns the GPU whose choices a GPU has: another one with the same chip, or itself."""
    return _SAME_AS.get(device, device)


def file_name(device: str) -> str:
    """Returns the name of the file of a GPU."""
    return f"{re.sub(r'[^a-z0-9]+', '_', device.lower()).strip('_')}.json"


def decoded(text: str, device: str) -> dict[str, str]:
    """Returns the choices in a file.

    Raises:
        ValueError: the file is too long, or for another device, or a choice has no label.
        msgspec.DecodeError: it is not a valid file.
    """
    if len(text) > _MAX_FILE_BYTES:
        raise ValueError(f"the file has {len(text)} characters; expected at most {_MAX_FILE_BYTES}")
    file = from_json(text, _File)
    if file.device != device:
        raise ValueError(f"the file is for {file.device!r}; expected {device!r}")
    wrong = [number for number in file.choices.values() if not 0 <= number < len(file.labels)]
    if wrong:
        raise ValueError(f"label {wrong[0]} is chosen; there are {len(file.labels)}")
    return {key: file.labels[number] for key, number in file.choices.items()}


def encoded(device: str, choices: Mapping[str, str]) -> str:
    """Returns the file with these choices."""
    labels = sorted(set(choices.values()))
    numbers = {label: number for number, label in enumerate(labels)}
    file = _File(
        device=device, labels=labels, choices={key: numbers[label] for key, label in sorted(choices.items())}
    )
    return msgspec.json.format(msgspec.json.encode(file), indent=1).decode() + "\n"


def class_of(sources: Sequence[Source], *, is_resident: bool, count: int = 1) -> str:
    """Returns the class of a kernel or of a chain.

    Args:
        sources: its candidates.
        is_resident: whether they are measured as phases of a persistent kernel.
        count: the number of kernels in the chain.
    """
    first = sources[0]
    method = re.split(r"[,\d]", first.label, maxsplit=1)[0]
    values = [f"{each.type.value}{[_rounded(size) for size in each.shape]}" for each in first.arguments]
    return _key((method, "phase" if is_resident else "kernel", str(count), *values))


def class_of_step(calls: Iterable[KernelCall]) -> str:
    """Returns the class of a step: exactly these kernels with these numbers of groups."""
    return _key(f"{call.label} {call.groups}" for call in calls)


def _key(parts: Iterable[str]) -> str:
    return hashlib.blake2s("\n".join(parts).encode(), digest_size=_KEY_BYTES).hexdigest()


def _rounded(size: int) -> int:
    return size if size <= _MAX_EQUAL else _MAX_EQUAL + round(_PER_OCTAVE * math.log2(size))
