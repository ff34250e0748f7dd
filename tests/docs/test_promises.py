"""The promises to operators name existing tests."""

import re

from support.pages.promises import NAMED_TEST, ROOT, check_named_tests
from support.sweeps import sweep

_ROW = re.compile(r"^\| ([RS]\d+) \| (.+) \| (.+) \|$", re.MULTILINE)


def promises() -> list[tuple[str, str, str]]:
    """Returns the label, the text and the tests of each promise."""
    return _ROW.findall((ROOT / "docs" / "reference" / "promises.md").read_text(encoding="utf-8"))


@sweep("promise", promises(), ids=lambda row: row[0])
def test_a_promise_names_tests_that_exist(promise: tuple[str, str, str]) -> None:
    _, text, named = promise
    assert text.endswith(".")
    assert NAMED_TEST.search(text) is None
    check_named_tests(named)


def test_no_promise_is_missing() -> None:
    labels = [label for label, _, _ in promises()]
    assert labels == [*(f"R{number}" for number in range(1, 15)), *(f"S{number}" for number in range(1, 10))]
