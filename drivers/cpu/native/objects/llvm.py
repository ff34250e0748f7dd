"""Compiles LLVM IR to object code, and loads object code.

llvmlite is imported on first use, because that takes a while and code that was already linked does
not need it.
"""

import atexit
import contextlib
import logging
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from neurald.drivers.cpu.native.objects.image import LoadedImage, decoded, is_image
from neurald.drivers.cpu.target.processor import MACHINE
from neurald.drivers.cpu.target.target import Target
from neurald.hal.errors import BadData
from neurald.hal.process.exit import MAX_EXIT_S
from neurald.hal.process.fork import hold_over_fork

_LOG = logging.getLogger(__name__)

#: Serialises compilation and linking, because not all of LLVM is thread-safe. Forks wait until it
#: is free.
_lock = threading.RLock()
hold_over_fork(_lock)


def _keep_lock() -> None:
    """Keeps other threads out of LLVM from now on.

    A daemon thread that compiles while the process exits would use objects that LLVM destroys.
    """
    _lock.acquire(timeout=MAX_EXIT_S)


atexit.register(_keep_lock)


#: Size of the longest text whose loops LLVM's strength reduction improves. It makes short loops,
#: such as those of matrix-vector products, up to 5 % faster. In long ones, such as those of tiles
#: that are written out, it takes up to two fifths of the time to compile them and brings nothing.
MAX_REDUCED_BYTES = 10_000
#: How a text declares a subroutine. One that calls any has its short loops there.
SUBROUTINE_DECLARATION: Final = "declare void @s"


#: Version of LLVM for which `leave_out_passes` was measured, and passes that changed the code of 4
#: of 117 kernels, by single instructions, and took a twentieth of the time to emit code.
_MEASURED_VERSION: Final = 22
_IDLE_PASSES: Final = (
    "disable-cfi-fixup",
    "disable-early-ifcvt",
    "disable-early-taildup",
    "disable-mergeicmps",
    "disable-partial-libcall-inlining",
    "disable-postra-machine-licm",
    "disable-postra-machine-sink",
    "disable-replace-with-vec-lib",
    "disable-select-optimize",
    "disable-tail-duplicate",
    "no-stack-coloring",
)


class CompilationFailed(Exception):
    """LLVM rejects a module, or code cannot be linked, because of a bug in the code generator.

    Attributes:
        unit: name of the rejected unit; empty if unknown.
    """

    def __init__(self, message: str, unit: str = "") -> None:
        super().__init__(message)
        self.unit = unit


