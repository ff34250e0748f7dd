"""The measured costs of one device: operations by type and size, launches, and the link to it.

Sizes are grouped: a *band* is a factor of about 1.4 in the work of an operation, see
`neurald.runtime.costs.work`. For each kind of operation and each band the table has the time for
one unit of work, as an exponential average of what was measured. A size between two measured bands
is interpolated, and one beyond them takes the rate of the nearest band, unless that is far away;
the estimate says so.
"""

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct, field

from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace
from neurald.runtime.costs.work import OperationKind

#: The weight of a new measurement in the exponential average, once there are some.
NEW_WEIGHT: Final = 0.2
_BANDS_PER_DOUBLING: Final = 2
#: Further from a measured size than a factor of 64, an operation of the same type says little.
_MAX_DISTANCE: Final = 12
#: The smallest work from which the speed of a device follows: 64 thousand multiplications.
_SIGNIFICANT_BAND: Final = 32
_MAX_KINDS: Final = 1024
_MAX_BANDS: Final = 128
#: The band of 2^128 multiplications, the largest one.
MAX_BAND: Final = 256
_MAX_SECONDS: Final = 1e6


class CostSource(Enum):
    """The sources of a cost, best first."""

    #: An operation of this type and size was measured on the device.
    MEASURED = "measured"
    #: One of this type and another size was.
    SCALED = "scaled"
    #: A roofline: the speed of the device for multiplications or for moving data, as measured.
    ROOFLINE = "roofline"
    #: The speed of this host, times what the driver declares about its device.
    DECLARED = "declared"


#: All sources; arrays have their positions here.
SOURCES: Final = tuple(CostSource)
#: Further apart than any two bands of a kind.
_KIND_DISTANCE: Final = 2 * (MAX_BAND + _MAX_DISTANCE)


class Average(Struct, frozen=True, kw_only=True, array_like=True):
    """A time as an average of measurements."""

    seconds: float
    measurements: int = 1


class DeviceLink(Struct, frozen=True, kw_only=True):
    """The way of data between host memory and a device.

    Attributes:
        latency_s: the time of a call without data; part of the launch.
        input_bytes_per_s: how fast inputs get to the device; infinite if nothing is copied.
        output_bytes_per_s: how fast outputs get back.
        shares_memory: whether the device works on host memory, so that nothing is copied.
    """

    latency_s: float = 0.0
    input_bytes_per_s: float = math.inf
    output_bytes_per_s: float = math.inf
    shares_memory: bool = True


class PairLink(Struct, frozen=True, kw_only=True):
    """The way of data from one device to another, which leads through host memory."""

    source: str
    target: str
    latency_s: float
    bytes_per_s: float
    shares_memory: bool


def pair_link(source: str, target: str, out: DeviceLink, into: DeviceLink) -> PairLink:
    """Returns the link between two devices, by the names and links of both."""
    per_byte = 1 / out.output_bytes_per_s + 1 / into.input_bytes_per_s
    return PairLink(
        source=source,
        target=target,
        latency_s=out.latency_s + into.latency_s,
        bytes_per_s=math.inf if per_byte == 0 else 1 / per_byte,
        shares_memory=out.shares_memory and into.shares_memory,
    )


