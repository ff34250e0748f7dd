"""Optional test data outside the repository: Android's conformance records and real models."""

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]


def folder(name: str) -> Path | None:
    """Returns a folder in the data folder, or None if it does not exist.

    The data folder is `$NEURALD_TEST_DATA`, or `shared` next to the repository.
    """
    path = Path(os.environ.get("NEURALD_TEST_DATA", ROOT.parent / "shared")) / name
    return path if path.is_dir() else None


VECTORS = folder("nnapi_vectors")
MODELS = folder("models")
FRESH_MODELS = folder("models_fresh")
NO_VECTORS = (
    "Android's conformance records are not here (NEURALD_TEST_DATA names no folder with nnapi_vectors)"
)
NO_MODELS = "the golden models are not here (NEURALD_TEST_DATA names no folder with models)"
NO_FRESH_MODELS = "the fresh models are not here (NEURALD_TEST_DATA names no folder with models_fresh)"


def record_files_by_name() -> dict[str, Path]:
    """Returns the files of Android's conformance records; named by the folder and the file."""
    from neurald.service.conformance.records import record_files

    paths = [] if VECTORS is None else record_files(VECTORS)
    return {f"{path.parent.name}/{path.name.removesuffix('.json.gz')}": path for path in paths}


def load_module(path: Path) -> ModuleType:
    """Imports the loader that comes with the data, from a file outside the repository."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look up their module there
    spec.loader.exec_module(module)
    return module
