"""A driver in whose daemon gRPC's serving thread runs out of memory once a file exists."""

import os
from pathlib import Path
from typing import Any

from grpc import _server
from support.models.addition import AddingDevice

#: The environment variable with the path of the file.
PATH = "NEURALD_TEST_MEMORY_SHORTAGE"


def create() -> AddingDevice:
    """Creates the device."""
    server: Any = _server
    process = server._process_event_and_continue

    def without_memory(*arguments: Any) -> Any:
        if Path(os.environ[PATH]).exists():
            raise MemoryError
        return process(*arguments)

    server._process_event_and_continue = without_memory
    return AddingDevice()
