"""Settings of traces: those of models before those of the service before the operator's."""

import pytest

from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.server.tracing.trace_settings import TraceSettings
from neurald.service.manager.settings.service_configuration import TraceConfiguration


@pytest.fixture
def settings() -> TraceSettings:
    return TraceSettings(TraceConfiguration(file="/folder/f.json", level="TIMESTAMPS", rate=1), {})


def shown(settings: TraceSettings, model: str = "") -> dict[str, str]:
    return {name: ",".join(values) for name, values in settings.of(model).items()}


def test_models_have_the_settings_of_the_service_until_they_have_their_own(settings: TraceSettings) -> None:
    start = {
        "trace_file": "f.json",
        "trace_level": "TIMESTAMPS",
        "trace_rate": "1",
        "trace_count": "-1",
        "log_frequency": "0",
        "trace_mode": "triton",
    }
    assert shown(settings) == shown(settings, "m") == start
    settings.change("m", {"trace_rate": ("12",), "log_frequency": ("34",)})
    settings.change("", {"trace_rate": ("56",), "trace_count": ("78",), "trace_level": ("OFF",)})
    changed = start | {"trace_level": "OFF", "trace_rate": "56", "trace_count": "78"}
    assert shown(settings) == shown(settings, "other") == changed
    assert shown(settings, "m") == changed | {"trace_rate": "12", "log_frequency": "34"}
    settings.change("", {"trace_rate": (), "trace_count": ()})
    assert shown(settings) == start | {"trace_level": "OFF"}
    settings.change("m", {"trace_rate": (), "trace_level": ()})
    assert shown(settings, "m") == start | {"trace_level": "OFF", "log_frequency": "34"}
    settings.forget("m")
    assert shown(settings, "m") == shown(settings)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("trace_file", ("a",), "trace file location can not be updated through network protocol"),
        ("trace_level", ("OFF", "TIMESTAMPS"), "Expect only one trace level 'OFF' is specified"),
        ("trace_level", ("ALL",), "'ALL' is not one of"),
        ("trace_rate", ("1", "2"), "expect only 1 value for 'trace_rate'"),
        ("trace_rate", ("often",), "Unable to parse 'trace_rate', got: 'often'"),
        ("trace_rate", ("٣",), "Unable to parse 'trace_rate'"),
        ("trace_rate", ("-1",), "Expecting value >= 0"),
        ("trace_count", ("-2",), "Unable to parse 'trace_count'. Expecting value >= -1, got: -2"),
        ("trace_count", ("2147483648",), r"value is out of range \[ -1, 2147483647 \]"),
        ("log_frequency", ("9" * 5000,), "value is out of range"),
    ],
)
def test_values_that_are_refused_change_nothing(
    settings: TraceSettings, name: str, values: tuple[str, ...], message: str
) -> None:
    before = shown(settings)
    with pytest.raises(ServiceError, match=message) as caught:
        settings.change("", {"trace_rate": ("7",), name: values})
    assert caught.value.status in (Status.INVALID, Status.UNIMPLEMENTED)
    assert shown(settings) == before


def test_one_of_so_many_requests_is_traced(settings: TraceSettings) -> None:
    settings.change("", {"trace_rate": ("3",), "trace_count": ("2",)})
    found = [bool(settings.sample("m")) for _ in range(12)]
    assert found == [False, False, True] * 2 + [False] * 6
    assert shown(settings)["trace_count"] == "0"


def test_what_clients_have_changed_outlives_the_front_end(settings: TraceSettings) -> None:
    reports: list[dict[str, dict[str, tuple[str, ...]]]] = []
    settings.report = lambda: reports.append(settings.changed())
    assert settings.changed() == {}
    settings.change("m", {"trace_rate": ("3",), "trace_level": ("TENSORS",) * 1000})
    settings.change("", {"trace_rate": ("1",), "trace_count": ("5",)})
    assert reports[-1] == {
        "m": {"trace_rate": ("3",), "trace_level": ("TENSORS",)},
        "": {"trace_rate": ("1",), "trace_count": ("5",)},
    }
    # Each traced request changes the count, which is reported once in a while.
    for _ in range(2):
        settings.sample("other")
    assert len(reports) == 2
    for _ in range(2):
        settings.report_counts()
    assert len(reports) == 3
    after = TraceSettings(TraceConfiguration(), reports[-1])
    assert after.is_on
    assert after.changed() == reports[-1] == settings.changed()
    assert shown(after)["trace_count"] == "3"
    settings.forget("m")
    settings.forget("m")
    assert len(reports) == 4
    assert "m" not in reports[-1]


def test_nothing_is_traced_when_it_is_off() -> None:
    settings = TraceSettings(TraceConfiguration(), {})
    assert not settings.is_on
    settings.change("m", {"trace_level": ("TENSORS",), "trace_rate": ("1",)})
    assert settings.is_on
    assert settings.sample("other") == ()
    assert settings.sample("m") == ("TENSORS",)
    settings.change("m", {"trace_rate": ("0",)})
    assert settings.sample("m") == ()
    settings.change("m", {"trace_level": ()})
    assert not settings.is_on
