"""Findings of a diagnosis about directories and files."""

from pathlib import Path

import pytest

from neurald.service.diagnosis.finding import Finding, Severity
from neurald.service.diagnosis.places import examine_places


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable, name in (
        ("XDG_RUNTIME_DIR", "run"),
        ("XDG_CACHE_HOME", "cache"),
        ("NEURALD_SECRET_FILE", "secret"),
        ("NEURALD_MACHINE_DIRECTORY", "machine"),
    ):
        monkeypatch.setenv(variable, str(tmp_path / name))
    return tmp_path


def found(subject: str) -> Finding:
    (finding,) = [each for each in examine_places() if each.subject == subject]
    return finding


def test_what_does_not_exist_yet_can_be_made(places: Path) -> None:
    findings = list(examine_places())
    assert [each.subject for each in findings] == ["runtime directory", "secret", "cache"]
    assert all(each.severity is Severity.OK for each in findings)
    assert not list(places.iterdir()), "a diagnosis makes nothing"


def test_settings_that_drivers_could_change_are_a_problem(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(places / "cache"))
    finding = found("places of drivers")
    assert finding.severity is Severity.PROBLEM
    assert "let XDG_CONFIG_HOME name another directory" in finding.found
    monkeypatch.setenv("XDG_CONFIG_HOME", str(places / "run" / "neurald"))
    assert found("places of drivers").severity is Severity.WARNING


def test_a_directory_of_others_is_a_problem(places: Path) -> None:
    (places / "run" / "neurald").mkdir(parents=True)
    (places / "run").chmod(0o777)
    finding = found("runtime directory")
    assert finding.severity is Severity.PROBLEM
    assert str(places / "run") in finding.found
    assert "XDG_RUNTIME_DIR" in finding.advice


def test_a_secret_that_others_can_read_is_a_problem(places: Path) -> None:
    (places / "secret").write_bytes(bytes(32))
    (places / "secret").chmod(0o644)
    finding = found("secret")
    assert finding.severity is Severity.PROBLEM
    assert "mode 0644" in finding.found
    (places / "secret").chmod(0o600)
    assert found("secret").severity is Severity.OK


def test_the_cache_is_counted(places: Path) -> None:
    (places / "cache" / "neurald").mkdir(parents=True, mode=0o700)
    assert "0 entries, 0 B of 2.15 GB" in found("cache").found


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "NEURALD_CACHE_MAX_BYTES"])
def test_a_cache_that_cannot_be_used_is_a_problem(
    variable: str, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (places / "cache").write_text("a file")
    monkeypatch.setenv(variable, {"XDG_CACHE_HOME": str(places / "cache")}.get(variable, "much"))
    assert found("cache").severity is Severity.PROBLEM


def test_a_machine_directory_that_others_can_change_is_ignored(places: Path) -> None:
    (places / "machine").mkdir()
    (places / "machine").chmod(0o777)
    assert found("machine's service").severity is Severity.WARNING
    (places / "machine").chmod(0o755)
    assert found("machine's service").severity is Severity.OK
