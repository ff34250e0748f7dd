"""Models of a service on this host, as functions."""

import json
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from support.daemon.forking import in_child
from support.inference import zoo
from support.inference.serving import Serving
from support.traces.tracing import assert_valid, shares
from support.waiting import wait_until

import neurald as nd
from neurald.hal.errors import BadData, BadState, DeadObject, MissedDeadlineTransient, UnavailableDevice
from neurald.hal.rpc.transport.ring_end import read_stamps

X = np.array([[1, 2, 3, 4]], np.float32)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s") / "service.sock"


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, place: Path) -> Iterator[Serving]:
    repository = tmp_path_factory.mktemp("repository")
    zoo.write_plain(repository, "same", zoo.reshaping())
    zoo.write_plain(repository, "pair", zoo.addition())
    zoo.write_plain(repository, "strings", zoo.reshaping("STRING"))
    zoo.write_plain(repository, "finding", zoo.finding())
    zoo.write_plain(repository, "open", zoo.open_addition())
    zoo.write_plain(repository, "counting", zoo.counting())
    zoo.write_model(
        repository, "versions", zoo.dense(seed=1), zoo.dense(seed=2), config="version_policy { all {} }"
    )
    with Serving(repository, socket=str(place), grpc="", http="") as service:
        yield service.wait_ready()


@pytest.fixture
def service(serving: Serving, place: Path) -> nd.Service:
    return nd.connect_service(place)


def test_a_model_is_a_function(service: nd.Service) -> None:
    with service.model("pair") as pair:
        a, b = np.array([[5, 6, 7, 8]], np.int32), np.array([[1, 2, 3, 4]], np.int32)
        total, difference = pair(a, b)
        assert total.tolist() == [[6, 8, 10, 12]]
        named = pair(b=b, a=a)
        assert np.array_equal(named["difference"], difference)
        assert pair({"a": a, "b": b})["sum"].tolist() == total.tolist()
        assert [(info.name, info.shape) for info in pair.inputs_info] == [("a", (1, 4)), ("b", (1, 4))]
        assert pair.last_receipt is not None
        assert pair.last_receipt.devices == ("cpu",)
        # Lists are converted, arrays of other types are not.
        assert pair([[1, 1, 1, 1]], [[1, 1, 1, 1]])[0].tolist() == [[2, 2, 2, 2]]
        for arguments in ((a,), (a, b.astype(np.float32)), (a, b[:, :3])):
            with pytest.raises(BadData):
                pair(*arguments)
        with pytest.raises(BadData, match="inputs"):
            pair(a=a, c=b)
        assert pair(a, b)[0].tolist() == total.tolist()
    with pytest.raises(BadState, match="closed"):
        pair(a, b)


def test_what_are_no_values_of_an_input_is_refused(service: nd.Service) -> None:
    class Raising:
        def __array__(self, *given: object, **named: object) -> object:
            raise RuntimeError("no values")

    pair, same, strings = (service.model(name) for name in ("pair", "same", "strings"))
    good = np.ones((1, 4), np.int32)
    for value in (
        "text",
        None,
        [[0.5, 1, 1, 1]],
        [[2**40] * 4],
        [[1], [1, 2]],
        [np.ma.masked_equal(good[0], 1)],
        np.ma.masked_equal(good, 1),
        object(),
        Raising(),
    ):
        with pytest.raises(BadData, match="the input b"):
            pair(good, value)
    masked = np.ma.masked_equal(X, 2)
    for model, wrong in ((same, masked), (strings, np.ma.masked_equal([b"a", b"b"], b"a"))):
        with pytest.raises(BadData, match="masked elements"):
            model(wrong)
    with pytest.raises(BadData, match="a sequence of arrays is expected"):
        pair.run(5)
    assert pair([[1.0, 1, 1, 1]], good)[0].tolist() == [[2, 2, 2, 2]]


def test_requests_are_in_traces(service: nd.Service) -> None:
    pair, array = service.model("pair"), np.ones((1, 4), np.int32)
    pair(array, array)
    with nd.trace() as trace:
        for _ in range(5):
            pair(array, array)
            pair.run([array, array])
    assert len({span.call for span in trace.spans}) == 10
    for number in {span.call for span in trace.spans}:
        names = {span.name for span in trace.spans if span.call == number}
        assert {"request", "choose a service", "run in the service", "return the outputs"} <= names
    # Where others compute, a thread may wait for a processor between two spans.
    assert median(shares(trace)) > 0.95


def test_traces_show_what_the_process_of_a_model_did(service: nd.Service, tmp_path: Path) -> None:
    pair, array = service.model("pair"), np.ones((1, 4), np.int32)
    with nd.trace(tmp_path / "first.json") as trace:
        for _ in range(4):  # by packets, repeated by Python, and then by native code
            pair(array, array)
        with pytest.raises(BadData):
            pair(array, array[:, :3])
    assert_valid(tmp_path / "first.json", trace)
    runs = [span for span in trace.spans if span.name == "run in the service"]
    served = [span for span in trace.spans if span.name == "serve"]
    assert [span.call for span in runs[:4]] == [span.call for span in served[:4]]
    assert {span.details["exchange"] for span in served} <= {span.details["exchange"] for span in runs}
    (process,) = {span.process for span in served}
    names = {
        event["pid"]: event["args"]["name"]
        for event in json.loads((tmp_path / "first.json").read_text())["traceEvents"]
        if event["ph"] == "M"
    }
    assert names == {os.getpid(): "application", process: "neurald served model"}
    assert process not in {os.getpid(), os.getppid()}
    assert all(
        run.start_ns <= span.start_ns <= span.end_ns <= run.end_ns
        for run, span in zip(runs, served, strict=True)
    )
    assert "error" in runs[-1].details
    ended_ns = time.monotonic_ns()
    pair(array, array)
    (lane,) = pair._balancer._endpoints[0].idle
    assert read_stamps(lane._runs.ring.stamps()).replied_ns < ended_ns, "stamps are left after the trace"


