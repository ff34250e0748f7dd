"""Executions on two daemons from several threads: counts of receipts, and of the daemons."""

import tempfile
import threading
import time
from collections import Counter

import numpy as np
from support.devices.simulated import SimulatedDevice

import neurald as nd
from neurald.hal.process.address import Address
from neurald.hal.rpc.server.server import DeviceServer

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
#: How long the counts of daemons may be behind.
_SETTLING_S = 5.0
_KINDS = (nd.OperationType.TANH, nd.OperationType.LOGISTIC)


def branches(rows: int = 2) -> nd.Model:
    """Returns y = tanh(x) + logistic(tanh(x)), in three steps on different devices.

    Args:
        rows: of x, which has three columns.
    """
    builder = nd.ModelBuilder()
    x, a, b, y = (builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (rows, 3)) for _ in range(4))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    builder.add_operation(nd.OperationType.TANH, [x], [a])
    builder.add_operation(nd.OperationType.LOGISTIC, [a], [b])
    builder.add_operation(nd.OperationType.ADD, [a, b, activation], [y])
    builder.identify_inputs_and_outputs([x], [y])
    return builder.finish()


def counted(runs: int, threads: int) -> tuple[Counter[str], Counter[str], int]:
    """Executes a model; one execution in a hundred has a deadline that it cannot keep.

    Returns:
        Calls by device as receipts have them, executions as the daemons have them, and how many
        runs failed.
    """
    with tempfile.TemporaryDirectory(prefix="neurald") as folder:
        servers = []
        for kind in _KINDS:
            name = kind.name.lower()
            device = SimulatedDevice(name, supports=(kind,).__contains__)
            servers.append(DeviceServer(device, Address.parse(f"unix://{folder}/{name}.sock")))
            servers[-1].start()
        devices = [nd.connect(str(server.address)) for server in servers]
        builder = nd.CompilationBuilder(branches(), [nd.devices()[0], *devices])
        builder.set_partitioning("android")
        compilation = builder.finish()
        before = [server.handler.admission.executions for server in servers]
        found: Counter[str] = Counter()
        failed = [0]
        lock = threading.Lock()

        def run(count: int) -> None:
            own: Counter[str] = Counter()
            usual = _execution(compilation, None)
            for number in range(count):
                execution = _execution(compilation, 1e-5) if number % 100 == 99 else usual
                try:
                    execution.compute()
                except nd.Error:
                    with lock:
                        failed[0] += 1
                own.update(execution.receipt.calls_of_devices)
            with lock:
                found.update(own)

        workers = [threading.Thread(target=run, args=(runs // threads,)) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

        def executions() -> Counter[str]:
            return Counter(
                {
                    remote.name: server.handler.admission.executions - first
                    for remote, server, first in zip(devices, servers, before, strict=True)
                }
            )

        # A daemon counts an execution after its results have been sent.
        end = time.monotonic() + _SETTLING_S
        while any(count < found[name] for name, count in executions().items()) and time.monotonic() < end:
            time.sleep(0.01)
        daemons = executions()
        for remote in devices:
            remote.close()
        for server in servers:
            server.stop()
        return found, daemons, failed[0]


def _execution(compilation: nd.Compilation, timeout_s: float | None) -> nd.Execution:
    execution = nd.Execution(compilation, reusable=True)
    execution.set_input(0, X)
    execution.set_output(0, np.empty_like(X))
    execution.set_timeout(timeout_s)
    execution.enable_receipt()
    return execution
