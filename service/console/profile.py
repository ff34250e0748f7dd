"""Reports the time of each kernel of a model, for `neurald benchmark --profile`."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import Any

import neurald as nd
from neurald.hal.device import KernelTime
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import positions_by_number
from neurald.hal.records import replace
from neurald.runtime.execution.profile import StepProfile
from neurald.runtime.model.branches import graph_of
from neurald.service.console.output import printable, write_line, write_table

#: Maximum number of profiles for a median, and seconds after which no further profile starts.
_MAX_PROFILES = 9
_MAX_PROFILING_S = 2.0
#: Maximum number of operations that are listed for a kernel, and of operations without kernels.
#: `--json` has all of them.
_MAX_LISTED_OPERATIONS = 6


def median_profile(compilation: nd.Compilation, run_once: Callable[[], object]) -> tuple[StepProfile, ...]:
    """Runs and profiles a compilation several times.

    Args:
        compilation: the compilation to profile.
        run_once: executes the compilation once.

    Returns:
        The profile of each step, with the median of each kernel's times.

    Raises:
        Error: an execution failed.
    """
    taken: list[tuple[StepProfile, ...]] = []
    end = time.monotonic() + _MAX_PROFILING_S
    while not taken or (len(taken) < _MAX_PROFILES and time.monotonic() < end):
        run_once()
        taken.append(compilation.profile())
    return tuple(_median([each[number] for each in taken], last) for number, last in enumerate(taken[-1]))


def _median(taken: Sequence[StepProfile], last: StepProfile) -> StepProfile:
    """Returns `last` with median times over the profiles that have the same kernels."""
    same = [
        profile.kernels
        for profile in taken
        if [_identity(kernel) for kernel in profile.kernels] == [_identity(kernel) for kernel in last.kernels]
    ]
    kernels = tuple(
        replace(kernel, duration_ns=int(median(other[number].duration_ns for other in same)))
        for number, kernel in enumerate(last.kernels)
    )
    return replace(last, kernels=kernels)


def _identity(kernel: KernelTime) -> tuple[str, str, tuple[int, ...]]:
    return kernel.name, kernel.label, kernel.operations


def describe_profile(model: Model, profiles: Sequence[StepProfile]) -> dict[str, Any]:
    """Describes the profiles of a model's steps as a JSON document.

    The document has the kernels and copies of each step, totals by operation types, and the
    operations that run on references. `share` is relative to the time of all of them; `operations`
    counts only the operations of steps whose devices report times.
    """
    total_ns = sum(profile.duration_ns for profile in profiles)
    reported = [profile for profile in profiles if profile.kernels]
    count = sum(len(profile.operations) for profile in reported)
    on_references = [
        _operation(model, profile.graph, position)
        for profile in reported
        for position in profile.on_references
    ]
    return {
        "total_us": total_ns / 1e3,
        "operations": count,
        "compiled": count - len(on_references),
        "on_references": on_references,
        "types": list(_totals(model, reported, total_ns)),
        "steps": [
            {
                "step": profile.step,
                "device": profile.device,
                "graph": profile.graph,
                "us": profile.duration_ns / 1e3,
                "reason": profile.reason,
                "kernels": [
                    {
                        "kernel": kernel.name,
                        "label": kernel.label,
                        "is_reference": kernel.is_reference,
                        "is_copy": kernel.is_copy,
                        "operations": [
                            _operation(model, profile.graph, position) for position in kernel.operations
                        ],
                        **_time(kernel.duration_ns, total_ns),
                    }
                    for kernel in profile.kernels
                ],
            }
            for profile in profiles
        ],
    }


def _operation(model: Model, graph: int, number: int) -> dict[str, Any]:
    """Describes an operation by its graph, position, type, and the name of its first output."""
    found = graph_of(model, graph)
    operation = found.operations[positions_by_number(found)[number]]
    return {
        "graph": graph,
        "operation": number,
        "type": operation.type.name,
        "output": found.operands[operation.outputs[0]].name,
    }


def _time(duration_ns: int, total_ns: int) -> dict[str, float]:
    return {"us": duration_ns / 1e3, "share": duration_ns / total_ns if total_ns else 0.0}


def _totals(model: Model, profiles: Iterable[StepProfile], total_ns: int) -> Iterator[dict[str, Any]]:
    """Yields the total time of all kernels with the same operation types, longest first.

    Copies have their label for a type.
    """
    by_types: dict[tuple[str, ...], list[KernelTime]] = {}
    for profile in profiles:
        graph = graph_of(model, profile.graph)
        positions = positions_by_number(graph)
        for kernel in profile.kernels:
            names = [graph.operations[positions[number]].type.name for number in kernel.operations]
            types = (kernel.label,) if kernel.is_copy else tuple(dict.fromkeys(names))
            by_types.setdefault(types, []).append(kernel)
    by_time = sorted(by_types.items(), key=lambda item: -sum(kernel.duration_ns for kernel in item[1]))
    for types, kernels in by_time:
        yield {
            "types": list(types),
            "kernels": sum(not kernel.is_copy for kernel in kernels),
            "references": sum(kernel.is_reference for kernel in kernels),
            **_time(sum(kernel.duration_ns for kernel in kernels), total_ns),
        }


def show_profile(document: dict[str, Any], run_ms: float, *, slowest_first: bool = False) -> None:
    """Writes a profile as tables.

    Args:
        document: the result of `describe_profile`.
        run_ms: the total time of a run, in ms.
        slowest_first: sorts the kernels of each step by their times, not in their order.
    """
    for step in document["steps"]:
        branch = f", graph {step['graph']}" if step["graph"] else ""
        write_line()
        write_line(printable(f"step {step['step']} on {step['device']}{branch}: {_outcome(step)}"))
        if step["kernels"]:
            columns = ("kernel", "how", "operations", "us", "share")
            kernels = step["kernels"]
            if slowest_first:
                kernels = sorted(kernels, key=lambda kernel: -float(kernel["us"]))
            rows = [_kernel_row(kernel) for kernel in kernels]
            write_table(columns, rows, right=columns[3:], shorten=columns[:3])
    if not document["operations"]:
        return
    write_line()
    columns = ("operation types", "kernels", "on references", "us", "share")
    rows = [_total_row(entry) for entry in document["types"]]
    write_table(columns, rows, right=columns[1:], shorten=columns[:1])
    write_line(
        f"timed one by one, the kernels and copies take {document['total_us'] / 1e3:.3f} ms; "
        f"the median run takes {run_ms:.3f} ms in all"
    )
    write_line(printable(_compiled(document)))


def _outcome(step: dict[str, Any]) -> str:
    if not step["kernels"]:
        return str(step["reason"])
    references = sum(kernel["is_reference"] for kernel in step["kernels"])
    kernels = sum(not kernel["is_copy"] for kernel in step["kernels"]) - references
    counts = ((kernels, "kernel"), (references, "reference"))
    summary = " and ".join(f"{count} {what}{'s' if count != 1 else ''}" for count, what in counts if count)
    return f"{summary}, {step['us']:.1f} us"


def _kernel_row(kernel: dict[str, Any]) -> tuple[str, ...]:
    label = "reference implementation, not a kernel" if kernel["is_reference"] else kernel["label"]
    return (kernel["kernel"], label, _listed(kernel["operations"]), *_time_columns(kernel))


def _total_row(entry: dict[str, Any]) -> tuple[str, ...]:
    names = " + ".join(entry["types"]) or "none"
    return (
        names,
        str(entry["kernels"] - entry["references"]),
        str(entry["references"]),
        *_time_columns(entry),
    )


def _time_columns(entry: dict[str, Any]) -> tuple[str, str]:
    return f"{entry['us']:.1f}", f"{100 * entry['share']:.1f} %"


def _listed(operations: Sequence[dict[str, Any]]) -> str:
    """Lists operations as `3 CONV_2D conv1/relu, 4 MAX_POOL_2D pool1`."""
    named = [
        " ".join(filter(None, (str(each["operation"]), each["type"], each["output"]))) for each in operations
    ]
    more = [f"… ({len(named)} in all)"] if len(named) > _MAX_LISTED_OPERATIONS else []
    return ", ".join(named[:_MAX_LISTED_OPERATIONS] + more)


def _compiled(document: dict[str, Any]) -> str:
    count, compiled = document["operations"], document["compiled"]
    summary = f"{compiled} of {count} operations ({100 * compiled / count:.1f} %) have compiled kernels"
    if compiled == count:
        return summary
    return f"{summary}; the others run on their references: {_listed(document['on_references'])}"