def test_tensors_of_every_size(service: nd.Service) -> None:
    strings = service.model("strings")
    (found,) = strings(np.array([["a", "", "ccc", "d"]], object))
    assert found.tolist() == [b"a", b"", b"ccc", b"d"]
    finding, doubled = service.model("finding"), service.model("open")
    for places in ([1, 5], [], list(range(8))):
        x = np.zeros((1, 8), bool)
        x[0, places] = True
        assert finding(x)[0][:, 1].tolist() == places
    for rows in (1, 100_000, 3):
        x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        assert np.array_equal(doubled(x)[0], 2 * x)
    # Whatever the layout of the array is.
    assert np.array_equal(doubled(x[::-1])[0], 2 * x[::-1])
    for model in (strings, finding, doubled):
        model.close()


def test_large_outputs_are_not_copied_and_stay_as_they_are(service: nd.Service) -> None:
    x = np.ones((30_000, 3), np.float32)
    with service.model("open") as doubled:
        lent = 0
        kept = []
        for value in range(20):
            (y,) = doubled(x * value)
            lent += not y.flags.owndata
            kept.append(y[-1:] if value % 2 else y)
            # Some are dropped, so that their memory is used again.
            if value % 5 == 4:
                kept[value // 2] = kept[value // 2].copy()
        assert lent >= 2
        for _ in range(10):
            (y,) = doubled(x)
            lent += not y.flags.owndata
            y += 1
            assert np.all(y == 3)
    assert all(np.all(each == 2 * value) for value, each in enumerate(kept))


@pytest.mark.forks
def test_a_forked_process_has_arrays_of_its_own(service: nd.Service) -> None:
    x = np.ones((30_000, 3), np.float32)
    with service.model("open") as doubled:
        for _ in range(5):
            (y,) = doubled(x)
        assert not y.flags.owndata

    def write() -> None:
        y[:] = 7

    in_child(write)
    assert np.all(y == 2)


def test_versions_and_errors(service: nd.Service, tmp_path: Path) -> None:
    one, two = service.model("versions", 1), service.model("versions")
    assert (one.version, two.version) == ("1", "2")
    assert not np.allclose(one(X)[0], two(X)[0])
    one.close()
    two.close()
    with pytest.raises(BadData, match="unknown model"):
        service.model("missing")
    with pytest.raises(UnavailableDevice, match="neurald serve"):
        nd.connect_service(tmp_path / "missing.sock")


def test_threads_share_a_model(service: nd.Service) -> None:
    same = service.model("same")
    wrong: list[object] = []

    def use(number: int) -> None:
        for turn in range(30):
            (y,) = same(X + number * 100 + turn)
            if not np.array_equal(y, X[0] + number * 100 + turn):
                wrong.append(y)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    same.close()


def test_calls_survive_the_death_of_the_process(service: nd.Service, serving: Serving) -> None:
    same = service.model("same")
    for _ in range(2):
        (worker,) = serving.model("same").processes
        os.kill(worker, signal.SIGKILL)
        assert np.array_equal(same(X)[0], X[0])
        wait_until(lambda: serving.model("same").processes not in ((worker,), ()))  # noqa: B023
    same.close()


def test_a_time_limit_stops_the_run(service: nd.Service) -> None:
    counting = service.model("counting")
    # Long enough to begin before it has passed, also on a busy machine.
    with pytest.raises(MissedDeadlineTransient):
        counting.run([np.array(2**31 - 1, np.int32)], timeout=1.0)
    assert counting(np.array(5, np.int32))[0] == 5
    counting.close()


@pytest.mark.forks
def test_clients_that_are_killed_leave_nothing(service: nd.Service, serving: Serving, place: Path) -> None:
    (worker,) = serving.model("same").processes

    def descriptors() -> int:
        return len(list(Path(f"/proc/{worker}/fd").iterdir()))

    same = service.model("same")
    same(X)
    before = descriptors()
    children: list[int] = []
    for _ in range(5):
        child = os.fork()
        if child == 0:
            mine = nd.connect_service(place).model("same")
            mine(X)
            os.kill(os.getpid(), signal.SIGKILL)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    wait_until(lambda: descriptors() <= before)
    assert np.array_equal(same(X)[0], X[0])
    same.close()


def test_a_service_that_ends_is_an_error(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("e")
    zoo.write_plain(folder, "same", zoo.reshaping())
    with Serving(folder, socket=str(folder / "s.sock"), http="") as service:
        service.wait_ready()
        same = nd.connect_service(folder / "s.sock").model("same")
        same(X)
    began = time.monotonic()
    with pytest.raises((DeadObject, UnavailableDevice)):
        same(X)
    assert time.monotonic() - began < 60
    assert not (folder / "s.sock").exists()


def test_pickled_models_connect_themselves(service: nd.Service) -> None:
    with service.model("pair") as pair:
        other = pickle.loads(pickle.dumps(pair))
    with other:
        a, b = np.array([[5, 6, 7, 8]], np.int32), np.array([[1, 2, 3, 4]], np.int32)
        assert other(a, b)[0].tolist() == [[6, 8, 10, 12]]
