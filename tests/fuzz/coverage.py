"""Tells whether code has been executed that never was before in this process, from Python 3.12 on, at next to no cost."""

import sys
from types import CodeType
from typing import Any

#: Of `sys.monitoring`; 1 is what coverage tools take.
_TOOL = 3


class NewLines:
    """Counts lines of neurald as they are executed for the first time, in any thread."""

    def __init__(self) -> None:
        self._count = 0
        monitoring: Any = getattr(sys, "monitoring", None)
        if monitoring is None:
            return
        disable = monitoring.DISABLE

        def seen(code: CodeType, line: int) -> Any:
            if "neurald" in code.co_filename or "/hal/" in code.co_filename:
                self._count += 1
            return disable

        monitoring.use_tool_id(_TOOL, "neurald fuzzing")
        monitoring.register_callback(_TOOL, monitoring.events.LINE, seen)
        monitoring.set_events(_TOOL, monitoring.events.LINE)

    def take(self) -> int:
        """How many there were since the last call; always 0 where Python cannot tell."""
        count, self._count = self._count, 0
        return count
