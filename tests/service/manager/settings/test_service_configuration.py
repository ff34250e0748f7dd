"""The table `[service]`: precedence, sources, and errors that name the setting."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.process.files.configuration_file import CONFIG_VARIABLE
from neurald.service.cli.manager.config import config
from neurald.service.cli.options.service import service_settings
from neurald.service.manager.settings.configuration import Flags, load_configuration
from neurald.service.manager.settings.service_configuration import (
    OPTIONS,
    MetricsConfiguration,
    ServiceConfiguration,
    ServiceLimits,
    ServiceTable,
    TraceConfiguration,
    parsed_limits,
    parsed_metrics,
    parsed_trace,
)
from neurald.service.manager.settings.setting_choice import DEFAULT

_FILE = """
drain_s = 7
[service]
grpc = "8001"
repositories = ["/models", "~/models"]
load_models = ["a"]
model_control_mode = "none"
allow_client_shm = true
[service.limits]
queue = 5
load_s = 2.5
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    path = tmp_path / "neurald.toml"
    path.write_text(_FILE)
    return path


def test_the_file_decides_what_is_served(file: Path) -> None:
    found = load_configuration(file)
    assert found.service == ServiceConfiguration(
        grpc="8001",
        repositories=("/models", str(Path("~/models").expanduser())),
        load_models=("a",),
        model_control_mode="none",
        allow_client_shm=True,
        limits=ServiceLimits(queue=5, load_s=2.5),
    )
    sources = {name: source for name, source in found.sources.items() if name.startswith("service.")}
    assert sources["service.grpc"] == sources["service.limits.queue"] == str(file)
    assert sources["service.http"] == sources["service.limits.streams"] == DEFAULT
    settings = service_settings(found)
    assert settings is not None
    assert (settings.grpc, settings.http, settings.drain_s) == ("127.0.0.1:8001", "", 7)
    assert (settings.load, settings.allow_control, settings.limits.queue) == (("a",), False, 5)


