"""Drives headless Chromium by its DevTools protocol over pipes, which needs no further package."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_TIMEOUT_S = 60.0
#: What is of no use to a screen reader without a name.
_NAMED_ROLES = frozenset(
    (
        "article",
        "button",
        "checkbox",
        "combobox",
        "dialog",
        "heading",
        "image",
        "link",
        "searchbox",
        "table",
        "textbox",
    )
)


def executable() -> str | None:
    """Returns the path of a browser; None if none is installed."""
    return next((found for name in _NAMES if (found := shutil.which(name)) is not None), None)


class BrowserPage:
    """A page of a browser.

    Attributes:
        problems: errors and warnings that the browser has reported.
        requested: the addresses that the page has requested.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", read: int, write: int) -> None:
        self._process, self._read, self._write = process, read, write
        self._buffer = b""
        self._number = 0
        self._session = ""
        self.problems: list[str] = []
        self.requested: list[str] = []

    def start(self) -> None:
        """Opens an empty page."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def shape(self, width: int, height: int, *, dark: bool = False) -> None:
        """Sets the size of the window and the preferred colours."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str, *, ready: str = "document.readyState === 'complete'") -> None:
        """Opens an address, and waits until an expression is true."""
        self.requested.clear()
        self.problems.clear()
        self._call("Page.navigate", url=address)
        self.wait(f"location.href.startsWith({json.dumps(address)}) && ({ready})")

    def wait(self, expression: str) -> None:
        """Waits until an expression is true."""
        end = time.monotonic() + _TIMEOUT_S
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < end, f"{expression} did not become true; {self.problems}"
            time.sleep(0.02)

    def evaluate(self, expression: str) -> Any:
        """Returns the value of an expression, which must be JSON."""
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def unnamed(self) -> list[str]:
        """Returns the roles of what screen readers announce, but without a name."""
        nodes = self._call("Accessibility.getFullAXTree")["nodes"]
        read = [each for each in nodes if not each.get("ignored")]
        roles = [(each["role"]["value"], each.get("name", {}).get("value")) for each in read]
        return [role for role, name in roles if role in _NAMED_ROLES and not name]

    def press(self, key: str) -> None:
        """Presses a key."""
        text = {"Enter": "\r", "Space": " "}.get(key, key if len(key) == 1 else "")
        name = " " if key == "Space" else key
        self._call("Input.dispatchKeyEvent", type="keyDown", key=name, code=key, text=text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=name, code=key)

    def screenshot(self) -> bytes:
        """Returns a PNG of the window."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + _TIMEOUT_S
        while True:
            received = self._next(end)
            if received.get("id") == self._number:
                assert "error" not in received, (method, received["error"])
                return received["result"]
            self._note(received)

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = end - time.monotonic()
            assert left > 0, "the browser does not answer"
            if select.select([self._read], [], [], left)[0]:
                part = os.read(self._read, 1 << 20)
                assert part, f"the browser ended with status {self._process.poll()}"
                self._buffer += part
        line, self._buffer = self._buffer.split(b"\0", 1)
        found: dict[str, Any] = json.loads(line)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        method, details = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(details["exceptionDetails"].get("exception", details)))
        elif method == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{details['entry']['text']} {details['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requested.append(details["request"]["url"])


@contextlib.contextmanager
def open_browser() -> Iterator[BrowserPage]:
    """Starts a browser with an empty page; skips the test if there is none."""
    program = executable()
    if program is None:
        pytest.skip("there is no Chromium here; `apt install chromium` installs it")
    to_browser, from_us = os.pipe()
    from_browser, to_us = os.pipe()
    with tempfile.TemporaryDirectory(prefix="browser", ignore_cleanup_errors=True) as folder:
        # The browser expects its pipes as descriptors 3 and 4.
        process = subprocess.Popen(
            [
                "/bin/bash",
                "-c",
                f'exec "$0" "$@" 3<&{to_browser} 4>&{to_us}',
                program,
                *("--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
                *("--no-sandbox", "--remote-debugging-pipe", "--hide-scrollbars"),
                *("--disable-background-networking", "--disable-component-update", "--no-proxy-server"),
                f"--user-data-dir={folder}",
            ],
            pass_fds=(to_browser, to_us),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": folder, "DBUS_SESSION_BUS_ADDRESS": "/dev/null"},
        )
        os.close(to_browser)
        os.close(to_us)
        try:
            page = BrowserPage(process, from_browser, from_us)
            page.start()
            yield page
        finally:
            os.close(from_us)
            os.close(from_browser)
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def address_of(path: Path) -> str:
    """Returns the address of a file."""
    return path.absolute().as_uri()
