"""What can be fuzzed: a target makes damaged inputs of good ones, and says what came of each."""

import base64
import random
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

#: The targets, and the modules that they are in.
MODULES: Mapping[str, str] = {
    "tflite": "fuzz.target_tflite",
    "requests": "fuzz.target_requests",
    "ring": "fuzz.target_ring",
    "cache": "fuzz.target_cache",
    "npz": "fuzz.target_npz",
}


class Finding(Exception):
    """Something that must not happen."""


class Target(Protocol):
    """A target in a worker process.

    Attributes:
        limit_s: how long a case may take.
        address_space: bytes that a worker may map beyond what it starts with.
    """

    limit_s: float
    address_space: int

    def seeds(self) -> Sequence[bytes]:
        """Good inputs, always in the same order."""
        ...

    def mutate(self, content: bytes, rng: random.Random) -> tuple[bytes, str]:
        """A damaged copy, and what was done to it."""
        ...

    def run(self, content: bytes) -> str:
        """What became of an input: a few words, which are the same for inputs that go the same way.

        Raises:
            Finding: what must not happen.
        """
        ...

    def pieces(self, content: bytes) -> Sequence[Any]:
        """What an input is made of, in order; `joined` puts some of them together. For making an input smaller."""
        ...

    def joined(self, pieces: Sequence[Any], content: bytes) -> bytes:
        """An input of some of the pieces of `content`."""
        ...

    def close(self) -> None:
        """Ends what was started.

        Raises:
            Finding: something is left that should not be.
        """
        ...


def target_of(name: str, models: Path | None) -> Target:
    """The target of that name.

    Args:
        name: one of `MODULES`, or a module with a function `create`.
        models: folder with more good `.tflite` files.
    """
    make: Callable[[Path | None], Target] = import_module(MODULES.get(name, name)).create
    return make(models)


_NUMBERS = re.compile(r"-?(0x[0-9a-f]+|\d[\d.e+-]*|inf|nan)")
_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|/[\w./-]+|\b[A-Z][A-Z0-9_]{2,}\b|\[[^\]]*\]")


def kind_of(text: str) -> str:
    """A message without the numbers and names in it: messages of one place in the code become the same."""
    return _NUMBERS.sub("#", _NAMES.sub("@", text))[:160]


#: What damaged bytes are likely to be.
_INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)


def mutate_bytes(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """A copy with damaged, missing, repeated or new bytes."""
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
    """An input in pieces of bytes."""
    size = max(1, -(-len(content) // 256), 1 if len(content) < 256 else length)
    return [content[start : start + size] for start in range(0, len(content), size)]


def as_text(content: bytes) -> str:
    """Bytes for JSON."""
    return base64.b64encode(content).decode()


def from_text(text: str) -> bytes:
    """Bytes of `as_text`."""
    return base64.b64decode(text)