@cache
def _binding() -> Any:
    """Returns llvmlite's binding, initialised for this machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # Kernels contain instructions that LLVM does not generate.
    llvm.initialize_native_asmparser()
    return llvm


def leave_out_passes() -> None:
    """Leaves out passes that do next to nothing for kernels.

    This is for processes that only compile: it affects all users of LLVM in this process. An option
    that a version of LLVM does not know ends the process, so others keep their passes.
    """
    llvm = _binding()
    if llvm.llvm_version_info[0] == _MEASURED_VERSION:
        for option in _IDLE_PASSES:
            llvm.set_option("", f"-{option}")


def _is_reduced(text: str) -> bool:
    """Returns True if strength reduction is worth its time; see `MAX_REDUCED_BYTES`."""
    return len(text) <= MAX_REDUCED_BYTES and SUBROUTINE_DECLARATION not in text


@contextlib.contextmanager
def _strength_reduction(llvm: Any, *, is_enabled: bool) -> Iterator[None]:
    """Enables or disables LLVM's strength reduction of loops, for this process, within the context.

    The option is process-wide; other users of LLVM may want what it reduces.

    Args:
        llvm: llvmlite's binding.
        is_enabled: False to leave it out.
    """
    if is_enabled:
        yield
        return
    llvm.set_option("", "-disable-lsr=true")
    try:
        yield
    finally:
        llvm.set_option("", "-disable-lsr=false")


class TargetMachine:
    """Compiles IR for a target.

    Args:
        target: the target.
        triple: LLVM's name of the kind of machine; "" for that of this machine. LLVM must be
            initialised for others.
    """

    def __init__(self, target: Target, triple: str = "") -> None:
        llvm = _binding()
        kind = llvm.Target.from_triple(triple) if triple else llvm.Target.from_default_triple()
        self._machine = kind.create_target_machine(
            cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
        )

    @staticmethod
    def of(target: Target) -> "TargetMachine":
        """Returns the shared machine of a target."""
        with _lock:
            return _machine(target)

    def object_code(self, text: str) -> bytes:
        """Compiles a module to object code.

        Raises:
            CompilationFailed: the text is invalid.
        """
        llvm = _binding()
        with _lock:
            try:
                module = llvm.parse_assembly(text)
                module.verify()
                with _strength_reduction(llvm, is_enabled=_is_reduced(text)):
                    code: bytes = self._machine.emit_object(module)
            except RuntimeError as error:
                raise CompilationFailed(f"LLVM: {error}") from None
            return code


@cache
def _machine(target: Target) -> TargetMachine:
    return TargetMachine(target)


class LoadedCode:
    """Object code loaded into this process for the lifetime of this object.

    Args:
        codes: objects, which may call functions of each other and of the process; or one image
            linked from them.
        names: functions that will be called.

    Attributes:
        addresses: the addresses of these functions.

    Raises:
        CompilationFailed: a function is missing or undefined.
        OutOfMemory: there is no memory for the code.
    """

    def __init__(self, codes: Iterable[bytes], names: Sequence[str]) -> None:
        self._loaded: LoadedImage | _Library | None = None
        self.addresses: Mapping[str, int] = MappingProxyType({})
        if not names:
            return
        codes = link_image(codes)
        if is_image(codes[0]):
            try:
                self._loaded = LoadedImage(decoded(codes[0]), names)
            except BadData as error:
                raise CompilationFailed(f"linking: {error}") from None
        elif MACHINE == "aarch64":
            # LLVM's linker aborts the process if it has placed sections too far apart.
            raise CompilationFailed("linking: the objects need LLVM's linker, which is not safe on aarch64")
        else:
            self._loaded = _Library(codes, names)
        self.addresses = self._loaded.addresses

    @staticmethod
    def of_image(code: bytes) -> "LoadedCode":
        """Loads an encoded image, of which all functions may be called.

        Raises:
            BadData: it is damaged.
            CompilationFailed, OutOfMemory: see the class.
        """
        return LoadedCode((code,), tuple(decoded(code).functions))

    def keep_forever(self) -> None:
        """Leaves the code in memory when this object is freed."""
        if self._loaded is not None:
            self._loaded.keep_forever()


def link_image(codes: Iterable[bytes]) -> tuple[bytes, ...]:
    """Links objects to one image that loads without LLVM.

    Returns the objects unchanged if only LLVM can link them.
    """
    objects = tuple(codes)
    if len(objects) == 1 and is_image(objects[0]):
        return objects
    from neurald.drivers.cpu.native.objects.elf_architecture import NotLinkable
    from neurald.drivers.cpu.native.objects.elf_linker import is_linkable_here, link

    if not is_linkable_here():
        return objects
    try:
        return (link(objects).encoded(),)
    except NotLinkable as error:
        _LOG.info("LLVM links the code, because the built-in linker cannot: %s", error)
        return objects


class _Library:
    """Objects linked by LLVM, for everything that `elf_linker` does not support.

    Args:
        codes, names: see `LoadedCode`.

    Raises:
        CompilationFailed: a function is missing or undefined.
    """

    def __init__(self, codes: Iterable[bytes], names: Sequence[str]) -> None:
        llvm = _binding()
        builder = llvm.JITLibraryBuilder().add_current_process()
        for code in codes:
            builder.add_object_img(code)
        for name in names:
            builder.export_symbol(name)
        with _lock:
            # Each library gets its own linker, because a linker retains memory for every library it
            # links.
            linker = llvm.create_lljit_compiler()
            try:
                library = builder.link(linker, "step")
                self.addresses = MappingProxyType({name: library[name] for name in names})
            except RuntimeError as error:
                linker.close()
                raise CompilationFailed(f"linking: {error}") from None
            self._unload = weakref.finalize(self, _unload, library, linker)
            # At process exit threads may still run the code.
            self._unload.atexit = False
            self._library = library

    def keep_forever(self) -> None:
        """See `LoadedCode.keep_forever`."""
        self._library.detach()
        _forever.append(self._unload.detach())


#: References that keep permanently loaded code alive.
_forever: list[Any] = []


def _unload(library: Any, linker: Any) -> None:
    with _lock:
        library.close()
        linker.close()
