"""Compiles a step model once for any lengths of the dimensions that its inputs leave open."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from neurald.drivers.compiler.frontend.variants.open_dimensions import compiled_for_lengths
from neurald.drivers.compiler.ir.extents.attempts import ExtentAttempts
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.value import Shape
from neurald.drivers.compiler.memory.buffer_assignment import assign_buffers
from neurald.drivers.opencl.assembly import ALIGNMENT
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.program_text import KernelTexts
from neurald.drivers.opencl.codegen.render import render
from neurald.drivers.opencl.codegen.run_time_extents import reads_extents
from neurald.drivers.opencl.compiler import fused_graph, joined, lowered_graph
from neurald.drivers.opencl.kernels.equal_kernels import EqualKernels
from neurald.drivers.opencl.kernels.kernel_set import KernelSet
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.open_assembly import assembled_open
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.precision import Precision, preferred_precision
from neurald.drivers.opencl.runtime.open_executable import OpenExecutable
from neurald.hal.errors import Error
from neurald.hal.model.model import Model

_LOG = logging.getLogger(__name__)

#: An array, or an element, at an extent. Arrays in generated code have known lengths.
_ARRAY = re.compile(r"\w+ \w+\[[^\]]*\bextent\d")
#: Maximum number of candidates of a kernel that are tried for open lengths.
_MAX_CANDIDATES = 8
#: Names the attempt to compute parts of concatenations in place; those of kernels are their
#: numbers.
_JOINING = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledOpen:
    """An open executable, the contents of its constants, and the texts of its kernels."""

    opened: OpenExecutable
    constants: np.ndarray
    kernels: KernelTexts


def compile_open(
    model: Model,
    input_shapes: Mapping[int, Shape],
    facts: DeviceFacts,
    *,
    precision: Precision | None,
    is_fused: bool = True,
    kernel_set: KernelSet = KernelSet.ALL,
    require_wanted: Callable[[str], None] = lambda where: None,
) -> CompiledOpen | None:
    """Compiles a model for any lengths of its open dimensions.

    Args:
        model, facts, precision, is_fused, kernel_set, require_wanted: see `compile_model`.
        input_shapes: an example of input shapes, by operand, which affects for which other shapes
            the code is valid, and fast.

    Returns:
        None if it can only be compiled for these shapes; the log says why.

    Raises:
        Error: see `compile_model`.
    """
    if facts.images is not None:
        _LOG.info("not compiled for open dimensions: images have known sizes")
        return None
    compiler = _OpenCompiler(
        model=model,
        facts=facts,
        precision=precision or preferred_precision(facts),
        is_fused=is_fused,
        kernel_set=kernel_set,
        require_wanted=require_wanted,
    )
    found = compiled_for_lengths(model, input_shapes, compiler.attempt, _LOG)
    if found is None:
        return None
    scope, compiled = found
    pinned = [symbol for symbol in range(len(scope.hints)) if len(set(scope.bounds(symbol))) == 1]
    if pinned or not all(compiled.opened.symbols):
        _LOG.info("the code is only valid for these lengths: %s", scope.pins)
        return None
    _LOG.info("compiled for lengths %s", [scope.bounds(symbol) for symbol in range(len(scope.hints))])
    return compiled


@dataclass(frozen=True, kw_only=True, slots=True)
class _OpenCompiler:
    """Compiles a model for extents, again until everything that is attempted succeeds.

    Attributes:
        model, facts, precision, is_fused, kernel_set, require_wanted: see `compile_open`.
        attempts: what has failed, and is not attempted again.
    """

    model: Model
    facts: DeviceFacts
    precision: Precision
    is_fused: bool
    kernel_set: KernelSet
    require_wanted: Callable[[str], None]
    attempts: ExtentAttempts[int] = field(default_factory=ExtentAttempts)

    def attempt(self, scope: ExtentScope, symbolic: Mapping[int, Shape]) -> CompiledOpen | None:
        """Compiles the model for shapes with extents; returns None if it must be repeated."""
        failed = len(self.attempts.failed)
        lowered = lowered_graph(
            self.model,
            symbolic,
            self.facts,
            self.precision,
            kernel_set=self.kernel_set,
            require_wanted=self.require_wanted,
            scope=scope,
        )
        values = [*lowered.inputs, *(node.output for node in lowered.nodes)]
        graph = fused_graph(
            lowered,
            self.facts,
            self.precision,
            is_fused=self.is_fused,
            kernel_set=self.kernel_set,
            equal=EqualKernels(),
            join=lambda fused: self.attempts.make(scope, _JOINING, lambda: joined(fused)) or fused,
        )
        chosen = [
            (kernel, self._source(kernel, number, scope))
            for number, kernel in enumerate(graph.kernels)
            if kernel.output.count
        ]
        if len(self.attempts.failed) > failed:
            return None
        alignment = max(ALIGNMENT, self.facts.alignment_bytes)
        assignment = assign_buffers(graph, [source.arguments for _, source in chosen], alignment=alignment)
        counts = dict.fromkeys(each.count for each in (*values, *assignment.spans))
        opened, uses = assembled_open(self.model, assignment, chosen, counts, scope, alignment)
        return CompiledOpen(
            opened=opened,
            constants=assignment.constants,
            kernels=KernelTexts(uses=uses, has_fp64=self.facts.has_fp64),
        )

    def _source(self, kernel: Kernel, number: int, scope: ExtentScope) -> Source:
        self.require_wanted("before the code of a kernel for open lengths")
        fast = None if self.kernel_set is KernelSet.GENERIC else self._fast(kernel, number, scope)
        return fast or reads_extents(render(kernel), scope)

    def _fast(self, kernel: Kernel, number: int, scope: ExtentScope) -> Source | None:
        """Returns the most promising fast source of a kernel for open lengths, or None."""
        relaxed = self.precision is Precision.F16

        def make() -> Source | None:
            for found in islice(candidates(kernel, self.facts, relaxed=relaxed), _MAX_CANDIDATES):
                if found.workspace_bytes or found.adds or found.is_retargeted:
                    continue
                opened = reads_extents(found, scope)
                if not _ARRAY.search(opened.text):
                    return opened
            return None

        try:
            return self.attempts.make(scope, number, make)
        except (Error, MemoryError):
            raise
        except Exception as error:
            _LOG.debug("no fast kernel for open lengths: %s: %s", type(error).__name__, error, exc_info=error)
            return None
