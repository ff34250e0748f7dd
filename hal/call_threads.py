"""The threads of a server's calls, which go on where the system has no more of them."""

import contextlib
from concurrent.futures import ThreadPoolExecutor


class CallThreads(ThreadPoolExecutor):
    """Work that finds no thread waits for one of those that there are, instead of failing whoever hands it over.

    With gRPC that is the thread which serves all clients.

    Args:
        most: how many threads there may be. One is started at once.

    Raises:
        RuntimeError: not even that one can be started.
    """

    def __init__(self, most: int) -> None:
        super().__init__(most, thread_name_prefix="neurald call")
        try:
            self.submit(int)
            if not self._threads:
                raise RuntimeError("can't start new thread")
        except BaseException:
            self.shutdown(wait=False, cancel_futures=True)
            raise

    def _adjust_thread_count(self) -> None:
        # What is handed over is in the queue already.
        with contextlib.suppress(RuntimeError, MemoryError):
            super()._adjust_thread_count()
