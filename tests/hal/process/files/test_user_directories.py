"""The directories of a user follow the variables of the XDG Base Directory Specification."""

from collections.abc import Callable
from pathlib import Path

import pytest

from neurald.hal.process.files.user_directories import (
    cache_directory,
    configuration_directory,
    state_directory,
)

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("directory", "variable", "default"),
    [
        (cache_directory, "XDG_CACHE_HOME", ".cache"),
        (state_directory, "XDG_STATE_HOME", ".local/state"),
        (configuration_directory, "XDG_CONFIG_HOME", ".config"),
    ],
)
def test_variables_and_defaults(
    directory: Callable[[], Path],
    variable: str,
    default: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, "/somewhere/else")
    assert directory() == Path("/somewhere/else/neurald")
    for ignored in ("", "relative/path", "~/path"):
        monkeypatch.setenv(variable, ignored)
        assert directory() == tmp_path / default / "neurald"
    monkeypatch.delenv(variable)
    assert directory() == tmp_path / default / "neurald"
