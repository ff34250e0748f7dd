"""The settings of an execution, which become the options of its next computation."""

from neurald.hal.device import DEFAULT_LOOP_TIMEOUT_S, ExecuteOptions
from neurald.hal.model.extension_attribute import AttributeValue
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.deadline import deadline_in


class ExecutionSettings:
    """The settings of an execution. Its owner locks them.

    Attributes:
        measure: whether timing is measured.
        wants_receipt: whether computations keep a receipt.
        attributes: the attributes of vendors' extensions.
        timeout_s: time limit of a computation, in seconds; None for no limit.
        loop_timeout_s: time limit of a WHILE operation, in seconds.
    """

    def __init__(self) -> None:
        self.measure = False
        self.wants_receipt = False
        self.attributes: tuple[AttributeValue, ...] = ()
        self.timeout_s: float | None = None
        self.loop_timeout_s = DEFAULT_LOOP_TIMEOUT_S
        self._cancellation: Cancellation | None = None
        self._options: ExecuteOptions | None = None
        self._is_next_cancelled = False

    @property
    def are_default(self) -> bool:
        """True if nothing has been set."""
        return not (
            self.measure
            or self.wants_receipt
            or self.timeout_s is not None
            or self.loop_timeout_s != DEFAULT_LOOP_TIMEOUT_S
            or self.attributes
        )

    def next_options(self) -> ExecuteOptions:
        """Returns the options for the next computation.

        The previous ones are reused unless that computation was cancelled or has a time limit.
        """
        is_cancelled, self._is_next_cancelled = self._is_next_cancelled, False
        cancellation, timeout = self._cancellation, self.timeout_s
        if cancellation is None or not (cancellation.is_unused or is_cancelled):
            cancellation = self._new_cancellation()
        options = self._options
        if options is None or timeout is not None:
            options = ExecuteOptions(
                measure=self.measure or self.wants_receipt,
                deadline_s=deadline_in(timeout),
                loop_timeout_s=self.loop_timeout_s,
                cancellation=cancellation,
                attributes=self.attributes,
            )
        self._options = options
        return options

    def next_cancellation(self) -> Cancellation:
        """Returns the cancellation of the next computation on a fast path."""
        self._is_next_cancelled = False
        return self._cancellation or self._new_cancellation()

    def cancel_if_asked(self, cancellation: Cancellation | None) -> None:
        """Cancels a computation that has begun, if that was asked since its options were made.

        A signal handler may have asked it, while its thread held the lock.

        Args:
            cancellation: that of the computation.
        """
        if self._is_next_cancelled and cancellation is not None:
            self._is_next_cancelled = False
            cancellation.cancel()

    def cancel_next(self) -> None:
        """Cancels the next computation, which has not begun."""
        self._new_cancellation().cancel()
        self._is_next_cancelled = True

    def forget_cancellation(self) -> None:
        """Lets the next computation run, although it was cancelled before it began."""
        if self._is_next_cancelled:
            self._new_cancellation()
            self._is_next_cancelled = False

    def take_cancellation(self) -> Cancellation | None:
        """Returns the cancellation of the computation under way; the next one gets another."""
        cancellation, self._cancellation = self._cancellation, None
        return cancellation

    def _new_cancellation(self) -> Cancellation:
        """Creates a cancellation and drops the options that refer to the previous one."""
        self._options = None
        self._cancellation = cancellation = Cancellation()
        return cancellation
