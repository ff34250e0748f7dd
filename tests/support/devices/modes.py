"""The four ways in which an execution computes."""

import neurald as nd

MODES = ("sync", "async", "burst", "fenced")


def compute(execution: nd.Execution, mode: str) -> None:
    """Computes to the end in one of `MODES`, and raises what came of it."""
    if mode == "sync":
        execution.compute()
    elif mode == "async":
        execution.start_compute().wait()
    elif mode == "fenced":
        execution.start_compute_with_dependencies([]).wait()
    else:
        with nd.Burst(execution.compilation) as burst:
            execution.compute(burst=burst)
