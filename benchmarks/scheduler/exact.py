"""Compares plans of least cost with the best ones of all choices of devices, on random graphs.

    python benchmarks/scheduler/exact.py [--first 0] [--seconds 60] [--json FILE]

Graphs have up to 14 operations, and two or three devices of random costs and links. The steps of a
choice are as large as possible, so that plans of smaller steps may take less. A file that is there
already is continued: its graphs count, too, if these are others.
"""

import argparse
import math
import random
import sys
import time
from pathlib import Path

from neurald.runtime.partitioning.min_cost.search import MAX_EXACT, find_plan

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from result_file import Cell, Column, Result, Table, circumstances, read, write
from support.models.every_choice import optimum
from support.models.placement_problems import random_problem

_NAMES = ("a", "b", "c")


def is_optimum(seed: int) -> bool:
    """Returns whether the plan of a random graph costs no more than any choice."""
    rng = random.Random(seed)  # noqa: S311 - repeatable
    count, devices = rng.randint(1, MAX_EXACT), rng.choice([2, 3])
    problem = random_problem(rng, count, devices, is_sequential=seed % 4 == 0)
    found = find_plan(problem, _NAMES, max_s=math.inf)
    return found.seconds <= optimum(problem) * (1 + 1e-9)


def main() -> int:
    """Prints how many plans were compared, and writes that to a file. Fails if one differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0, help="the seed of the first graph")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    end_s = time.monotonic() + arguments.seconds
    seed, different = arguments.first, []
    while time.monotonic() < end_s:
        if not is_optimum(seed):
            different.append(seed)
        seed += 1
    last = seed - 1
    print(f"{seed - arguments.first} graphs from seed {arguments.first} on, different: {different}")  # noqa: T201
    if arguments.json:
        _write(arguments.json, [f"{arguments.first} to {last}", seed - arguments.first, len(different)])
    return int(bool(different))


def _write(path: Path, row: list[Cell]) -> None:
    """Writes a file with one more row; the last row is the sum of all."""
    earlier = [list(each) for each in read(path).tables[0].rows[:-1]] if path.exists() else []
    rows = [*[each for each in earlier if each[0] != row[0]], row]
    sums: list[Cell] = [sum(int(each[column] or 0) for each in rows) for column in (1, 2)]
    columns = [
        Column(name="seeds", title="seeds"),
        Column(name="graphs", title="graphs"),
        Column(name="different", title="plans that cost more than the optimum"),
    ]
    result = Result(
        title="Plans of least cost and the optimum among all choices",
        description=f"Random graphs of up to {MAX_EXACT} operations, on two or three devices.",
        tables=[Table(title="Graphs", columns=columns, rows=[*rows, ["all", *sums]])],
        **circumstances(),
    )
    write(path, result)


if __name__ == "__main__":
    sys.exit(main())
