"""Reports of load, of models and a host that are made up."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from neurald.service.inference.models.statistics.statistics import Statistics
from neurald.service.inference.server.calls import host_usage
from neurald.service.inference.server.calls.endpoint_load import EndpointLoad
from neurald.service.inference.server.calls.host_usage import HostUsage


def load_report() -> Any:
    """Returns an empty message OrcaLoadReport, of the fields that a report has."""
    file = descriptor_pb2.FileDescriptorProto(name="orca.proto", package="xds.data.orca.v3", syntax="proto3")
    message = file.message_type.add(name="OrcaLoadReport")
    kinds = descriptor_pb2.FieldDescriptorProto
    for number, name in ((1, "cpu_utilization"), (2, "mem_utilization"), (6, "rps_fractional"), (7, "eps")):
        message.field.add(name=name, number=number, type=kinds.TYPE_DOUBLE, label=kinds.LABEL_OPTIONAL)
    entry = message.nested_type.add(name="NamedMetricsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kinds.TYPE_DOUBLE, label=kinds.LABEL_OPTIONAL)
    message.field.add(
        name="named_metrics",
        number=8,
        type=kinds.TYPE_MESSAGE,
        type_name=".xds.data.orca.v3.OrcaLoadReport.NamedMetricsEntry",
        label=kinds.LABEL_REPEATED,
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("xds.data.orca.v3.OrcaLoadReport")
    return message_factory.GetMessageClass(found)()


class Service:
    """A service with two models, on a host of which nothing can be read."""

    def __init__(self, folder: Path) -> None:
        self.now = 50.0
        self.versions: list[Any] = [
            SimpleNamespace(waiting=waiting, statistics=Statistics()) for waiting in (1, 2)
        ]
        self.load = EndpointLoad(HostUsage(folder), lambda: self.now)

    def asked(self, form: bytes = b"json") -> dict[str, Any]:
        """Returns a report in JSON."""
        report = self.load.report(form, self.versions)
        assert report is not None
        assert report.startswith(b"JSON ")
        found: dict[str, Any] = json.loads(report[5:])
        return found

    def ended(self, count: int, *, failed: int, refused: int) -> None:
        for each in self.versions:
            each.statistics.success.count += count
            each.statistics.failure.count += failed
            each.statistics.refused += refused


def test_rates_are_those_of_all_models_since_the_last_report(tmp_path: Path) -> None:
    service = Service(tmp_path)
    service.ended(100, failed=0, refused=0)
    assert service.asked() == {
        "rps_fractional": 0,
        "eps": 0,
        "named_metrics": {"pending_request_count": 3},
    }
    service.now += 4.0
    assert service.asked()["rps_fractional"] == 50
    service.ended(5, failed=1, refused=2)
    service.versions[0].waiting = 7
    service.now += 0.5
    assert service.asked() == {
        "rps_fractional": 50,
        "eps": 0,
        "named_metrics": {"pending_request_count": 9},
    }
    service.now += 1.5
    found = service.asked()
    assert (found["rps_fractional"], found["eps"]) == (8, 3)


def test_models_that_go_have_no_negative_rate(tmp_path: Path) -> None:
    service = Service(tmp_path)
    service.ended(100, failed=10, refused=0)
    service.now += 1.0
    service.asked()
    service.versions.pop()
    service.now += 1.0
    found = service.asked()
    assert (found["rps_fractional"], found["eps"]) == (0, 0)


def test_all_forms_have_the_same_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stat").write_text("cpu  0 0 0 10 0 0 0 0 0 0\n")
    (tmp_path / "meminfo").write_text("MemTotal: 3 kB\nMemAvailable: 1 kB\n")
    service = Service(tmp_path)
    monkeypatch.setattr(host_usage, "_MIN_INTERVAL_S", 0)
    (tmp_path / "stat").write_text("cpu  3 0 0 11 0 0 0 0 0 0\n")
    found = service.asked()
    assert (found["cpu_utilization"], found["mem_utilization"]) == (0.75, 0.666667)
    assert service.load.report(b"text", service.versions) == (
        b"TEXT cpu_utilization=0.75, mem_utilization=0.666667, rps_fractional=0.0, eps=0.0, "
        b"named_metrics.pending_request_count=3"
    )
    report = load_report()
    report.ParseFromString(service.load.message(service.versions))
    assert (report.cpu_utilization, report.mem_utilization) == (0.75, 0.666667)
    assert (report.rps_fractional, report.eps) == (0, 0)
    assert report.named_metrics == {"pending_request_count": 3}


@pytest.mark.parametrize("form", [b"", b"JSON", b"bin", b"json, text", b"\xff"])
def test_other_forms_have_no_report(tmp_path: Path, form: bytes) -> None:
    service = Service(tmp_path)
    assert service.load.report(form, service.versions) is None
