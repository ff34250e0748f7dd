"""Attack with directories and links planted where a daemon creates its runtime directory."""

import itertools
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from faults.attacks.attack import Attack
from faults.daemon_process import private_environment

_NOBODY = 65534
_MODE = 0o755
_MAX_STALL_S = 30.0


class PlantedLinks(Attack):
    """Starts daemons where a link leads to another directory, or others may write."""

    name = "planted links"

    def start(self) -> None:
        plants: list[Callable[[Path], Path]] = [_link, _open_directory]
        if os.geteuid() == 0:
            plants += [_foreign_directory, _foreign_link]
        self._plants = itertools.cycle(plants)
        self._numbers = itertools.count()

    def step(self) -> None:
        plant = next(self._plants)
        folder = self.target.folder / f"planted {next(self._numbers)}"
        folder.mkdir(mode=0o700)
        victim = plant(folder)
        mode = victim.stat().st_mode
        began = time.monotonic()
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "neurald", "driver", "cpu"],
                env=private_environment(folder),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_MAX_STALL_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self.expect(False, f"{plant.__name__}: a daemon serves there")
            return
        self.outcomes[f"{plant.__name__.strip('_')}: exit status {ended.returncode}"] += 1
        self.expect(ended.returncode == 1, f"{plant.__name__}: {ended.returncode}, {ended.stderr[-300:]}")
        self.expect(victim.stat().st_mode == mode, f"{plant.__name__}: rights were changed")
        self.expect(not any(victim.iterdir()), f"{plant.__name__}: files were left there")
        time.sleep(max(0.0, 0.1 - (time.monotonic() - began)))

    def stop(self) -> None:
        pass


def _victim(folder: Path, mode: int = _MODE) -> Path:
    victim = folder / "victim"
    victim.mkdir()
    victim.chmod(mode)
    return victim


def _link(folder: Path) -> Path:
    victim = _victim(folder)
    (folder / "neurald").symlink_to(victim)
    return victim


def _foreign_link(folder: Path) -> Path:
    victim = _link(folder)
    os.chown(folder / "neurald", _NOBODY, _NOBODY, follow_symlinks=False)
    return victim


def _foreign_directory(folder: Path) -> Path:
    victim = _victim(folder)
    os.chown(victim, _NOBODY, _NOBODY)
    victim.rename(folder / "neurald")
    return folder / "neurald"


def _open_directory(folder: Path) -> Path:
    """Makes the parent directory writable for others, who could replace the runtime directory."""
    victim = _victim(folder)
    victim.rename(folder / "neurald")
    folder.chmod(stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
    return folder / "neurald"
