"""Many clients of one model take hardly more memory in a daemon than one."""

from pathlib import Path

import numpy as np
import pytest
from support.daemon.processes import daemon_process
from support.waiting import wait_until

import neurald as nd
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.model import Model
from neurald.hal.model.request import Argument, Request
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel

CLIENTS = 16
WIDTH = 1024
LAYERS = 6


def network() -> Model:
    """Creates fully connected layers with 24 MiB of weights, which nobody else has in memory."""
    rng = np.random.default_rng(3)
    builder = nd.ModelBuilder()
    value = first = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (1, WIDTH))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 1)
    for _ in range(LAYERS):
        weights = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (WIDTH, WIDTH))
        builder.set_operand_value(weights, rng.standard_normal((WIDTH, WIDTH), np.float32))
        bias = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (WIDTH,))
        builder.set_operand_value(bias, np.ones(WIDTH, np.float32))
        output = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (1, WIDTH))
        builder.add_operation(nd.OperationType.FULLY_CONNECTED, [value, weights, bias, activation], [output])
        value = output
    builder.identify_inputs_and_outputs([first], [value])
    return builder.finish()


def own_memory(process: int) -> int:
    """Returns the bytes of a process's memory, those that it shares with others included.

    The pages of files, such as libraries, do not count. Its share of pages (PSS) would change
    whenever a client or a process that compiles drops them.
    """
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def run(prepared: RemotePreparedModel) -> bytes:
    values = HostMemory(np.linspace(-1, 1, WIDTH, dtype=np.float32))
    result = HostMemory(np.zeros(WIDTH, np.float32))
    argument = Argument(pool=0, length=4 * WIDTH)
    request = Request(
        inputs=(argument,), outputs=(Argument(pool=1, length=4 * WIDTH),), pools=(values, result)
    )
    assert prepared.execute(request, ExecuteOptions()).is_sufficient
    return result.view().tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("listen", [None, "127.0.0.1:0"])
@pytest.mark.sampled(2)
def test_sixteen_clients_of_one_model(listen: str | None) -> None:
    with daemon_process("cpu", listen=listen) as (process, address):
        clients: list[RemoteDevice] = []
        models: list[RemotePreparedModel] = []
        results = set()

        def add() -> None:
            clients.append(connect(address))
            models.append(clients[-1].prepare_model(network(), PrepareOptions()))
            results.add(run(models[-1]))

        idle = own_memory(process.pid)
        add()
        one = own_memory(process.pid) - idle
        for _ in range(CLIENTS - 1):
            add()
        assert len(results) == 1
        # What was needed for transfers is returned to the system after a moment.
        wait_until(lambda: own_memory(process.pid) - idle <= 1.2 * one)
        for client in clients:
            client.close()
