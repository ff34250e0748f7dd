"""Reported progress reaches the listeners of the context, and no others."""

import threading

import pytest

from neurald.hal.sync.progress import progress_to, report_progress

pytestmark = pytest.mark.quick


def test_reports_reach_all_listeners_of_the_context() -> None:
    outer: list[float] = []
    inner: list[float] = []
    report_progress(0.1)
    with progress_to(outer.append):
        report_progress(0.2)
        with progress_to(inner.append):
            report_progress(0.3)
        report_progress(7.0)
    report_progress(0.4)
    assert (outer, inner) == ([0.2, 0.3, 1.0], [0.3])


def test_other_threads_have_no_listener() -> None:
    heard: list[float] = []
    with progress_to(heard.append):
        thread = threading.Thread(target=report_progress, args=(0.5,))
        thread.start()
        thread.join()
    assert heard == []
