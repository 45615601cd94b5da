"""The worker: claims events, has them turned into memories, keeps their leases alive.

Any number of workers may run, on any number of machines; they share nothing but the database.
One that dies loses nothing: its leases run out and pass on, and since events are marked done in
the transaction that records their memories, none is recorded twice. Claim (short transaction),
think (no transaction), record (one transaction).
"""

import logging
import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol

from memdb import calls
from memdb.errors import LeaseLost, MemdbError, Retryable, ServerUnavailable, TimedOut
from memdb.pipeline.recording import Runner
from memdb.pipeline.stages import Event, StageFailed

__all__ = ["Options", "Processor", "Totals", "Upkeep", "Worker", "worker_name"]

log = logging.getLogger("memdb")

Upkeep = Callable[[], bool]
"""Does a bounded piece of other work; returns whether there is more of it."""


class Processor(Protocol):
    """Turns claimed events of one session into memories; `memdb.pipeline.process.Pipeline`."""

    def process(self, events: Sequence[Event], worker: str) -> object:
        """Write what came of the events and mark them done, in one transaction.

        Raises: StageFailed; any MemdbError. In all cases nothing was written.
        """
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """How a worker works.

    `concurrency` batches at a time; `batch_size` events a claim; leases last `lease_seconds` and
    are extended while the work goes on; an empty queue is looked at every `poll_seconds`; a stop
    waits `grace_seconds` for what has begun. Every `upkeep_every` events the upkeep runs also
    under load.
    """

    concurrency: int = 2
    batch_size: int = 20
    lease_seconds: int = 300
    poll_seconds: float = 2.0
    grace_seconds: float = 30.0
    upkeep_every: int = 500


@dataclass(slots=True)
class Totals:
    """What a worker has done so far."""

    completed: int = 0
    failed: int = 0
    given_back: int = 0


@dataclass(slots=True)
class _Task:
    """Some events of one session at work; `left` are those whose lease is still ours."""

    events: tuple[Event, ...]
    left: set[int] = field(default_factory=set[int])


