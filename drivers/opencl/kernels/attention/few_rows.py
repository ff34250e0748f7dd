"""Attention of few rows, such as that of a step with cached keys and values, in portable OpenCL C.

A work-group computes a row. Its scores, and then their weights, are in local memory; what it reads
first is requested at once, so that the time is little more than that of one access to memory.
"""

from collections.abc import Iterator

from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.opencl.codegen.kernel_source import NAME, Source
from neurald.drivers.opencl.codegen.template import templates
from neurald.drivers.opencl.kernels.attention.attention_view import (
    AttentionOperand,
    AttentionView,
    store2_text,
)
from neurald.drivers.opencl.kernels.group_exchange import group_exchange
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

_TEMPLATES = templates(__name__, "few_rows.cl")
#: With more rows, tiles of rows read keys and values less often.
_MAX_ROWS = 4
#: Work-items of a group.
_ITEMS = 256
#: Limit on the values that a work-item holds in registers while weights are computed.
_MAX_AHEAD = 8


def candidates(view: AttentionView, facts: DeviceFacts) -> Iterator[Source]:
    """Yields the source, if there are few rows, and the device has the local memory for a row."""
    vectors, features = -(-view.depth // 4), -(-view.features // 4)
    sharing = 1
    while 2 * sharing * view.columns <= _ITEMS and 2 * sharing <= vectors:
        sharing *= 2
    slices = _ITEMS // features
    turns = -(-view.columns // slices)
    scores_at = 16 * _ITEMS
    # Several work-items that share a score write beside each other, and the sums behind that.
    kept_at = scores_at + (4 * sharing * view.columns if sharing > 1 else 0)
    scratch_bytes = -(-(kept_at + 4 * view.columns) // 16) * 16
    if (
        view.rows > _MAX_ROWS
        or facts.max_work_group_size < _ITEMS
        or scratch_bytes > min(facts.local_memory_bytes, 40 << 10)
    ):
        return
    exchange = group_exchange(_ITEMS, facts)
    yield view.source(
        _TEMPLATES["function"],
        rows=1,
        local_size=_ITEMS,
        scratch_bytes=scratch_bytes,
        label="attention of few rows",
        names={
            "STORE2": store2_text(view),
            "HELPERS": exchange.helpers,
            "COMBINE_LARGEST": exchange.combined("largest", ReductionOp.MAXIMUM_NUMBER),
            "COMBINE_TOTAL": exchange.combined("total", ReductionOp.SUM),
            "SHARING": sharing,
            "K4": vectors,
            "D4": features,
            "SLICES": slices,
            "AHEAD": min(_MAX_AHEAD, turns),
            "TURNS": turns,
            "SCORES_AT": scores_at,
            "KEPT": f"(scores + {(kept_at - scores_at) // 4})",
            "QUERY_VECTOR": _vector(view, view.query, "query", "k", view.depth),
            "KEY_VECTOR": _row_vector(view, view.key, "key", "k", view.depth),
            "VALUE_VECTOR": _row_vector(view, view.value, "value", "d", view.features),
        },
    )


def _row_vector(view: AttentionView, operand: AttentionOperand, name: str, at: str, count: int) -> str:
    """Returns the text that loads four elements of row `n` of keys or values."""
    first = _vector(view, operand, f"{name} + n * {operand.row}", at, count)
    if operand.rest is None:
        return first
    place = f"{NAME}_{name}_rest(batch) + n * {operand.rest.row}"
    return f"(n < {operand.rows} ? {first} : {_vector(view, operand.rest, place, at, count)})"


def _vector(view: AttentionView, operand: AttentionOperand, row: str, at: str, count: int) -> str:
    """Returns the text that loads four elements of a row, with zeros behind its end."""
    argument = view.argument(operand)
    if operand.is_aligned and count % 4 == 0:
        return argument.load4(f"{row} + {at}")
    elements = []
    for i in range(4):
        loaded = argument.load(f"{row} + ({at} + {i}) * {operand.inner}")
        is_inside = count % 4 == 0 or i == 0
        elements.append(loaded if is_inside else f"({at} + {i} < {count} ? {loaded} : 0.0f)")
    return f"(float4)({', '.join(elements)})"
