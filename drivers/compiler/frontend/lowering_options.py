"""Options of the lowering of a model's operations."""

from msgspec import Struct

from neurald.drivers.compiler.ir.string_references import StringConstants


class LoweringOptions(Struct, frozen=True, kw_only=True):
    """Properties of a device's kernels, and assumptions on the executions of a graph.

    Attributes:
        has_bounds: True if kernels may compute results of which only some rows exist, see
            `Graph.bounded`.
        has_all_rows: True if results whose numbers of rows follow from data are declared with all
            rows that there may be; those that do not exist may have any contents.
        expects_inputs: True if the graph does not serve executions that omit an input.
        strings: numbers constant strings; None if kernels do not support strings.
    """

    has_bounds: bool = False
    has_all_rows: bool = False
    expects_inputs: bool = False
    strings: StringConstants | None = None
