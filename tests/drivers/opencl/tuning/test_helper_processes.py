"""Processes that help: their number, and those that start before they are needed."""

import os

import pytest
from support.opencl.trials import as_gpu, ends

from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.tuning.helper_processes import HelperProcesses, process_count
from neurald.hal.records import replace


def test_process_count(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(facts: DeviceFacts, cores: int) -> int:
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
        return process_count(facts)

    facts = replace(opencl.facts, kind=DeviceKind.GPU, global_memory_bytes=32 << 30)
    assert [count(facts, cores) for cores in (1, 2, 16, 64)] == [1, 2, 16, 16]
    assert count(replace(facts, global_memory_bytes=3 << 30), 16) == 3
    assert count(replace(facts, global_memory_bytes=1 << 29), 16) == 1
    assert count(replace(facts, kind=DeviceKind.CPU), 16) == 1


def test_processes_start_ahead(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    class Started:
        has_ended = False

    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)))
    monkeypatch.setattr(HelperProcesses, "_started", lambda self: Started())
    facts = replace(opencl.facts, kind=DeviceKind.GPU, global_memory_bytes=32 << 30)
    assert len(HelperProcesses(facts, 100)._ready) == 15
    assert not HelperProcesses(facts, 1)._ready


def test_a_process_that_has_ended_is_replaced(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    ready = HelperProcesses(as_gpu(opencl).facts, 100)
    (first,) = ready._ready
    first.kill()
    assert ends(first)
    taken = ready.take()
    assert taken is not None
    assert taken is not first
    assert not taken.has_ended
    taken.close()
