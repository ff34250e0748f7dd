"""LiteRT's Environment, which has no effect: drivers are found by neurald's own registry."""

from dataclasses import dataclass
from types import TracebackType

from neurald.runtime.litert.arguments import text


@dataclass(frozen=True)
class EnvironmentOptions:
    """Folders of LiteRT's native libraries, which are not used."""

    runtime_path: str | None = None
    compiler_plugin_path: str = ""
    dispatch_library_path: str = ""


class Environment:
    """The environment that compiled models share.

    Args:
        options: see `EnvironmentOptions`.
    """

    def __init__(self, options: EnvironmentOptions) -> None:
        self._options = options
        self._is_open = True

    @classmethod
    def create(
        cls,
        *,
        options: EnvironmentOptions | str | None = None,
        runtime_path: str | None = None,
        compiler_plugin_path: str = "",
        dispatch_library_path: str = "",
    ) -> "Environment":
        """Creates an environment.

        Raises:
            ValueError: `options` and single paths are given.
            TypeError: a path is not a text.
        """
        if isinstance(options, str):
            if runtime_path is not None:
                raise ValueError("runtime_path was provided twice.")
            runtime_path, options = options, None
        if options is None:
            options = EnvironmentOptions(runtime_path, compiler_plugin_path, dispatch_library_path)
        elif runtime_path is not None or compiler_plugin_path or dispatch_library_path:
            raise ValueError("Pass either options or environment path shortcuts.")
        found = EnvironmentOptions(
            dispatch_library_path=text(options.dispatch_library_path or "", "CreateEnvironment"),
            compiler_plugin_path=text(options.compiler_plugin_path or "", "CreateEnvironment"),
            runtime_path=text(options.runtime_path, "CreateEnvironment") if options.runtime_path else None,
        )
        return cls(found)

    def __enter__(self) -> "Environment":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def options(self) -> EnvironmentOptions:
        """The options."""
        return self._options

    @property
    def capsule(self) -> object:
        """The environment, as something that programs can only pass on.

        Raises:
            ValueError: the environment is closed.
        """
        if not self._is_open:
            raise ValueError("Environment is no longer valid")
        return self

    def close(self) -> None:
        """Ends the environment: no more models can be opened with it."""
        self._is_open = False
