"""Plays the kill matrix in several jobs at a time.

    python -m faults.managed.matrix_jobs SLACK [CORE ...]

A job is a process with a service manager, a driver, an application and folders of its own, which
plays one cell after another: it reads the name of each, and prints a line of JSON for each. A cell
takes 0.7 s in the mean, most of it until silence and endless kernels are noticed, and 0.3 s of
processor time, most of it for the processes of the driver that are forked; for moments it keeps
three cores busy. The limits of time hold only if there are cores for that: 11 jobs on 16 cores kept
them in 4,800 cells. More of them play only while that delays none (`matrix_pace.py`), and on many
cores each of them should have few: 96 jobs on 64 cores took 0.33 s of processor time for a cell
with 8 cores each and files in memory, and 76 jobs 0.58 s without.
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
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from faults.managed.matrix import playing
from faults.managed.matrix_pace import Dealer, Pace
from faults.managed.matrix_report import MatrixReport, PlayedCell
from support.daemon.processes import python_path

#: A job ends within this time after the end of its last cell; it then stops its processes.
_STOP_S = 120.0
#: Number of cores that a job needs.
_CORES = 1.5


def play_in_jobs(
    cells: Iterable[tuple[str, str]],
    jobs: int,
    report: MatrixReport,
    *,
    slack: float = 1.0,
    seconds: float | None = None,
    cores: int | None = None,
) -> Pace:
    """Plays cells; returns how many were played at a time.

    The first cell begins when all jobs are ready, and the jobs end after the last: the work of that
    would make cells late.

    Args:
        cells: faults and phases, in the order in which they begin.
        jobs: how many cells are played at a time, at most.
        report: gets what happened as soon as it is known.
        slack: factor of all limits of time, for busy machines.
        seconds: after which no further cell begins; None for no limit.
        cores: how many processor cores the processes of a job may use, which are those of the next
            jobs in turn; None for all.
    """
    pace = Pace(jobs, suitable_jobs(), slack)
    dealer = Dealer(cells, jobs, pace, seconds)
    command = [sys.executable, "-m", "faults.managed.matrix_jobs", str(slack)]
    environment = {**os.environ, "PYTHONPATH": python_path(), "OPENBLAS_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [*command, *map(str, cores_of(job, cores))],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for job in range(jobs)
    ]
    threads = [
        threading.Thread(target=_serve, args=(job, process, dealer, report))
        for job, process in enumerate(processes)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        dealer.stop()
        for process in processes:
            if process.poll() is None:
                process.terminate()
        for thread in threads:
            thread.join(_STOP_S)
    return pace


def _serve(job: int, process: "subprocess.Popen[bytes]", dealer: Dealer, report: MatrixReport) -> None:
    """Gives a job one cell after the other, and reports what it says."""
    assert process.stdin is not None
    assert process.stdout is not None
    if "ready" in _line(process, report):
        dealer.arrive()
        while (cell := dealer.take()) is not None:
            played = _played(process, cell, report)
            dealer.give_back(played)
            if played is None:
                break
    dealer.leave()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    while _line(process, report):
        pass
    if code := process.wait():
        report.wrong.append(f"job {job} ended with {code}")


def _played(
    process: "subprocess.Popen[bytes]", cell: tuple[str, str], report: MatrixReport
) -> PlayedCell | None:
    """Has a job play a cell, and reports it; returns None if the job ends instead."""
    assert process.stdin is not None
    try:
        process.stdin.write(f"{','.join(cell)}\n".encode())
        process.stdin.flush()
    except BrokenPipeError:
        return None
    line = _line(process, report)
    if "fault" not in line:
        return None
    played = PlayedCell(**line)
    report.cells.append(played)
    return played


def _line(process: "subprocess.Popen[bytes]", report: MatrixReport) -> dict[str, Any]:
    """Returns a job's next line, empty after the last; reports what happened outside of cells."""
    assert process.stdout is not None
    line: dict[str, Any] = json.loads(process.stdout.readline() or b"{}")
    report.wrong += line.get("wrong", ()) if "fault" not in line else ()
    return line


def cores_of(job: int, cores: int | None) -> list[int]:
    """Returns the processor cores for a job; none if it may use all of them."""
    all_cores = sorted(os.sched_getaffinity(0))
    if cores is None or cores >= len(all_cores):
        return []
    groups = len(all_cores) // cores
    first = job % groups * cores
    return all_cores[first : first + cores]


def main(slack: float, cores: Iterable[int]) -> None:
    """Plays the cells that come through standard input."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # stops its processes, too
    if chosen := set(cores):
        os.sched_setaffinity(0, chosen)
    report = MatrixReport()
    with contextlib.closing(playing(_dealt(), report, slack=slack)) as cells:
        for cell in cells:
            _print(asdict(cell))
    _print({"wrong": report.wrong})


def _dealt() -> Iterator[tuple[str, str]]:
    """Says that the job is ready, and yields the cells that come."""
    _print({"ready": True})
    for line in sys.stdin:
        fault, _, phase = line.strip().partition(",")
        yield fault, phase


def _print(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def suitable_jobs() -> int:
    """Returns how many jobs this machine surely has the cores for."""
    return max(1, int(len(os.sched_getaffinity(0)) / _CORES))


def warning(jobs: int) -> str:
    """Returns why the limits of time may not hold on this machine; "" if they should."""
    if jobs <= suitable_jobs():
        return ""
    cores = len(os.sched_getaffinity(0))
    return (
        f"{jobs} jobs share {cores} processor cores: limits of time may be exceeded for want of them; "
        f"{suitable_jobs()} surely fit\n"
    )


def run(
    cells: Iterable[tuple[str, str]],
    jobs: int | None,
    cores: int | None,
    slack: float,
    minutes: float | None,
    path: Path | None,
) -> int:
    """Plays cells, by default in as many jobs as fit; writes the report."""
    jobs = suitable_jobs() if jobs is None else jobs
    sys.stderr.write(warning(jobs))
    began = time.monotonic()
    load = os.getloadavg()[0]
    used_s = _processor_s()
    report = MatrixReport()
    at_once: tuple[int, int] | None = None
    try:
        pace = play_in_jobs(
            cells,
            jobs,
            report,
            slack=slack,
            seconds=None if minutes is None else minutes * 60,
            cores=cores,
        )
        at_once = pace.fewest, pace.most
    except SystemExit:  # SIGTERM
        report.wrong.append("the matrix was stopped before its end")
    content = {
        "jobs": jobs,
        "at_once": at_once,
        "cores_of_a_job": cores,
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
    main(float(sys.argv[1]), map(int, sys.argv[2:]))
