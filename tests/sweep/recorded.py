"""What the last sweep found, in compact form: for each operator a letter for every form, in the order in which forms are made.

Verdicts are those of `judge.py`, by their first letters (`more` is m, `declined` is n, for neither). A digest of the names tells when
forms have changed since, so that the sweep must be run and recorded again.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from sweep.form import Form
from sweep.forms import OPERATORS, forms_of

PATH = Path(__file__).with_name("recorded.json")
LETTERS: Mapping[str, str] = {"agrees": "a", "differs": "d", "refused": "r", "more": "m", "declined": "n"}


def digest(forms: Sequence[Form]) -> int:
    """Of the names of forms in order."""
    return zlib.crc32("\n".join(form.name for form in forms).encode())


def record(verdicts: Mapping[tuple[str, str], str]) -> None:
    """Writes down the verdicts on all forms, by operator and form; operators that were left out keep theirs."""
    found = json.loads(PATH.read_text()) if PATH.exists() else {}
    for operator in OPERATORS:
        forms = forms_of(operator)
        if all((operator, form.name) in verdicts for form in forms):
            letters = "".join(LETTERS.get(verdicts[operator, form.name], "x") for form in forms)
            found[operator] = [digest(forms), letters]
    PATH.write_text(json.dumps(dict(sorted(found.items())), indent=0) + "\n")


def recorded(operator: str, forms: Sequence[Form]) -> str:
    """A letter for each form of an operator.

    Raises:
        AssertionError: the forms are no longer those that were recorded.
    """
    known_digest, letters = json.loads(PATH.read_text()).get(operator, (0, ""))
    assert known_digest == digest(forms), (
        f"the forms of {operator} have changed: run tests/sweep/run.py --operator {operator} --references --record"
    )
    return str(letters)
