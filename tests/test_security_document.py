"""Every promise in SECURITY.md names an existing test."""

import re

from support.pages.promises import NAMED_TEST, ROOT, check_named_tests
from support.sweeps import sweep

_HEADING = re.compile(r"\| \w+ cannot \| test \|")


def promises() -> list[str]:
    """Returns the rows of all tables of promises."""
    rows: list[str] = []
    is_promise = False
    for line in (ROOT / "SECURITY.md").read_text(encoding="utf-8").splitlines():
        if _HEADING.fullmatch(line):
            is_promise = True
        elif not line.startswith("|"):
            is_promise = False
        elif is_promise and not line.startswith("| ---"):
            rows.append(line)
    return rows


@sweep("promise", promises(), ids=lambda row: row.split("|")[1].strip()[:60])
def test_a_promise_names_tests_that_exist(promise: str) -> None:
    text, named = promise.strip("| ").rsplit(" | ", 1)
    assert text
    check_named_tests(named)


def test_every_party_is_promised_something() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.+?)$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    for party in (
        "A hostile model",
        "A local client of a daemon",
        "Another user of this machine",
        "A remote client",
        "A hostile or compromised driver",
        "A cache writer",
    ):
        assert NAMED_TEST.search(sections[party]), party
    assert len(promises()) > 40


def test_no_test_is_named_outside_of_promises() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert len(NAMED_TEST.findall(text)) == sum(len(NAMED_TEST.findall(row)) for row in promises())
