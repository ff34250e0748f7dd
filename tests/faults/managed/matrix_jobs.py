"""Plays the kill matrix in several jobs at a time.

    python -m faults.managed.matrix_jobs COUNT JOBS JOB SLACK SECONDS

A job is a process with a service manager, a driver, an application and folders of its own, which
plays a part of the cells and prints a line of JSON for each. A cell takes 0.7 s in the mean, most
of it until silence and endless kernels are noticed, and 0.3 s of processor time, most of it for the
processes of the driver that are forked; for moments it keeps three cores busy. The limits of time
hold only if there are cores for that: 11 jobs on 16 cores kept them in 4,800 cells.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from faults.managed.matrix import cells_of, playing
from faults.managed.matrix_report import MatrixReport, PlayedCell
from support.daemon.processes import python_path

#: A job ends within this time after the end of its last cell; it then stops its processes.
_STOP_S = 120.0
#: That a job needs.
_CORES = 1.5


def play_in_jobs(
    count: int, jobs: int, report: MatrixReport, *, slack: float = 1.0, seconds: float | None = None
) -> None:
    """Plays all cells so many times.

    Args:
        count: how often each cell is played.
        jobs: how many cells are played at a time.
        report: gets what happened as soon as it is known.
        slack: factor of all limits of time, for busy machines.
        seconds: after which no further cell begins; None for no limit.
    """
    lock = threading.Lock()
    command = [sys.executable, "-m", "faults.managed.matrix_jobs", str(count), str(jobs)]
    environment = {**os.environ, "PYTHONPATH": python_path(), "OPENBLAS_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [*command, str(job), str(slack), str(seconds or 0)], env=environment, stdout=subprocess.PIPE
        )
        for job in range(jobs)
    ]

    def read(job: int, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with lock:
                _take(report, json.loads(line))
        if code := process.wait():
            with lock:
                report.wrong.append(f"job {job} ended with {code}")

    threads = [threading.Thread(target=read, args=each) for each in enumerate(processes)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for process in processes:
            if process.poll() is None:
                process.terminate()
        for thread in threads:
            thread.join(_STOP_S)


def _take(report: MatrixReport, line: dict[str, Any]) -> None:
    if "fault" in line:
        report.cells.append(PlayedCell(**line))
    else:
        report.wrong += line["wrong"]


def part(count: int, jobs: int, job: int) -> Iterator[tuple[str, str]]:
    """Returns the cells of a job: as many as the others', in sequence."""
    cells = list(cells_of(count))
    return iter(cells[len(cells) * job // jobs : len(cells) * (job + 1) // jobs])


def main(count: int, jobs: int, job: int, slack: float, seconds: float) -> None:
    """Plays the part of a job."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # stops its processes, too
    end = time.monotonic() + seconds if seconds else None
    report = MatrixReport()
    with contextlib.closing(playing(part(count, jobs, job), report, slack=slack)) as cells:
        for cell in cells:
            _print(asdict(cell))
            if end is not None and time.monotonic() > end:
                break
    _print({"wrong": report.wrong})


def _print(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def suitable_jobs() -> int:
    """Returns how many jobs this machine has the cores for."""
    return max(1, int(len(os.sched_getaffinity(0)) / _CORES))


def warning(jobs: int) -> str:
    """Returns why the limits of time may not hold on this machine; "" if they should."""
    if jobs <= suitable_jobs():
        return ""
    cores = len(os.sched_getaffinity(0))
    return (
        f"{jobs} jobs share {cores} processor cores: limits of time may be exceeded for want of them; "
        f"{suitable_jobs()} would fit\n"
    )


def run(count: int, jobs: int | None, slack: float, minutes: float | None, path: Path | None) -> int:
    """Plays the whole matrix, by default in as many jobs as fit; writes the report."""
    jobs = suitable_jobs() if jobs is None else jobs
    sys.stderr.write(warning(jobs))
    began = time.monotonic()
    load = os.getloadavg()[0]
    used_s = _processor_s()
    report = MatrixReport()
    try:
        play_in_jobs(count, jobs, report, slack=slack, seconds=None if minutes is None else minutes * 60)
    except SystemExit:  # SIGTERM
        report.wrong.append("the matrix was stopped before its end")
    content = {
        "jobs": jobs,
        "cores": len(os.sched_getaffinity(0)),
        "slack": slack,
        "seconds": round(time.monotonic() - began, 1),
        "processor_s_of_a_cell": round((_processor_s() - used_s) / max(1, report.played), 3),
        "load_before": load,
        "load_after": os.getloadavg()[0],
        **report.document(),
    }
    text = json.dumps(content, indent=2) + "\n"
    sys.stdout.write(text)
    if path is not None:
        path.write_text(text)
    return 1 if content["wrong"] or not report.played else 0


def _processor_s() -> float:
    """Returns the processor time of all processes that have ended, with what they have started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    _count, _jobs, _job, _slack, _seconds = sys.argv[1:]
    main(int(_count), int(_jobs), int(_job), float(_slack), float(_seconds))
