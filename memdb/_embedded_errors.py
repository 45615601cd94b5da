"""What can go wrong with the embedded server, each with its cause and its remedy.

EmbeddedError
├── NotInstalled     no PostgreSQL binaries for this Python
├── NotPermitted     a directory, an account or a socket does not allow it
├── InvalidDataDir   the path cannot hold an embedded server
├── InvalidSetting   a port or a server setting that cannot be used
├── WrongVersion     the data were written by another major version
├── DiskFull         no room for the data or for the write-ahead log
├── PortTaken        another program listens on the TCP port
├── AlreadyRunning   the server runs, but not as asked
├── StartFailed      the server ended before it was ready
├── StillStarting    the server (or another process's start) needs longer than the time-out
└── StopFailed       the server does not end, or cannot be reached from here
"""

from memdb.errors import NotAvailable


class EmbeddedError(NotAvailable):
    """The embedded server could not do what was asked.

    Args:
        message: the cause, one sentence.
        hint: the next step for whoever reads it.
        log: the last lines of the server log, or nothing.
    """

    def __init__(self, message: str, *, hint: str, log: str = "") -> None:
        super().__init__(message, hint=hint)
        self.log = log

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}\nLast lines of the server log:\n{self.log}" if self.log else text


class NotInstalled(EmbeddedError):
    """There are no PostgreSQL binaries memdb could run."""


class NotPermitted(EmbeddedError):
    """The operating system, or memdb's own care, does not allow it."""


class InvalidDataDir(EmbeddedError):
    """The path cannot be the data directory of an embedded server."""


class InvalidSetting(EmbeddedError):
    """The port or the server setting cannot be used."""


class WrongVersion(EmbeddedError):
    """The data directory belongs to another major version of PostgreSQL."""


class DiskFull(EmbeddedError):
    """The file system of the data directory has no room left."""


class PortTaken(EmbeddedError):
    """Another program listens on the TCP port."""


class AlreadyRunning(EmbeddedError):
    """The server of this data directory runs, but not in the way asked for."""


class StartFailed(EmbeddedError):
    """The server ended before it accepted connections."""


class StillStarting(EmbeddedError):
    """The server is not ready in time; it goes on starting in the background."""


class StopFailed(EmbeddedError):
    """The server could not be stopped."""
