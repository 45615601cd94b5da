"""Recording what any code does: its input, output, duration, error, and the step it is part of.

    with memory.step("search", input={"query": "tea"}) as step:
        step.output = search("tea")

    @memory.step(kind="tool_call")
    def book(city: str) -> str: ...

Steps that begin inside another one are its children, across awaits and tasks (contextvars), and
`replay` and `trace` show the train of thought they make. A step becomes one event when it and
all steps around it have ended: the events of a whole tree are then written in one batch, so a
step costs far less than an insert. A step made with `at_once=True` is written when it begins,
what came of it as a second event, and its children as they end: for work that takes hours.

Recording never changes what the code does: what cannot be written is logged, kept, and tried
again with the next step (`pending`); an error of the code itself passes through.
"""

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from itertools import count
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast
from uuid import uuid4

from memdb.errors import Conflict, InvalidInput, NotFound
from memdb.operations import observe_many
from memdb.scope import Scope
from memdb.snapshot import plain
from memdb.steps import Operation

if TYPE_CHECKING:
    from memdb.client import AsyncMemory, Memory

__all__ = ["Recorder", "Step", "StepMaker", "make_step"]

log = logging.getLogger("memdb")

Wrapped = TypeVar("Wrapped", bound=Callable[..., Any])

_AT_ONCE = 10_000
_KEPT = 10_000

_current: ContextVar["Step | None"] = ContextVar("memdb_step", default=None)
_places = count()


@dataclass(slots=True, eq=False)
class _Track:
    """What the recorder knows of a step: times, what came of it, and whether it is written.

    `is_taken`: it is in a batch that is written, or being written. Snapshots are taken when a
    step begins and when it ends, since the code may change later what it was given.
    """

    clock: float = field(default_factory=time.perf_counter)
    key: str = field(default_factory=lambda: f"step:{uuid4()}")
    place: int = field(default_factory=lambda: next(_places))
    children: dict[int, "Step"] = field(default_factory=dict[int, "Step"])
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    input: Any = None
    output: Any = None
    is_done: bool = False
    is_taken: bool = False
    is_at_once: bool = False


@dataclass(slots=True, eq=False)
class Step:
    """A step under way. Set `output`, and whatever `metadata` should be kept with it.

    `event_id` is the event it became; None until that is written.
    """

    name: str
    fields: dict[str, Any]
    recorder: "Recorder"
    parent: "Step | None"
    input: Any = None
    output: Any = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    event_id: int | None = None
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    track: _Track = field(default_factory=_Track)


_Line: TypeAlias = tuple[Step | None, dict[str, Any]]
"""An event to be written, and the step it is of."""


def _event(step: Step) -> dict[str, Any]:
    """Return the event of the whole step; of its begin, where it is written at once."""
    track = step.track
    item: dict[str, Any] = {
        **step.fields,
        "text": step.name,
        "key": track.key,
        "occurred_at": step.started_at,
        "metadata": {**step.metadata, "step": {"name": step.name, **track.facts}},
    }
    if step.parent is not None and step.parent.event_id is not None:
        item["parent_event_id"] = step.parent.event_id
    snapshots = {"input": track.input, "output": track.output}
    return item | {name: value for name, value in snapshots.items() if value is not None}


def _outcome(step: Step) -> dict[str, Any]:
    """Return the event of what came of a step that was written at once."""
    facts = step.track.facts
    item: dict[str, Any] = {
        **step.fields,
        "kind": "tool_result" if step.fields["kind"] == "tool_call" else "observation",
        "text": f"{step.name}: {'failed' if 'error' in facts else 'done'}",
        "key": f"{step.track.key}:end",
        "occurred_at": datetime.now(UTC),
        "parent_event_id": step.event_id,
        "metadata": {**step.metadata, "step": {"name": step.name, **facts}},
    }
    return item if step.track.output is None else {**item, "output": step.track.output}


