"""Settings of the log, which clients change."""

import logging
from collections.abc import Iterator

import pytest
from support.inference import zoo
from support.inference.serving import Serving

from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.server.calls.log_settings import LogSettings
from neurald.service.logs.formatters import TextFormatter

DEFAULTS = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(TextFormatter())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def handler() -> Iterator[_Lines]:
    root, found = logging.getLogger(), _Lines()
    before = (root.level, list(root.handlers))
    root.handlers[:] = [found]
    root.setLevel(logging.INFO)
    yield found
    root.setLevel(before[0])
    root.handlers[:] = before[1]


def test_levels_are_left_out_and_added(handler: _Lines) -> None:
    settings = LogSettings({})
    log = logging.getLogger("neurald.somewhere")
    levels = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)

    def written() -> list[str]:
        handler.lines.clear()
        for level in levels:
            log.log(level, "level %s", logging.getLevelName(level))
        return [line.rpartition("level ")[2] for line in handler.lines]

    assert settings.current() == DEFAULTS
    assert written() == ["INFO", "WARNING", "ERROR"]
    settings.change({"log_info": False})
    assert handler.lines[-1].endswith("a client has changed settings of the log: log_info=False")
    assert written() == ["WARNING", "ERROR"]
    settings.change({"log_warning": False, "log_verbose_level": 1})
    assert written() == ["DEBUG", "ERROR"]
    settings.change({"log_error": False, "unknown": 1})
    assert written() == ["DEBUG"]
    settings.change(dict.fromkeys(("log_info", "log_warning", "log_error"), True) | {"log_verbose_level": 0})
    assert settings.current() == DEFAULTS
    settings.change({"log_info": False, "log_verbose_level": 3})
    settings.close()
    assert written() == ["INFO", "WARNING", "ERROR"]


def test_times_in_utc(handler: _Lines) -> None:
    settings = LogSettings({})
    settings.change({"log_format": "ISO8601"})
    logging.getLogger("neurald.somewhere").warning("a")
    assert handler.lines[-1].split(" ")[0].endswith("+00:00")
    settings.change({"log_format": "default"})
    assert isinstance(handler.formatter, TextFormatter)
    assert not handler.formatter.is_utc
    settings.close()


def test_what_clients_have_changed_outlives_the_front_end(handler: _Lines) -> None:
    settings, reports = LogSettings({}), []
    settings.report = lambda: reports.append(settings.changed())
    settings.change({"log_info": False, "log_verbose_level": 3, "log_error": True})
    settings.close()
    assert reports == [{"log_info": False, "log_verbose_level": 3}]
    after = LogSettings(reports[0])
    assert after.current() == DEFAULTS | reports[0]
    assert "those that a client has chosen before: log_info=False, log_verbose_level=3" in handler.lines[-1]
    assert logging.getLogger().level == logging.DEBUG
    after.close()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("log_file", "a", "log file location can not be updated through network protocol"),
        ("log_info", "yes", "expect boolean for 'log_info'"),
        ("log_verbose_level", -1, "expect int32"),
        ("log_verbose_level", True, "expect int32"),
        ("log_format", 1, "expect string"),
        ("log_format", "XML", "invalid argument for log_format, got: 'XML'"),
    ],
)
def test_values_that_are_refused_change_nothing(name: str, value: bool | int | str, message: str) -> None:
    settings = LogSettings({})
    with pytest.raises(ServiceError, match=message):
        settings.change({"log_error": False, name: value})
    assert settings.current() == DEFAULTS
    settings.close()


def test_settings_over_both_protocols(tmp_path_factory: pytest.TempPathFactory) -> None:
    triton_http = pytest.importorskip("tritonclient.http", reason="the group test is not installed")
    triton_grpc = pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")
    folder = tmp_path_factory.mktemp("models")
    zoo.write_plain(folder, "same", zoo.reshaping())
    with Serving(folder) as service:
        service.wait_ready()
        with (
            triton_http.InferenceServerClient(service.http) as by_http,
            triton_grpc.InferenceServerClient(service.grpc) as by_grpc,
        ):
            assert by_http.get_log_settings() == DEFAULTS
            changed = DEFAULTS | {"log_info": False, "log_verbose_level": 2, "log_format": "ISO8601"}
            given = {name: value for name, value in changed.items() if name != "log_file"}
            assert by_http.update_log_settings(given) == changed
            found = by_grpc.update_log_settings({"log_warning": False}).settings
            assert not found["log_warning"].bool_param
            assert found["log_verbose_level"].uint32_param == 2
            assert found["log_format"].string_param == "ISO8601"
