"""Lets sources read extents at run time.

Generators write an extent like a number; its text is a name. Here these names become parameters of
the function and of its helpers, before all others. Sources that differ only in the values of their
extents have the same text.
"""

import re
from collections.abc import Sequence
from typing import Final

from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.extents.text import NAME_PATTERN
from neurald.drivers.opencl.codegen.kernel_source import NAME, Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.hal.records import replace

#: A name, and the suffix that makes a number unsigned.
_NAME: Final = re.compile(f"({NAME_PATTERN})(u?)")
#: The head of a function of a source, or a call of one.
_FUNCTION: Final = re.compile(rf"(^static [^(\n]*)?\b({NAME}\w*)\(", re.MULTILINE)
#: Limit on the extents of a kernel: every device takes 1,024 bytes of arguments.
_MAX_EXTENTS: Final = 64


def extent_names(count: int) -> Sequence[str]:
    """Returns the names of parameters for this many extents."""
    return [f"extent{number}" for number in range(count)]


def extent_parameters(count: int) -> Sequence[str]:
    """Returns the declarations of parameters for this many extents."""
    return [f"const int {name}" for name in extent_names(count)]


def reads_extents(source: Source, scope: ExtentScope) -> Source:
    """Returns the source with its extents as parameters.

    Raises:
        NotImplementedError: there are too many.
    """
    found = list(dict.fromkeys(name for name, _ in _NAME.findall(source.text)))
    label = _NAME.sub(lambda each: str(scope.named[each[1]].hint), source.label)
    if not found:
        return replace(source, label=label)
    if len(found) > _MAX_EXTENTS:
        raise NotImplementedError(f"a kernel reads {len(found)} extents; at most {_MAX_EXTENTS} are expected")
    names = dict(zip(found, extent_names(len(found)), strict=True))
    text = _NAME.sub(lambda each: f"(uint){names[each[1]]}" if each[2] else names[each[1]], source.text)
    declared, passed = (", ".join(each(len(found))) for each in (extent_parameters, extent_names))

    def extended(head: re.Match[str]) -> str:
        before, name = head[1] or "", head[2]
        return f"{before}{name}({declared if before else passed}, "

    return replace(
        source,
        code=LazyCode.of(_FUNCTION.sub(extended, text), source.numbers),
        label=label,
        extents=tuple(scope.named[name] for name in found),
    )
