"""Corpus of inputs to start from, each of which had a new outcome."""

import hashlib
from pathlib import Path

#: Larger inputs are not kept.
_LARGEST = 256 << 10
_MOST = 1000


class Corpus:
    """Folder of inputs, the smallest one for each kind of outcome.

    Args:
        folder: the folder; None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._sizes: dict[str, int] = {}
        if folder is not None and folder.is_dir():
            self._sizes = {path.stem: path.stat().st_size for path in sorted(folder.glob("*.bin"))}

    @property
    def paths(self) -> list[Path]:
        """Files in a fixed order."""
        return [] if self._folder is None else [self._folder / f"{name}.bin" for name in self._sizes]

    def wants(self, outcome: str, size: int) -> bool:
        """Returns True if an input of that size with that outcome would be kept."""
        if self._folder is None or size > _LARGEST:
            return False
        known = self._sizes.get(_name(outcome))
        return len(self._sizes) < _MOST if known is None else size < known

    def add(self, outcome: str, content: bytes) -> None:
        """Keeps an input, if it is wanted."""
        if self._folder is None or not self.wants(outcome, len(content)):
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        name = _name(outcome)
        (self._folder / f"{name}.bin").write_bytes(content)
        self._sizes[name] = len(content)


def _name(outcome: str) -> str:
    return hashlib.sha256(outcome.encode()).hexdigest()[:16]
