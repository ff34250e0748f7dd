"""The status of a compilation as text, and what follows from it."""

import pytest

import neurald as nd

pytestmark = pytest.mark.quick


def step(number: int, tier: nd.StepTier, **more: object) -> nd.StepStatus:
    return nd.StepStatus(step=number, device="gpu", tier=tier, runs_on="cpu", **more)  # type: ignore[arg-type]


def test_each_step_has_a_line() -> None:
    status = nd.CompilationStatus(
        startup=nd.Startup.INSTANT,
        steps=(
            step(0, nd.StepTier.OPTIMIZED),
            step(1, nd.StepTier.FIRST, progress=0.25, elapsed_s=1.5),
            step(2, nd.StepTier.FIRST, progress=0.0),
            step(3, nd.StepTier.FIRST, reason="no memory"),
        ),
    )
    assert str(status).splitlines() == [
        "step 0 of gpu: optimised",
        "step 1 of gpu: first tier on cpu; optimised code is compiled, 25% in 1.5 s",
        "step 2 of gpu: first tier on cpu; optimised code waits to be compiled",
        "step 3 of gpu: first tier on cpu; it stays: no memory",
    ]
    assert [each.is_pending for each in status.steps] == [False, True, True, False]


def test_a_compilation_is_optimized_when_all_steps_are() -> None:
    done, dropped = step(0, nd.StepTier.OPTIMIZED), step(1, nd.StepTier.FIRST, reason="no memory")
    waiting = step(1, nd.StepTier.FIRST)
    for steps, is_optimized, is_pending in (
        ((), True, False),
        ((done,), True, False),
        ((done, dropped), False, False),
        ((done, waiting), False, True),
    ):
        status = nd.CompilationStatus(startup=nd.Startup.INSTANT, steps=steps)
        assert (status.is_optimized, status.is_pending) == (is_optimized, is_pending)
