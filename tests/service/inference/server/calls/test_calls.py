"""The calls of the V2 protocol apart from its transports."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from support.inference import zoo

from neurald.service.inference.models.model_choices import ModelChoices
from neurald.service.inference.models.registry import Registry
from neurald.service.inference.models.served_version import VersionOptions
from neurald.service.inference.models.workers.worker_options import WorkerOptions
from neurald.service.inference.models.workers.worker_pool import WorkerPool
from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.repository.folders import Repository
from neurald.service.inference.server.calls.calls import Calls
from neurald.service.inference.server.calls.log_settings import LogSettings
from neurald.service.inference.server.settings import ServiceSettings
from neurald.service.inference.server.tracing.traces import RequestTraces


def test_the_log_says_why_a_client_could_not_load_a_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In one short line, without what terminals obey, however often clients ask."""
    zoo.write_plain(tmp_path, "a", zoo.reshaping())

    async def ask() -> None:
        models = Registry(
            Repository([tmp_path]),
            WorkerPool(WorkerOptions()),
            VersionOptions(queue_size=1, load_s=1.0),
            given_bytes=1,
            choices=ModelChoices({}),
        )
        with contextlib.closing(LogSettings({})) as log_settings:
            calls = Calls(models, None, RequestTraces(ServiceSettings().trace, {}), log_settings)
            for _ in range(20):
                with pytest.raises(ServiceError, match="failed to poll from model repository"):
                    await calls.load("a", {"config": '{"backend": \x1b\n' + "x" * 10_000})

    asyncio.run(ask())
    (line,) = (each.getMessage() for each in caplog.records if each.name.endswith("calls.calls"))
    assert line.startswith(
        "a model is not loaded as a client asks: failed to load 'a', failed to poll from model repository: "
        "Invalid config override: the configuration of a is not valid: "
    )
    assert len(line) < 1000
    assert line.isprintable()
