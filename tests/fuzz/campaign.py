"""Fuzzes one target in worker processes; keeps its progress, corpus and findings in a folder."""

import contextlib
import hashlib
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.corpus import Corpus
from fuzz.coverage import NewLines
from fuzz.shrinking import shrunk
from fuzz.target import Finding, Target, as_text, from_text, kind_of, target_of
from support.long_runs.case_pool import Case, Ended, Result, run_cases, serve
from support.long_runs.progress import Progress

_SCRIPT = Path(__file__).resolve().parent / "run.py"
#: One of this many cases starts from the corpus, if there is one.
_FROM_CORPUS = 2
#: Limits on the number of attempts to shrink an input with a finding, and on their seconds.
_PROBES, _SHRINKING_S = 150, 120.0
#: Number of findings of one kind that are kept; more are only counted.
_KEPT = 3


@dataclass(slots=True)
class Report:
    """Results of a campaign.

    Attributes:
        outcomes: the number of cases by outcome.
        findings: failures, each with the file of an input that shows it.
    """

    target: str
    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[Mapping[str, Any]] = field(default_factory=list)
    corpus: int = 0
    seconds: float = 0.0


def work(target: Target) -> None:
    """Runs a worker: executes given inputs, or inputs derived from given ones."""
    seeds = target.seeds()
    lines = NewLines()

    def answer(case: Case) -> Result:
        content, what = content_of(case, target, seeds)
        lines.take()
        result = {**_judged(lambda: target.run(content)), "what": what}
        new = lines.take()
        return {**result, "new_lines": new, "content": as_text(content)} if new else result

    try:
        serve(answer, address_space=target.address_space)
    finally:
        with contextlib.suppress(Finding):
            target.close()


def _judged(run: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"outcome": run()}
    except Finding as finding:
        return {"outcome": "FINDING", "why": str(finding)}
    except MemoryError:
        return {"outcome": "no memory"}
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}, in {where.name}"
        return {"outcome": "FINDING", "why": f"{type(error).__name__}: {error} ({place})"}


def content_of(case: Case, target: Target, seeds: Sequence[bytes]) -> tuple[bytes, str]:
    """Returns the input of a case, and what was done to create it.

    It is given, or determined by the case's number and starting point.
    """
    if "content" in case:
        return from_text(case["content"]), ""
    base = seeds[case["base"]] if isinstance(case["base"], int) else Path(case["base"]).read_bytes()
    return target.mutate(base, random.Random(f"{case['seed']}/{case['number']}"))


