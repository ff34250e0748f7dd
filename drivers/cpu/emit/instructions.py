"""The instructions of a function in LLVM's language, in loops: each is put as far outside of loops as its operands allow."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from neurald.drivers.cpu.target.routine import Subroutine

_NAME = re.compile(r"%[\w.]+")


@dataclass(slots=True, eq=False)
class _Scope:
    """A part of the function in which names are known: the whole of it, or the body of a loop."""

    depth: int
    lines: list[str] = field(default_factory=list)
    #: Whether what is around it is never executed without it.
    is_certain: bool = True


def _is_control(line: str) -> bool:
    """Whether a line begins or ends a block."""
    return line.endswith(":") or line.startswith("  br ")


def _by_turns(parts: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of each part in their order, one of each part by turns, as soon as what they use is there."""
    waiting = [deque((line, _NAME.findall(line)) for line in lines) for lines in parts]
    # A line that gives something begins with its name.
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


@dataclass(slots=True)
class Loop:
    """A loop that is being written.

    Attributes:
        index: the name of its counter, an i64.
        carried: the names of what is carried from one turn to the next, as it is when a turn begins.
        results: to be set before the loop ends: what the next turn begins with. After the loop they are what is left.
    """

    index: str
    carried: list[str]
    results: list[str] = field(default_factory=list)


class Instructions:
    """The instructions of one function, in the order in which they are asked for.

    Names begin with `%`. A name that did not come from here and is not one of `outside` is taken to be known only where the
    instruction that uses it is, so that such an instruction stays where it was asked for.

    Args:
        outside: names that are known in the whole function, as its parameters.

    Attributes:
        declarations: of the intrinsics that are called, see `Routine.declarations`.
        globals: definitions before the function, each a line.
        subroutines: that are called.
    """

    def __init__(self, outside: Iterable[str] = ()) -> None:
        self._scopes = [_Scope(0)]
        self._homes: dict[str, _Scope] = dict.fromkeys(outside, self._scopes[0])
        self._count = 0
        #: What was computed last by each text, and where that is known.
        self._known: dict[str, tuple[str, _Scope]] = {}
        self.declarations: set[str] = set()
        self.globals: list[str] = []
        self.subroutines: set[Subroutine] = set()

    @property
    def lines(self) -> list[str]:
        """The instructions outside of loops, and the loops that are complete."""
        return self._scopes[0].lines

    def new_name(self) -> str:
        """A name that is not used yet."""
        self._count += 1
        return f"%v{self._count}"

    def is_known(self, name: str) -> bool:
        """Whether a name can be used here: it was not computed in a loop that has ended, or that `outside` has left."""
        home = self._homes.get(name)
        return home is None or (home.depth < len(self._scopes) and self._scopes[home.depth] is home)

    def depth(self, *names: str) -> int:
        """In how many loops all of these names are known first."""
        return self._depth([each for each in names if each.startswith("%")])

    def _depth(self, names: Iterable[str]) -> int:
        depth, here = 0, len(self._scopes) - 1
        for each in names:
            home = self._homes.get(each)
            known = here if home is None else home.depth
            if known > depth:
                depth = known
        return depth

    def value(self, text: str) -> str:
        """The name of what an instruction gives that has no effects, and gives the same whenever it is executed.

        It may be executed where it is not needed, as before a condition that it was asked for under.
        """
        return self._shared(text, 0)

    def load(self, text: str) -> str:
        """The same for an instruction that reads memory which the function does not write.

        It is not put outside of `when`, or of a loop that may be empty: its address may be none there.
        """
        certain = [scope.depth for scope in self._scopes if not scope.is_certain]
        return self._shared(text, certain[-1] if certain else 0)

    def _shared(self, text: str, depth: int) -> str:
        """What a text gives, computed in no less than so many loops."""
        known = self._known.get(text)
        if known is not None:
            name, home = known
            if home.depth < len(self._scopes) and self._scopes[home.depth] is home:
                return name
        # Most of the time that it takes to write a kernel is spent here.
        depth = max(depth, self._depth(_NAME.findall(text)))
        scope = self._scopes[min(depth, len(self._scopes) - 1)]
        name = self._define(scope, text)
        self._known[text] = name, scope
        return name

    def fresh(self, text: str) -> str:
        """The name of what an instruction gives that must be executed where it was asked for."""
        return self._define(self._scopes[-1], text)

    def effect(self, text: str) -> None:
        """An instruction that gives nothing: a store, say."""
        self._scopes[-1].lines.append(f"  {text}")

    def call(self, subroutine: Subroutine, *arguments: str) -> None:
        """Calls a function of its own."""
        self.subroutines.add(subroutine)
        self.declarations.add(subroutine.declaration)
        typed = ", ".join(
            f"{kind} {each}" for kind, each in zip(subroutine.parameters, arguments, strict=True)
        )
        self.effect(f"call void @{subroutine.name}({typed})")

    def label(self, name: str) -> None:
        """Begins a block. `name` is without `%`."""
        self._scopes[-1].lines.append(f"{name}:")

    def _define(self, scope: _Scope, text: str) -> str:
        self._count += 1
        name = f"%v{self._count}"
        self._homes[name] = scope
        scope.lines.append(f"  {name} = {text}")
        return name

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Instructions that are executed only if an i1 holds; names from inside are not known after it."""
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
        """A loop with a counter from `first` to below `last`.

        Args:
            first, last: names or numbers, i64.
            carried: types, and what the first turn begins with.
            step: what the counter grows by.
            may_be_empty: whether there may be no turn at all; what is carried then is what `carried` says.
        """
        if first.isdecimal() and last.isdecimal() and int(first) < int(last) <= int(first) + step:
            # One turn: no loop.
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
        """Instructions of several parts by turns, so that a processor has others to execute while one part waits for results.

        Args:
            parts: write them. Their effects do not depend on each other; a part may share values that parts before it computed.
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
        before.extend(_by_turns(written))

    @contextmanager
    def outside(self, depth: int) -> Iterator[None]:
        """Instructions outside of all loops but the outer `depth` ones: they come before those that are being written."""
        kept = self._scopes[depth + 1 :]
        del self._scopes[depth + 1 :]
        yield
        self._scopes.extend(kept)
