"""Loads what was compiled for the CPU device earlier, or by another process, from its artifact."""

from typing import TYPE_CHECKING

from msgspec import Struct

from neurald.drivers.cpu.target.target import Target
from neurald.hal.device import Artifact
from neurald.hal.errors import BadData
from neurald.hal.model.model import Model

if TYPE_CHECKING:
    # Imported when there is an artifact: another process may be compiling it until then.
    from neurald.drivers.cpu.artifact import ArtifactContents
    from neurald.drivers.cpu.native.native_model import NativeModel
    from neurald.drivers.cpu.open_artifact import OpenArtifact
    from neurald.drivers.cpu.open_model import CpuOpenModel


class ArtifactLoader(Struct, frozen=True):
    """Restores compiled models from their artifacts.

    Attributes:
        target: the target that the code must be for.
        threads: number of threads that run the models.
    """

    target: Target
    threads: int

    def restore(self, artifact: Artifact) -> "NativeModel":
        """Restores a compiled model.

        Raises:
            BadData: the artifact is not from this device.
        """
        from neurald.drivers.cpu.artifact import read_artifact

        return self._loaded(read_artifact(artifact))

    def restore_open(self, model: Model, artifact: Artifact) -> "CpuOpenModel":
        """Restores a model that was compiled for any lengths of its open dimensions.

        Raises:
            BadData: the artifact is not from this device.
        """
        from neurald.drivers.cpu.open_artifact import read_open_artifact
        from neurald.drivers.cpu.open_model import CpuOpenModel

        read = read_open_artifact(artifact)
        return CpuOpenModel(model, self._loaded(read), read.opened)

    def _loaded(self, read: "ArtifactContents | OpenArtifact") -> "NativeModel":
        """Loads the code of an artifact.

        Raises:
            BadData: it is for another target, or cannot be loaded.
        """
        from neurald.drivers.cpu.native.native_model import NativeModel
        from neurald.drivers.cpu.native.objects.llvm import CompilationFailed
        from neurald.drivers.cpu.native.thread_pool import Team, process

        if read.executable.target != self.target.name:
            raise BadData(
                f"the code is for {read.executable.target}, but this device compiles for {self.target.name}"
            )
        try:
            team = Team(process.step_program(self.target, read.step_program), self.threads)
            opened = read.opened
            if opened is not None and not opened.sizings:
                opened = None
            return NativeModel(read.executable, read.codes, read.constants, team, opened=opened)
        except CompilationFailed as error:
            raise BadData(f"the code of these cache files cannot be loaded: {error}") from None
