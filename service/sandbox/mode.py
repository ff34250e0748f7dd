"""How much of the sandbox a driver process must have."""

from enum import StrEnum


class SandboxMode(StrEnum):
    """AUTO takes the parts that the kernel has, FULL refuses to start without any of them, OFF takes none."""

    AUTO = "auto"
    FULL = "full"
    OFF = "off"


#: What commands get as their context's object when the process does nothing else, so that it may be restricted for ever.
OWN_PROCESS = "own process"
