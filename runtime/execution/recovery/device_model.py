"""The prepared model of a step on its device, which is prepared again after the driver has died."""

from neurald.hal.device import ExecuteOptions, PreparedModel
from neurald.hal.errors import Error
from neurald.hal.process.fork import forkable_lock
from neurald.runtime.execution.recovery.repeated_preparation import RepeatedPreparation
from neurald.runtime.execution.recovery.step_health import StepHealth
from neurald.runtime.plan.plan import ExecutionStep
from neurald.runtime.plan.preparer import Preparer


class DeviceModel:
    """The prepared model of a step on its device. Thread-safe.

    Args:
        step: the step. While it has only a first tier, there is no prepared model.
        preparer: prepares it again.
        health: the health of the device.
    """

    def __init__(self, step: ExecutionStep, preparer: Preparer, health: StepHealth) -> None:
        self._step = step
        self._preparer = preparer
        self._health = health
        self._lock = forkable_lock()
        self._prepared = None if step.is_first_tier else step.prepared_model
        self._preparation = RepeatedPreparation(step.device.name)

    @property
    def prepared(self) -> PreparedModel | None:
        """The prepared model; None if it is lost, or not there yet."""
        return self._prepared

    def set(self, prepared: PreparedModel) -> None:
        """Sets the model that the device has prepared in place of a first tier."""
        with self._lock:
            self._prepared = prepared

    def lose(self, prepared: PreparedModel) -> None:
        """Drops a prepared model whose driver died, unless another has replaced it."""
        with self._lock:
            if self._prepared is prepared:
                self._prepared = None

    def usable(self) -> PreparedModel | None:
        """Returns the prepared model; None if it is lost, or if the device has failed."""
        with self._lock:
            return self._prepared if not self._health.failures else None

    def usable_or_begin(self) -> PreparedModel | None:
        """Returns the prepared model if the device may be used now, otherwise None.

        If it is lost and the pause after the last failure is over, the device begins to prepare the
        step again.
        """
        working = self._prepared
        if working is not None and not self._health.failures:
            return working
        with self._lock:
            prepared, is_due = self._prepared, self._health.is_due
        if not is_due:
            return None
        if prepared is None:
            self._preparation.begin(self._prepare_and_record)
        return prepared

    def wait(self, options: ExecuteOptions | None) -> PreparedModel:
        """Returns the prepared model; if it is lost, after the device has prepared the step again.

        Args:
            options: the options of the execution that needs it; None for no limits.

        Raises:
            Error: the limits do not allow to wait any longer, or the step cannot be prepared.
        """
        prepared = self._prepared
        return self._preparation.wait(self._prepare, options) if prepared is None else prepared

    def _prepare(self) -> PreparedModel:
        """Prepares the step on its device again if it is lost, and returns the prepared model."""
        with self._lock:
            if self._prepared is not None:
                return self._prepared
        prepared = self._preparer.prepare(self._step.device, self._step.model).prepared_model
        with self._lock:
            if self._prepared is None:
                self._prepared = prepared
                self._health.end_pause()
            return self._prepared

    def _prepare_and_record(self) -> PreparedModel:
        """Prepares the step again, and records if that fails, which lengthens the pause."""
        try:
            return self._prepare()
        except Error as error:
            self._health.record(error)
            raise
