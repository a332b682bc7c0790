"""Running many independent calls: on the cores of this machine, or on a Ray cluster."""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Literal, NamedTuple, TypeVar

Item = TypeVar("Item")
# Variables that limit the threads of a process, one per library.
THREADS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"
# A worker that dies this often with the same run dies of it.
MAX_RETRIES = 3


class Backend(NamedTuple):
    """Where to run: this machine's cores, or a Ray cluster."""

    name: Literal["joblib", "ray"] = "joblib"
    num_jobs: int = -1
    """Number of processes on this machine; -1 takes all cores."""
    address: str | None = None
    """Address of the Ray cluster."""

    def map(
        self, function: Callable[[Item], Any], items: Sequence[Item]
    ) -> "Iterator[Outcome]":
        """Call a function for all items; yield the outcomes as they come."""
        if self.name == "ray":
            return run_on_ray(function, items, self.address)
        from joblib import cpu_count

        num_jobs = self.num_jobs if self.num_jobs > 0 else cpu_count()
        return run_locally(function, items, num_jobs)


class Outcome(NamedTuple):
    """The outcome of a call: its answer, or the error that it raised."""

    item: Any
    answer: Any = None
    error: BaseException | None = None


def run_locally(
    function: Callable[[Item], Any],
    items: Sequence[Item],
    num_jobs: int,
    max_retries: int = MAX_RETRIES,
) -> Iterator[Outcome]:
    """Call a function for all items, each in one of several processes.

    joblib schedules; every one of its threads owns one worker process, so that a
    process that is killed takes nothing with it but its own item, which is tried again.

    Args:
        function: The function; it must be importable.
        items: Its arguments.
        num_jobs: Number of processes.
        max_retries: How often an item is tried again whose worker was killed.

    Yields:
        The outcomes, in the order in which they come.
    """
    from joblib import Parallel, delayed

    workers = _Workers(min(num_jobs, len(items)), max_retries)
    parallel = Parallel(
        n_jobs=num_jobs, backend="threading", return_as="generator_unordered"
    )
    try:
        yield from parallel(delayed(workers.call)(function, item) for item in items)
    finally:
        workers.close()


class _Workers:
    """Processes of one worker each, lent to whichever thread has an item."""

    def __init__(self, number: int, max_retries: int) -> None:
        self._max_retries = max_retries
        self._closing = threading.Event()
        self._idle: queue.Queue[Any] = queue.Queue()
        self._all: list[Any] = []
        for _ in range(number):
            self._idle.put(self._start())

    def _start(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        executor = ProcessPoolExecutor(
            max_workers=1,
            initializer=_end_with_parent,
            initargs=(os.getpid(),),
            # Small networks run many times slower on several threads.
            env=dict.fromkeys(THREADS, "1"),
        )
        self._all.append(executor)
        return executor

    def call(self, function: Callable[[Any], Any], item: Any) -> Outcome:
        """Call a function in an idle process, again if the process is killed."""
        executor = self._idle.get()
        try:
            for _ in range(self._max_retries + 1):
                try:
                    return Outcome(item, executor.submit(function, item).result())
                except BrokenProcessPool:
                    if self._closing.is_set():
                        break
                    executor = self._start()
                except Exception as error:  # The caller decides about failures.
                    return Outcome(item, error=error)
        finally:
            self._idle.put(executor)
        number = self._max_retries + 1
        message = f"its worker was killed {number} times: is there enough memory?"
        return Outcome(item, error=RuntimeError(message))

    def close(self) -> None:
        """End all processes."""
        self._closing.set()
        for executor in self._all:
            executor.shutdown(wait=True, kill_workers=True)


def _end_with_parent(parent: int) -> None:
    """End this process when its parent is killed, which cannot say so itself."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_on_ray(
    function: Callable[[Item], Any],
    items: Sequence[Item],
    address: str | None,
    max_retries: int = MAX_RETRIES,
) -> Iterator[Outcome]:
    """Call a function for all items on a Ray cluster.

    Plain tasks: Ray itself runs them again when a worker or a node dies.

    Args:
        function: The function.
        items: Its arguments.
        address: The cluster's address, `"auto"` for the one that this machine is part
            of, or `None` to start one here.
        max_retries: How often an item is tried again whose worker or node died.

    Yields:
        The outcomes, in the order in which they come.
    """
    import ray

    was_running = ray.is_initialized()
    if not was_running:
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    task = ray.remote(num_cpus=1, max_retries=max_retries)(function)
    waiting = {task.remote(item): item for item in items}
    try:
        while waiting:
            (ready,), _ = ray.wait(list(waiting), num_returns=1)
            item = waiting.pop(ready)
            try:
                outcome = Outcome(item, ray.get(ready))
            except Exception as error:  # The caller decides about failures.
                outcome = Outcome(item, error=error)
            yield outcome
    finally:
        for reference in waiting:
            ray.cancel(reference, force=True)
        if not was_running:
            ray.shutdown()
