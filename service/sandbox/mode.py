"""Defines the modes of a driver process's sandbox."""

from enum import StrEnum


class SandboxMode(StrEnum):
    """The parts of the sandbox that are used.

    AUTO uses the parts that the kernel supports, FULL requires all parts, and OFF uses none.
    """

    AUTO = "auto"
    FULL = "full"
    OFF = "off"


#: Context object of a command that has the process to itself, so that it may restrict the process
#: permanently.
OWN_PROCESS = "own process"
