"""A thread pool whose threads start when they are needed, and end when they are idle."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from neurald.hal.process.threads.checked_thread import CheckedThread

_T = TypeVar("_T")

#: How long an idle thread waits for a call. It is short, so that threads and memory of a burst of
#: calls are soon released.
_IDLE_S = 1.0


class _Task:
    """A call, and its future."""

    __slots__ = ("_call", "future")

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.future: Future[Any] = Future()

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self._call()
        except BaseException as error:
            self.future.set_exception(error)
            # The error keeps this frame, which would keep the future, and that the error.
            del self
        else:
            self.future.set_result(result)


class _Idle:
    """A thread that waits for a task, or for the shutdown."""

    __slots__ = ("task", "woken")

    def __init__(self) -> None:
        self.task: _Task | None = None
        self.woken = threading.Lock()
        self.woken.acquire()


class WorkerThreads(Executor):
    """Runs calls in threads: as many as needed, and at least one. Thread-safe.

    `ThreadPoolExecutor` keeps all threads that it ever had, with their stacks and what allocators
    keep for each. And it raises an error in the thread that submits a call if the system has no
    more threads; with gRPC that is the thread which serves all clients. Here the call waits for one
    of the existing threads.

    Args:
        max_threads: how many threads there may be; further calls wait for one.
        name: the name of the threads.
        idle_s: how long a thread waits for a call before it ends.

    Raises:
        RuntimeError, MemoryError: not even one thread can be started.
    """

    def __init__(self, max_threads: int, name: str, *, idle_s: float = _IDLE_S) -> None:
        self._max_threads = max_threads
        self._name = name
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._waiting: deque[_Task] = deque()
        # The last thread that became idle is woken first, so that surplus threads stay idle.
        self._idle: list[_Idle] = []
        self._threads: set[threading.Thread] = set()
        self._is_over = False
        self._start(None)

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> "Future[_T]":
        """See `Executor.submit`.

        Raises:
            RuntimeError: the pool was shut down.
        """
        task = _Task(lambda: fn(*args, **kwargs))
        with self._lock:
            if self._is_over:
                raise RuntimeError(f"{self._name}: no calls are accepted after the shutdown")
            if self._idle:
                idle = self._idle.pop()
                idle.task = task
                idle.woken.release()
            elif len(self._threads) >= self._max_threads:
                self._waiting.append(task)
            else:
                try:
                    self._start(task)
                except (RuntimeError, MemoryError):
                    self._waiting.append(task)
        return task.future

    def _start(self, first: _Task | None) -> None:
        """Starts a thread that begins with a task, or idle."""
        thread = CheckedThread(target=self._run, args=(first,), name=self._name)
        self._threads.add(thread)
        try:
            thread.start()
        except BaseException:
            self._threads.discard(thread)
            raise

    def _run(self, task: _Task | None) -> None:
        while True:
            if task is not None:
                task.run()
                task = None  # an idle thread must not keep the result of its last call
            with self._lock:
                if self._waiting:
                    task = self._waiting.popleft()
                    continue
                if self._is_over:
                    self._threads.discard(threading.current_thread())
                    return
                idle = _Idle()
                self._idle.append(idle)
            task = self._next(idle)
            if task is None:
                return

    def _next(self, idle: _Idle) -> _Task | None:
        """Returns the next task of an idle thread; None if the thread ends."""
        while True:
            is_woken = idle.woken.acquire(timeout=self._idle_s)
            with self._lock:
                if not is_woken and idle in self._idle:
                    # A server that runs until its interpreter ends is never shut down.
                    is_last = len(self._threads) == 1 and not self._is_over
                    if is_last and threading.main_thread().is_alive():
                        continue
                    self._idle.remove(idle)
                elif idle.task is not None:
                    return idle.task
                self._threads.discard(threading.current_thread())
            return None

    def end_when_idle(self) -> None:
        """Lets the threads end once they have been idle for a while.

        It takes no lock, so finalizers may call it.
        """
        self._is_over = True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See `Executor.shutdown`."""
        with self._lock:
            self._is_over = True
            for idle in self._idle:
                idle.woken.release()
            self._idle.clear()
            cancelled = tuple(self._waiting) if cancel_futures else ()
            if cancel_futures:
                self._waiting.clear()
            threads = tuple(self._threads)
        for task in cancelled:
            task.future.cancel()
        if wait:
            for thread in threads:
                thread.join()
