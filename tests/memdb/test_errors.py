import pickle

import pytest

from memdb import errors
from memdb.errors import MemdbError, from_sqlstate

FAMILIES = {
    "MD0": errors.InvalidInput,
    "MD1": errors.NotFound,
    "MD2": errors.Conflict,
    "MD3": errors.AccessDenied,
    "MD4": errors.NotAvailable,
    "MD9": errors.InvariantBroken,
}


def every_class(cls: type[MemdbError] = MemdbError) -> list[type[MemdbError]]:
    """All classes of memdb.errors; models and the embedded server have some of their own."""
    children = [child for child in cls.__subclasses__() if child.__module__ == errors.__name__]
    return [cls, *(found for child in children for found in every_class(child))]


@pytest.mark.parametrize(("code", "cls"), sorted(errors.CODES.items()))
def test_each_code_has_a_class_of_its_family(code: str, cls: type[MemdbError]) -> None:
    error = from_sqlstate(code, "message")
    assert type(error) is cls
    assert isinstance(error, FAMILIES[code[:3]])
    assert error.sqlstate == code


@pytest.mark.parametrize(("family", "cls"), FAMILIES.items())
def test_a_code_of_a_later_release_gets_the_class_of_its_family(family, cls) -> None:
    error = from_sqlstate(f"{family}99", "message")
    assert type(error) is cls
    assert error.sqlstate == f"{family}99"


@pytest.mark.parametrize(
    ("sqlstate", "cls"),
    [
        ("40001", errors.Retryable),
        ("40P01", errors.Retryable),
        ("55P03", errors.Retryable),
        ("57014", errors.TimedOut),
        ("57P01", errors.ServerUnavailable),
        ("08006", errors.ServerUnavailable),
        ("28P01", errors.ServerUnavailable),
        ("53100", errors.ServerUnavailable),
        ("25006", errors.NotAvailable),
        ("42501", errors.AccessDenied),
        ("42883", errors.NotAvailable),
        ("3F000", errors.NotAvailable),
        ("42P05", errors.NotAvailable),
        ("22P02", errors.InvalidArgument),
        ("23505", errors.Conflict),
        ("23514", errors.InvalidArgument),
        ("54000", errors.TooLarge),
        (None, errors.ServerUnavailable),
        ("XX000", MemdbError),
        ("MDXYZ", MemdbError),
    ],
)
def test_codes_of_postgresql_itself(sqlstate: str | None, cls: type[MemdbError]) -> None:
    assert type(from_sqlstate(sqlstate, "message")) is cls


def test_the_next_step_is_memdbs_where_the_code_is_the_servers() -> None:
    error = from_sqlstate("42883", "no such function", hint="You might need type casts.")
    assert "memdb migrate" in (error.hint or "")
    assert from_sqlstate("MD001", "bad", hint="Do this.").hint == "Do this."


@pytest.mark.parametrize(
    ("detail", "parsed"),
    [
        ('{"index": 3, "field": "text"}', {"index": 3, "field": "text"}),
        ("Key (a)=(1) exists.", {"text": "Key (a)=(1) exists."}),
        ("[1, 2]", {"text": "[1, 2]"}),
        ("", {}),
        (None, {}),
    ],
)
def test_the_detail_becomes_a_dict(detail: str | None, parsed: dict[str, object]) -> None:
    error = from_sqlstate("MD001", "message", detail=detail)
    assert error.detail == parsed
    assert error.index == parsed.get("index")
    assert error.field == parsed.get("field")


def test_the_text_of_an_error_says_what_where_and_what_next() -> None:
    text = str(from_sqlstate("MD001", "bad", detail='{"index": 3}', hint="Do this."))
    assert text == "bad (index 3) [MD001] Hint: Do this."


@pytest.mark.parametrize("cls", every_class())
def test_each_class_has_a_default_message(cls: type[MemdbError]) -> None:
    error = cls()
    assert error.message == (cls.__doc__ or "").splitlines()[0]
    assert error.message.endswith(".")


def test_an_error_survives_being_sent_to_another_process() -> None:
    error = from_sqlstate("MD203", "other model", detail='{"index": 1}', hint="Do this.")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.detail) == (type(error), str(error), error.detail)


def test_every_class_is_exported() -> None:
    assert {cls.__name__ for cls in every_class()} <= {*errors.__all__}
