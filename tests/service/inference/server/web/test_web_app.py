"""The live page: what it shows in a browser, and whom it refuses."""

import http.client
import json
import queue
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from support.daemon.command_line import error_of, invoke, invoke_json
from support.inference import zoo
from support.inference.serving import Serving
from support.pages.browser import open_browser
from support.waiting import wait_until

from neurald.service.console.process_usage import UsageMeter
from neurald.service.demo.digits import MODEL
from neurald.service.manager.snapshot import driver_snapshots
from neurald.service.telemetry.page_state import PageState

TOKEN = "b7e41d0c"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    shutil.copy(MODEL, folder / "digits.tflite")
    return folder


@pytest.fixture(scope="module")
def service(repository: Path) -> Iterator[Serving]:
    with Serving(repository, grpc="", web="127.0.0.1:0") as found:
        found.wait_ready()
        yield found


def ask(
    service: Serving, path: str, method: str = "GET", body: bytes = b"", **headers: str
) -> tuple[int, Any, str]:
    """Returns status, headers and text of an answer."""
    connection = http.client.HTTPConnection(service.status.addresses["web"], timeout=60)
    try:
        connection.request(method, path, body or None, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def infer(service: Serving) -> None:
    described = json.loads(
        urllib.request.urlopen(f"http://{service.http}/v2/models/digits", timeout=60).read()
    )
    (given,) = described["inputs"]
    shape = [max(1, length) for length in given["shape"]]
    data = np.zeros(shape, np.int64).ravel().tolist()
    tensor = {"name": given["name"], "datatype": given["datatype"], "shape": shape, "data": data}
    request = urllib.request.Request(
        f"http://{service.http}/v2/models/digits/infer",
        json.dumps({"inputs": [tensor]}).encode(),
        {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"},
    )
    urllib.request.urlopen(request, timeout=60).read()


def test_top_shows_models_and_queues(service: Serving) -> None:
    infer(service)
    address = service.status.addresses["web"]
    result = invoke("top", "--web", address)
    assert result.exit_code == 0, result.stderr
    title, _, digits, *_ = result.stdout.splitlines()
    assert title.split()[:4] == ["model", "state", "wait", "run"]
    assert digits.split()[:3] == ["digits", "1", "READY"]
    assert digits.split()[-1] == "cpu"
    document = invoke_json("top", "--web", address)
    assert document["models"][0]["requests"] > 0
    assert "no live page is at" in error_of("top", "--web", service.http)
    assert "no live page answers at" in error_of("top", "--web", "127.0.0.1:1")
    for wrong in ("8080", "unix:///a.sock", "http://127.0.0.1:8080"):
        assert "host:port" in error_of("top", "--web", wrong)


def test_top_says_why_a_page_has_no_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    state = PageState(models=(), drivers=(), drivers_problem="no service manager answers")
    monkeypatch.setattr("neurald.service.telemetry.page_state.read_page_state", lambda *_: state)
    assert (
        invoke("top", "--web", "127.0.0.1:1").stderr
        == "note: no drivers are shown: no service manager answers\n"
    )


def test_top_sends_the_token_to_no_other_host(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    said = error_of("top", "--web", "192.0.2.1:8080", "--auth-token-file", token)
    assert "without encryption" in said


def test_the_state_has_models_with_latencies_and_queues(service: Serving) -> None:
    infer(service)
    found: dict[str, Any] = {}

    def has_request() -> bool:
        status, headers, text = ask(service, "/state")
        assert status == 200
        assert headers["cache-control"] == "no-store"
        found.update(json.loads(text))
        return bool(found["models"][0]["requests"])

    wait_until(has_request)
    (model,) = found["models"]
    assert model["name"] == "digits"
    assert model["is_ready"] is True
    assert model["devices"]
    assert model["latency_ms"]["p50"] > 0
    slow = model["slowest"][0]
    assert slow["total_ns"] >= slow["queue_ns"] + slow["infer_ns"] > 0
    assert model["waiting"] == 0
    # No service manager runs here.
    assert "no service manager answers" in found["drivers_problem"]


def test_requests_are_shown_with_the_traces_of_their_clients(tmp_path: Path) -> None:
    triton = pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")
    zoo.write_plain(tmp_path, "count", zoo.counting())
    traces = [f"{number:032x}" for number in range(1, 6)]
    headers = [{"traceparent": f"00-{trace}-00f067aa0ba902b7-01"} for trace in traces]
    with Serving(tmp_path, web="127.0.0.1:0") as service:
        service.wait_ready()

        def post(call: str, content: Any, sent: dict[str, str]) -> None:
            address = f"http://{service.http}/v2/models/count/{call}"
            request = urllib.request.Request(address, json.dumps(content).encode(), sent)
            urllib.request.urlopen(request, timeout=60).read()

        def counting_to(count: int) -> Any:
            return {"inputs": [{"name": "x", "datatype": "INT32", "shape": [], "data": [count]}]}

        post("infer", counting_to(3), {})
        post("infer", counting_to(3), headers[0])
        post("generate", {"x": 3}, headers[1])
        with pytest.raises(urllib.error.HTTPError, match="504"):
            post("infer", counting_to(2**31 - 1), {**headers[2], "x-envoy-expected-rq-timeout-ms": "200"})
        tensor = triton.InferInput("x", [], "INT32")
        tensor.set_data_from_numpy(np.array(3, np.int32))
        answers: queue.Queue[Any] = queue.Queue()
        with triton.InferenceServerClient(service.grpc) as client:
            client.infer("count", [tensor], headers=headers[3])
            client.start_stream(lambda result, error: answers.put(error or result), headers=headers[4])
            client.async_stream_infer("count", [tensor])
            assert answers.get(timeout=60).as_numpy("y").item() == 3

        def found() -> dict[str, bool]:
            (model,) = json.loads(ask(service, "/state")[2])["models"]
            return {each["trace_id"]: each["failed"] for each in model["slowest"]}

        expected = {trace: trace == traces[2] for trace in ("", *traces)}
        wait_until(lambda: found() == expected)


def test_the_graph_of_a_model_comes_from_its_worker(service: Serving) -> None:
    status, headers, text = ask(service, "/models/digits/versions/1/graph")
    assert status == 200
    assert "CONV_2D" in text
    assert "unsafe" not in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert ask(service, "/models/other/versions/1/graph")[0] == 404
    assert ask(service, "/models/digits/versions/7/graph")[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80"])
def test_other_names_are_refused(service: Serving, host: str) -> None:
    """A page of another site cannot reach this one by a name that it makes point here."""
    for path in ("/", "/state"):
        assert ask(service, path, Host=host)[0] == 421


def test_nothing_is_changed_by_requests_of_other_sites(service: Serving) -> None:
    assert ask(service, "/state", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="cors")[0] == 403
    for method in ("POST", "PUT", "DELETE"):
        assert ask(service, "/state", method)[0] == 405
        assert ask(service, "/", method)[0] == 405
    assert ask(service, "/session")[0] == 405
    given = json.dumps({"token": TOKEN}).encode()
    kind = "application/json"
    assert ask(service, "/session", "POST", given, Content_Type=kind, Origin="http://evil.example")[0] == 403
    assert ask(service, "/session", "POST", given, Content_Type=kind)[0] == 403
    origin = f"http://{service.status.addresses['web']}"
    assert ask(service, "/session", "POST", given, Content_Type="text/plain", Origin=origin)[0] == 403
    assert ask(service, "/session", "POST", b"x" * 9000, Content_Type=kind, Origin=origin)[0] == 400
    # There is no token here.
    assert ask(service, "/session", "POST", given, Content_Type=kind, Origin=origin)[0] == 401
    assert ask(service, "/other")[0] == 404


#: Has the page be told of a model whose first request took long.
_ONE_SLOW_REQUEST = """
const given = window.fetch;
window.fetch = async (...asked) => {
  const state = await (await given(...asked)).json();
  state.models[0].history_ms = [1000, ...Array(59).fill(1)];
  state.models.push({...state.models[0], name: "a_network_with_long_names_224_fp32", history_ms: []});
  return new Response(JSON.stringify(state));
};
"""


#: The most lines that one word of the second model's title takes.
_LINES_OF_WORDS = """
(() => {
  const title = document.querySelectorAll("#models h3")[1], range = document.createRange(), lines = [];
  for (const each of title.childNodes) if (each.textContent) {
    range.selectNodeContents(each);
    lines.push(range.getClientRects().length);
  }
  return {[title.textContent]: Math.max(...lines)};
})()
"""


def test_the_page_in_a_browser(service: Serving) -> None:
    infer(service)
    with open_browser() as page:
        for width, dark in ((1400, False), (380, True)):
            page.shape(width, 800, dark=dark)
            page.open(
                f"http://{service.status.addresses['web']}/",
                ready="document.documentElement?.dataset.ready === 'yes'",
            )
            page.wait("document.querySelector('#models .badge.good') !== null")
            page.wait("document.querySelectorAll('.slow button').length > 0")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert "digits" in page.evaluate("document.body.innerText")
            # Screen readers tell them from those of other models.
            named = "document.querySelectorAll('.actions [aria-label$=\" of digits, version 1\"]').length"
            assert page.evaluate(named) == 2
            assert page.unnamed() == []
            page.evaluate("document.querySelector('.card .actions button').click()")
            page.evaluate("document.querySelector('.slow button').click()")
            assert page.evaluate("document.querySelector('dialog').open")
            assert page.unnamed() == []
            assert "computing" in page.evaluate("document.querySelector('dialog').innerText")
            assert f"trace {TRACE}" in page.evaluate("document.querySelector('dialog').innerText")
            assert page.evaluate("document.querySelector('dialog').getBoundingClientRect().width") <= width
        page.press("Escape")
        page.evaluate(_ONE_SLOW_REQUEST)
        words = "last 60 requests, 0 to 4.00 ms; 1 took up to 1.00 s"
        page.wait(f"document.querySelector('.spark figcaption')?.innerText === '{words}'")
        # The others are at a quarter of the height.
        assert page.evaluate("document.querySelector('.spark path + path').getAttribute('d')").endswith(
            "0 32.0"
        )
        # A long name breaks between its words, of which each is a text of its own.
        page.wait("document.querySelectorAll('#models h3').length === 2")
        assert page.evaluate(_LINES_OF_WORDS) == {"a_network_with_long_names_224_fp32 version 1": 1}
        assert {each.split("/")[2] for each in page.requested} == {service.status.addresses["web"]}
        address = page.evaluate("document.querySelector('a.button').href")
        assert page.problems == []
        page.open(address, ready="document.documentElement?.dataset.ready === 'yes'")
        assert page.evaluate("document.querySelectorAll('.node.operation').length") > 3
        assert page.problems == []


def test_a_token(repository: Path) -> None:
    with Serving(repository, grpc="", http="", web="127.0.0.1:0", token=TOKEN) as service:
        service.wait_ready()
        assert ask(service, "/")[0] == 200
        for path in ("/state", "/models/digits/versions/1/graph"):
            assert ask(service, path)[0] == 401
            assert ask(service, path, Authorization="Bearer wrong")[0] == 401
            assert ask(service, path, Cookie="neurald_session=wrong")[0] == 401
        assert ask(service, "/state", Authorization=f"Bearer {TOKEN}")[0] == 200
        origin = f"http://{service.status.addresses['web']}"
        given = json.dumps({"token": TOKEN}).encode()
        status, headers, _ = ask(
            service, "/session", "POST", given, Content_Type="application/json", Origin=origin
        )
        assert status == 204
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert TOKEN not in cookie
        assert ask(service, "/state", Cookie=cookie.partition(";")[0])[0] == 200


def test_other_hosts_are_served_as_over_http(repository: Path) -> None:
    service = Serving(repository, grpc="", http="", web="0.0.0.0:0")
    assert service.process.wait(60) != 0
    service.stop()


def test_drivers_are_those_of_top(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without a repository, the page shows the drivers of its service manager."""
    from support.daemon.managed import Managed

    with Managed(tmp_path_factory.mktemp("m"), "--web", "127.0.0.1:0") as manager:
        wait_until(lambda: (found := manager.manager_status().service) is not None and found.is_ready)
        service = manager.manager_status().service
        assert service is not None
        address = f"http://{service.addresses['web']}/state"
        state = json.loads(urllib.request.urlopen(address, timeout=60).read())
        assert state["models"] == []
        assert state["drivers_problem"] == ""
        (driver,) = state["drivers"]
        assert driver["driver"] == "adder"
        (shown,) = driver_snapshots(manager.manager_status(), UsageMeter())
        assert driver.keys() == msgspec.to_builtins(shown).keys()
        assert driver["state"] == shown.state
