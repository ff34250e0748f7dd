"""Findings of a diagnosis about packages and drivers."""

import importlib
import re
from importlib import metadata
from types import ModuleType, SimpleNamespace

import pytest

from neurald.service.diagnosis import installation
from neurald.service.diagnosis.finding import Finding, Severity
from neurald.service.diagnosis.installation import examine_installation


def found(subject: str) -> list[Finding]:
    return [each for each in examine_installation() if each.subject == subject]


def test_packages_have_versions() -> None:
    (finding,) = found("numpy")
    assert (finding.found, finding.severity) == (metadata.version("numpy"), Severity.OK)
    (finding,) = found("neurald")
    assert "Python" in finding.found


def test_a_package_that_cannot_be_imported_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    actual = importlib.import_module

    def broken(name: str) -> ModuleType:
        if name in ("llvmlite", "grpc_health.v1.health_pb2", "pyopencl", "cryptography"):
            raise OSError("libfoo.so: cannot open shared object file")
        return actual(name)

    monkeypatch.setattr(importlib, "import_module", broken)
    # Daemons need the second one, which programs that only run models never import.
    for package in ("llvmlite", "grpcio-health-checking"):
        (finding,) = found(package)
        assert finding.severity is Severity.PROBLEM
        assert "libfoo.so" in finding.found
        assert "pip check" in finding.advice
        assert package in finding.advice
    monkeypatch.setattr(metadata, "version", lambda name: "1.0")
    (finding,) = found("cryptography")
    assert (finding.severity, "1.0 cannot be imported" in finding.found) == (Severity.PROBLEM, True)


def test_every_package_with_generated_modules_is_examined() -> None:
    """A package of generated modules is refused by another protobuf, which pip may install."""
    required = {re.split(r"[<>=!~; \[]", each)[0] for each in metadata.requires("neurald") or ()}
    generated = {each for each in required if each.startswith(("grpcio", "protobuf"))}
    assert generated <= {finding.subject for finding in examine_installation()}


def test_an_extra_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    actual = metadata.version

    def version(name: str) -> str:
        if name in ("pyopencl", "cryptography"):
            raise metadata.PackageNotFoundError(name)
        return actual(name)

    monkeypatch.setattr(metadata, "version", version)
    (finding,) = found("pyopencl")
    assert finding.severity is Severity.NOTE
    assert "'neurald[opencl]'" in finding.advice


def test_drivers_that_cannot_be_loaded_or_have_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "default_drivers", lambda: ("support.nothing:create", "sample-all"))
    entries = [
        SimpleNamespace(name="npu", value=f"{each}:create", dist=SimpleNamespace(name=each))
        for each in ("second", "first")
    ]
    monkeypatch.setattr(installation, "entry_points", lambda group: entries)
    (finding,) = found("driver support.nothing:create")
    assert finding.severity is Severity.PROBLEM
    assert "ModuleNotFoundError" in finding.found
    (finding,) = found("driver sample-all")
    # No device is created here, so nothing is said of it.
    assert (finding.severity, finding.found) == (Severity.OK, "its factory can be imported")
    (finding,) = found("driver npu")
    assert "first, second" in finding.found
    assert finding.severity is Severity.WARNING
