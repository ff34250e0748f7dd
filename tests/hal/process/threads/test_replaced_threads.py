"""Programs whose threads are coroutines get an error, where native code would stop them."""

import _thread
import os
import queue
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.daemon.processes import python_path

from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.hal.process.threads.replaced_threads import ReplacedThreads, require_threads

_PROGRAM = """
import sys
from gevent import monkey
monkey.patch_all(**eval(sys.argv[1]))

import numpy as np, neurald as nd
from support.models.addition import addition
try:
    function = nd.compile(addition(np.ones(2)), "cpu", threads=int(sys.argv[2]))
    print(float(function(np.full(2, 2, np.float32))[0][0]))
    print(float(function.submit(np.full(2, 2, np.float32)).result(30)[0][0]))
except nd.Error as error:
    print(error.code.name, error)
"""


def test_threads_of_python_are_threads() -> None:
    require_threads()


@pytest.mark.parametrize("place", [(_thread, "start_new_thread"), (queue, "SimpleQueue")])
def test_what_took_their_place_is_named(monkeypatch: pytest.MonkeyPatch, place: tuple[Any, str]) -> None:
    def coroutine(function: Callable[..., Any], *arguments: Any) -> None:
        pass

    monkeypatch.setattr(*place, coroutine)
    with pytest.raises(ReplacedThreads, match=r"patch_all\(thread=False, queue=False\)"):
        CheckedThread(target=int).start()


@pytest.mark.parametrize(
    ("patches", "threads", "words"),
    [
        ("{}", 2, "has replaced Python's threads, as gevent does"),
        ("{}", 1, "3.0\n"),
        ("dict(thread=False, queue=False)", 2, "3.0\n3.0\n"),
    ],
)
def test_a_program_with_gevent_does_not_hang(patches: str, threads: int, words: str) -> None:
    pytest.importorskip("gevent")
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, patches, str(threads)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": python_path()},
    )
    assert words in ran.stdout, ran.stderr