@sweep("name", ["grpc", "http", "web"])
def test_a_port_needs_no_quotation_marks(file: Path, name: str) -> None:
    for written in ("8123", "'8123'"):
        file.write_text(f"[service]\n{name} = {written}\nrepositories = ['/models']")
        found = load_configuration(file)
        assert getattr(found.service, name) == "8123"
        assert getattr(service_settings(found), name) == "127.0.0.1:8123"
    for written in ("true", "81.5", "-1", "65536", "'65536'"):
        file.write_text(f"[service]\n{name} = {written}\nrepositories = ['/models']")
        with pytest.raises(BadData, match=rf"service.{name}\b"):
            load_configuration(file)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (
            "70000",
            "'127.0.0.1:70000' is not an address; unix:///path or host:port is expected; a number alone",
        ),
        ("'here'", "'here' is not an address; unix:///path or host:port is expected; a number alone"),
        (f"'unix:///{'a' * 200}'", "has 201 bytes; at most"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(file: Path, written: str, reason: str) -> None:
    file.write_text(f"[service]\ngrpc = {written}\nrepositories = ['/models']")
    with pytest.raises(BadData, match=rf"^service\.grpc \({re.escape(str(file))}\): .*{re.escape(reason)}"):
        load_configuration(file)


def test_the_command_line_comes_first(file: Path) -> None:
    flags = Flags(
        service=ServiceTable(
            http="0", model_control_mode="poll", repositories=("here",), limits=parsed_limits(["queue=9"])
        )
    )
    found = load_configuration(file, flags)
    assert (found.service.grpc, found.service.http) == ("8001", "0")
    assert (found.service.repositories, found.service.model_control_mode) == (("here",), "poll")
    assert (found.service.limits.queue, found.service.limits.load_s) == (9, 2.5)
    for name, source in (
        ("http", "--http"),
        ("grpc", str(file)),
        ("repositories", "--repository"),
        ("limits.queue", "--service-limit"),
        ("limits.load_s", str(file)),
    ):
        assert found.sources[f"service.{name}"] == source


@sweep(
    ("mode", "load_models", "load", "allow_control", "poll_s"),
    [
        ("", (), None, True, 0),
        ("", ("a",), ("a",), True, 0),
        ("none", (), None, False, 0),
        ("explicit", (), (), True, 0),
        ("explicit", ("a", "*"), None, True, 0),
        ("poll", (), None, False, 2.5),
        ("poll", ("a",), ("a",), False, 2.5),
    ],
)
def test_modes_of_model_control_are_those_of_triton(
    file: Path,
    mode: str,
    load_models: tuple[str, ...],
    load: tuple[str, ...] | None,
    allow_control: bool,
    poll_s: float,
) -> None:
    file.write_text("")
    table = ServiceTable(
        grpc="1",
        repositories=("a",),
        load_models=load_models,
        model_control_mode=mode,
        repository_poll_s=2.5,
    )
    settings = service_settings(load_configuration(file, Flags(service=table)))
    assert settings is not None
    assert (settings.load, settings.allow_control, settings.poll_s) == (load, allow_control, poll_s)


def test_without_an_address_nothing_is_served(file: Path) -> None:
    file.write_text("[service]\nrepositories = ['/models']\n")
    assert service_settings(load_configuration(file)) is None
    file.write_text("")
    assert load_configuration(file).service == ServiceConfiguration()


@sweep(
    ("content", "message"),
    [
        ("[service]\ngprc = '8001'", r"'service.gprc' is not a setting; did you mean 'grpc'\?"),
        (
            "[service.limits]\nsize = 3",
            r"service.limits \(.*neurald.toml\): 'size' is not one of message_bytes",
        ),
        ("[service.limits]\nqueue = 0", r"service.limits.queue \(.*neurald.toml\) is 0; a positive number"),
        ("[service.limits]\nqueue = 1.5", "is 1.5; a positive number"),
        ("[service.limits]\nload_s = nan", "is nan; a positive number"),
        (
            "[service.limits]\nload_s = 'soon'",
            "service.limits.load_s is a string; an integer or a number is expected",
        ),
        ("[service]\ngrpc = '8001'", "needs the folder of its models"),
        (
            "[service]\nrepositories = ['models']",
            r"service.repositories \(.*\) has 'models'; an absolute path",
        ),
        (
            "[service]\nrepositories = ['~nobody-has-this-name/models']",
            r"service.repositories \(.*\) has '~nobody-has-this-name/models'; an absolute path",
        ),
        ("[service]\ntls = '/a\\u0000b'".replace("'", '"'), "an absolute path"),
        ("[service]\ntls = 'certificate'", r"service.tls \(.*\) has 'certificate'; an absolute path"),
        (
            "[service]\nmodel_control_mode = 'no'",
            r"service.model_control_mode \(.*neurald.toml\) is 'no'; one of none, explicit, poll is expected",
        ),
        ("[service]\nrepository_poll_s = 0", r"repository_poll_s \(.*\) is 0; seconds above 0, up to 86400,"),
        ("[service]\nrepository_poll_s = nan", "is nan; seconds above 0"),
        ("[service]\nbatching = true", "'service.batching' is not a setting; there are allow_client_shm"),
    ],
)
def test_mistakes_are_named(file: Path, content: str, message: str) -> None:
    file.write_text(content)
    with pytest.raises(BadData, match=message):
        load_configuration(file)


def test_mistakes_of_the_command_line(file: Path) -> None:
    file.write_text("")
    for table, message in (
        (ServiceTable(repositories=("a",)), "start it with --grpc, --http or --web"),
        (ServiceTable(grpc="1", repositories=("a",), limits={"size": 1}), "--service-limit: 'size' is not"),
        (
            ServiceTable(grpc="1", repositories=("a",), trace={"levels": "OFF"}),
            "--trace-config: 'levels' is not",
        ),
        (
            ServiceTable(grpc="1", repositories=("a",), trace={"level": "ALL"}),
            "'ALL'; one of OFF, TIMESTAMPS",
        ),
        (ServiceTable(grpc="1", repositories=("a",), trace={"rate": -1}), "'?-1'?; a number from 0"),
        (ServiceTable(grpc="1", repositories=("a",), trace={"file": "a"}), "an absolute path is expected"),
        (ServiceTable(http="1"), "needs the folder of its models: --repository"),
    ):
        with pytest.raises(BadData, match=message):
            load_configuration(file, Flags(service=table))
    with pytest.raises(BadData, match="NAME=NUMBER is expected"):
        parsed_limits(["queue=many"])
    with pytest.raises(BadData, match="NAME=VALUE is expected"):
        parsed_trace(["level"])
    assert parsed_trace(["level=OFF", "rate=5", "count=-1"]) == {"level": "OFF", "rate": 5, "count": -1}
    assert parsed_trace(["file=a"]) == {"file": str(Path("a").absolute())}
    given = ["triton,file=a", "mode=triton", "level=TIMESTAMPS"]
    assert parsed_trace(given) == {"file": str(Path("a").absolute()), "level": "TIMESTAMPS"}
    for other in ("mode=opentelemetry", "opentelemetry,url=localhost:1/v1/traces", "mode="):
        with pytest.raises(BadData, match=r"the mode of traces is '.*'; only 'triton'"):
            parsed_trace([other])


def test_metrics_of_latencies(file: Path) -> None:
    file.write_text(
        '[service]\nhttp = "1"\nrepositories = ["/m"]\n[service.metrics]\nsummary_latencies = true\n'
    )
    given = parsed_metrics(["histogram_latencies=true", "counter_latencies=False"])
    found = load_configuration(file, Flags(service=ServiceTable(metrics=given))).service.metrics
    assert (found.counter_latencies, found.histogram_latencies) == (False, True)
    assert found.quantiles == (0.5, 0.9, 0.95, 0.99, 0.999)
    assert MetricsConfiguration().quantiles == ()
    given = parsed_metrics(["summary_quantiles=0.5:0.05,1:0"])
    found = load_configuration(file, Flags(service=ServiceTable(metrics=given))).service.metrics
    assert found.quantiles == (0.5, 1.0)
    with pytest.raises(BadData, match="NAME=VALUE is expected"):
        parsed_metrics(["histogram_latencies"])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("latencies=true", "'latencies' is not one of counter_latencies"),
        ("counter_latencies=yes", "is 'yes'; true or false is expected"),
        ("summary_quantiles=", "pairs QUANTILE:ERROR"),
        ("summary_quantiles=true", "pairs QUANTILE:ERROR"),
        ("summary_quantiles=0.5", "pairs QUANTILE:ERROR"),
        ("summary_quantiles=0.5:0.1,", "pairs QUANTILE:ERROR"),
        ("summary_quantiles=2:0.1", "pairs QUANTILE:ERROR"),
        ("summary_quantiles=nan:0.1", "pairs QUANTILE:ERROR"),
        ("summary_quantiles=" + ",".join(["0.5:0.1"] * 33), "pairs QUANTILE:ERROR"),
    ],
)
def test_mistakes_of_metrics(file: Path, option: str, message: str) -> None:
    file.write_text("")
    table = ServiceTable(http="1", repositories=("a",), metrics=parsed_metrics([option]))
    with pytest.raises(BadData, match=message):
        load_configuration(file, Flags(service=table))