class Campaign:
    """Fuzzes a target.

    Args:
        name: the name of the target.
        folder: where results are kept; None to keep only the report.
        seed: determines all cases.
        models: see `target_of`.
        jobs: the number of worker processes.
    """

    def __init__(
        self,
        name: str,
        *,
        folder: Path | None,
        seed: int = 0,
        models: Path | None = None,
        jobs: int = 1,
    ) -> None:
        self._name, self._seed, self._jobs = name, seed, jobs
        self._target = target_of(name, models)
        self._seeds = self._target.seeds()
        self._folder = None if folder is None else folder / name
        self._progress = Progress(None if self._folder is None else self._folder / "state.json", seed)
        self._corpus = Corpus(None if self._folder is None else self._folder / "corpus")
        self._command = [sys.executable, str(_SCRIPT), "--worker", "--target", name]
        self._command += ["--own-models"] if models is None else ["--models", str(models)]
        #: Inputs of this run's findings, and the reasons, by their positions in the list of
        #: findings.
        self._found: dict[int, tuple[bytes, str]] = {}
        self._kinds: Counter[str] = Counter(kind_of(found["why"]) for found in self._progress.findings)

    def run(
        self, count: int, end_s: float = float("inf"), tell: Callable[[str], None] | None = None
    ) -> Report:
        """Runs cases up to a total number, or until a time of `time.monotonic()`."""
        started, told = time.monotonic(), time.monotonic()
        try:
            for ended in self._ran(self._cases(count, end_s)):
                self._note(ended)
                if tell is not None and time.monotonic() - told > 30:
                    told = time.monotonic()
                    tell(f"{self._name}: {self._progress.done} cases, {len(self._kinds)} kinds of findings")
            for position, (content, why) in self._found.items():
                self._replace(position, self._smaller(content, why))
        finally:
            self._progress.write()
            with contextlib.suppress(Finding):
                self._target.close()
        return Report(
            target=self._name,
            cases=self._progress.done,
            outcomes=self._progress.outcomes,
            findings=self._progress.findings,
            corpus=len(self._corpus.paths),
            seconds=time.monotonic() - started,
        )

    def _cases(self, count: int, end_s: float) -> Iterator[Case]:
        for number in self._progress.remaining(count):
            if time.monotonic() > end_s:
                return
            yield {"number": number, "seed": self._seed, "base": self._base(number)}

    def _base(self, number: int) -> int | str:
        rng = random.Random(f"base {self._seed}/{number}")
        kept = self._corpus.paths
        if kept and rng.randrange(_FROM_CORPUS) == 0:
            return str(rng.choice(kept))
        return rng.randrange(len(self._seeds))

    def _ran(self, cases: Iterator[Case], jobs: int | None = None) -> Iterator[Ended]:
        return run_cases(self._command, cases, jobs=jobs or self._jobs, limit_s=self._target.limit_s)

    def _note(self, ended: Ended) -> None:
        number = ended.case["number"]
        result = ended.result or {"outcome": "FINDING", "why": ended.death, "what": ""}
        outcome, why = result["outcome"], result.get("why")
        if why:
            kind = kind_of(why)
            self._kinds[kind] += 1
            if self._kinds[kind] > _KEPT:
                self._progress.note(number, "FINDING")
                return
            content, what = content_of(ended.case, self._target, self._seeds)
            self._found[len(self._progress.findings)] = content, why
            found = {"why": why, "what": what, "file": self._kept(content), "died": bool(ended.death)}
            self._progress.note(number, "FINDING", found)
            return
        self._progress.note(number, outcome)
        is_new = bool(result.get("new_lines"))
        if not is_new and outcome in self._progress.outcomes and self._progress.outcomes[outcome] > 1:
            return
        content, _ = content_of(ended.case, self._target, self._seeds)
        self._corpus.add(f"{outcome} {result['new_lines']} {number}" if is_new else outcome, content)

    def _smaller(self, content: bytes, why: str) -> bytes:
        """Returns the smallest input found with the same kind of finding."""
        kind, end = kind_of(why), time.monotonic() + _SHRINKING_S
        pieces = self._target.pieces(content)
        if len(pieces) < 2:
            return content
        with _Probes(self._ran) as probes:

            def fails(pieces: Sequence[Any]) -> bool:
                if time.monotonic() > end:
                    return False
                found = probes.why(self._target.joined(pieces, content))
                return bool(found) and kind_of(found) == kind

            if not fails(pieces):
                return content
            return self._target.joined(shrunk(pieces, fails, _PROBES), content)

    def _kept(self, content: bytes) -> str:
        """Stores an input; returns its file."""
        if self._folder is None:
            return ""
        folder = self._folder / "findings"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{hashlib.sha256(content).hexdigest()[:16]}.bin"
        path.write_bytes(content)
        return str(path)

    def _replace(self, position: int, content: bytes) -> None:
        """Replaces the input of a finding by a smaller one."""
        found = self._progress.findings[position]
        file = self._kept(content)
        if found["file"] and found["file"] != file:
            Path(found["file"]).unlink(missing_ok=True)
        self._progress.findings[position] = {**found, "file": file}


class _Probes:
    """Runs inputs one after another, in one worker as long as it lives."""

    def __init__(self, ran: Callable[..., Iterator[Ended]]) -> None:
        self._case: Case = {}
        self._results = ran(self._cases(), jobs=1)

    def _cases(self) -> Iterator[Case]:
        while True:
            yield self._case

    def why(self, content: bytes) -> str:
        """Returns the finding for an input, "" if there is none."""
        self._case = {"number": 0, "content": as_text(content)}
        ended = next(self._results)
        return ended.death if ended.result is None else str(ended.result.get("why") or "")

    def __enter__(self) -> "_Probes":
        return self

    def __exit__(self, *_: object) -> None:
        self._results.close()  # type: ignore[attr-defined]


def replay(name: str, path: Path, models: Path | None) -> Report:
    """Runs one input in a worker."""
    report = Report(target=name, cases=1)
    campaign = Campaign(name, folder=None, models=models)
    case = {"number": 0, "content": as_text(path.read_bytes())}
    for ended in campaign._ran(iter([case]), jobs=1):
        result = ended.result or {"outcome": "FINDING", "why": ended.death}
        report.outcomes[result["outcome"]] += 1
        if result.get("why"):
            report.findings.append({"why": result["why"], "what": "", "file": str(path)})
    return report
