"""The command `neurald doctor`."""

from collections.abc import Iterator

import pytest
from support.daemon.command_line import invoke, invoke_json

from neurald.service.diagnosis import diagnosis
from neurald.service.diagnosis.finding import Finding, Severity


def with_findings(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> None:
    def examine() -> Iterator[Finding]:
        yield from findings

    monkeypatch.setattr(diagnosis, "_AREAS", (("places", examine),))


def test_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    with_findings(monkeypatch, Finding(subject="cache", found="/home/a/.cache"))
    result = invoke("doctor")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "nothing is wrong"
    assert invoke_json("doctor") == [
        {"area": "places", "subject": "cache", "found": "/home/a/.cache", "severity": "ok", "advice": ""}
    ]


def test_problems_decide_the_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    note = Finding(subject="sandbox", found="partial", severity=Severity.NOTE, advice="update\nLinux")
    with_findings(monkeypatch, note, note)
    result = invoke("doctor")
    assert result.exit_code == 0
    assert "note: places, sandbox: update\\nLinux" in result.stdout
    assert result.stdout.splitlines()[-1] == "2 notes"
    problem = Finding(subject="cache", found="not there", severity=Severity.PROBLEM, advice="make it")
    with_findings(monkeypatch, problem, note)
    result = invoke("doctor")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "1 problem, 1 note"
    assert invoke("doctor", "--json").exit_code == 1


def test_this_installation() -> None:
    found = invoke_json("doctor", "--no-devices")
    assert {each["area"] for each in found} == {"machine", "installation", "settings", "places", "service"}
