"""The service listens where it is told, serves whom it may, and ends in order."""

import contextlib
import os
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import msgspec
import numpy as np
import pytest
from support.daemon.certificates import issue, make_authority
from support.daemon.processes import python_path
from support.inference import zoo
from support.inference.serving import Serving, is_gone
from support.waiting import wait_until

from neurald.service.inference.server.settings import ServiceSettings

triton = pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")
from tritonclient.utils import InferenceServerException  # noqa: E402 - optional

X = np.array([[1, 2, 3, 4]], np.float32)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    zoo.write_plain(folder, "same", zoo.reshaping())
    return folder


def infer(client: Any, **named: Any) -> Any:
    tensor = triton.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(X)
    return client.infer("same", [tensor], **named).as_numpy("y").tolist()


def test_a_folder_that_is_no_model_keeps_the_service_from_nothing(repository: Path) -> None:
    (repository / "__pycache__").mkdir()
    with Serving(repository) as service:
        service.wait_ready()
        assert [each.name for each in service.status.models] == ["same"]


def test_the_service_ends_with_its_workers(repository: Path) -> None:
    with Serving(repository) as service:
        service.wait_ready()
        workers = service.model("same").processes
        assert workers
        assert service.stop() == 0
    wait_until(lambda: all(map(is_gone, workers)))


