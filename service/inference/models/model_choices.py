"""The models that clients have loaded and unloaded, which a new front end serves again likewise.

The front end reports them to its supervisor, who gives them to the next one if it dies. Otherwise a
model that an operator has taken out of service would be back after a crash.
"""

from collections.abc import Callable, Collection, Iterable, Mapping


class ModelChoices:
    """The models of the repository that clients want, or not. Belongs to one event loop.

    Args:
        before: what clients of the front end before have chosen: whether they want a model.

    Attributes:
        report: the function that is called when a choice was made.
    """

    def __init__(self, before: Mapping[str, bool]) -> None:
        self._wanted = dict(before)
        self.report: Callable[[], None] = lambda: None

    def current(self) -> dict[str, bool]:
        """Returns whether clients want a model, for each that they have loaded or unloaded."""
        return dict(self._wanted)

    def note(self, name: str, *, is_wanted: bool, names: Collection[str]) -> None:
        """Notes that a client has loaded or unloaded a model.

        Args:
            name: the name of the model.
            is_wanted: whether it was loaded.
            names: the models of the repository. Others cannot be served again, since their files
                came from the client, and are forgotten.
        """
        kept = {each: wanted for each, wanted in self._wanted.items() if each in names and each != name}
        if name in names:
            kept[name] = is_wanted
        if kept != self._wanted:
            self._wanted = kept
            self.report()

    def to_load(self, names: Iterable[str], *, there: Collection[str]) -> tuple[str, ...]:
        """Returns the models to load at the start.

        Args:
            names: the models that would be loaded if clients had chosen none.
            there: the models of the repository. Others that clients have loaded are gone, and
                loading them would only fail.
        """
        loaded = (name for name, is_wanted in self._wanted.items() if is_wanted and name in there)
        return tuple(name for name in dict.fromkeys((*names, *loaded)) if self._wanted.get(name, True))

    def unloaded(self) -> tuple[str, ...]:
        """Returns the models that clients have unloaded."""
        return tuple(name for name, is_wanted in self._wanted.items() if not is_wanted)
