"""Times as PostgreSQL has them, in the narrower range Python has."""

from datetime import UTC, datetime

from psycopg import DataError
from psycopg.abc import Buffer
from psycopg.types import datetime as psycopg_datetime

__all__ = ["TimestamptzLoader", "parse_time"]

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)


class TimestamptzLoader(psycopg_datetime.TimestamptzLoader):
    """Reads a time; one that Python cannot hold becomes its first or last.

    PostgreSQL goes from 4713 BC to 294276 AD and knows infinity; Python has the years 1 to
    9999. Without this, one such memory would make every page it is on unreadable.
    """

    def load(self, data: Buffer) -> datetime:
        """Return the time, or the nearest one there is."""
        try:
            return super().load(data)
        except DataError:
            return _nearest(bytes(data).decode())


def parse_time(text: str) -> datetime:
    """Return the time that PostgreSQL wrote into JSON, or the nearest one Python has."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return _nearest(text)


def _nearest(text: str) -> datetime:
    return _FIRST if text.endswith("BC") or text == "-infinity" else _LAST
