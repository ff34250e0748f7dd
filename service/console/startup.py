"""The display of preparations that take long."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import neurald as nd
from neurald.service.console.output import Progress, progress, status


class PreparationBar:
    """Shows a spinner, and for a step that takes longer than a second a bar.

    Args:
        model: name of the model.
        quiet: True to show nothing.
    """

    def __init__(self, model: str, *, quiet: bool) -> None:
        self._model = model
        self._quiet = quiet
        self._shown = ExitStack()
        self._step: int | None = None
        self._bar: Progress | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        self._shown.enter_context(status(f"preparing {model}", quiet=quiet))

    def step(self, found: nd.StepProgress) -> None:
        """Shows the progress of a step; see `CompilationBuilder.set_progress_callback`."""
        with self._lock:
            if self._is_closed:
                return
            if self._bar is None or self._step != found.step:
                self._shown.close()
                of = f", step {found.step + 1} of {found.steps} on {found.device}" if found.steps > 1 else ""
                self._bar = self._shown.enter_context(
                    progress(f"preparing {self._model}{of}", quiet=self._quiet)
                )
                self._step = found.step
            self._bar.advance_to(found.share)

    def close(self) -> None:
        """Removes what is shown."""
        with self._lock:
            self._is_closed = True
            self._shown.close()


@contextmanager
def preparing(model: str, *, quiet: bool) -> Iterator[PreparationBar]:
    """Shows during the block that a model is prepared, if stderr is a terminal."""
    bar = PreparationBar(model, quiet=quiet)
    try:
        yield bar
    finally:
        bar.close()
