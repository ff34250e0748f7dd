"""Writer of LLVM instructions, which hoists each as far out of loops as its operands allow."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct, field

from neurald.drivers.compiler.ir.extents.text import NAME_PREFIX
from neurald.drivers.cpu.target.routine import Subroutine

_NAME = re.compile(r"%[\w.]+")


class _Scope(Struct, eq=False):
    """A scope of names: the function, or the body of a loop or condition."""

    depth: int
    lines: list[str] = field(default_factory=list)
    #: True if the scope is executed whenever its parent is.
    is_certain: bool = True


def _is_control(line: str) -> bool:
    """Returns True if a line begins or ends a basic block."""
    return line.endswith(":") or line.startswith("  br ")


def _round_robin(parts: Sequence[Sequence[str]]) -> Iterator[str]:
    """Interleaves the lines of several parts round-robin, respecting dependencies."""
    waiting = [deque((line, _NAME.findall(line)) for line in lines) for lines in parts]
    # A line that defines a name begins with it.
    missing = {names[0] for lines in waiting for line, names in lines if line.startswith("  %")}
    while any(waiting):
        for lines in waiting:
            if not lines:
                continue
            line, names = lines[0]
            gives = line.startswith("  %")
            if missing.isdisjoint(names[1:] if gives else names):
                lines.popleft()
                yield line
                if gives:
                    missing.discard(names[0])


class Loop(Struct):
    """A loop that is being written.

    Attributes:
        index: the name of its counter, an i64.
        carried: names of the loop-carried values at the start of an iteration.
        results: loop-carried values for the next iteration, set before the loop ends. After the
        loop: the final values.
    """

    index: str
    carried: list[str]
    results: list[str] = field(default_factory=list)


class Instructions:
    """The instructions of one function, in program order.

    Names begin with `%`. A name that was not defined here and is not in `outside` is assumed to be
    visible only at the instruction that uses it, which therefore is not hoisted.

    Args:
        outside: names visible in the whole function, such as its parameters.

    Attributes:
        declarations: declarations of called intrinsics; see `Routine.declarations`.
        globals: definitions before the function, one line each.
        subroutines: called functions.
    """

    def __init__(self, outside: Iterable[str] = ()) -> None:
        self._scopes = [_Scope(0)]
        self._homes: dict[str, _Scope] = dict.fromkeys(outside, self._scopes[0])
        self._count = 0
        #: For each instruction text, its latest result and the scope of that.
        self._known: dict[str, tuple[str, _Scope]] = {}
        self.declarations: set[str] = set()
        self.globals: list[str] = []
        self.subroutines: set[Subroutine] = set()

    @property
    def lines(self) -> list[str]:
        """The instructions outside loops, and completed loops."""
        return self._scopes[0].lines

    def new_name(self) -> str:
        """Returns an unused name."""
        self._count += 1
        return f"%v{self._count}"

    def is_known(self, name: str) -> bool:
        """Returns True if a name is visible here.

        It is not visible after its scope has ended, nor where `outside` has left that scope.
        """
        home = self._homes.get(name)
        return home is None or (home.depth < len(self._scopes) and self._scopes[home.depth] is home)

    def depth(self, *names: str) -> int:
        """Returns the loop depth at which all of these names are visible."""
        return self._depth([each for each in names if each.startswith("%")])

    def _depth(self, names: Iterable[str]) -> int:
        depth, here = 0, len(self._scopes) - 1
        for each in names:
            home = self._homes.get(each)
            known = here if home is None else home.depth
            if home is None and each.startswith(NAME_PREFIX):
                # Extents are visible everywhere.
                known = 0
            if known > depth:
                depth = known
                if known >= here:
                    break
        return depth

    def value(self, text: str) -> str:
        """Returns the result of a pure instruction, hoisted and shared.

        The instruction may be executed speculatively, for example before the condition that guards
        it.
        """
        return self._shared(text, 0)

    def load(self, text: str) -> str:
        """Returns the result of a load from memory that the function does not write; see `value`.

        It is not hoisted out of `when` or a loop that may be empty, where its address may be
        invalid.
        """
        certain = [scope.depth for scope in self._scopes if not scope.is_certain]
        return self._shared(text, certain[-1] if certain else 0)

    def _shared(self, text: str, depth: int) -> str:
        """Returns the shared result of an instruction at this loop depth or deeper."""
        known = self._known.get(text)
        if known is not None:
            name, home = known
            if home.depth < len(self._scopes) and self._scopes[home.depth] is home:
                return name
        # Code generation spends most of its time here.
        depth = max(depth, self._depth(_NAME.findall(text)))
        scope = self._scopes[min(depth, len(self._scopes) - 1)]
        name = self._define(scope, text)
        self._known[text] = name, scope
        return name

    def fresh(self, text: str) -> str:
        """Returns the result of an instruction that must stay where it is written."""
        return self._define(self._scopes[-1], text)

    def effect(self, text: str) -> None:
        """Writes an instruction without a result, such as a store."""
        self._scopes[-1].lines.append(f"  {text}")

    def call(self, subroutine: Subroutine, *arguments: str) -> None:
        """Calls a subroutine."""
        self.subroutines.add(subroutine)
        self.declarations.add(subroutine.declaration)
        typed = ", ".join(
            f"{kind} {each}" for kind, each in zip(subroutine.parameters, arguments, strict=True)
        )
        self.effect(f"call void @{subroutine.name}({typed})")

    def label(self, name: str) -> None:
        """Begins a basic block. `name` has no `%`."""
        self._scopes[-1].lines.append(f"{name}:")

    def _define(self, scope: _Scope, text: str) -> str:
        self._count += 1
        name = f"%v{self._count}"
        self._homes[name] = scope
        scope.lines.append(f"  {name} = {text}")
        return name

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Writes instructions under a condition (i1).

        Names defined inside are not visible after it.
        """
        stem = self.new_name()[1:]
        scope = _Scope(self._scopes[-1].depth + 1, is_certain=False)
        self._scopes.append(scope)
        yield
        self._scopes.pop()
        lines = self._scopes[-1].lines
        lines.append(f"  br i1 {condition}, label %{stem}.then, label %{stem}.after")
        lines.append(f"{stem}.then:")
        lines.extend(scope.lines)
        lines.append(f"  br label %{stem}.after")
        lines.append(f"{stem}.after:")

    def replaced(self, condition: str, kind: str, value: str, compute: Callable[[], str]) -> str:
        """Returns a value, or what is computed instead under a condition (i1) that is rare.

        Args:
            condition: the condition.
            kind: the type of the value.
            value: the value.
            compute: writes instructions, and returns what is taken in the place of the value.
        """
        stem = self.new_name()[1:]
        scope = _Scope(self._scopes[-1].depth + 1, is_certain=False)
        self._scopes.append(scope)
        other = compute()
        self._scopes.pop()
        self._scopes[-1].lines += [
            f"  br label %{stem}.before",
            f"{stem}.before:",
            f"  br i1 {condition}, label %{stem}.then, label %{stem}.after",
            f"{stem}.then:",
            *scope.lines,
            f"  br label %{stem}.last",
            f"{stem}.last:",
            f"  br label %{stem}.after",
            f"{stem}.after:",
        ]
        return self.fresh(f"phi {kind} [ {value}, %{stem}.before ], [ {other}, %{stem}.last ]")

    @contextmanager
    def loop(
        self,
        first: str,
        last: str,
        carried: Sequence[tuple[str, str]] = (),
        *,
        step: int = 1,
        may_be_empty: bool = False,
    ) -> Iterator[Loop]:
        """Writes a loop with a counter from `first` to below `last`.

        Args:
            first, last: names or numbers, i64.
            carried: types and initial values of loop-carried values.
            step: increment of the counter.
            may_be_empty: True if there may be no iteration; the results are then the initial
                values.
        """
        if first.isdecimal() and last.isdecimal() and int(first) < int(last) <= int(first) + step:
            # A single iteration needs no loop.
            yield Loop(index=first, carried=[start for _, start in carried])
            return
        stem = self.new_name()[1:]
        scope = _Scope(self._scopes[-1].depth + 1, is_certain=not may_be_empty)
        loop = Loop(index=self.new_name(), carried=[self.new_name() for _ in carried])
        for name in (loop.index, *loop.carried):
            self._homes[name] = scope
        self._scopes.append(scope)
        yield loop
        self._scopes.pop()
        outer = self._scopes[-1]
        following = self.new_name()
        begin = [(loop.index, "i64", first, following)]
        begin += [
            (name, kind, start, result)
            for name, (kind, start), result in zip(loop.carried, carried, loop.results, strict=True)
        ]
        phis = [
            f"  {name} = phi {kind} [ {start}, %{stem}.before ], [ {result}, %{stem}.next ]"
            for name, kind, start, result in begin
        ]
        lines = [f"  br label %{stem}.before", f"{stem}.before:", f"  br label %{stem}", f"{stem}:", *phis]
        if may_be_empty:
            lines += [
                f"  {following}.more = icmp slt i64 {loop.index}, {last}",
                f"  br i1 {following}.more, label %{stem}.turn, label %{stem}.after",
                f"{stem}.turn:",
            ]
        lines += [
            *scope.lines,
            f"  br label %{stem}.next",
            f"{stem}.next:",
            f"  {following} = add i64 {loop.index}, {step}",
        ]
        if may_be_empty:
            lines.append(f"  br label %{stem}")
            loop.results = list(loop.carried)
        else:
            lines.append(f"  {following}.more = icmp slt i64 {following}, {last}")
            lines.append(f"  br i1 {following}.more, label %{stem}, label %{stem}.after")
        outer.lines.extend((*lines, f"{stem}.after:"))
        for name in loop.results:
            if name.startswith("%") and not self.is_known(name):
                self._homes[name] = outer

    def interleaved(self, parts: Iterable[Callable[[], None]]) -> None:
        """Interleaves instructions of several parts, to hide latencies.

        Args:
            parts: write the instructions. Their effects are independent; a part may share values
                that earlier parts computed.
        """
        scope = self._scopes[-1]
        before, written = scope.lines, []
        for write in parts:
            scope.lines = []
            write()
            written.append(scope.lines)
        scope.lines = before
        if any(_is_control(line) for lines in written for line in lines):
            before.extend(line for lines in written for line in lines)
            return
        before.extend(_round_robin(written))

    @contextmanager
    def outside(self, depth: int) -> Iterator[None]:
        """Writes instructions before the innermost loops, inside the outer `depth` ones."""
        kept = self._scopes[depth + 1 :]
        del self._scopes[depth + 1 :]
        yield
        self._scopes.extend(kept)
