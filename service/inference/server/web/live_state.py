"""Describes the execution service and the drivers of its machine for the live page."""

import asyncio
import time
from collections.abc import Callable
from statistics import quantiles
from typing import Any, Final

import msgspec

from neurald.hal.errors import Error
from neurald.service.console.process_usage import UsageMeter
from neurald.service.inference.models.registry import Registry
from neurald.service.inference.models.served_version import ServedVersion
from neurald.service.inference.models.statistics.statistics import RequestTimes
from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.server.admission.request_budget import RequestBudget
from neurald.service.manager.control import manager_status
from neurald.service.manager.snapshot import driver_snapshots

#: How long a description is given to all who ask.
_FRESH_S: Final = 0.5
#: How many requests of a model are listed, slowest first.
_MAX_LISTED_REQUESTS: Final = 12


class LiveState:
    """Describes the service. Belongs to one event loop.

    Args:
        registry: the models.
        budget: memory of requests.
        connections: returns how many clients are connected over HTTP.
        system: whether the manager is the machine's.
    """

    def __init__(
        self, registry: Registry, budget: RequestBudget, connections: Callable[[], int], *, system: bool
    ) -> None:
        self._registry = registry
        self._budget = budget
        self._connections = connections
        self._system = system
        self._meter = UsageMeter()
        self._lock = asyncio.Lock()
        self._made_s = 0.0
        self._document = b""

    async def document(self) -> bytes:
        """Returns a JSON document, at most half a second old."""
        async with self._lock:
            if not self._document or time.monotonic() - self._made_s > _FRESH_S:
                drivers, problem = await asyncio.to_thread(self._drivers)
                self._document = msgspec.json.encode(self._described(drivers, problem))
                self._made_s = time.monotonic()
            return self._document

    def _drivers(self) -> tuple[list[Any], str]:
        try:
            return list(driver_snapshots(manager_status(system=self._system), self._meter)), ""
        except Error as error:
            return [], str(error)

    def _described(self, drivers: list[Any], problem: str) -> dict[str, Any]:
        served = {(each.name, str(each.version)): each for each in self._registry.served()}
        models = []
        for status in self._registry.statuses():
            found = served.get((status.name, status.version))
            models.append({**msgspec.to_builtins(status), **({} if found is None else _figures(found))})
        return {
            "time_ms": time.time_ns() // 1_000_000,
            "drivers": drivers,
            "drivers_problem": problem,
            "models": models,
            "connections": self._connections(),
            "request_bytes": self._budget.used_bytes,
        }


def _figures(version: ServedVersion) -> dict[str, Any]:
    counted = version.statistics
    recent = list(counted.recent)
    slowest = sorted(recent, key=lambda each: -each.total_ns)[:_MAX_LISTED_REQUESTS]
    try:
        drivers = version.loaded.drivers
    except ServiceError:
        drivers = ()
    return {
        "waiting": version.waiting,
        "running": version.running,
        "batch": version.settings.max_batch_size,
        "requests": counted.success.count,
        "failures": counted.failure.count,
        "refused": counted.refused,
        "retries": counted.retries,
        "inferences": counted.inferences,
        "drivers": drivers,
        "latency_ms": _percentiles(recent),
        "history_ms": [round(each.total_ns / 1e6, 3) for each in recent[-60:]],
        "slowest": slowest,
    }


def _percentiles(recent: list[RequestTimes]) -> dict[str, float] | None:
    if not recent:
        return None
    times = [each.total_ns / 1e6 for each in recent]
    cuts = quantiles(times, n=100, method="inclusive") if len(times) > 1 else times * 99
    return {"p50": round(cuts[49], 3), "p90": round(cuts[89], 3), "p99": round(cuts[98], 3)}
