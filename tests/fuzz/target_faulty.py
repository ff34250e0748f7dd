"""Target with faults, for tests of campaigns: bytes of an input make it raise, abort or hang."""

import os
import random
import time
from collections.abc import Sequence
from pathlib import Path

from fuzz.target import mutate_bytes


class FaultyTarget:
    """Implements `Target`."""

    limit_s = 0.5
    address_space = 1 << 30

    def seeds(self) -> Sequence[bytes]:
        """See `Target.seeds`."""
        return [b"a" * 8]

    def mutate(self, content: bytes, rng: random.Random) -> tuple[bytes, str]:
        """See `Target.mutate`."""
        data = bytearray(mutate_bytes(content, rng)[0] or b"a")
        data[rng.randrange(len(data))] = rng.choice(b"aaaaaaaaaxyz")
        return bytes(data), "set"

    def run(self, content: bytes) -> str:
        """See `Target.run`."""
        if b"x" in content:
            raise ValueError("an x")
        if b"y" in content:
            os.abort()
        if b"z" in content:
            time.sleep(60)
        return f"{len(set(content))} values"

    def pieces(self, content: bytes) -> Sequence[int]:
        """See `Target.pieces`."""
        return list(content)

    def joined(self, pieces: Sequence[int], content: bytes) -> bytes:
        """See `Target.joined`."""
        return bytes(pieces)

    def close(self) -> None:
        """See `Target.close`."""


def create(models: Path | None) -> FaultyTarget:
    """Creates the target."""
    del models
    return FaultyTarget()
