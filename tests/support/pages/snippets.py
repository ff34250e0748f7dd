"""Runs the code blocks of Markdown pages.

A page is run from top to bottom. Blocks of `python` share one namespace. In blocks of `console`
each line that begins with `$ ` is a command; its output is not compared. A command that ends with
` &` runs until the end of the page. A block whose fence follows a line `<!-- not run: REASON -->`
is skipped.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BLOCK = re.compile(
    r"^(<!-- not run: (?P<reason>[^\n]+) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S
)
_COMMAND_S = 120.0
_READY_S = 30.0
_RUN = frozenset({"python", "console"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """A code block.

    Attributes:
        line: line of the page at which it begins.
        language: text after the fence.
        code: the block's text.
        reason: why it is not run; empty if it is run.
    """

    line: int
    language: str
    code: str
    reason: str


def snippets(page: Path) -> list[Snippet]:
    """Returns all blocks of a page in order."""
    text = page.read_text()
    return [
        Snippet(
            line=text.count("\n", 0, match.start()) + 1,
            language=match["language"],
            code=match["code"],
            reason=match["reason"] or "",
        )
        for match in _BLOCK.finditer(text)
    ]


def commands(code: str) -> Iterator[str]:
    """Yields the commands of a `console` block, without comments."""
    for line in code.splitlines():
        if line.startswith("$ "):
            yield re.sub(r"\s+#\s.*$", "", line[2:]).rstrip()


class Page:
    """Runs the blocks of one page. As a context manager it ends the processes that it has started.

    Args:
        path: of the page.
        folder: working directory of the commands, with the files that they name.
        environment: environment variables of the commands.
        is_ready: returns True once a given number of background commands can be used.
    """

    def __init__(
        self, path: Path, folder: Path, environment: Mapping[str, str], is_ready: Callable[[int], bool]
    ) -> None:
        self._path = path
        self._folder = folder
        self._environment = environment
        self._is_ready = is_ready
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._staying: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._staying:
            if process.poll() is not None:
                continue
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def run(self) -> int:
        """Runs all blocks; returns their number.

        Raises:
            AssertionError: a command failed; includes its output.
            Exception: a Python block raised it; the traceback has the line of the page.
        """
        count = 0
        for snippet in snippets(self._path):
            if snippet.language in _RUN and not snippet.reason:
                self._run(snippet)
                count += 1
        return count

    def _run(self, snippet: Snippet) -> None:
        if snippet.language == "python":
            # Tracebacks name the page and its line.
            padding = "\n" * snippet.line
            exec(compile(padding + snippet.code, str(self._path), "exec"), self._names)
            return
        for command in commands(snippet.code):
            if command.endswith(" &"):
                self._start(command.removesuffix(" &"))
            else:
                self._call(f"{self._path.name}:{snippet.line}", command)

    def _start(self, command: str) -> None:
        process = subprocess.Popen(
            f"exec {command}", shell=True, cwd=self._folder, env=self._environment, start_new_session=True
        )
        self._staying.append(process)
        limit = time.monotonic() + _READY_S
        while not self._is_ready(len(self._staying)):
            assert process.poll() is None, f"{command} has ended with {process.returncode}"
            assert time.monotonic() < limit, f"{command} is not ready after {_READY_S:g} s"
            time.sleep(0.02)

    def _call(self, where: str, command: str) -> None:
        done = subprocess.run(
            command,
            shell=True,
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_COMMAND_S,
            check=False,
        )
        assert done.returncode == 0, f"{where}: {command}\n{done.stdout.decode(errors='replace')}"
