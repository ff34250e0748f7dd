"""Service managers with one driver, in processes of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon.managed import Managed


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose path is short enough for those of sockets in it."""
    return tmp_path_factory.mktemp("m")


@pytest.fixture
def managed(folder: Path) -> Iterator[Managed]:
    with Managed(folder) as manager:
        yield manager


@pytest.fixture
def with_spare(folder: Path) -> Iterator[Managed]:
    with Managed(folder, settings={"spare": True}) as manager:
        yield manager
