"""Selection of boxes of each class, which lowers the scores of those that overlap a selected one.

Scratch memory has the end of the run of each row's image, the waiting boxes of a class and their
scores, the boxes found in an image, and for each class where these begin and how many of them are
among the best. Counters are in memory, too.
"""

import numpy as np

from neurald.drivers.compiler.ir.algorithm import SoftSelection
from neurald.drivers.compiler.ir.graph import Procedure
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.cpu.codegen.epilogue import arguments_of, parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.math import vector_math
from neurald.drivers.cpu.emit.vector import Vector, literal
from neurald.drivers.cpu.kernels.common.function import cost_ns, function_text
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.operations.detection.boxes import SuppressionKernel

#: Cycles for each score that is examined, and for each comparison of two boxes.
_LOOK_CYCLES, _OVERLAP_CYCLES = 2.0, 25.0
_WORD_BYTES = 4
#: The number of elements of each counter's memory.
_COUNTERS = ("free", "begin", "waiting", "found", "left", "moving")


def routine(kernel: Kernel, node: Procedure, algorithm: SoftSelection, target: Target) -> Routine:
    """Returns the routine of a kernel.

    Args:
        kernel: its output is not empty.
        node: its procedure, which may select a box.
        algorithm: the algorithm of the procedure.
        target: the target of the code.
    """
    arguments = arguments_of(kernel)
    code = Instructions(parameter_names(arguments))
    writer = _SelectionWriter(kernel, node, algorithm, target, code)
    writer.write()
    rows, classes = node.inputs[1].shape
    selected = min(writer.most, rows)
    cycles = rows * classes * _LOOK_CYCLES + classes * selected * rows * _OVERLAP_CYCLES / 8
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=1,
        cost_ns=cost_ns(cycles, arguments),
        declarations=frozenset(code.declarations),
        scratch_bytes=writer.scratch_bytes,
        label=f"boxes of {rows} rows and {classes - 1} classes",
        operations=kernel.operations,
    )


