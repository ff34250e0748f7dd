"""Measures how long it takes to place a graph of 1,000 random operations on three devices.

    PYTHONPATH=src:tests python benchmarks/scheduler/planning.py [--json FILE]

A plan is made from the verdicts and the measured costs of the devices, as by
`CompilationBuilder.finish`: with the plans of other policies to compare with, and groups, but
without the reasons, which are written when somebody asks for an explanation. Figures are processor
times of one thread, the least and the median of 25 tries for each of four graphs, with fresh costs
for each try.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from support.models.graphs import candidate
from support.models.placement_problems import random_dag

import neurald as nd
from neurald.hal.model.model import Model
from neurald.hal.records import replace
from neurald.runtime.costs.estimate import device_costs
from neurald.runtime.costs.table import Average, CostTable, DeviceLink
from neurald.runtime.costs.work import OperationKind
from neurald.runtime.partitioning.options import Partitioning
from neurald.runtime.partitioning.partitioner import partition
from neurald.runtime.partitioning.placement import Candidate

sys.path.insert(0, str(Path(__file__).parents[1]))

from result_file import Column, Result, Table, circumstances, write

_OPERATIONS = 1000
_TRIES = 25
_GRAPHS = 4
_LAUNCHES_S = (1e-6, 1e-4, 1e-3)
_NAMES = ("cpu", "gpu", "npu")
_SPEEDS = (0.02, 0.1, 0.5, 1.0, 2.0)
_UNIT_S = 1e-8
_WORKS = (32.0, 512.0, 8192.0, 131072.0)
_TYPES = nd.OperationType
_KINDS = tuple(
    _TYPES[name] for name in ["ADD", "MUL", "CONV_2D", "LOGISTIC", "TANH", "RESHAPE", "SOFTMAX", "SUB"]
)


def random_model(rng: random.Random) -> Model:
    """Returns a model of operations of random types."""
    model = random_dag(rng, _OPERATIONS)
    operations = tuple(replace(each, type=rng.choice(_KINDS)) for each in model.main.operations)
    return Model(main=replace(model.main, operations=operations))


def random_candidates(rng: random.Random, model: Model, *, has_links: bool) -> list[Candidate]:
    """Returns the CPU device, which runs everything, and two others, with measured costs."""
    found = []
    for number, (name, launch_s) in enumerate(zip(_NAMES, _LAUNCHES_S, strict=True)):
        is_cpu = number == 0
        supported = {kind for kind in _KINDS if is_cpu or rng.random() < 0.8}
        link = DeviceLink()
        if has_links and not is_cpu:
            link = DeviceLink(input_bytes_per_s=1e9, output_bytes_per_s=5e8, shares_memory=False)
        table = CostTable(launch=Average(seconds=launch_s), link=link)
        for kind in _KINDS:
            speed = 1.0 if is_cpu else rng.choice(_SPEEDS)
            for work in _WORKS:
                key = OperationKind(operation=kind.name, operand="TENSOR_FLOAT32")
                table = table.observed(key, work, work * _UNIT_S * speed * rng.uniform(0.8, 1.2))
        each = candidate(name, supported.__contains__, model=model, is_cpu=is_cpu)
        found.append(replace(each, costs=device_costs(table, each.capabilities, is_cpu=is_cpu)))
    return found


def measure(model: Model, candidates: Sequence[Candidate]) -> tuple[list[float], int]:
    """Returns the times of all tries in milliseconds, and how many steps the plan has."""
    partitioning = Partitioning(policy="min_cost")
    times = []
    steps = 0
    for _ in range(_TRIES):
        fresh = [
            replace(
                each,
                costs=None
                if each.costs is None
                else device_costs(each.costs.table, each.capabilities, is_cpu=each.is_cpu),
            )
            for each in candidates
        ]
        begun = time.thread_time()
        result = partition(model, fresh, nd.Preference.FAST_SINGLE_ANSWER, partitioning)
        times.append((time.thread_time() - begun) * 1e3)
        steps = len(result.groups)
    return times, steps


def main() -> None:
    """Prints the figures, and writes them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    for has_links in (False, True):
        for seed in range(_GRAPHS):
            rng = random.Random(seed)  # noqa: S311 - repeatable
            model = random_model(rng)
            times, steps = measure(model, random_candidates(rng, model, has_links=has_links))
            name = f"graph {seed + 1}, {'links of 1 GB/s' if has_links else 'shared memory'}"
            rows.append([name, min(times), statistics.median(times), steps])
            print(f"{name}: {rows[-1][1]:.2f} ms, median {rows[-1][2]:.2f}, {steps} steps")  # noqa: T201
    if arguments.json:
        columns = [
            Column(name="graph", title=""),
            Column(name="least_ms", title="least", unit="ms", format=".1f"),
            Column(name="median_ms", title="median", unit="ms", format=".1f"),
            Column(name="steps", title="steps of the plan", format=".0f"),
        ]
        result = Result(
            title="Placing 1,000 random operations on three devices",
            description="Processor time of one thread for a plan with the plans of other policies to compare with.",
            tables=[Table(title="Times", columns=columns, rows=rows)],
            **circumstances(),
        )
        write(arguments.json, result)


if __name__ == "__main__":
    main()
