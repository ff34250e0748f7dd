"""Runs steps and whole models on the CPU device, in place of other devices."""

from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel, Timing
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.plan.preparer import Preparer


class WholeModelFallback:
    """Runs the whole model on the CPU, which is Android's second stage of fallback.

    The model is prepared on first use.

    Args:
        model: the model of the compilation.
        preparer: prepares it.
    """

    def __init__(self, model: Model, preparer: Preparer) -> None:
        self._model = model
        self._preparer = preparer
        self._lock = forkable_lock()
        self._prepared: PreparedModel | None = None

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Runs the whole model on the CPU.

        Raises:
            Error: the CPU failed too.
        """
        with self._lock:
            if self._prepared is None:
                self._prepared = self._preparer.prepare(cpu_device(), self._model).prepared_model
        result = run_on_cpu(self._prepared, self._model.main, request, options)
        return replace(result, timing=Timing())


def run_on_cpu(
    prepared: PreparedModel, graph: Subgraph, request: Request, options: ExecuteOptions
) -> ExecutionResult:
    """Runs a prepared model of the CPU device; see `execute_on_host`."""
    # Executions that are direct calls of the device never get here.
    from neurald.hal.buffers.coherent_memory import HOST, CoherentMemory, PlacedRequest
    from neurald.hal.buffers.host_copies import execute_on_host

    coherent = [pool for pool in request.pools if isinstance(pool, CoherentMemory)]
    if coherent and all(HOST in pool.keys for pool in coherent):
        placed = PlacedRequest(request, graph, HOST)
        result = execute_on_host(prepared, graph, placed.request, options)
        if result.is_sufficient:
            placed.wrote()
        return result

    return execute_on_host(prepared, graph, request, options)
