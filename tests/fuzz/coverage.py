"""Detects newly executed lines of code at negligible cost, from Python 3.12 on."""

import sys
from types import CodeType
from typing import Any

#: Tool id of `sys.monitoring`; coverage tools use 1.
_TOOL = 3


class NewLines:
    """Counts lines of neurald that are executed for the first time, in any thread."""

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
        """Returns the number of new lines since the last call; always 0 if Python lacks support."""
        count, self._count = self._count, 0
        return count
