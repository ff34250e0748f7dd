"""Compact record of the last sweep: one letter per form of each operator, in order.

Verdicts are those of `judge.py`, by their first letters (`more` is m, `declined` is n, for
neither). A digest of the names shows whether forms have changed since, so that the sweep must be
run and recorded again.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweep.form import Form
from sweep.forms import OPERATORS, forms_of

PATH = Path(__file__).with_name("recorded.json")
LETTERS: Mapping[str, str] = {"agrees": "a", "differs": "d", "refused": "r", "more": "m", "declined": "n"}
_UNKNOWN = "x"


def digest(forms: Sequence[Form]) -> int:
    """Returns a digest of the names of forms in order."""
    return zlib.crc32("\n".join(form.name for form in forms).encode())


def record(verdicts: Mapping[tuple[str, str], str]) -> None:
    """Records verdicts by operator and form; forms that were not run keep theirs."""
    found = _read()
    for operator in OPERATORS:
        forms = forms_of(operator)
        new = [verdicts.get((operator, form.name)) for form in forms]
        known_digest, old = found.get(operator, (0, ""))
        if None in new and known_digest != digest(forms):
            continue
        letters = [
            old[place] if verdict is None else LETTERS.get(verdict, _UNKNOWN)
            for place, verdict in enumerate(new)
        ]
        found[operator] = [digest(forms), "".join(letters)]
    PATH.write_text(json.dumps(dict(sorted(found.items())), indent=0) + "\n")


def unsettled(operator: str) -> list[Form]:
    """Returns the forms of an operator with a recorded problem."""
    forms = forms_of(operator)
    settled = {LETTERS[verdict] for verdict in ("agrees", "more", "declined")}
    return [
        form for form, letter in zip(forms, recorded(operator, forms), strict=True) if letter not in settled
    ]


def _read() -> dict[str, Any]:
    return dict(json.loads(PATH.read_text())) if PATH.exists() else {}


def recorded(operator: str, forms: Sequence[Form]) -> str:
    """Returns a letter for each form of an operator.

    Raises:
        AssertionError: the forms have changed since they were recorded.
    """
    known_digest, letters = _read().get(operator, (0, ""))
    assert known_digest == digest(forms), (
        f"the forms of {operator} have changed: run tests/sweep/run.py --operator {operator} --references --record"
    )
    return str(letters)
