"""Waits for commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyopencl as cl


def wait_for_all(queue: cl.CommandQueue) -> None:
    """Waits for all commands of an in-order queue.

    Mesa's clFinish (rusticl 22.3) returns at once if all commands were flushed before, so that
    there is one more.

    Raises:
        pyopencl.Error: a command failed.
    """
    import pyopencl as cl

    cl.enqueue_marker(queue)
    queue.finish()