def test_the_settings_are_shown_with_their_sources(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config(file)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    shown = {row[0]: row[-1] for row in rows if row and row[0].startswith("service.")}
    assert shown.keys() == {
        *(f"service.{name}" for name in OPTIONS),
        *(f"service.limits.{name}" for name in ServiceLimits.__struct_fields__),
        *(f"service.trace.{name}" for name in TraceConfiguration.__struct_fields__),
        *(f"service.metrics.{name}" for name in MetricsConfiguration.__struct_fields__),
    }
    assert (shown["service.grpc"], shown["service.tls"]) == (str(file), DEFAULT)
    config(file, json=True)
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["service"]["limits"]["queue"] == 5
    assert document["sources"]["service.limits.queue"] == str(file)


def test_the_example_has_every_setting_and_its_default() -> None:
    import tomllib

    example = Path(__file__).parents[4] / "examples" / "neurald.toml"
    table = tomllib.loads(example.read_text())["service"]
    assert table.keys() == set(ServiceTable.__struct_fields__)
    assert table["limits"].keys() == set(ServiceLimits.__struct_fields__)
    assert table["trace"].keys() == set(TraceConfiguration.__struct_fields__)
    assert table["metrics"].keys() == set(MetricsConfiguration.__struct_fields__)
    assert msgspec.convert(table, ServiceConfiguration) == ServiceConfiguration()