class CostTable(Struct, frozen=True, kw_only=True):
    """The measured costs of one device; immutable.

    Attributes:
        launch: the launch of a step, whatever it computes; None if it was not measured.
        step: what the runtime itself needs for a step of a plan of several; None if it was not
            measured.
        link: None if it was not measured.
        rates: by kind and band, for one unit of work.
    """

    launch: Average | None = None
    step: Average | None = None
    link: DeviceLink | None = None
    rates: Mapping[OperationKind, Mapping[int, Average]] = field(default_factory=dict)

    def unit(self, kind: OperationKind, band: int) -> tuple[float, CostSource] | None:
        """Returns the time for a unit of work of an operation that was measured at about this size.

        None if it was not.
        """
        bands = self.rates.get(kind)
        if not bands:
            return None
        found = bands.get(band)
        if found is not None:
            return found.seconds, CostSource.MEASURED
        near = [each for each in bands if abs(each - band) <= _MAX_DISTANCE]
        if not near:
            return None
        below = max((each for each in near if each < band), default=None)
        above = min((each for each in near if each > band), default=None)
        if below is None or above is None:
            nearest = bands[min(near, key=lambda each: abs(each - band))]
            return nearest.seconds, CostSource.SCALED
        share = (band - below) / (above - below)
        low, high = math.log(bands[below].seconds), math.log(bands[above].seconds)
        return math.exp(low + share * (high - low)), CostSource.SCALED

    def units(self, kinds: Sequence[OperationKind], numbers: Array, bands: Array) -> tuple[Array, Array]:
        """Returns `unit` for many operations: times, and the positions of sources in `SOURCES`.

        Args:
            kinds: the kinds of operations.
            numbers: for each operation the position of its kind.
            bands: for each operation its band.

        Returns:
            Times are NaN where `unit` is None.
        """
        points = [-_KIND_DISTANCE, len(kinds) * _KIND_DISTANCE]
        rates = [1.0, 1.0]
        for number, kind in enumerate(kinds):
            for band, average in self.rates.get(kind, {}).items():
                points.append(number * _KIND_DISTANCE + band)
                rates.append(average.seconds)
        order = np.argsort(points)
        known, seconds = np.array(points)[order], np.array(rates)[order]
        logarithms = np.log(seconds)
        wanted = numbers * _KIND_DISTANCE + bands
        above = np.searchsorted(known, wanted)
        is_measured = known[above] == wanted
        below = above - 1
        to_above, to_below = known[above] - wanted, wanted - known[below]
        is_above, is_below = to_above <= _MAX_DISTANCE, to_below <= _MAX_DISTANCE
        share = np.where(is_above & is_below, to_below / (to_above + to_below), is_above)
        found = np.exp(logarithms[below] + share * (logarithms[above] - logarithms[below]))
        found[~(is_above | is_below)] = math.nan
        found[is_measured] = seconds[above[is_measured]]
        sources = np.where(is_measured, SOURCES.index(CostSource.MEASURED), SOURCES.index(CostSource.SCALED))
        return found, sources

    def seconds(self, kind: OperationKind, work: float) -> tuple[float, CostSource] | None:
        """Returns the time of an operation of a type measured at about this size, or None."""
        found = self.unit(kind, band_of(work))
        return None if found is None else (found[0] * work, found[1])

    def unit_seconds(self, operand: str, *, is_product: bool) -> float | None:
        """Returns the roofline: the time of a unit of work of any operation on a type of operand.

        It is the median over the measured operations of that sort at their largest sizes, if these
        are large enough; those on other types of operands count if there is none on this one.
        """
        of_sort = {
            kind: bands
            for kind, bands in self.rates.items()
            if kind.is_product == is_product and max(bands, default=0) >= _SIGNIFICANT_BAND
        }
        wanted = {kind: bands for kind, bands in of_sort.items() if kind.operand == operand} or of_sort
        found = sorted(bands[max(bands)].seconds for bands in wanted.values())
        return found[len(found) // 2] if found else None

    def observed(self, kind: OperationKind, work: float, seconds: float) -> "CostTable":
        """Returns the table after another measurement of an operation."""
        if not (0 < seconds < _MAX_SECONDS and 0 < work < math.inf):
            return self
        bands = dict(self.rates.get(kind, {}))
        band = band_of(work)
        if (kind not in self.rates and len(self.rates) >= _MAX_KINDS) or (
            band not in bands and len(bands) >= _MAX_BANDS
        ):
            return self
        old = bands.get(band)
        bands[band] = _averaged(old, seconds / work)
        return replace(self, rates={**self.rates, kind: bands})

    def launched(self, seconds: float) -> "CostTable":
        """Returns the table after another measurement of a launch."""
        if not 0 < seconds < _MAX_SECONDS:
            return self
        return replace(self, launch=_averaged(self.launch, seconds))

    def stepped(self, seconds: float) -> "CostTable":
        """Returns the table after another measurement of what the runtime needs for a step."""
        if not 0 < seconds < _MAX_SECONDS:
            return self
        return replace(self, step=_averaged(self.step, seconds))

    def check(self) -> None:
        """Raises BadData unless all figures are possible ones."""
        averages = [rate for bands in self.rates.values() for rate in bands.values()]
        averages += [each for each in (self.launch, self.step) if each is not None]
        if any(average.measurements < 1 for average in averages):
            raise BadData("a cost has no measurements")
        if any(not 0 <= band <= MAX_BAND for bands in self.rates.values() for band in bands):
            raise BadData(f"a size is outside of the bands 0 to {MAX_BAND}")
        figures = [average.seconds for average in averages]
        if self.link is not None:
            figures += [self.link.input_bytes_per_s, self.link.output_bytes_per_s]
            if not 0 <= self.link.latency_s < _MAX_SECONDS:
                raise BadData(f"the latency is {self.link.latency_s}; a time is expected")
        if not all(figure > 0 for figure in figures):
            raise BadData(f"costs are {min(figures)} and more; positive numbers are expected")


def _averaged(old: Average | None, new: float) -> Average:
    """Returns the mean of the first measurements, and then their exponential average."""
    if old is None:
        return Average(seconds=new, measurements=1)
    count = old.measurements + 1
    weight = max(NEW_WEIGHT, 1 / count)
    return Average(seconds=old.seconds + weight * (new - old.seconds), measurements=count)


def band_of(work: float) -> int:
    """Returns the number of the band of sizes that includes this one."""
    return min(MAX_BAND, round(_BANDS_PER_DOUBLING * math.log2(max(1.0, work))))


def bands_of(work: Array) -> Array:
    """Returns `band_of` for each element of an array."""
    rounded = np.rint(_BANDS_PER_DOUBLING * np.log2(np.maximum(1.0, work)))
    found: Array = np.minimum(MAX_BAND, rounded).astype(np.intp)
    return found


class CostBook:
    """The costs of one device, as they are known now. Thread-safe.

    Attributes:
        table: immutable; replaced with each measurement.
        is_changed: whether there were measurements since it was read or written.
    """

    def __init__(self, table: CostTable) -> None:
        self.table = table
        self.is_changed = False
        self._lock = forkable_lock()

    def observe_step(self, seconds: float) -> None:
        """Adds a measurement of what the runtime needs for a step of a plan of several."""
        with self._lock:
            self.table = self.table.stepped(seconds)
            self.is_changed = True

    def scale(self, sizes: Mapping[tuple[OperationKind, float], float], factor: float) -> None:
        """Adds a measurement of a step whose operations took `factor` times what was estimated.

        Args:
            sizes: for each kind and work of its operations, the seconds that were estimated.
            factor: by what all times are multiplied.
        """
        with self._lock:
            for (kind, work), seconds in sizes.items():
                self.table = self.table.observed(kind, work, seconds * factor)
            self.is_changed = True

    def use(self, table: CostTable) -> None:
        """Replaces all costs, after a calibration."""
        with self._lock:
            self.table = table
            self.is_changed = True
