"""Completes names on the command line. Nothing is started or asked for it."""


def device_names(incomplete: str) -> list[str]:
    """Returns the drivers that are installed, and the devices whose daemons have sockets here."""
    from neurald.hal.process.activation import OTHER_SOCKETS
    from neurald.hal.process.files.runtime_directory import runtime_directory

    try:
        found = runtime_directory().glob("*.sock")
        served = sorted(path.stem for path in found if path.name not in OTHER_SOCKETS)
    except OSError:
        served = []
    drivers = driver_names("")
    addresses = [f"unix://{runtime_directory()}/{name}.sock" for name in served]
    return [name for name in (*drivers, *addresses) if name.startswith(incomplete)]


def driver_names(incomplete: str) -> list[str]:
    """Returns the drivers that are installed."""
    from neurald.hal.registry import driver_names as installed

    return [name for name in installed() if name.startswith(incomplete)]


def cache_keys(incomplete: str) -> list[str]:
    """Returns the keys of the entries of the user's own cache."""
    from neurald.hal.cache.store import Cache, default_directory

    return [entry.key for entry in Cache(default_directory()).entries() if entry.key.startswith(incomplete)]


def model_files(incomplete: str) -> list[str]:
    """Returns the `.tflite` files and the folders whose paths start like that."""
    from pathlib import Path

    folder, _, start = incomplete.rpartition("/")
    before = f"{folder}/" if "/" in incomplete else ""
    try:
        found = sorted(Path(before or ".").expanduser().iterdir())
    except OSError:
        return []
    names = [path.name + ("/" if path.is_dir() else "") for path in found]
    return [
        before + name
        for name in names
        if name.startswith(start)
        and name.endswith((".tflite", "/"))
        and name.startswith(".") <= start.startswith(".")
    ]


def policy_names(incomplete: str) -> list[str]:
    """Returns the ways to split a model."""
    return [name for name in ("min_cost", "android", "tengine") if name.startswith(incomplete)]


def startup_names(incomplete: str) -> list[str]:
    """Returns the ways to start."""
    return [name for name in ("instant", "optimized") if name.startswith(incomplete)]


def preference_names(incomplete: str) -> list[str]:
    """Returns what compilations may optimise for."""
    from neurald.hal.model.types import Preference

    return [name for each in Preference if (name := each.name.lower()).startswith(incomplete)]


def priority_names(incomplete: str) -> list[str]:
    """Returns the ranks of runs."""
    from neurald.hal.model.types import Priority

    return [name for each in Priority if (name := each.name.lower()).startswith(incomplete)]


def operation_names(incomplete: str) -> list[str]:
    """Returns the operations."""
    from neurald.hal.model.operation_type import OperationType

    return [each.name for each in OperationType if each.name.startswith(incomplete.upper())]


def certificate_names(incomplete: str) -> list[str]:
    """Returns the names for which the user's authority has issued certificates."""
    from neurald.hal.errors import Error

    try:
        from neurald.service.certificates.authority import Authority, authority_folder

        issued = Authority(authority_folder()).describe().certificates
    except (Error, ImportError, OSError):
        return []
    return sorted({each.name for each in issued if each.name.startswith(incomplete)})
