"""Files for results are checked before long work."""

import os
from pathlib import Path

import pytest
from support.daemon.command_line import error_of

from neurald.hal.errors import BadData
from neurald.service.console.output_files import require_writable


def test_files_that_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old").touch()
    monkeypatch.chdir(tmp_path)
    require_writable(None, tmp_path / "old", tmp_path / "new", Path("newer"), None)
    require_writable()
    assert not (tmp_path / "new").exists()


def test_two_results_in_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "linked").symlink_to("a")
    for other in (Path("a"), tmp_path / "a", Path("linked")):
        for first, second in ((Path("a"), other), (other, Path("a"))):
            with pytest.raises(BadData, match=f"^{second} is named for two results"):
                require_writable(first, Path("b"), None, second)
    (tmp_path / "a").touch()
    with pytest.raises(BadData, match="named for two results"):
        require_writable(Path("a"), Path("linked"))
    require_writable(Path(os.devnull), Path(os.devnull))


def test_files_that_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        require_writable(None, tmp_path / "missing" / "file")
    with pytest.raises(IsADirectoryError, match="a file name is expected"):
        require_writable(tmp_path)
    # Of root, the system accepts everything.
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)
    with pytest.raises(PermissionError, match="this user may not write it"):
        require_writable(tmp_path / "new")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *(("benchmark", option) for option in ("--output", "--csv", "--profile-csv", "--svg", "--trace")),
        ("compile", "--output"),
        ("explain", "--html"),
        ("run", "--outputs"),
        ("run", "--trace"),
    ],
)
def test_commands_check_them_before_they_load_a_model(tmp_path: Path, command: str, option: str) -> None:
    error = error_of(command, tmp_path / "missing.tflite", option, tmp_path / "none" / "file")
    assert "there is no such folder" in error
