"""The start of the execution service in its benchmarks."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any


def test_the_service_starts_and_tells_its_addresses(
    tmp_path: Path, import_benchmark: Callable[..., Any]
) -> None:
    run = import_benchmark("run", "service")
    with ExitStack() as stack:
        grpc, http, path = run.start_neurald(stack, tmp_path)
        assert grpc.startswith("127.0.0.1:")
        assert http.startswith("127.0.0.1:")
        assert Path(path).is_socket()
