"""The whole diagnosis."""

from collections.abc import Iterator

import pytest

from neurald.service.diagnosis import diagnosis
from neurald.service.diagnosis.diagnosis import diagnose
from neurald.service.diagnosis.finding import Finding, Severity


def test_all_areas_but_devices() -> None:
    areas = list(dict.fromkeys(area for area, _ in diagnose(with_devices=False)))
    assert areas == ["machine", "installation", "settings", "places", "service"]


def test_an_area_that_fails_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> Iterator[Finding]:
        yield Finding(subject="first", found="is there")
        raise OSError(13, "Permission denied")

    def right() -> Iterator[Finding]:
        yield Finding(subject="second", found="is there, too")

    monkeypatch.setattr(diagnosis, "_AREAS", (("a", failing), ("b", right)))
    found = list(diagnose())
    assert [(area, each.subject) for area, each in found] == [("a", "first"), ("a", "a"), ("b", "second")]
    assert found[1][1].severity is Severity.PROBLEM
    assert "Permission denied" in found[1][1].found
