"""The health service of the execution service."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from support.inference.silent_client import begin_call

from neurald.service.inference.protocol.messages import SERVICE
from neurald.service.inference.server.grpc.grpc_server import GrpcServer
from neurald.service.inference.server.grpc.health import ReadinessHealth

Status = health_pb2.HealthCheckResponse
Request = health_pb2.HealthCheckRequest


class Service:
    """Is ready when a test says so."""

    def __init__(self) -> None:
        self.is_ready = True
        self.watches = 0

    def answer(self) -> bool:
        self.watches += 1
        return self.is_ready


def play(scene: Callable[[Service, int, Any], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        service = Service()
        server = GrpcServer([("grpc.so_reuseport", 0)], calls=16)
        health_pb2_grpc.add_HealthServicer_to_server(ReadinessHealth(service.answer), server)
        port = server.add_port("127.0.0.1:0", None)
        server.start()
        try:
            async with asyncio.timeout(60), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                await scene(service, port, health_pb2_grpc.HealthStub(channel))
        finally:
            await server.stop(0.1)

    asyncio.run(run())


def test_the_state_is_told() -> None:
    async def scene(service: Service, port: int, stub: Any) -> None:
        for name in ("", SERVICE):
            service.is_ready = True
            assert (await stub.Check(Request(service=name))).status == Status.SERVING
            service.is_ready = False
            assert (await stub.Check(Request(service=name))).status == Status.NOT_SERVING
        with pytest.raises(grpc.RpcError) as caught:
            await stub.Check(Request(service="another"))
        assert isinstance(caught.value, grpc.aio.AioRpcError)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert (await stub.Watch(Request(service="another")).read()).status == Status.SERVICE_UNKNOWN

    play(scene)


def test_one_that_does_not_read_holds_up_nobody() -> None:
    async def scene(service: Service, port: int, stub: Any) -> None:
        with begin_call(port, "/grpc.health.v1.Health/Watch"):
            while not service.watches:
                await asyncio.sleep(0.01)
            watch = stub.Watch(Request())
            for is_ready in (True, False, True):
                service.is_ready = is_ready
                assert (await watch.read()).status == (Status.SERVING if is_ready else Status.NOT_SERVING)

    play(scene)
