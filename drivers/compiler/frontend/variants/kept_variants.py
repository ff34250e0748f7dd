"""Keeps the prepared variants of a model, one for each set of input shapes."""

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Struct

from neurald.hal.device import PreparedModel
from neurald.hal.model.graph import Operand

if TYPE_CHECKING:
    from neurald.drivers.compiler.frontend.variants.variant_uses import VariantUses

#: As in `neurald.hal.operations.machinery.call`.
Shape: TypeAlias = tuple[int, ...]
#: The shapes of all inputs; None for those that are omitted.
Shapes: TypeAlias = tuple[Shape | None, ...]

#: Maximum number of variants with code of their own.
MAX_COMPILED: Final = 8
#: Maximum number of variants that share code for any lengths, and of bytes of their own. Eight are
#: kept of any size.
MAX_OPEN: Final = 256
MAX_OPEN_BYTES: Final = 64 << 20
_ALWAYS_KEPT: Final = 8
#: How many variants are kept between two counts of their bytes, which grow as they are used.
_COUNT_EVERY: Final = 16


class PreparedWithOperands(PreparedModel, Protocol):
    """A prepared model that also describes its model's operands."""

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """Returns the declared operand of an input or output.

        Raises:
            BadData: the index is out of range.
        """
        ...


class OpenVariant(Struct, frozen=True, eq=False):
    """A variant that shares code for any lengths.

    Attributes:
        prepared: the variant.
        own_bytes: returns the memory of its values that no other variant uses; None if all is
            shared.
    """

    prepared: PreparedWithOperands
    own_bytes: Callable[[], int] | None = None


class _Kept(Struct, eq=False):
    """A variant.

    Attributes:
        prepared: the variant.
        is_open: whether it shares code for any lengths.
        own_bytes: see `OpenVariant`.
        uses: counts its uses if a faster one may replace it.
    """

    prepared: PreparedWithOperands
    is_open: bool
    own_bytes: Callable[[], int] | None
    uses: "VariantUses | None"


class KeptVariants:
    """The variants of a model; those used least recently are dropped. The caller holds a lock."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Shapes, _Kept] = OrderedDict()
        #: How many of them share code for any lengths, and how many were kept since their memory
        #: was counted.
        self._open = 0
        self._uncounted = 0

    def __contains__(self, shapes: Shapes) -> bool:
        return shapes in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, shapes: Shapes) -> "tuple[PreparedWithOperands | None, VariantUses | None]":
        """Returns the variant for these shapes and what counts its uses, if there are any."""
        found = self._kept.get(shapes)
        return (None, None) if found is None else (found.prepared, found.uses)

    def has_own_code(self, shapes: Shapes) -> bool:
        """Returns whether there is a variant for these shapes that shares no code."""
        found = self._kept.get(shapes)
        return found is not None and not found.is_open

    def use(self, shapes: Shapes) -> "tuple[PreparedWithOperands | None, VariantUses | None]":
        """Returns the variant for an execution, which is counted, and what counts its uses."""
        found = self._kept.get(shapes)
        if found is None:
            return None, None
        self._kept.move_to_end(shapes)
        if found.uses is not None:
            found.uses.add()
        return found.prepared, found.uses

    def latest(self) -> PreparedWithOperands | None:
        """Returns the variant that was used last."""
        found = next(reversed(self._kept.values()), None)
        return None if found is None else found.prepared

    def keep(
        self,
        shapes: Shapes,
        variant: PreparedWithOperands | OpenVariant,
        uses: "VariantUses | None" = None,
    ) -> None:
        """Keeps a variant, in place of one for the same shapes, and drops others if necessary."""
        self.end_uses(shapes)
        self._count(self._kept.get(shapes), -1)
        if isinstance(variant, OpenVariant):
            kept = _Kept(variant.prepared, True, variant.own_bytes, uses)
        else:
            kept = _Kept(variant, False, None, uses)
        # One in place of another is not used later for that.
        self._kept[shapes] = kept
        self._count(kept, 1)
        while len(self._kept) - self._open > MAX_COMPILED:
            self._drop_oldest(shapes, is_open=False)
        while self._open > MAX_OPEN:
            self._drop_oldest(shapes, is_open=True)
        self._uncounted += kept.is_open
        if self._uncounted >= _COUNT_EVERY:
            self._uncounted = 0
            self._limit_bytes()

    def _limit_bytes(self) -> None:
        """Drops variants that share code for any lengths until the others own few bytes."""
        found = [
            (shapes, 0 if each.own_bytes is None else each.own_bytes())
            for shapes, each in self._kept.items()
            if each.is_open
        ]
        total = sum(size_bytes for _, size_bytes in found)
        for shapes, size_bytes in found[:-_ALWAYS_KEPT]:
            if total <= MAX_OPEN_BYTES:
                return
            if size_bytes:
                self.drop(shapes)
                total -= size_bytes

    def end_uses(self, shapes: Shapes) -> None:
        """Ends counting the uses of a variant, which is replaced or remains."""
        found = self._kept.get(shapes)
        if found is not None and found.uses is not None:
            found.uses.is_over = True
            found.uses = None

    def drop(self, shapes: Shapes) -> PreparedWithOperands | None:
        """Drops a variant, and returns it."""
        self.end_uses(shapes)
        found = self._kept.pop(shapes, None)
        self._count(found, -1)
        return None if found is None else found.prepared

    def _count(self, variant: _Kept | None, number: int) -> None:
        """Adds a variant to what is counted, or subtracts it, if it shares code for any lengths."""
        if variant is not None and variant.is_open:
            self._open += number

    def _drop_oldest(self, newest: Shapes, *, is_open: bool) -> None:
        """Drops the variant of a kind that was used least recently.

        The newest one stays, even if it replaces one that was not used while it was compiled.
        """
        self.drop(
            next(
                shapes for shapes, each in self._kept.items() if each.is_open is is_open and shapes != newest
            )
        )
