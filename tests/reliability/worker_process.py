"""A worker in a process of its own, with stages that do next to nothing: to be killed."""

import sys
from collections.abc import Sequence

from psycopg_pool import ConnectionPool

from memdb.db import Db
from memdb.pipeline.process import Pipeline, Stages
from memdb.pipeline.stages import Context, Draft, Event, Extraction, Fact, Scored, Span
from memdb.worker import Options, Worker


class EveryEvent:
    """An Extract: each event is a fact, word for word."""

    def extract(self, events: Sequence[Event], context: Context) -> Extraction:
        return Extraction(tuple(Fact(e.text, (Span(e.event_id, 0, len(e.text)),)) for e in events))


class KeepAll:
    """A Score: everything is kept."""

    def score(self, drafts: Sequence[Draft], context: Context) -> list[Scored]:
        return [Scored(5, {}, "long_term") for _ in drafts]


def main(dsn: str, tenant: str) -> None:
    """Work until killed, or until nothing is left."""
    with ConnectionPool(dsn, kwargs={"autocommit": True}, min_size=1, max_size=4) as pool:
        db = Db(pool)
        stages = Stages(extract=EveryEvent(), score=KeepAll())
        options = Options(concurrency=2, batch_size=20, lease_seconds=3, poll_seconds=0.2)
        Worker(db, int(tenant), Pipeline(db, int(tenant), stages), options=options).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
