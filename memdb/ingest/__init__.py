"""Bringing in what already exists: files of events or chat messages, line by line.

    foreign   what other memories exported, as lines of JSON
    reading   a line of JSON becomes a record, or a bad line with its reason
    storing   a batch of records becomes events and verbatim memories, in one transaction
    running   a whole file: batches, vectors, statistics, and what came of it

Each record is one event (nothing is to be extracted from it) and one verbatim memory that rests
on it and has the event's key as its external id. The key makes it safe to stop anywhere and
run again: what is there is neither stored nor encoded a second time.
"""

from memdb.ingest.foreign import FORMATS, lines_of
from memdb.ingest.reading import BadLine, Record, read, read_object
from memdb.ingest.running import Ingest, Watcher
from memdb.ingest.storing import Stored, fold_keywords, store

__all__ = [
    "FORMATS",
    "BadLine",
    "Ingest",
    "Record",
    "Stored",
    "Watcher",
    "fold_keywords",
    "lines_of",
    "read",
    "read_object",
    "store",
]
