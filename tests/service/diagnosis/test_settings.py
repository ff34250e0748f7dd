"""Findings of a diagnosis about configuration files and environment variables."""

import re
from pathlib import Path

import pytest

from neurald.service.diagnosis.finding import Finding, Severity
from neurald.service.diagnosis.settings import VARIABLES, examine_settings

PAGE = Path(__file__).parents[3] / "docs" / "environment.md"


def found(subject: str) -> Finding:
    (finding,) = [each for each in examine_settings() if each.subject == subject]
    return finding


def test_all_documented_variables_are_known() -> None:
    documented = set(re.findall(r"`(NEURALD_[A-Z_]+)`", PAGE.read_text(encoding="utf-8")))
    assert documented == set(VARIABLES)
    assert sorted(VARIABLES) == list(VARIABLES)


def test_a_misspelt_variable_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURALD_THRAEDS", "4")
    monkeypatch.setenv("NEURALD_QQQQ", "4")
    monkeypatch.setenv("NEURALD_THREADS", "4")
    assert "NEURALD_THREADS" in found("NEURALD_THRAEDS").advice
    assert found("NEURALD_QQQQ").advice == "remove it"
    assert found("NEURALD_THREADS").severity is Severity.OK


def test_an_unknown_key_of_the_configuration_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "neurald.toml"
    monkeypatch.setenv("NEURALD_CONFIG", str(path))
    path.write_text("idle_s = 3\n")
    assert found("configuration").severity is Severity.OK
    path.write_text("idel_s = 3\n")
    finding = found("configuration")
    assert finding.severity is Severity.PROBLEM
    assert "idel_s" in finding.found
