"""The required extent of a driver process's sandbox."""

from enum import StrEnum


class SandboxMode(StrEnum):
    """AUTO uses the parts that the kernel supports, FULL requires all of them, OFF uses none."""

    AUTO = "auto"
    FULL = "full"
    OFF = "off"


#: Context object of a command whose process does nothing else, so that it may be restricted
#: permanently.
OWN_PROCESS = "own process"
