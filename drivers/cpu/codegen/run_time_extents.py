"""Lets routines read extents at run time.

Generators write an extent like a number; its text is a name. Here these names become loads at the
beginning of the function, from memory that one more pointer argument refers to. Routines that only
differ in the values of their extents have the same text.
"""

import re
from typing import Final

from neurald.drivers.compiler.ir.extents.extent import estimate
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.extents.text import NAME_PATTERN
from neurald.drivers.cpu.target.routine import Routine
from neurald.hal.records import replace

_NAME: Final = re.compile(NAME_PATTERN)
_HEAD: Final = re.compile(
    r"^(define void @KERNEL_NAME\(.*?)((?:ptr %strings, )?ptr %scratch, .*\{)$", re.MULTILINE
)
#: The function that has the extents; others that it calls do not.
_FUNCTION: Final = re.compile(r"^define void @KERNEL_NAME\(.*?^\}$", re.MULTILINE | re.DOTALL)


def reads_extents(routine: Routine, scope: ExtentScope) -> Routine:
    """Returns the routine with its extents as loads, and estimates in the place of other extents.

    Raises:
        NotImplementedError: an extent is where nothing can be loaded.
    """
    extents = tuple(dict.fromkeys(_NAME.findall(routine.text)))
    if any(_NAME.search(each.text) for each in routine.subroutines):
        raise NotImplementedError("a subroutine depends on an open dimension")
    text = routine.text
    if _NAME.search(_FUNCTION.sub("", text)):
        raise NotImplementedError("an inner function depends on an open dimension")
    if extents:
        numbers = {name: number for number, name in enumerate(extents)}
        text = _NAME.sub(lambda found: f"%e{numbers[found.group()]}", text)
        loads = "".join(
            f"\n  %p{number} = getelementptr i64, ptr %extents, i64 {number}"
            f"\n  %e{number} = load i64, ptr %p{number}, align 8"
            for number in numbers.values()
        )
        text, count = _HEAD.subn(lambda head: f"{head[1]}ptr noalias %extents, {head[2]}{loads}", text)
        if count != 1:
            raise NotImplementedError("the function has no place for its extents")
    return replace(
        routine,
        text=text,
        extents=tuple(scope.named[name] for name in extents),
        cost_ns=float(estimate(routine.cost_ns)),
        label=with_estimates(routine.label, scope),
    )


def with_estimates(text: str, scope: ExtentScope) -> str:
    """Returns a text for profiles, with the hints of its extents."""
    return _NAME.sub(lambda found: str(scope.named[found.group()].hint), text)
