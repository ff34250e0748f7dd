"""Makes the screenshots of the documentation with headless Chromium; see `scripts/screenshots`."""

import io
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any, Final

from PIL import Image

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from support.daemon.managed import Managed  # noqa: E402
from support.pages.browser import BrowserPage, address_of, open_browser  # noqa: E402
from support.waiting import wait_until  # noqa: E402

from neurald.hal.rpc.client.device import connect  # noqa: E402
from neurald.service.demo.digits import MODEL  # noqa: E402

IMAGES: Final = ROOT / "docs" / "images"
MAX_IMAGE_BYTES: Final = 150_000
READY: Final = "document.documentElement?.dataset.ready === 'yes'"
_REQUESTS: Final = 60
#: The height of a line in pictures of a terminal, and the space around the text, in pixels.
_LINE, _PADDING = 21, 18


def main(arguments: Sequence[str]) -> int:
    """Makes all screenshots; returns the exit status."""
    models = [Path(each).absolute() for each in arguments] or [MODEL]
    IMAGES.mkdir(parents=True, exist_ok=True)
    os.environ["NEURALD_AUTOSTART"] = "0"
    with tempfile.TemporaryDirectory(prefix="shots") as folder, open_browser() as page:
        # Named without a folder, since titles contain the path.
        os.chdir(folder)
        shutil.copy(models[0], folder)
        _graph(page, Path(folder), models[0].name)
        _plot(page, Path(folder), models[0].name)
        with _service(Path(folder), models) as service:
            _live(page, service)
            _top(page, Path(folder), service)
    return 0


def _save(page: BrowserPage, name: str) -> None:
    """Keeps what the page shows, as a PNG with a palette."""
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    file = IMAGES / f"{name}.png"
    shot.quantize(128, dither=Image.Dither.NONE).save(file, optimize=True)
    size = file.stat().st_size
    if size > MAX_IMAGE_BYTES:
        raise SystemExit(f"{file} has {size} bytes; at most {MAX_IMAGE_BYTES} are expected")
    sys.stdout.write(f"{file.relative_to(ROOT)}: {size} bytes\n")


def _neurald(*arguments: object, environment: dict[str, str] | None = None) -> str:
    return subprocess.run(  # noqa: S603 - this very program
        [sys.executable, "-m", "neurald", *map(str, arguments)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ).stdout


def _graph(page: BrowserPage, folder: Path, model: str) -> None:
    file = folder / "graph.html"
    _neurald("explain", model, "--device", "cpu", "--profile", "--html", file)
    page.shape(1280, 800)
    page.open(address_of(file), ready=READY)
    page.evaluate(
        "[...document.querySelectorAll('.node.kernel, .node.operation')][1]"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    _save(page, "explained_graph")
    page.shape(380, 720, dark=True)
    page.open(address_of(file), ready=READY)
    _save(page, "explained_graph_phone")


def _plot(page: BrowserPage, folder: Path, model: str) -> None:
    file = folder / "plot.svg"
    _neurald("benchmark", model, "--device", "cpu", "--min-secs", 1, "--svg", file)
    page.shape(900, 520)
    page.open(address_of(file))
    _save(page, "benchmark_plot")


@contextmanager
def _service(folder: Path, models: Sequence[Path]) -> Iterator[Managed]:
    repository = folder / "models"
    repository.mkdir()
    for model in models:
        shutil.copy(model, repository / model.name)
    options = ("--web", "127.0.0.1:0", "--http", "127.0.0.1:0", "--repository", str(repository))
    tables = '[drivers.sample]\ndriver = "neurald.drivers.sample.device:create_all"\n'
    with Managed(folder, *options, tables=tables) as manager:
        wait_until(lambda: (found := manager.manager_status().service) is not None and found.is_ready)
        device = connect(f"unix:{manager.directory}/sample.sock")  # starts the driver
        service = manager.manager_status().service
        for model in models:
            _load(service.addresses["http"] if service else "", model.stem)
        yield manager
        device.close()


def _load(address: str, model: str) -> None:
    """Sends some requests of zeros to a model."""
    base = f"http://{address}/v2/models/{model}"
    described = json.loads(_post(base, None))
    inputs: list[dict[str, Any]] = []
    for each in described["inputs"]:
        shape = [max(1, length) for length in each["shape"]]
        given = {"name": each["name"], "datatype": each["datatype"], "shape": shape}
        inputs.append({**given, "data": [0] * math.prod(shape)})
    for _ in range(_REQUESTS):
        _post(f"{base}/infer", json.dumps({"inputs": inputs}).encode())


def _post(address: str, body: bytes | None) -> bytes:
    with urllib.request.urlopen(address, body, timeout=60) as answer:  # noqa: S310 - of this host
        content: bytes = answer.read()
    return content


def _live(page: BrowserPage, manager: Managed) -> None:
    service = manager.manager_status().service
    address = f"http://{service.addresses['web'] if service else ''}/"
    for name, width, height, dark in (
        ("live_page", 1280, 800, False),
        ("live_page_phone", 380, 720, True),
    ):
        page.shape(width, height, dark=dark)
        page.open(address, ready=READY)
        time.sleep(3)
        _save(page, name)
    page.shape(1280, 800)
    page.evaluate("document.querySelector('.card .actions button').click()")
    page.evaluate("document.querySelector('.slow button').click()")
    _save(page, "slow_request")


def _top(page: BrowserPage, folder: Path, manager: Managed) -> None:
    file = folder / "top.html"
    table = _neurald("top", environment=manager.environment)
    file.write_text(
        "<!DOCTYPE html><meta charset=utf-8><style>body{margin:0;background:#16181c;color:#e6e6e6}"
        f"pre{{margin:0;padding:{_PADDING}px;font:14px/{_LINE}px monospace}}</style>"
        f"<pre>$ neurald top\n{escape(table)}</pre>",
        encoding="utf-8",
    )
    # The command, the table, and the padding above and below.
    page.shape(1000, round((1 + len(table.rstrip().splitlines())) * _LINE + 2 * _PADDING))
    page.open(address_of(file))
    _save(page, "top")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
