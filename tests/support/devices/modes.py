"""The four modes of computing an execution."""

import neurald as nd

MODES = ("sync", "async", "burst", "fenced")


def compute(execution: nd.Execution, mode: str) -> None:
    """Computes in one of `MODES` and waits for the end. Raises the execution's error."""
    if mode == "sync":
        execution.compute()
    elif mode == "async":
        execution.start_compute().wait()
    elif mode == "fenced":
        execution.start_compute_with_dependencies([]).wait()
    else:
        with nd.Burst(execution.compilation) as burst:
            execution.compute(burst=burst)
