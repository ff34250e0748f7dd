"""Conditions for systemd to run the manager: a Python for its user."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from neurald.hal.errors import BadState
from neurald.service.installation.precondition import require_public


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everyone can enter."""
    folder = Path(tempfile.mkdtemp(prefix="neurald-p-"))
    folder.chmod(0o755)
    (folder / "bin").mkdir(mode=0o755)
    (folder / "bin").chmod(0o755)
    (folder / "bin" / "python").write_text("")
    (folder / "bin" / "python").chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_what_everyone_can_read_is_usable(public: Path) -> None:
    require_public([public / "bin" / "python", public], "neurald")


@pytest.mark.parametrize(("name", "mode"), [("bin/python", 0o700), ("bin", 0o750), (".", 0o700)])
def test_what_is_in_the_way_is_told(public: Path, name: str, mode: int) -> None:
    (public / name).chmod(mode)
    with pytest.raises(BadState, match=rf"{public / name} has the mode {mode:04o}\..*in /opt"):
        require_public([public / "bin" / "python"], "neurald")
    (public / name).chmod(0o700)


def test_a_python_that_is_gone_is_told(public: Path) -> None:
    with pytest.raises(BadState, match="cannot be examined"):
        require_public([public / "none"], "neurald")
