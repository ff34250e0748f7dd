"""Records the progress of a long run of numbered cases in a file, so that it can be resumed."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: Number of cases between writes of the file.
_EVERY = 200


class Progress:
    """The seed, the completed cases, their outcomes, and the findings.

    Args:
        path: of the file; None records nothing.
        seed: of the run; must be that of an existing file.

    Raises:
        ValueError: the file is of a run with another seed.
    """

    def __init__(self, path: Path | None, seed: int) -> None:
        self._path = path
        self.seed = seed
        #: All cases below `position` are done, and those in `_ahead`.
        self.position = 0
        self._ahead: set[int] = set()
        self.outcomes: Counter[str] = Counter()
        self.findings: list[Mapping[str, Any]] = []
        self._unwritten = 0
        if path is not None and path.exists():
            state = json.loads(path.read_text())
            if state["seed"] != seed:
                raise ValueError(
                    f"{path} is of a run with seed {state['seed']}; give that, or another folder"
                )
            self.position, self._ahead = state["position"], set(state["ahead"])
            self.outcomes = Counter(state["outcomes"])
            self.findings = state["findings"]

    @property
    def done(self) -> int:
        """Number of completed cases."""
        return self.position + len(self._ahead)

    def remaining(self, count: int) -> Iterator[int]:
        """Yields the numbers below `count` that are not done."""
        for number in range(self.position, count):
            if number not in self._ahead:
                yield number

    def note(self, number: int, outcome: str, *findings: Mapping[str, Any]) -> None:
        """Records that a case is done."""
        self.outcomes[outcome] += 1
        self.findings.extend(findings)
        self._ahead.add(number)
        while self.position in self._ahead:
            self._ahead.remove(self.position)
            self.position += 1
        self._unwritten += 1
        if findings or self._unwritten >= _EVERY:
            self.write()

    def write(self) -> None:
        """Writes the file atomically."""
        self._unwritten = 0
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "seed": self.seed,
            "position": self.position,
            "ahead": sorted(self._ahead),
            "outcomes": dict(sorted(self.outcomes.items())),
            "findings": self.findings,
        }
        temporary = self._path.with_suffix(".new")
        temporary.write_text(json.dumps(state, indent=1) + "\n")
        temporary.replace(self._path)
