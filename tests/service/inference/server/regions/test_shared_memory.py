"""Tensors in system shared memory, whose owner may do anything with it at any time."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving
from support.waiting import wait_until

from neurald.service.inference.mapping.guarded_copy import CopyOutcome, MappedRange
from neurald.service.inference.models.workers import lane_windows
from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.protocol.tensors import Parameter
from neurald.service.inference.server.client_choices import RegionChoice
from neurald.service.inference.server.regions import shared_memory
from neurald.service.inference.server.regions.shared_memory import DIRECTORY, SharedMemoryRegions

grpc = pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")
http = pytest.importorskip("tritonclient.http")
import tritonclient.utils.shared_memory as memory  # noqa: E402 - optional
from tritonclient.utils import InferenceServerException  # noqa: E402 - optional

X = np.array([[1, 2, 3, 4]], np.float32)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    repository = tmp_path_factory.mktemp("repository")
    zoo.write_plain(repository, "same", zoo.reshaping())
    zoo.write_plain(repository, "find", zoo.finding())
    with Serving(repository, allow_client_shm=True) as service:
        yield service.wait_ready()


@pytest.fixture(params=["grpc", "http"])
def client(request: pytest.FixtureRequest, serving: Serving) -> Iterator[Any]:
    address = serving.grpc if request.param == "grpc" else serving.http
    module = grpc if request.param == "grpc" else http
    with module.InferenceServerClient(address) as found:
        found.module = module
        found.address = address
        yield found
        found.unregister_system_shared_memory()


@pytest.fixture
def key() -> Iterator[str]:
    name = f"neurald-test-{os.getpid()}-{threading.get_ident()}"
    yield f"/{name}"
    Path(DIRECTORY, name).unlink(missing_ok=True)


def infer(client: Any, size: int = 16, offset: int = 0) -> Any:
    module = client.module
    tensor = module.InferInput("x", [1, 4], "FP32")
    tensor.set_shared_memory("region", size, offset)
    output = module.InferRequestedOutput("y")
    output.set_shared_memory("region", 16, 64)
    return client.infer("same", [tensor], outputs=[output])


def test_tensors_in_shared_memory(client: Any, key: str) -> None:
    handle = memory.create_shared_memory_region("region", key, 128)
    try:
        client.register_system_shared_memory("region", key, 128)
        status = client.get_system_shared_memory_status()
        assert "region" in str(status)
        for number in range(3):
            memory.set_shared_memory_region(handle, [X + number])
            result = infer(client)
            values = memory.get_contents_as_numpy(handle, np.float32, [4], offset=64)
            assert np.array_equal(values, X[0] + number)
        assert result.get_output("y") is not None
        with pytest.raises(InferenceServerException, match="already"):
            client.register_system_shared_memory("region", key, 128)
        with pytest.raises(InferenceServerException, match="offset"):
            infer(client, offset=120)
        with pytest.raises(InferenceServerException, match="byte size"):
            infer(client, size=12)
        client.unregister_system_shared_memory("region")
        with pytest.raises(InferenceServerException, match="Unable to find"):
            infer(client)
    finally:
        memory.destroy_shared_memory_region(handle)


def test_requests_that_come_again(client: Any, key: str, serving: Serving) -> None:
    """They differ in their ids and in what is in the region, and are counted like others."""
    handle = memory.create_shared_memory_region("region", key, 128)
    try:
        client.register_system_shared_memory("region", key, 128)
        tensor = client.module.InferInput("x", [1, 4], "FP32")
        tensor.set_shared_memory("region", 16)
        output = client.module.InferRequestedOutput("y")
        output.set_shared_memory("region", 16, 64)

        def counted() -> int:
            found = client.get_inference_statistics("same")
            if not isinstance(found, dict):
                return int(found.model_stats[0].inference_stats.success.count)
            return int(found["model_stats"][0]["inference_stats"]["success"]["count"])

        before = counted()
        for number in range(20):
            memory.set_shared_memory_region(handle, [X + number])
            name = "" if number % 3 == 0 else f"request {number}"
            result = client.infer("same", [tensor], outputs=[output], request_id=name)
            values = memory.get_contents_as_numpy(handle, np.float32, [4], offset=64)
            assert np.array_equal(values, X[0] + number)
            answer = result.get_response()
            assert (answer.get("id", "") if isinstance(answer, dict) else answer.id) == name
            if number == 9:
                client.unload_model("same")
                client.load_model("same")
                before = counted() - 10
        assert counted() == before + 20
    finally:
        memory.destroy_shared_memory_region(handle)


def test_requests_that_come_again_and_end_otherwise(client: Any, key: str) -> None:
    """Their outputs have other sizes than those of the request before."""
    handle = memory.create_shared_memory_region("region", key, 256)
    try:
        client.register_system_shared_memory("region", key, 256)
        tensor = client.module.InferInput("x", [1, 8], "BOOL")
        tensor.set_shared_memory("region", 8)
        output = client.module.InferRequestedOutput("y")
        output.set_shared_memory("region", 128, 128)
        for bits in (0b1, 0b1, 0b1, 0b11, 0b11, 0, 0xFF, 0b1, 0b1):
            given = np.array([[bits >> n & 1 for n in range(8)]], bool)
            memory.set_shared_memory_region(handle, [given])
            result = client.infer("find", [tensor], outputs=[output])
            expected = np.argwhere(given)
            answer = result.get_response()
            (found,) = answer["outputs"] if isinstance(answer, dict) else answer.outputs
            shape = found["shape"] if isinstance(found, dict) else found.shape
            assert list(shape) == list(expected.shape)
            values = memory.get_contents_as_numpy(handle, np.int64, expected.shape, offset=128)
            assert np.array_equal(values, expected)
    finally:
        memory.destroy_shared_memory_region(handle)


def test_requests_that_come_again_beside_others(client: Any, key: str) -> None:
    """Several clients send the same request, whose runs the service does not await one by one."""
    handle = memory.create_shared_memory_region("region", key, 128)
    try:
        client.register_system_shared_memory("region", key, 128)
        memory.set_shared_memory_region(handle, [X])
        infer(client)
        done: list[int] = []

        def ask() -> None:
            with client.module.InferenceServerClient(client.address) as other:
                other.module = client.module
                for _ in range(30):
                    infer(other)
                done.append(30)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
        assert done == [30] * 4
        assert np.array_equal(memory.get_contents_as_numpy(handle, np.float32, [4], offset=64), X[0])
    finally:
        memory.destroy_shared_memory_region(handle)


def test_truncated_regions_are_errors(client: Any, key: str, serving: Serving) -> None:
    path = Path(DIRECTORY) / key[1:]
    path.write_bytes(bytes(128))
    client.register_system_shared_memory("region", key, 128)
    os.truncate(path, 8)
    with pytest.raises(InferenceServerException, match="8 bytes"):
        infer(client)
    os.truncate(path, 128)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            os.truncate(path, 8)
            os.truncate(path, 128)

    thread = threading.Thread(target=change)
    thread.start()
    outcomes = set()
    for _ in range(200):
        try:
            infer(client)
            outcomes.add("answer")
        except InferenceServerException as error:
            outcomes.add("error" if "region" in str(error) else str(error))
    stop.set()
    thread.join()
    assert outcomes <= {"answer", "error"}
    assert client.is_server_ready()
    assert serving.process.poll() is None


def test_a_system_without_shared_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shared_memory, "DIRECTORY", str(tmp_path / "none"))
    regions = SharedMemoryRegions({"before": RegionChoice(key="/before", offset=0, size=4, file=1)})
    assert "no shared memory" in caplog.messages[0]
    with pytest.raises(ServiceError, match=r"region: '/new': the service has no .*none"):
        regions.register("new", "/new", 0, 4)
    assert regions.status() == {}
    regions.close()


@pytest.fixture
def large(key: str) -> Iterator[tuple[SharedMemoryRegions, Any, Path]]:
    """Yields a part of a region that is large enough to be mapped, and the region's file."""
    regions = SharedMemoryRegions({})
    path = Path(DIRECTORY, key[1:])
    path.write_bytes(os.urandom(LARGE + 100))
    regions.register("region", key, 100, LARGE)
    part = regions.part_of("x", {"shared_memory_region": "region", "shared_memory_byte_size": LARGE})
    yield regions, part, path
    regions.close()


