"""`memdb bench year`: a year of somebody's memories, day by day, by the test clock.

Every day some memories are written, some are used, and the jobs run. Five of them are watched:
an allergy nobody asks about, a preference used every three weeks, a pinned note, a project
status, and the thought of a moment. Drawn from a seed, so that a run can be repeated.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from memdb import calls, jobs
from memdb.db import Db
from memdb.errors import NotAvailable

__all__ = ["WATCHED", "Year", "as_json", "live", "plot"]

START = datetime(2025, 1, 1, tzinfo=UTC)
TIERS = ("working", "short_term", "long_term", "archive")
WATCHED: dict[str, dict[str, Any]] = {
    "allergy": {
        "text": "小王对花生过敏 (peanuts)",
        **{"type": "constraint", "importance": 9.0, "tier": "long_term"},
    },
    "preference": {
        "text": "likes tea with milk",
        **{"type": "preference", "importance": 5.0, "tier": "short_term"},
    },
    "pinned note": {
        "text": "the spare key is under the stone",
        **{"type": "fact", "importance": 3.0, "tier": "short_term", "is_pinned": True},
    },
    "project status": {
        "text": "the port is at two thirds",
        **{"type": "observation", "importance": 6.0, "tier": "long_term"},
    },
    "passing thought": {
        "text": "try the other train",
        **{"type": "reasoning", "importance": 4.0, "tier": "working"},
    },
}
_PREFERENCE_USED_EVERY = 21
_PINNED_SHARE = 0.01

Stage = Callable[[int], None]


@dataclass(slots=True)
class Year:
    """What was seen at the end of each day."""

    memories: int = 0
    uses: int = 0
    tiers: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    strength: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    threshold: dict[str, list[float | None]] = field(default_factory=dict[str, list[float | None]])
    recorded: list[int] = field(default_factory=list[int])
    pinned_gone: int = 0
    used_gone: int = 0

    @property
    def growth(self) -> float:
        """Of what was written in the last quarter of the days, the share live memory grew by."""
        quarter = max(1, len(self.tiers) // 4)
        before, after = self.tiers[-quarter - 1], self.tiers[-1]
        live_now = sum(n for tier, n in after.items() if tier != "archive")
        live_then = sum(n for tier, n in before.items() if tier != "archive")
        return (live_now - live_then) / max(1, sum(self.recorded[-quarter:]))

    def faded_on(self, name: str) -> int | None:
        """The day on which a watched memory left its last tier; None while it is live."""
        for day, threshold in enumerate(self.threshold[name]):
            if threshold is None:
                return day
        return None


def live(
    dsn: str,
    *,
    days: int = 365,
    memories: int = 3000,
    seed: int = 1,
    stage: Stage = lambda day: None,
) -> Year:
    """Live through some days; needs the rights of memdb's owner, for the test clock."""
    with psycopg.connect(dsn, autocommit=True, application_name="memdb bench") as session:
        session.execute(files("memdb.bench").joinpath("year.sql").read_bytes())
        life = _Life(session, _one(session, "select pg_temp.begin_year()"), random.Random(seed))
        try:
            for day in range(days):
                life.spend(day, (day + 1) * memories // days - day * memories // days)
                stage(day + 1)
        finally:
            _one(session, "select pg_temp.end_year()")
        return life.year


class _Life:
    """The one whose memories these are."""

    def __init__(self, session: psycopg.Connection[Any], tenant: int, chance: random.Random):
        self.year = Year()
        self._session = session
        self._db = Db.over(session)
        self._tenant = tenant
        self._chance = chance
        self._known: list[int] = []
        self._favourites: list[int] = []
        self._watched: dict[str, int] = {}

    def spend(self, day: int, count: int) -> None:
        """Write, use, and let the jobs run, each at its hour."""
        self._clock(day, 10)
        if day == 0:
            ids = self._record(list(WATCHED.values()))
            self._watched = dict(zip(WATCHED, ids, strict=True))
        self._write(day, count)
        self._clock(day, 18)
        self._use(day)
        self._clock(day, 23)
        jobs.run_due(self._db, self._tenant, "bench")
        self._look(count)

    def _clock(self, day: int, hour: int) -> None:
        now = START + timedelta(days=day, hours=hour)
        self._session.execute("select set_config('memdb.fake_now', %s, false)", [str(now)])

    def _write(self, day: int, count: int) -> None:
        items = [self._draw(f"day {day}, thing {n}") for n in range(count)]
        ids = self._record(items)
        self._known += ids
        self._favourites += [id_ for id_ in ids if self._chance.random() < 0.05]
        for id_ in ids:
            if self._chance.random() < _PINNED_SHARE:
                self._db.run(calls.pin_memory(self._tenant, id_))

    def _draw(self, text: str) -> dict[str, Any]:
        """Mostly things of the week; one in six is worth keeping from the start."""
        tier = self._chance.choices(TIERS[:3], (10, 74, 16))[0]
        type_ = self._chance.choices(
            ("observation", "fact", "action", "preference", "constraint"), (55, 25, 12, 6, 2)
        )[0]
        importance = round(self._chance.triangular(2, 10, 5.5), 1)
        return {"text": text, "type": type_, "tier": tier, "importance": importance}

    def _record(self, items: list[dict[str, Any]]) -> list[int]:
        if not items:
            return []
        events = [{"kind": "observation", "text": i["text"], "extract": False} for i in items]
        stored = self._db.run(calls.append_events(self._tenant, events))
        batch = [
            {**item, "sources": [{"event_id": event.event_id}]}
            for item, event in zip(items, stored, strict=True)
        ]
        self.year.memories += len(batch)
        return [row.memory_id for row in self._db.run(calls.record_memories(self._tenant, batch))]

    def _use(self, day: int) -> None:
        """What came up today: mostly what is new, now and then a favourite, the preference."""
        lately = self._known[-120:]
        used = self._chance.sample(lately, min(4, len(lately)))
        used += self._chance.sample(self._favourites, min(3, len(self._favourites)))
        if day % _PREFERENCE_USED_EVERY == _PREFERENCE_USED_EVERY - 1:
            used.append(self._watched["preference"])
        if used:
            ids = sorted(set(used))
            self.year.uses += _one(self._session, "select pg_temp.use(%s, %s)", self._tenant, ids)

    def _look(self, count: int) -> None:
        seen = _one(self._session, "select pg_temp.look(%s)", self._tenant)
        self.year.tiers.append({tier: seen["tiers"].get(tier, 0) for tier in TIERS})
        self.year.recorded.append(count)
        self.year.pinned_gone = max(self.year.pinned_gone, seen["pinned_gone"])
        self.year.used_gone = max(self.year.used_gone, seen["used_gone"])
        rows = self._db.run(calls.memory_life(self._tenant, list(self._watched.values())))
        found = {row.memory_id: row for row in rows}
        for name, id_ in self._watched.items():
            self.year.strength.setdefault(name, []).append(found[id_].strength)
            self.year.threshold.setdefault(name, []).append(found[id_].threshold)


def plot(year: Year, file: Path) -> None:
    """Draw the strength of the watched memories, and the tiers, over the days.

    Raises: NotAvailable: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NotAvailable(
            "matplotlib is not installed", hint="pip install 'memdb-postgres[bench]'"
        ) from error
    figure: Any = Figure(figsize=(10, 8), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    days = range(1, len(year.tiers) + 1)
    for name, values in year.strength.items():
        (line,) = upper.plot(days, values, label=name)
        gone = year.faded_on(name)
        if gone is not None:
            upper.plot([gone + 1], [values[gone]], "x", color=line.get_color(), markersize=9)
    upper.set(yscale="log", ylim=(0.005, 2), ylabel="strength (x: archived)")
    upper.legend(loc="lower left", ncols=2)
    lower.stackplot(days, *[[t[tier] for t in year.tiers] for tier in TIERS], labels=TIERS)
    lower.set(xlabel="day", ylabel="memories")
    lower.legend(loc="upper left")
    figure.savefig(file, dpi=100)


def as_json(year: Year) -> str:
    """Return the figures of a year as JSON."""
    figures = {
        "memories": year.memories,
        "uses": year.uses,
        "growth": year.growth,
        "pinned_gone": year.pinned_gone,
        "used_gone": year.used_gone,
        "faded_on": {name: year.faded_on(name) for name in WATCHED},
        "tiers": year.tiers,
        "strength": year.strength,
    }
    return json.dumps(figures, indent=1)


def _one(session: psycopg.Connection[Any], statement: LiteralString, *values: object) -> Any:
    row = session.execute(statement, values).fetchone()
    assert row is not None
    return row[0]
