"""Tells whether the stderr of this process goes to systemd's journal."""

import os
import sys
from typing import Final

from neurald.hal.process.environment import environment_variable

#: systemd names in this variable what the process's stderr was when it was started.
_VARIABLE: Final = "JOURNAL_STREAM"


def goes_to_journal() -> bool:
    """Returns True if stderr is what systemd connected to its journal, and not redirected since."""
    device, _, number = (environment_variable(_VARIABLE) or "").partition(":")
    try:
        status = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return (device, number) == (str(status.st_dev), str(status.st_ino))