class Recorder:
    """Writes the steps of one client; made by it, and shared by its threads and tasks."""

    def __init__(self, client: "Memory | AsyncMemory") -> None:
        self.client = client
        self._lock = threading.Lock()
        self._waiting: list[list[_Line]] = []

    @property
    def pending(self) -> tuple[Mapping[str, Any], ...]:
        """Events that could not be written yet."""
        return tuple(item for batch in self._waiting for _, item in batch)

    def begin(self, step: Step) -> None:
        """Hang a step on the one around it."""
        step.track.input = plain(step.input)
        if step.parent is not None:
            with self._lock:
                step.parent.track.children[step.track.place] = step

    def open_at_once(self, scope: Scope, step: Step) -> Operation[None]:
        """Write a step that has only begun."""
        step.track.is_at_once = step.track.is_taken = True
        yield from self._write(scope, [(step, _event(step))])

    def finish(self, step: Step, error: BaseException | None) -> bool:
        """Note what came of a step; whether it is to be written now, as nothing is around it."""
        track = step.track
        track.facts["duration_ms"] = round((time.perf_counter() - track.clock) * 1000, 3)
        if error is not None:
            kind, message = type(error).__qualname__, plain(str(error)[:2000])
            track.facts["error"] = {"type": kind, "message": message}
        track.output = plain(step.output)
        # Under the lock: where a parent and a child end at the same moment in two threads,
        # either the child sees that the parent is written, or the parent that the child is done.
        with self._lock:
            track.is_done = True
            return step.parent is None or step.parent.event_id is not None

    def end(self, scope: Scope, step: Step) -> Operation[None]:
        """Write a finished step, and the finished ones under it."""
        tops = [step]
        if step.track.is_at_once:
            tops += yield from self._write(scope, [(None, _outcome(step))])
        while tops:
            top = tops.pop()
            while batch := self._ready(top):
                tops += yield from self._write(scope, batch)
            if top.parent is not None and top.event_id is not None:
                top.parent.track.children.pop(top.track.place, None)

    def keep(self, step: Step) -> None:
        """Let a finished step wait, as the database cannot be reached."""
        while batch := self._ready(step):
            with self._lock:
                self._waiting = [*self._waiting, batch][-_KEPT:]

    def _ready(self, step: Step) -> list[_Line]:
        """Take the finished steps from one on whose parent was written; at most a batch."""
        with self._lock:
            if step.parent is not None and step.parent.event_id is None:
                return []
            batch: list[_Line] = []
            places: dict[int, int] = {}
            todo = [step]
            while todo and len(batch) < _AT_ONCE:
                one = todo.pop()
                if not one.track.is_taken:
                    item = _event(one)
                    if one.parent is not None and one.parent.event_id is None:
                        item["parent"] = places[one.parent.track.place]
                    one.track.is_taken = True
                    places[one.track.place] = len(batch)
                    batch.append((one, item))
                elif one.event_id is None:
                    continue
                # The last in comes out first: children in the order in which they began.
                todo += [c for c in reversed(one.track.children.values()) if c.track.is_done]
            return batch

    def _write(self, scope: Scope, batch: list[_Line]) -> Operation[list[Step]]:
        """Write a batch, and before it what waits; returns the steps that waited until now."""
        with self._lock:
            todo, self._waiting = [*self._waiting, batch], []
        freed: list[Step] = []
        while todo:
            try:
                refs = yield from observe_many(scope, [item for _, item in todo[0]])
            except Exception as error:
                log.warning("%d steps are not recorded yet: %s", len(todo[0]), error)
                # What the database refuses it will refuse again.
                kept = todo[1:] if isinstance(error, InvalidInput | NotFound | Conflict) else todo
                with self._lock:
                    self._waiting = [*kept, *self._waiting][-_KEPT:]
                return freed
            with self._lock:
                for (step, _), ref in zip(todo.pop(0), refs, strict=True):
                    if step is not None:
                        step.event_id = ref.event_id
                        freed += [step] if todo else []
        return freed


