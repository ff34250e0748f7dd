"""The options of `neurald serve`; what the service does with them is tested elsewhere."""

from typing import Any

import pytest
from typer.testing import CliRunner

from neurald.hal.errors import BadState
from neurald.service.cli import app
from neurald.service.manager.settings import configuration


def test_the_limit_that_triton_has_by_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[configuration.Flags] = []

    def load(_: Any, flags: configuration.Flags) -> None:
        given.append(flags)
        raise BadState("its options are known")

    monkeypatch.setattr(configuration, "load_for_this_machine", load)
    options = ["--http", "--service-limit", "queue=5", "--http-max-input-size", "1000"]
    assert CliRunner().invoke(app, ["serve", *options]).exit_code == 1
    assert given[0].service is not None
    assert given[0].service.limits == {"queue": 5, "message_bytes": 1000}
    assert CliRunner().invoke(app, ["serve", "--http", "--http-max-input-size", "0"]).exit_code == 2


def test_a_driver_that_is_not_installed_is_not_supervised() -> None:
    result = CliRunner().invoke(app, ["serve", "--driver", "cpu", "--driver", "nothing"])
    assert result.exit_code == 1
    assert "there is no driver 'nothing'; available are cpu" in result.stderr