def test_temporary_files_of_workers_end_with_the_service(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TMPDIR", folder)
        with Serving(repository) as service:
            service.wait_ready()
            wait_until(lambda: list(Path(folder).iterdir()))
        assert list(Path(folder).iterdir()) == []


def test_a_killed_front_end_takes_its_workers_along(repository: Path) -> None:
    with Serving(repository) as service:
        service.wait_ready()
        workers = service.model("same").processes
        service.process.kill()
        wait_until(lambda: all(map(is_gone, workers)))


def test_other_hosts_are_not_served_without_tls(repository: Path) -> None:
    for settings in ({"grpc": "0.0.0.0:0"}, {"http": "0.0.0.0:0"}, {"http": "[::]:0", "token": "b7e41d"}):
        with Serving(repository, **settings) as service:
            assert service.process.wait(60) == 1
    with Serving(repository, http="0.0.0.0:0", grpc="", insecure=True) as service:
        service.wait_ready()


def test_addresses_in_use_are_an_error(repository: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for protocol, settings in (
            ("gRPC", {"grpc": address}),
            ("HTTP", {"http": address}),
            ("the live page", {"web": address}),
        ):
            with Serving(repository, **settings) as service:
                assert failure_of(service) == (
                    f"{protocol} cannot be served at {address}: Address already in use; stop the process that "
                    "listens there, or name another address"
                )


def test_addresses_of_other_hosts_are_an_error(repository: Path) -> None:
    with Serving(repository, grpc="203.0.113.7:0", insecure=True) as service:
        assert failure_of(service) == (
            "gRPC cannot be served at 203.0.113.7:0: Cannot assign requested address; name an address of this host"
        )


def test_a_repository_that_is_missing_is_an_error(repository: Path) -> None:
    with Serving(repository / "missing") as service:
        assert "missing cannot be opened: No such file or directory" in failure_of(service)


#: A front end that cannot do what it does at its start.
_REFUSED = """
import asyncio, os, sys
from neurald.service.inference.server.front_end import FrontEnd
from neurald.service.inference.server.program import main

async def run(*_):
    open("/missing/file")

FrontEnd.run = run
sys.exit(main(os.getppid()))
"""


def test_what_the_system_refuses_is_an_error() -> None:
    environment = {**os.environ, "PYTHONPATH": python_path()}
    done = subprocess.run(
        [sys.executable, "-c", _REFUSED],
        input=msgspec.json.encode(ServiceSettings()) + b"\n",
        env=environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert b"/missing/file: No such file or directory" in done.stdout
    assert b"Traceback" in done.stderr


def failure_of(service: Serving) -> str:
    assert service.process.wait(60) == 1
    wait_until(lambda: service.lines)
    return service.status.failure


def test_silent_connections_keep_the_service_from_nothing(repository: Path) -> None:
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # This process needs some to start the service.
    limit = max(int(each.name) for each in Path("/proc/self/fd").iterdir()) + 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
    try:
        service = Serving(repository, limits={"connections": 8})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (now, most))
    with service, contextlib.ExitStack() as stack:
        service.wait_ready()
        assert resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE)[0] > limit
        host, port = service.grpc.split(":")
        before = descriptors_of(service.process.pid)
        for _ in range(100):
            stack.enter_context(socket.create_connection((host, int(port))))
        assert descriptors_of(service.process.pid) < before + 50
        with urllib.request.urlopen(f"http://{service.http}/v2/health/ready", timeout=60) as answer:
            assert answer.status == 200
        stack.pop_all().close()
        with triton.InferenceServerClient(service.grpc) as client:
            wait_until(lambda: is_live(client))


def descriptors_of(process: int) -> int:
    return sum(1 for _ in Path(f"/proc/{process}/fd").iterdir())


def is_live(client: Any) -> bool:
    try:
        return bool(client.is_server_live())
    except InferenceServerException:
        return False


def test_clients_send_the_token(repository: Path) -> None:
    with Serving(repository, token="b7e41d") as service:
        service.wait_ready()
        with triton.InferenceServerClient(service.grpc) as client:
            for headers in (None, {"authorization": "Bearer wrong"}, {"authorization": "b7e41d"}):
                with pytest.raises(InferenceServerException, match="UNAUTHENTICATED"):
                    infer(client, headers=headers)
                with pytest.raises(InferenceServerException, match="UNAUTHENTICATED"):
                    client.is_server_ready(headers=headers)
            assert infer(client, headers={"authorization": "Bearer b7e41d"}) == [1, 2, 3, 4]
        url = f"http://{service.http}/v2"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url)
        request = urllib.request.Request(url, headers={"Authorization": "Bearer b7e41d"})
        assert urllib.request.urlopen(request).status == 200
        # Probes of orchestrators have no token.
        assert urllib.request.urlopen(f"{url}/health/ready").status == 200
        for pid in (service.process.pid, *service.model("same").processes):
            assert b"b7e41d" not in Path(f"/proc/{pid}/cmdline").read_bytes()
            assert b"b7e41d" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_clients_show_certificates(repository: Path, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    authority = make_authority(tmp_path / "authority")
    files = issue(authority, "server", ["127.0.0.1", "localhost"])
    mine = issue(authority, "client")
    tls = {
        "tls_certificate": str(files.certificate),
        "tls_key": str(files.key),
        "tls_authority": str(files.authority),
    }
    with Serving(repository, **tls) as service:
        service.wait_ready()
        root = mine.authority.read_bytes()
        for key, certificate in ((None, None), (mine.key.read_bytes(), mine.certificate.read_bytes())):
            credentials = grpc.ssl_channel_credentials(root, key, certificate)
            with triton.InferenceServerClient(service.grpc, ssl=True, creds=credentials) as client:
                if key is None:
                    with pytest.raises(InferenceServerException):
                        infer(client)
                else:
                    assert infer(client) == [1, 2, 3, 4]
        context = ssl.create_default_context(cafile=str(mine.authority))
        url = f"https://{service.http}/v2/health/ready"
        with pytest.raises((urllib.error.URLError, OSError)):
            urllib.request.urlopen(url, context=context).read()
        context.load_cert_chain(mine.certificate, mine.key)
        assert urllib.request.urlopen(url, context=context).status == 200
    with Serving(repository, token="b7e41d", **tls) as service:
        service.wait_ready()
        credentials = grpc.ssl_channel_credentials(root)
        with triton.InferenceServerClient(service.grpc, ssl=True, creds=credentials) as client:
            with pytest.raises(InferenceServerException, match="UNAUTHENTICATED"):
                infer(client)
            assert infer(client, headers={"authorization": "Bearer b7e41d"}) == [1, 2, 3, 4]


def test_a_model_that_is_none_leaves_the_others_alone(repository: Path) -> None:
    zoo.write_plain(repository, "damaged", b"x" * 100)
    with Serving(repository) as service:
        service.wait_for(lambda status: status.models)
        with triton.InferenceServerClient(service.grpc) as client:
            wait_until(lambda: client.is_model_ready("same"))
            assert infer(client) == [1, 2, 3, 4]

            def states() -> dict[str, tuple[str, str]]:
                return {
                    each.name: (each.state, each.reason)
                    for each in client.get_model_repository_index().models
                }

            wait_until(lambda: states()["damaged"][0] == "UNAVAILABLE")
            assert str(repository) not in states()["damaged"][1]
            service.wait_for(lambda status: any(each.name == "damaged" for each in status.models))
            damaged = service.model("damaged")
            assert (damaged.version, damaged.is_ready) == ("", False)
            assert damaged.reason == states()["damaged"][1]
            # It was asked for at the start, so the service is not ready.
            assert not client.is_server_ready()
            zoo.write_plain(repository, "damaged", zoo.reshaping())
            client.load_model("damaged")
            wait_until(client.is_server_ready)


def test_several_workers_of_one_model(repository: Path) -> None:
    zoo.write_model(repository, "twice", zoo.dense(), config="instance_group [ { count: 2 } ]")
    with Serving(repository, load=["twice"]) as service:
        service.wait_ready()
        assert len(service.model("twice").processes) == 2
        assert [each.name for each in service.status.models] == ["twice"]


def test_a_unix_socket_is_for_its_user(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("s") / "v2.sock"
    with Serving(repository, grpc=f"unix://{path}", http="") as service:
        service.wait_ready()
        assert path.stat().st_mode & 0o777 == 0o600
        with grpc.insecure_channel(f"unix:{path}") as channel:
            call: Any = channel.unary_unary("/inference.GRPCInferenceService/ServerReady")
            assert call(b"", timeout=60) == b"\x08\x01"


def test_the_manager_starts_the_service(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    from support.daemon.managed import Managed

    folder = tmp_path_factory.mktemp("m")
    with Managed(folder, "--grpc", "127.0.0.1:0", "--http", "0", "--repository", str(repository)) as manager:
        wait_until(lambda: (found := manager.manager_status().service) is not None and found.is_ready)
        status = manager.manager_status().service
        assert status is not None
        with triton.InferenceServerClient(status.addresses["grpc"]) as client:
            assert infer(client) == [1, 2, 3, 4]
        assert "same" in manager.command("status").stdout
        before = status.process
        assert before is not None
        os.kill(before, 9)
        wait_until(
            lambda: (
                (found := manager.manager_status().service) is not None
                and found.is_ready
                and found.process != before
            )
        )
        last = manager.manager_status().service
        assert last is not None
        assert manager.stop() == 0
        assert last.process is not None
        wait_until(lambda: is_gone(last.process or 0))


def test_the_file_starts_the_service(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    from support.daemon.managed import Managed

    table = f"[service]\nhttp = '127.0.0.1:0'\nrepositories = ['{repository}']\n"
    with Managed(tmp_path_factory.mktemp("m"), tables=table) as manager:
        wait_until(lambda: (found := manager.manager_status().service) is not None and found.is_ready)
        status = manager.manager_status().service
        assert status is not None
        assert list(status.addresses) == ["http"]
        assert [each.name for each in status.models] == ["same"]


def test_wrong_options_are_one_sentence(repository: Path, tmp_path: Path) -> None:
    from support.daemon.processes import bare_environment, run_command

    token = tmp_path / "token"
    token.write_text("two words")
    token.chmod(0o600)
    environment = bare_environment()
    for options, text in (
        (["--grpc"], "--repository"),
        (["--repository", str(repository)], "--grpc, --http or --web"),
        (["--http", "--repository", str(repository), "--service-limit", "size=1"], "message_bytes"),
        (["--http", "--repository", str(repository), "--service-limit", "queue=x"], "NAME=NUMBER"),
        (["--http", "--repository", str(repository), "--auth-token-file", str(token)], "one word"),
    ):
        result = run_command(["serve", *options], environment, timeout_s=60)
        assert result.returncode == 1
        assert text in result.stderr
    assert isinstance(result, subprocess.CompletedProcess)