LARGE = 1 << 17


def test_large_tensors_are_copied_through_a_mapping(
    large: tuple[SharedMemoryRegions, Any, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, part, path = large
    outcomes: list[CopyOutcome] = []

    def noting(call: Callable[[MappedRange, memoryview, int], CopyOutcome]) -> Callable[..., CopyOutcome]:
        def noted(part: MappedRange, content: memoryview, offset: int) -> CopyOutcome:
            outcomes.append(call(part, content, offset))
            return outcomes[-1]

        return noted

    monkeypatch.setattr(MappedRange, "read", noting(MappedRange.read))
    monkeypatch.setattr(MappedRange, "write", noting(MappedRange.write))
    target = memoryview(bytearray(LARGE))
    for number in range(20):
        part.copy_into(target)
        assert target == path.read_bytes()[100:]
        part.write(memoryview(bytes([number]) * LARGE), "y")
        assert path.read_bytes()[100:] == bytes([number]) * LARGE
    assert outcomes == [CopyOutcome.COPIED] * (40 - shared_memory._UNMAPPED_COPIES)
    # Small ones are not.
    part.write(memoryview(b"abc"), "y")
    assert path.read_bytes()[100:103] == b"abc"
    assert len(outcomes) == 40 - shared_memory._UNMAPPED_COPIES


def test_a_file_that_is_truncated_during_a_copy(
    large: tuple[SharedMemoryRegions, Any, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has its size when it is checked, and has lost it when bytes are copied."""
    _, part, path = large
    target = memoryview(bytearray(LARGE))
    for _ in range(shared_memory._UNMAPPED_COPIES + 1):
        part.copy_into(target)
    assert part._region._mapping is not None
    with monkeypatch.context() as patch:
        patch.setattr(part._region, "check", lambda: os.truncate(path, 5000))
        with pytest.raises(ServiceError, match="truncated"):
            part.copy_into(target)
    assert part._region._mapping is None
    for check in (lambda: part.copy_into(target), part._region.check, part._region.check_size):
        with pytest.raises(ServiceError, match="it has 5000 bytes"):
            check()
    # What is registered exists again, and is what the file has now.
    os.truncate(path, LARGE + 100)
    for number in range(shared_memory._UNMAPPED_COPIES + 2):
        part.write(memoryview(bytes([number]) * LARGE), "y")
        part.copy_into(target)
        assert target == bytes([number]) * LARGE == path.read_bytes()[100:]
    assert part._region._mapping is not None
    part._region.check_size()


def test_regions_are_used_where_nothing_can_be_mapped(
    large: tuple[SharedMemoryRegions, Any, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, part, _ = large
    monkeypatch.setattr(shared_memory, "mapped_range", lambda *_: None)
    target = memoryview(bytearray(LARGE))
    for number in range(2 * shared_memory._UNMAPPED_COPIES):
        part.write(memoryview(bytes([number]) * LARGE), "y")
        part.copy_into(target)
        assert target == bytes([number]) * LARGE


def test_large_regions_are_truncated_under_load(key: str, tmp_path: Path) -> None:
    """The service answers with errors, and lives."""
    elements = 1 << 16
    zoo.write_plain(tmp_path, "large", zoo.reshaping("FLOAT32", elements))
    path, size = Path(DIRECTORY) / key[1:], 4 * elements
    path.write_bytes(bytes(2 * size))
    stop = threading.Event()

    def change() -> None:
        while not stop.wait(0.002):
            os.truncate(path, 4096)
            os.truncate(path, 2 * size)

    changing = threading.Thread(target=change)
    with (
        Serving(tmp_path, allow_client_shm=True) as serving,
        grpc.InferenceServerClient(serving.wait_ready().grpc) as client,
    ):
        client.register_system_shared_memory("region", key, 2 * size)
        tensor, output = grpc.InferInput("x", [1, elements], "FP32"), grpc.InferRequestedOutput("y")
        tensor.set_shared_memory("region", size)
        output.set_shared_memory("region", size, size)
        for _ in range(2 * shared_memory._UNMAPPED_COPIES):
            client.infer("large", [tensor], outputs=[output])
        changing.start()
        outcomes = set()
        for _ in range(300):
            try:
                client.infer("large", [tensor], outputs=[output])
                outcomes.add("answer")
            except InferenceServerException as error:
                outcomes.add("error" if "region" in str(error) else str(error))
        stop.set()
        changing.join()
        assert outcomes <= {"answer", "error"}
        client.infer("large", [tensor], outputs=[output])
        assert serving.process.poll() is None


def test_large_requests_that_come_again_are_run_in_place(key: str, tmp_path: Path) -> None:
    """The worker maps the region until it is unregistered, and reads what is in it each time."""
    elements = 1 << 16
    zoo.write_plain(tmp_path, "large", zoo.reshaping("FLOAT32", elements))
    size = 4 * elements
    handle = memory.create_shared_memory_region("region", key, 3 * size)
    with (
        Serving(tmp_path, allow_client_shm=True) as serving,
        grpc.InferenceServerClient(serving.wait_ready().grpc) as client,
    ):
        client.register_system_shared_memory("region", key, 3 * size)
        client.register_system_shared_memory("same region", key, 3 * size)
        tensor, output = grpc.InferInput("x", [1, elements], "FP32"), grpc.InferRequestedOutput("y")
        # The last output overlaps the input, by another name of the region.
        for region, offset in (("region", size), ("region", 2 * size), ("same region", size // 2)):
            tensor.set_shared_memory("region", size)
            output.set_shared_memory(region, size, offset)
            for number in range(3 * lane_windows._COPIED_RUNS):
                values = np.arange(elements, dtype=np.float32) + number
                memory.set_shared_memory_region(handle, [values])
                client.infer("large", [tensor], outputs=[output], request_id=str(number))
                found = memory.get_contents_as_numpy(handle, np.float32, [elements], offset=offset)
                assert np.array_equal(found, values)
        assert pids_with(key)
        client.unregister_system_shared_memory()
        wait_until(lambda: not pids_with(key))
    memory.destroy_shared_memory_region(handle)


def pids_with(key: str) -> list[int]:
    """Returns other processes that have mapped a region."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                if key in Path(folder, "maps").read_text():
                    found.append(int(folder.name))
    return found


@pytest.mark.parametrize("name", ["/..", "/a/b", "../etc/passwd", "", "/", "/" + "a" * 300, "/missing"])
def test_keys_that_name_no_region_are_refused(client: Any, name: str) -> None:
    with pytest.raises(InferenceServerException) as caught:
        client.register_system_shared_memory("region", name, 16)
    assert DIRECTORY not in str(caught.value)


def test_regions_are_files_of_this_user(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    regions = SharedMemoryRegions({})
    path = Path(DIRECTORY) / key[1:]
    path.write_bytes(bytes(128))
    regions.register("region", key, 64, 64)
    part = regions.part_of("x", {"shared_memory_region": "region", "shared_memory_byte_size": 16})
    assert part is not None
    for offset, size in ((2**62, 1), (0, 129), (100, 64), (-1, 1)):
        with pytest.raises(ServiceError):
            regions.register("other", key, offset, size)
    link = path.with_name(path.name + ".link")
    link.symlink_to("/etc/passwd")
    try:
        with pytest.raises(ServiceError, match="Unable to open"):
            regions.register("other", f"/{link.name}", 0, 16)
    finally:
        link.unlink()
    # What was registered can be used after its name is gone, but not by another owner.
    path.unlink()
    part.write(memoryview(b"abc"), "y")
    regions.unregister("region")
    target = memoryview(bytearray(16))
    part.copy_into(target)
    assert bytes(target[:4]) == b"abc\0"
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 4242)
        with pytest.raises(ServiceError, match="another user"):
            part.copy_into(target)
    with pytest.raises(ServiceError, match="specified"):
        part.write(memoryview(bytes(17)), "y")
    regions.close()


def test_regions_in_use_are_unregistered_when_requests_have_ended(key: str) -> None:
    Path(DIRECTORY, key[1:]).write_bytes(bytes(64))
    regions = SharedMemoryRegions({})
    regions.register("a", key, 0, 64)
    named: dict[str, Parameter] = {"shared_memory_region": "a", "shared_memory_byte_size": 8}
    first = regions.part_of("x", named)
    assert first is not None
    regions.unregister("")
    assert "a" in regions.status()
    second = regions.part_of("y", named)
    assert second is not None
    first.release()
    first.release()
    assert "a" in regions.status()
    second.release()
    assert regions.status() == {}
    with pytest.raises(ServiceError, match="Unable to find"):
        regions.part_of("x", named)
    # A part that no request took goes by itself.
    regions.register("a", key, 0, 64)
    assert regions.part_of("x", named) is not None
    regions.unregister("a")
    assert regions.status() == {}
    regions.close()


def test_threads_use_a_region_that_is_unregistered(key: str) -> None:
    """Uses that several threads begin and end at once are all counted."""
    Path(DIRECTORY, key.strip("/")).write_bytes(bytes(128))
    regions = SharedMemoryRegions({})
    parameters: dict[str, Parameter] = {"shared_memory_region": "region", "shared_memory_byte_size": 16}
    regions.register("region", key, 0, 128)
    held = regions.part_of("x", parameters)
    assert held is not None

    def use() -> None:
        for _ in range(2000):
            part = held.place.part()
            assert part is not None
            part.release()

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    regions.unregister("region")
    for thread in threads:
        thread.join()
    assert regions.status()
    held.release()
    assert not regions.status()
    regions.close()


def test_a_region_leaves_while_all_are_listed(key: str) -> None:
    """A thread that ends the last use of a region waits until the list of regions is made."""
    Path(DIRECTORY, key.strip("/")).write_bytes(bytes(128))
    regions = SharedMemoryRegions({})
    for name in ("a", "b"):
        regions.register(name, key, 0, 128)
    held = regions.part_of("x", {"shared_memory_region": "b", "shared_memory_byte_size": 16})
    assert held is not None
    regions.unregister("b")
    ending = threading.Thread(target=held.release)

    class Slow(dict[str, Any]):
        def values(self) -> Any:
            for each in super().values():
                if not ending.ident:
                    ending.start()
                    ending.join(0.2)
                yield each

    regions._regions = Slow(regions._regions)
    assert set(regions.status()) == {"a", "b"}
    ending.join()
    assert set(regions.status()) == {"a"}
    regions.close()


def test_regions_outlive_the_front_end_with_their_files(key: str, caplog: pytest.LogCaptureFixture) -> None:
    names = ("same", "other", "short", "gone", "left", "used")
    paths = {name: Path(DIRECTORY, f"{key[1:]}.{name}") for name in names}
    before, reports = SharedMemoryRegions({}), []
    before.report = lambda: reports.append(before.choices())
    try:
        for name, path in paths.items():
            path.write_bytes(bytes(64))
            before.register(name, f"{key}.{name}", 16, 48)
        held = before.part_of("x", {"shared_memory_region": "used", "shared_memory_byte_size": 8})
        before.unregister("left")
        before.unregister("used")
        assert held is not None
        assert [len(each) for each in reports] == [1, 2, 3, 4, 5, 6, 5, 4]
        paths["other"].unlink()
        paths["other"].write_bytes(bytes(64))
        os.truncate(paths["short"], 63)
        paths["gone"].unlink()
        after = SharedMemoryRegions(reports[-1])
        assert after.status() == {"same": (f"{key}.same", 16, 48)}
        for reason in ("'other' cannot be used: there is another file", "'short'", "gone"):
            assert reason in caplog.text
        part = after.part_of("x", {"shared_memory_region": "same", "shared_memory_byte_size": 8})
        assert part is not None
        part.write(memoryview(b"a"), "y")
        assert paths["same"].read_bytes()[16:17] == b"a"
        # A client that has noticed registers it again, once.
        with pytest.raises(ServiceError, match="already"):
            after.register("same", f"{key}.other", 0, 8)
        after.register("same", f"{key}.same", 16, 48)
        with pytest.raises(ServiceError, match="already"):
            after.register("same", f"{key}.same", 16, 48)
        after.close()
        held.release()
        before.close()
    finally:
        for path in paths.values():
            path.unlink(missing_ok=True)


def test_a_client_may_register_another_region_after_the_front_end_has_died(key: str) -> None:
    path = Path(DIRECTORY, key[1:])
    path.write_bytes(bytes(64))
    before = SharedMemoryRegions({})
    before.register("region", key, 0, 64)
    after = SharedMemoryRegions(before.choices())
    before.close()
    path.unlink()
    path.write_bytes(bytes(128))
    after.register("region", key, 0, 128)
    assert after.status() == {"region": (key, 0, 128)}
    with pytest.raises(ServiceError, match="already"):
        after.register("region", key, 0, 128)
    after.close()