def worker_name() -> str:
    """Return a name that no other worker has: host, process, and some chance."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


class Worker:
    """Works off the queue of one tenant, on threads of its own."""

    def __init__(
        self,
        runner: Runner,
        tenant_id: int,
        processor: Processor,
        *,
        name: str | None = None,
        options: Options | None = None,
        upkeep: Iterable[Upkeep] = (),
        idle: Callable[[float], None] | None = None,
    ) -> None:
        """Take what runs calls and what thinks.

        Args:
            upkeep: run in turn when the queue is empty, and now and then under load.
            idle: waits for work for at most so many seconds; default: until `stop`.
        """
        self.name = name or worker_name()
        self.totals = Totals()
        self._runner = runner
        self._tenant_id = tenant_id
        self._processor = processor
        self._options = options or Options()
        self._upkeep = list(upkeep)
        self._stopping = threading.Event()
        self._idle = idle or self._sleep
        self._counting = threading.Lock()
        self._tasks: dict[Future[None], _Task] = {}
        self._extended_at = 0.0
        self._since_upkeep = 0
        self._troubles = 0

    def also(self, upkeep: Upkeep) -> None:
        """Do one more kind of upkeep; to be called before `run`."""
        self._upkeep.append(upkeep)

    def stop(self) -> None:
        """Ask the worker to finish what it has begun and return; may be called from anywhere."""
        self._stopping.set()

    def run(self, *, once: bool = False) -> Totals:
        """Work until `stop`, or with `once` until nothing is left that is due.

        A server out of reach is waited for. Raises: MemdbError for what waiting does not mend
        (no rights, no such tenant).
        """
        threads = ThreadPoolExecutor(self._options.concurrency, "memdb-worker")
        try:
            while not self._stopping.is_set():
                try:
                    is_idle = self._turn(threads)
                    self._troubles = 0
                except (ServerUnavailable, Retryable, TimedOut) as error:
                    self._wait_out(error)
                    continue
                if is_idle and not self._run_upkeep():
                    if once:
                        break
                    self._idle(self._options.poll_seconds * random.uniform(0.8, 1.2))
        finally:
            self._finish()
            # A thread that still waits for its model has lost its leases and can write nothing.
            threads.shutdown(wait=False, cancel_futures=True)
        return self.totals

    # --- the loop ----------------------------------------------------------------------

    def _turn(self, threads: ThreadPoolExecutor) -> bool:
        """Claim as much as there are hands for and wait for some of it; True if all is quiet."""
        while len(self._tasks) < self._options.concurrency and not self._stopping.is_set():
            events = self._runner.run(
                calls.claim_events(
                    self._tenant_id,
                    self.name,
                    self._options.batch_size,
                    self._options.lease_seconds,
                )
            )
            if not events:
                break
            for task in _by_session(events):
                self._tasks[threads.submit(self._work, task)] = task
        if not self._tasks:
            return True
        self._collect(timeout=min(1.0, self._options.lease_seconds / 6))
        self._extend()
        if self._since_upkeep >= self._options.upkeep_every:
            self._run_upkeep()
        return False

    def _collect(self, timeout: float) -> None:
        """Take what is finished off the list."""
        done, _ = wait(self._tasks, timeout=timeout, return_when=FIRST_COMPLETED)
        for future in done:
            task = self._tasks.pop(future)
            self._since_upkeep += len(task.events)
            error = future.exception()
            if error is not None:
                # Only the server can have failed here: what concerns events was written down.
                self._give_back(task)
                raise error

    def _extend(self) -> None:
        """Keep the leases of what is at work alive."""
        now = time.monotonic()
        if now - self._extended_at < self._options.lease_seconds / 3:
            return
        self._extended_at = now
        held = [event for task in self._tasks.values() for event in set(task.left)]
        if held:
            seconds = self._options.lease_seconds
            self._runner.run(calls.extend_lease(self._tenant_id, self.name, held, seconds))

    def _run_upkeep(self) -> bool:
        """Do a piece of each kind of upkeep; returns whether any has more to do."""
        self._since_upkeep = 0
        has_more = False
        for one in self._upkeep:
            try:
                has_more = one() or has_more
            except (MemdbError, OSError) as error:
                # Upkeep is tried again; it must not keep events waiting.
                log.warning("upkeep: %s", error)
        return has_more

    def _sleep(self, seconds: float) -> None:
        self._stopping.wait(seconds)

    def _wait_out(self, error: MemdbError) -> None:
        self._troubles = min(self._troubles + 1, 6)
        seconds = random.uniform(0.5, 1.0) * 2**self._troubles / 2
        log.warning("waiting %.0f s: %s", seconds, error)
        self._stopping.wait(seconds)

    # --- one batch, on a thread ------------------------------------------------------------

    def _work(self, task: _Task) -> None:
        """Process a batch; where it fails as a whole, event by event."""
        if self._stopping.is_set():
            self._give_back(task)
            return
        try:
            self._process(task, task.events)
        except LeaseLost:
            self._lost(task)
        except (ServerUnavailable, TimedOut):
            raise
        except Exception as error:
            culprit = _culprit(task.events, error)
            if culprit is task.events[0] or (culprit is None and _is_passing(error)):
                self._fail(task, task.events[0], error)
            else:
                self._one_by_one(task)

    def _one_by_one(self, task: _Task) -> None:
        for event in task.events:
            if event.event_id not in task.left or self._stopping.is_set():
                break
            try:
                self._process(task, [event])
            except LeaseLost:
                self._lost(task)
            except (ServerUnavailable, TimedOut):
                raise
            except Exception as error:
                self._fail(task, event, error)
        if task.left:
            self._give_back(task)

    def _process(self, task: _Task, events: Sequence[Event]) -> None:
        self._processor.process(events, self.name)
        task.left.difference_update(event.event_id for event in events)
        with self._counting:
            self.totals.completed += len(events)

    def _fail(self, task: _Task, event: Event, error: Exception) -> None:
        """Give an event back with the reason; what came after it goes back as well."""
        is_passing = _is_passing(error)
        raw, pause = getattr(error, "raw_output", None), getattr(error, "retry_after", None)
        log.warning(
            "event %d: %s", event.event_id, error, exc_info=not isinstance(error, MemdbError)
        )
        call = calls.fail_event(
            self._tenant_id,
            self.name,
            event.event_id,
            f"{type(error).__name__}: {error}"[:4000],
            raw,
            charge=not is_passing,
            wait_seconds=int(min(pause or (5 if is_passing else 0), 86_400)),
        )
        try:
            (state,) = self._runner.run(call)
        except LeaseLost:
            self._lost(task)
            return
        with self._counting:
            self.totals.failed += 1
        task.left.discard(event.event_id)
        if state != "dead" and event.session_id is not None:
            later = {e.event_id for e in task.events if (e.sequence or 0) > (event.sequence or 0)}
            task.left -= later

    def _lost(self, task: _Task) -> None:
        log.warning("the lease of %d events is lost", len(task.left))
        task.left.clear()

    # --- the end ------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Wait for what has begun, and give back the rest."""
        for future, task in list(self._tasks.items()):
            if future.cancel():
                del self._tasks[future]
                self._give_back(task)
        deadline = time.monotonic() + self._options.grace_seconds
        while self._tasks and time.monotonic() < deadline:
            try:
                self._collect(timeout=0.2)
                self._extend()
            except MemdbError as error:
                log.warning("while stopping: %s", error)
        for task in self._tasks.values():
            self._give_back(task)
        self._tasks.clear()

    def _give_back(self, task: _Task) -> None:
        """Return the events of a task that are still ours, at no charge, if the server lets us."""
        for event in task.events:
            if event.event_id not in task.left:
                continue
            call = calls.fail_event(
                self._tenant_id, self.name, event.event_id, "given back", charge=False
            )
            try:
                self._runner.run(call)
            except LeaseLost:
                # Gone back already with an earlier one of its session, or taken over.
                continue
            except MemdbError as error:
                log.warning("%d leases are left to run out: %s", len(task.left), error)
                break
            self.totals.given_back += 1
        task.left.clear()


def _by_session(events: Sequence[Event]) -> Iterable[_Task]:
    """Yield the events of each session together, and each event without one alone."""
    for _, group in groupby(events, key=lambda e: e.session_id or -e.event_id):
        members = tuple(group)
        yield _Task(members, {event.event_id for event in members})


def _is_passing(error: Exception) -> bool:
    """Whether the event is not to blame, and trying again later will do."""
    if isinstance(error, StageFailed):
        return error.is_passing
    return isinstance(error, Retryable)


def _culprit(events: Sequence[Event], error: Exception) -> Event | None:
    """Return the event that an error is about, where that is clear."""
    wanted = events[0].event_id if len(events) == 1 else getattr(error, "event_id", None)
    return next((event for event in events if event.event_id == wanted), None)