class _SelectionWriter:
    def __init__(
        self, kernel: Kernel, node: Procedure, algorithm: SoftSelection, target: Target, code: Instructions
    ) -> None:
        self._rule, self._target, self._code = algorithm.rule, target, code
        self._rows, self._classes = node.inputs[1].shape
        self._bound = algorithm.bound(self._rows, self._classes)
        pointers = pointer_names(arguments_of(kernel))
        self._output = pointers[kernel.output]
        self._boxes, self._scores, self._images = (pointers[value] for value in node.inputs)
        self._places: dict[str, int] = {}
        self.scratch_bytes = 0
        found = self._rows * (self._classes - 1)
        for name, count in (
            *((name, 1) for name in _COUNTERS),
            ("ends", self._rows),
            ("waiting rows", self._rows),
            ("waiting scores", self._rows),
            ("found rows", found),
            ("found scores", found),
            ("found keys", found),
            ("begins", self._classes + 1),
            ("taken", self._classes),
        ):
            self._places[name] = self.scratch_bytes
            self.scratch_bytes += count * _WORD_BYTES

    @property
    def most(self) -> int:
        """The maximum number of boxes of a class in an image."""
        return self._rows if self._rule.limit is None else min(self._rows, self._rule.limit)

    def write(self) -> None:
        """Writes the instructions."""
        code = self._code
        with code.when(code.value("icmp slt i64 %begin, %end")):
            self._find_ends()
            self._set("free", "0")
            self._set("begin", "0")
            with code.loop("0", str(self._rows), may_be_empty=True):
                begin = self._get("begin")
                with code.when(code.fresh(f"icmp slt i64 {begin}, {self._rows}")):
                    end = self._element("ends", begin)
                    self._select(begin, end)
                    self._set("begin", end)
            at = code.value(f"getelementptr i32, ptr {self._output}, i64 {3 * self._bound}")
            code.effect(f"store i32 {self._short(self._get('free'))}, ptr {at}")

    def _find_ends(self) -> None:
        """Finds where the run of each row's image ends, from the last row to the first."""
        code, last = self._code, self._rows - 1
        self._put("ends", str(last), str(self._rows))
        with code.loop("0", str(last), may_be_empty=True) as loop:
            row = code.fresh(f"sub i64 {last - 1}, {loop.index}")
            following = code.fresh(f"add i64 {row}, 1")
            own, other = (self._load("i32", self._images, each) for each in (row, following))
            end = self._element("ends", following)
            same = code.fresh(f"icmp eq i32 {own}, {other}")
            self._put("ends", row, code.fresh(f"select i1 {same}, i64 {end}, i64 {following}"))

    def _select(self, begin: str, end: str) -> None:
        """Selects boxes of the rows of an image."""
        code = self._code
        self._set("found", "0")
        with code.loop("1", str(self._classes)) as loop:
            kind = loop.index
            self._put("begins", kind, self._get("found"))
            self._collect(kind, begin, end)
            with code.loop("0", str(self.most), may_be_empty=True):
                waiting = self._get("waiting")
                with code.when(code.fresh(f"icmp sgt i64 {waiting}, 0")):
                    self._take(kind, waiting)
            self._sort(self._element("begins", kind), self._get("found"))
        self._put("begins", str(self._classes), self._get("found"))
        self._rank()
        self._store()

    def _collect(self, kind: str, begin: str, end: str) -> None:
        """Collects the boxes of a class whose scores exceed the limit."""
        code = self._code
        self._set("waiting", "0")
        with code.loop(begin, end, may_be_empty=True) as loop:
            at = code.fresh(f"mul i64 {loop.index}, {self._classes}")
            score = self._load("float", self._scores, code.fresh(f"add i64 {at}, {kind}"))
            limit = self._real(self._rule.score_limit)
            with code.when(code.fresh(f"fcmp ogt float {score}, {limit}")):
                count = self._get("waiting")
                self._put("waiting rows", count, loop.index)
                self._put_real("waiting scores", count, score)
                self._set("waiting", code.fresh(f"add i64 {count}, 1"))

    def _take(self, kind: str, waiting: str) -> None:
        """Selects the first waiting box with the best score, and lowers the others' scores."""
        code = self._code
        first = self._real_element("waiting scores", "0")
        with code.loop("1", waiting, (("i64", "0"), ("float", first)), may_be_empty=True) as loop:
            best, score = loop.carried
            other = self._real_element("waiting scores", loop.index)
            # NaN is better than all numbers.
            greater = code.fresh(f"fcmp ugt float {other}, {score}")
            number = code.fresh(f"fcmp ord float {score}, {score}")
            better = code.fresh(f"and i1 {greater}, {number}")
            loop.results = [
                code.fresh(f"select i1 {better}, i64 {loop.index}, i64 {best}"),
                code.fresh(f"select i1 {better}, float {other}, float {score}"),
            ]
        best, score = loop.results
        row = self._element("waiting rows", best)
        place = self._get("found")
        self._put("found rows", place, row)
        self._put_real("found scores", place, score)
        self._put("found keys", place, self._key(score))
        self._set("found", code.fresh(f"add i64 {place}, 1"))
        corners = self._corners(row, kind)
        self._set("left", "0")
        with (
            code.loop("0", waiting, may_be_empty=True) as others,
            code.when(code.fresh(f"icmp ne i64 {others.index}, {best}")),
        ):
            other_row = self._element("waiting rows", others.index)
            other = self._real_element("waiting scores", others.index)
            factor = self._decay(self._overlap(corners, self._corners(other_row, kind)))
            lowered = code.fresh(f"fmul float {other}, {factor}")
            with code.when(code.fresh(f"fcmp uge float {lowered}, {self._real(self._rule.least)}")):
                left = self._get("left")
                self._put("waiting rows", left, other_row)
                self._put_real("waiting scores", left, lowered)
                self._set("left", code.fresh(f"add i64 {left}, 1"))
        self._set("waiting", self._get("left"))

    def _sort(self, begin: str, end: str) -> None:
        """Sorts boxes of a class by descending scores; they are nearly always in order."""
        code = self._code
        with code.loop(code.fresh(f"add i64 {begin}, 1"), end, may_be_empty=True) as loop:
            at = loop.index
            key, before = (self._element("found keys", each) for each in (at, code.fresh(f"sub i64 {at}, 1")))
            with code.when(code.fresh(f"icmp sgt i64 {key}, {before}")):
                row, score = self._element("found rows", at), self._real_element("found scores", at)
                self._set("moving", at)
                # Boxes before it are moved until one is at least as good.
                with code.loop("0", code.fresh(f"sub i64 {at}, {begin}"), may_be_empty=True) as moved:
                    place = code.fresh(f"sub i64 {at}, {moved.index}")
                    previous = code.fresh(f"sub i64 {place}, 1")
                    other = self._element("found keys", previous)
                    is_next = code.fresh(f"icmp eq i64 {self._get('moving')}, {place}")
                    is_worse = code.fresh(f"icmp sgt i64 {key}, {other}")
                    with code.when(code.fresh(f"and i1 {is_next}, {is_worse}")):
                        self._put("found keys", place, other)
                        self._put("found rows", place, self._element("found rows", previous))
                        self._put_real("found scores", place, self._real_element("found scores", previous))
                        self._set("moving", previous)
                place = self._get("moving")
                self._put("found keys", place, key)
                self._put("found rows", place, row)
                self._put_real("found scores", place, score)

    def _rank(self) -> None:
        """Finds how many boxes of each class are among the best of the image."""
        code, found = self._code, self._get("found")
        limit = self._bound if self._rule.limit is None else self._rule.limit
        fits = code.fresh(f"icmp sle i64 {found}, {limit}")
        with code.loop("1", str(self._classes)) as loop:
            begin, end = (
                self._element("begins", each) for each in (loop.index, code.fresh(f"add i64 {loop.index}, 1"))
            )
            count = code.fresh(f"sub i64 {end}, {begin}")
            self._put("taken", loop.index, code.fresh(f"select i1 {fits}, i64 {count}, i64 0"))
        with code.when(code.fresh(f"icmp sgt i64 {found}, {limit}")), code.loop("0", str(limit)):
            lowest = str(-(1 << 62))
            with code.loop("1", str(self._classes), (("i64", "1"), ("i64", lowest))) as loop:
                best, best_key = loop.carried
                begin, end = (
                    self._element("begins", each)
                    for each in (loop.index, code.fresh(f"add i64 {loop.index}, 1"))
                )
                place = code.fresh(f"add i64 {begin}, {self._element('taken', loop.index)}")
                has_more = code.fresh(f"icmp slt i64 {place}, {end}")
                # The key of the first box is read instead of one beyond the last.
                key = self._element("found keys", code.fresh(f"select i1 {has_more}, i64 {place}, i64 0"))
                greater = code.fresh(f"icmp sgt i64 {key}, {best_key}")
                better = code.fresh(f"and i1 {has_more}, {greater}")
                loop.results = [
                    code.fresh(f"select i1 {better}, i64 {loop.index}, i64 {best}"),
                    code.fresh(f"select i1 {better}, i64 {key}, i64 {best_key}"),
                ]
            best = loop.results[0]
            taken = self._element("taken", best)
            self._put("taken", best, code.fresh(f"add i64 {taken}, 1"))

    def _store(self) -> None:
        """Stores the best boxes of each class."""
        code = self._code
        with code.loop("1", str(self._classes)) as loop:
            begin, count = self._element("begins", loop.index), self._element("taken", loop.index)
            kind = self._short(loop.index)
            with code.loop("0", count, may_be_empty=True) as boxes:
                free, place = self._get("free"), code.fresh(f"add i64 {begin}, {boxes.index}")
                row = self._short(self._element("found rows", place))
                score = code.fresh(f"bitcast float {self._real_element('found scores', place)} to i32")
                for part, value in enumerate((row, kind, score)):
                    at = code.fresh(f"add i64 {free}, {part * self._bound}")
                    pointer = code.fresh(f"getelementptr i32, ptr {self._output}, i64 {at}")
                    code.effect(f"store i32 {value}, ptr {pointer}")
                self._set("free", code.fresh(f"add i64 {free}, 1"))

    def _corners(self, row: str, kind: str) -> list[str]:
        code = self._code
        at = code.fresh(f"add i64 {code.fresh(f'mul i64 {row}, {self._classes}')}, {kind}")
        first = code.fresh(f"mul i64 {at}, 4")
        return [self._load("float", self._boxes, code.fresh(f"add i64 {first}, {each}")) for each in range(4)]

    def _overlap(self, box: list[str], other: list[str]) -> str:
        """Returns intersection over union, see `neurald.hal.operations.detection.suppression`."""
        area, own = self._area(other), self._area(box)
        sides = []
        for side in range(2):
            end = self._extreme("minimum", other[2 + side], box[2 + side])
            start = self._extreme("maximum", other[side], box[side])
            sides.append(self._extreme("maximum", self._binary("fsub", end, start), "0.0"))
        shared = self._binary("fmul", *sides)
        union = self._binary("fsub", self._binary("fadd", area, own), shared)
        ratio = self._binary("fdiv", shared, union)
        has_union = self._code.fresh(f"fcmp une float {union}, 0.0")
        return self._code.fresh(f"select i1 {has_union}, float {ratio}, float 0.0")

    def _area(self, box: list[str]) -> str:
        width, height = (self._binary("fsub", box[2 + side], box[side]) for side in range(2))
        return self._binary("fmul", width, height)

    def _decay(self, overlap: str) -> str:
        """Returns the factor of the score of a box that overlaps the selected one this much."""
        code = self._code
        if self._rule.kernel is SuppressionKernel.GAUSSIAN:
            negative = code.fresh(f"fneg float {overlap}")
            square = self._binary("fmul", negative, overlap)
            exponent = self._binary("fdiv", square, self._real(self._rule.sigma))
            return vector_math.exp(Vector(code, self._target, 1), "float", exponent)
        is_little = code.fresh(f"fcmp olt float {overlap}, {self._real(self._rule.iou_limit)}")
        is_hard = self._rule.kernel is SuppressionKernel.HARD
        lowered = "0.0" if is_hard else self._binary("fsub", "1.0", overlap)
        return code.fresh(f"select i1 {is_little}, float 1.0, float {lowered}")

    def _key(self, score: str) -> str:
        """Returns an i64 of the order of a score, with NaN below all numbers."""
        code = self._code
        bits = code.fresh(f"bitcast float {score} to i32")
        flipped = code.fresh(f"xor i32 {bits}, 2147483647")
        is_negative = code.fresh(f"icmp slt i32 {bits}, 0")
        key = code.fresh(f"select i1 {is_negative}, i32 {flipped}, i32 {bits}")
        is_zero = code.fresh(f"fcmp oeq float {score}, 0.0")
        key = code.fresh(f"select i1 {is_zero}, i32 0, i32 {key}")
        is_nan = code.fresh(f"fcmp uno float {score}, {score}")
        key = code.fresh(f"select i1 {is_nan}, i32 -2147483648, i32 {key}")
        return code.fresh(f"sext i32 {key} to i64")

    def _binary(self, operation: str, first: str, second: str) -> str:
        return self._code.fresh(f"{operation} float {first}, {second}")

    def _extreme(self, which: str, first: str, second: str) -> str:
        """Returns the minimum or maximum; NaN if either is NaN."""
        self._code.declarations.add(f"declare float @llvm.{which}.f32(float, float)")
        return self._code.fresh(f"call float @llvm.{which}.f32(float {first}, float {second})")

    def _real(self, number: float) -> str:
        return literal("float", float(np.float32(number)))

    def _short(self, name: str) -> str:
        return self._code.fresh(f"trunc i64 {name} to i32")

    def _load(self, kind: str, pointer: str, index: str) -> str:
        at = self._code.fresh(f"getelementptr {kind}, ptr {pointer}, i64 {index}")
        return self._code.fresh(f"load {kind}, ptr {at}, align {_WORD_BYTES}")

    def _place(self, name: str, index: str) -> str:
        base = self._code.value(f"getelementptr i8, ptr %scratch, i64 {self._places[name]}")
        return self._code.fresh(f"getelementptr i32, ptr {base}, i64 {index}")

    def _element(self, name: str, index: str) -> str:
        """Returns an integer in scratch memory as i64."""
        short = self._code.fresh(f"load i32, ptr {self._place(name, index)}")
        return self._code.fresh(f"sext i32 {short} to i64")

    def _put(self, name: str, index: str, value: str) -> None:
        place = self._place(name, index)
        short = value if not value.startswith("%") else self._short(value)
        self._code.effect(f"store i32 {short}, ptr {place}")

    def _real_element(self, name: str, index: str) -> str:
        return self._code.fresh(f"load float, ptr {self._place(name, index)}")

    def _put_real(self, name: str, index: str, value: str) -> None:
        self._code.effect(f"store float {value}, ptr {self._place(name, index)}")

    def _get(self, name: str) -> str:
        return self._element(name, "0")

    def _set(self, name: str, value: str) -> None:
        self._put(name, "0", value)
