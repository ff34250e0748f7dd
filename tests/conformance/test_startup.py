"""Conformance records on the first tier, and while optimised code replaces it under eight threads.

The tier `full` takes every spec; it runs for a quarter of an hour.
"""

import threading
from pathlib import Path

import pytest
from support.files.data import NO_VECTORS, VECTORS, record_files_by_name
from support.tiers import one_in

import neurald as nd
from neurald.runtime.plan.startup import STARTUP_VARIABLE
from neurald.service.conformance.records import (
    Record,
    failures,
    load_records,
    mismatches,
    run,
)

if VECTORS is None:
    pytest.skip(NO_VECTORS, allow_module_level=True)

SPECS = record_files_by_name()
THREADS = 8
#: Records of a spec that are replaced, and runs of each thread after that.
REPLACED, RUNS_AFTER = 2, 2
WAIT_S = 120.0


@pytest.fixture(autouse=True)
def instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiles in the background."""
    monkeypatch.setenv(STARTUP_VARIABLE, nd.Startup.INSTANT.value)


@pytest.fixture(scope="session")
def kernels() -> None:
    """Waits for the kernels of the first tier."""
    library = nd.devices()[0].first_tier.library  # type: ignore[attr-defined]
    library.code(None)
    assert library.wait(WAIT_S)


def _started(model: nd.Model) -> nd.Compilation:
    builder = nd.CompilationBuilder(model, [nd.devices()[0]])
    builder.set_caching(None)
    return builder.finish()


class _FirstTier:
    """The CPU device, whose first tier is all that it has."""

    def __getattr__(self, name: str) -> object:
        return getattr(nd.devices()[0], name)

    def prepare_model(self, model: nd.Model, options: object) -> object:
        device: object = nd.devices()[0]
        prepared = device.prepare_first_tier(model, options)  # type: ignore[attr-defined]
        return prepared or device.prepare_model(model, options)  # type: ignore[attr-defined]


@pytest.mark.parametrize("spec", one_in(4, sorted(SPECS)))
def test_first_tiers(spec: str, kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STARTUP_VARIABLE, nd.Startup.OPTIMIZED.value)

    def compile_model(model: nd.Model) -> nd.Compilation:
        builder = nd.CompilationBuilder(model, [_FirstTier()])  # type: ignore[list-item]
        builder.set_caching(None)
        return builder.finish()

    assert not failures(load_records(SPECS[spec]), compile_model)


@pytest.mark.parametrize("spec", one_in(48, sorted(SPECS)))
def test_code_is_replaced_under_threads(spec: str, kernels: None) -> None:
    for record in load_records(Path(SPECS[spec]))[:REPLACED]:
        if not record.expect_failure and not record.multinomial_tolerance:
            _replace(record)


def _replace(record: Record) -> None:
    """Runs a record in threads until its code was replaced, and some more."""
    compilations: list[nd.Compilation] = []

    def compile_model(model: nd.Model) -> nd.Compilation:
        compilations.append(_started(model))
        return compilations[-1]

    lines = mismatches(record, run(record, compile_model))
    (compilation,) = compilations

    def call() -> None:
        left = RUNS_AFTER
        while left:
            left -= not compilation.status.is_pending
            lines.extend(mismatches(record, run(record, lambda _: compilation)))

    threads = [threading.Thread(target=call) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    assert compilation.wait_until_optimized(WAIT_S), str(compilation.status)
    for thread in threads:
        thread.join()
    assert not lines, record.name