class StepMaker:
    """Begins steps: as a context manager, plain or asynchronous, or as a decorator.

    As a decorator it makes a step of each call, with the arguments as its input and what comes
    back as its output. Functions that return generators are one step until they return them.
    """

    def __init__(self, recorder: Recorder, name: str | None, given: Mapping[str, Any]) -> None:
        self._recorder = recorder
        self._name = name
        self._given = given
        self._open: tuple[Step, Token[Step | None]] | None = None

    def __enter__(self) -> Step:
        if not _is_blocking(self._recorder.client):
            raise InvalidInput("this client is asynchronous", hint="async with memory.step(...)")
        step = self._begin()
        if self._given["at_once"]:
            self._block(step, lambda scope: self._recorder.open_at_once(scope, step))
        return step

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        step = self._leave()
        if self._recorder.finish(step, error):
            self._block(step, lambda scope: self._recorder.end(scope, step))

    async def __aenter__(self) -> Step:
        step = self._begin()
        if self._given["at_once"]:
            await self._await(step, lambda scope: self._recorder.open_at_once(scope, step))
        return step

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        step = self._leave()
        if self._recorder.finish(step, error):
            await self._await(step, lambda scope: self._recorder.end(scope, step))

    def __call__(self, function: Wrapped) -> Wrapped:
        """Return the function with each of its calls recorded as a step."""
        form = inspect.signature(function)
        name = self._name or getattr(function, "__qualname__", type(function).__name__)

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> StepMaker:
            made = StepMaker(self._recorder, name, dict(self._given))
            if self._given.get("input") is None:
                arguments = form.bind(*args, **kwargs).arguments
                made._given = {
                    **self._given,
                    "input": {k: v for k, v in arguments.items() if k not in ("self", "cls")},
                }
            return made

        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def recorded_async(*args: Any, **kwargs: Any) -> Any:
                async with begin(args, kwargs) as step:
                    step.output = result = await function(*args, **kwargs)
                return result

            return cast(Wrapped, recorded_async)
        if not _is_blocking(self._recorder.client):
            raise InvalidInput(
                "an asynchronous client records asynchronous functions",
                hint="Decorate an `async def`, or take the step of a Memory.",
            )

        @wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with begin(args, kwargs) as step:
                step.output = result = function(*args, **kwargs)
            return result

        return cast(Wrapped, recorded)

    def _begin(self) -> Step:
        if self._open is not None:
            raise InvalidInput("this step is open", hint="Make another: memory.step(...)")
        around = _current.get()
        if around is not None and around.recorder is not self._recorder:
            around = None
        inherited = around.fields if around else {}
        given = {k: v for k, v in self._given.items() if k in _EVENT and v is not ...}
        fields = {k: v for k, v in inherited.items() if k not in ("kind", "extract")} | given
        name = self._name or fields["kind"]
        step = Step(name, fields, self._recorder, around, self._given["input"])
        step.metadata |= self._given.get("metadata") or {}
        self._recorder.begin(step)
        self._open = (step, _current.set(step))
        return step

    def _leave(self) -> Step:
        assert self._open is not None
        (step, token), self._open = self._open, None
        _current.reset(token)
        return step

    def _block(self, step: Step, make: Callable[[Scope], Operation[None]]) -> None:
        try:
            cast("Memory", self._recorder.client).carry_out(make)
        except Exception as error:
            self._not_reached(step, error)

    async def _await(self, step: Step, make: Callable[[Scope], Operation[None]]) -> None:
        client = self._recorder.client
        try:
            if _is_blocking(client):
                await asyncio.to_thread(cast("Memory", client).carry_out, make)
            else:
                await cast("AsyncMemory", client).carry_out(make)
        except Exception as error:
            self._not_reached(step, error)

    def _not_reached(self, step: Step, error: Exception) -> None:
        log.warning("a step is not recorded yet: %s", error)
        if step.track.is_done:
            self._recorder.keep(step)


_EVENT = frozenset(["kind", "session", "user", "agent", "namespace", "speaker", "extract"])


def _is_blocking(client: object) -> bool:
    return not inspect.iscoroutinefunction(getattr(client, "open", None))


def make_step(
    recorder: Recorder,
    name: str | None = None,
    *,
    kind: str = "tool_call",
    input: Any = None,
    session: str | EllipsisType | None = ...,
    user: str | EllipsisType | None = ...,
    agent: str | EllipsisType | None = ...,
    namespace: str | EllipsisType = ...,
    metadata: Mapping[str, Any] | None = None,
    extract: bool = False,
    at_once: bool = False,
) -> StepMaker:
    """Return a step to enter or to decorate a function with; see `Memory.step`."""
    given = {k: v for k, v in locals().items() if k not in ("recorder", "name")}
    return StepMaker(recorder, name, given)
