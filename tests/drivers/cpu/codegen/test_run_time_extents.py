"""Routines read extents at run time, or are refused; `test_open_model` runs such routines."""

import pytest

from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.cpu.codegen.run_time_extents import reads_extents
from neurald.drivers.cpu.target.routine import Routine

_INNER = """
define internal void @KERNEL_NAME.inner(ptr %source) noinline nounwind {{
  %at = getelementptr i8, ptr %source, i64 {step}
  ret void
}}

define void @KERNEL_NAME(ptr noalias %a0, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {{
  call void @KERNEL_NAME.inner(ptr %a0)
  ret void
}}
"""


def test_functions_inside_of_a_routine_have_no_extents() -> None:
    def routine(step: str) -> Routine:
        return Routine(text=_INNER.format(step=step), arguments=(), work_items=1, cost_ns=1.0)

    assert reads_extents(routine("8"), ExtentScope([67])).text == routine("8").text
    with pytest.raises(NotImplementedError, match="inner function"):
        reads_extents(routine("%extent.0a1b"), ExtentScope([67]))
