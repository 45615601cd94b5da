"""Bringing in what already exists: files of events or chat messages, line by line.

    reading   a line of JSON becomes a record, or a bad line with its reason
    storing   a batch of records becomes events and verbatim memories, in one transaction
    running   a whole file: batches, vectors, statistics, and what came of it

Each record is one event (nothing is to be extracted from it) and one verbatim memory that rests
on it and has the event's key as its external id. The key makes it safe to stop anywhere and
run again: what is there is neither stored nor encoded a second time.
"""

from memdb.ingest.reading import BadLine, Record, read, read_object
from memdb.ingest.running import Ingest, Watcher
from memdb.ingest.storing import Stored, fold_keywords, store

__all__ = [
    "BadLine",
    "Ingest",
    "Record",
    "Stored",
    "Watcher",
    "fold_keywords",
    "read",
    "read_object",
    "store",
]
