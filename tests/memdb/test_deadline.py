"""Work that must be over by a time: given up in time, never piled up, begun anew after a fork."""

import os
import threading

import pytest

from memdb.models.deadline import awithin, within


def test_what_is_done_in_time_comes_back() -> None:
    assert within(60_000, divmod, 7, 2) == (3, 1)


def test_the_error_of_the_work_is_its_own() -> None:
    with pytest.raises(ZeroDivisionError):
        within(60_000, divmod, 7, 0)


def test_what_waits_too_long_is_never_begun() -> None:
    may, begun = threading.Event(), []

    def work() -> None:
        begun.append(1)
        may.wait(60)

    try:
        for _ in range(20):
            with pytest.raises(TimeoutError):
                within(5, work)
    finally:
        may.set()
    within(60_000, threading.Event().is_set)
    assert len(begun) <= 4


async def test_an_event_loop_waits_as_long() -> None:
    may = threading.Event()
    try:
        with pytest.raises(TimeoutError):
            await awithin(5, may.wait, 60)
    finally:
        may.set()
    assert await awithin(60_000, divmod, 7, 2) == (3, 1)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    within(60_000, divmod, 7, 2)
    child = os.fork()
    if child == 0:
        os._exit(0 if within(60_000, divmod, 7, 2) == (3, 1) else 1)
    assert os.waitpid(child, 0)[1] == 0
