"""Interface of fuzz targets, which mutate valid inputs and run them."""

import base64
import random
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

#: Targets and their modules.
MODULES: Mapping[str, str] = {
    "tflite": "fuzz.target_tflite",
    "requests": "fuzz.target_requests",
    "ring": "fuzz.target_ring",
    "lane": "fuzz.target_lane",
    "cache": "fuzz.target_cache",
    "npz": "fuzz.target_npz",
    "config": "fuzz.target_config",
}


class Finding(Exception):
    """Failure found by fuzzing."""


class Target(Protocol):
    """Target in a worker process.

    Attributes:
        limit_s: the time limit of a case.
        address_space: bytes that a worker may map beyond its initial use.
    """

    limit_s: float
    address_space: int

    def seeds(self) -> Sequence[bytes]:
        """Returns valid inputs, in a fixed order."""
        ...

    def mutate(self, content: bytes, rng: random.Random) -> tuple[bytes, str]:
        """Returns a mutated copy, and a description of the mutation."""
        ...

    def run(self, content: bytes) -> str:
        """Runs an input; returns a few words that are equal for inputs with the same outcome.

        Raises:
            Finding: something failed.
        """
        ...

    def pieces(self, content: bytes) -> Sequence[Any]:
        """Splits an input into pieces for shrinking; `joined` combines some of them."""
        ...

    def joined(self, pieces: Sequence[Any], content: bytes) -> bytes:
        """Returns an input from some of the pieces of `content`."""
        ...

    def close(self) -> None:
        """Ends everything that was started.

        Raises:
            Finding: something is left over.
        """
        ...


def target_of(name: str, models: Path | None) -> Target:
    """Returns the target of that name.

    Args:
        name: one of `MODULES`, or a module with a function `create`.
        models: a folder with more valid `.tflite` files.
    """
    make: Callable[[Path | None], Target] = import_module(MODULES.get(name, name)).create
    return make(models)


_NUMBERS = re.compile(r"-?(0x[0-9a-f]+|\d[\d.e+-]*|inf|nan)")
_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|/[\w./-]+|\b[A-Z][A-Z0-9_]{2,}\b|\[[^\]]*\]")


def kind_of(text: str) -> str:
    """Removes numbers and names from a message, which leaves its kind."""
    return _NUMBERS.sub("#", _NAMES.sub("@", text))[:160]


#: Likely values of damaged bytes.
_INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)


def mutate_bytes(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Returns a copy with damaged, missing, repeated or new bytes."""
    data = bytearray(content)
    names = []
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        kind = rng.choice(("flip", "set", "remove", "repeat", "insert", "cut", "number"))
        names.append(kind)
        at = rng.randrange(len(data) + 1)
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == "set" and at < len(data):
            data[at] = rng.choice((*_INTERESTING, rng.randrange(256)))
        elif kind == "remove":
            del data[at : at + rng.randint(1, 8)]
        elif kind == "repeat":
            other = rng.randrange(len(data) + 1)
            data[at:at] = data[other : other + rng.randint(1, 30)]
        elif kind == "insert":
            data[at:at] = rng.randbytes(rng.randint(1, 8))
        elif kind == "cut":
            if rng.random() < 0.3:
                del data[at:]
        else:
            size = rng.choice((1, 2, 4, 8))
            value = rng.choice((0, 1, 2 ** (8 * size - 1), 2 ** (8 * size) - 1, 2 ** (8 * size - 1) - 1))
            data[at : at + size] = value.to_bytes(size, "little")
    return bytes(data), "+".join(names)


def byte_runs(content: bytes, length: int = 16) -> list[bytes]:
    """Splits an input into pieces of bytes."""
    size = max(1, -(-len(content) // 256), 1 if len(content) < 256 else length)
    return [content[start : start + size] for start in range(0, len(content), size)]


def as_text(content: bytes) -> str:
    """Encodes bytes for JSON."""
    return base64.b64encode(content).decode()


def from_text(text: str) -> bytes:
    """Decodes the result of `as_text`."""
    return base64.b64decode(text)
