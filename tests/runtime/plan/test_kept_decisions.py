"""Decisions on disk: for one model, plan, number of threads, machine and number of usable cores."""

import os
from pathlib import Path

import pytest
from support.devices.misbehaving import SampleDevice
from support.models.small import add_model

import neurald as nd
from neurald.runtime.costs import store
from neurald.runtime.devices import kept_file
from neurald.runtime.plan import kept_decisions
from neurald.runtime.plan.kept_decisions import Decision, decision_key, keep_decision, load_decision


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


DECISION = Decision(winner="cpu", reason="300 ms by the plan")


def key(model: nd.Model | None = None, device: nd.Device | None = None, threads: int | None = None) -> str:
    steps = [(device or SampleDevice(), (0,))]
    return decision_key(model or add_model(), steps, [nd.devices()[0]], threads)


def test_a_decision_is_read_again() -> None:
    assert load_decision(key()) is None
    keep_decision(key(), DECISION)
    assert load_decision(key()) == DECISION
    keep_decision(key(), Decision(winner="", reason="other"))
    assert load_decision(key()) == Decision(winner="", reason="other")


def test_what_a_decision_belongs_to(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_decision(key(), DECISION)
    other = SampleDevice()
    other.version = "another"
    assert load_decision(key(add_model((4, 4)))) is None
    assert load_decision(key(device=other)) is None
    assert load_decision(key(threads=2)) is None
    with monkeypatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: set(range(77)))
        assert load_decision(key()) is None
    assert load_decision(key()) == DECISION
    monkeypatch.setattr(store, "machine", lambda: "another machine")
    assert load_decision(key()) is None


def test_a_driver_that_fails_has_no_key() -> None:
    class Failing(SampleDevice):
        @property
        def version(self) -> str:  # type: ignore[override]
            raise RuntimeError("no version")

    assert key(device=Failing()) == ""


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format":"decisions 0","decisions":{}}', b"[1"])
def test_damaged_files_count_as_absent(tmp_path: Path, content: bytes) -> None:
    keep_decision(key(), DECISION)
    (path,) = (tmp_path / "neurald" / "devices").iterdir()
    path.write_bytes(content)
    assert load_decision(key()) is None
    keep_decision(key(), DECISION)
    assert load_decision(key()) == DECISION


def test_the_oldest_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_decisions, "_MAX_DECISIONS", 2)
    for name in "abc":
        keep_decision(name, DECISION)
    assert load_decision("a") is None
    assert load_decision("b") == load_decision("c") == DECISION


def test_long_reasons_keep_no_further_decision_from_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_file, "MAX_FILE_BYTES", 1 << 13)
    # Characters of four bytes, of which some drivers' errors consist.
    long = Decision(winner="cpu", reason="𝛑" * 2000)
    names = [f"{number}" for number in range(20)]
    for name in names:
        keep_decision(name, long)
        found = load_decision(name)
        assert found is not None
        assert long.reason.startswith(found.reason)
    assert load_decision(names[0]) is None
    assert load_decision(names[-2]) is not None
