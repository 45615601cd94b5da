"""The OpenAPI document tells the truth, and all of it."""

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from api.app import create_app
from api.clients import Clients
from api.problem import Problem
from api.schemas import base, memories
from memdb import errors
from memdb.settings import Settings


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(clients=Clients(Settings(dsn="postgresql://nowhere"))).openapi()


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"{method} {path}", operation


def _references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    defined = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(_references(document)) - defined == set()


def test_every_operation_is_described(document: dict[str, Any]) -> None:
    for name, operation in _operations(document):
        assert operation["summary"], name
        assert operation["description"], name


def test_errors_are_problems_with_examples(document: dict[str, Any]) -> None:
    for name, operation in _operations(document):
        for status, answer in operation["responses"].items():
            if status < "300":
                continue
            content = answer["content"]
            assert list(content) == ["application/problem+json"], (name, status)
            examples = content["application/problem+json"]["examples"]
            assert examples, (name, status)
            for example in examples.values():
                assert Problem.model_validate(example["value"]).status == int(status)


def test_every_request_has_an_example_that_fits(document: dict[str, Any]) -> None:
    from api import schemas

    found = 0
    for name, operation in _operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            if "example" in content:
                continue
            title = content["schema"]["$ref"].rpartition("/")[2]
            (example,) = document["components"]["schemas"][title]["examples"]
            model = next(
                getattr(module, title)
                for module in vars(schemas).values()
                if hasattr(module, title)
            )
            assert model.model_validate_json(json.dumps(example)), name
            found += 1
    assert found > 10


def test_everything_under_v1_declares_what_any_request_may_meet(document: dict[str, Any]) -> None:
    for name, operation in _operations(document):
        if "/v1/" in name:
            always = {"401", "429", "403", "404", "422", "500", "501", "502", "503", "504"}
            assert always <= operation["responses"].keys(), name
            assert ("requestBody" in operation) is ("413" in operation["responses"]), name
            assert operation["security"] == [{"key": []}], name


def test_what_takes_an_idempotency_key_may_find_it_used(document: dict[str, Any]) -> None:
    for name, operation in _operations(document):
        parameters = {one["name"].lower() for one in operation.get("parameters", ())}
        if "idempotency-key" in parameters:
            assert "urn:memdb:MD202" in str(operation["responses"].get("409")), name


def test_declared_codes_exist(document: dict[str, Any]) -> None:
    codes = set(re.findall(r"urn:memdb:(MD\w+)", str(document)))
    assert codes <= errors.CODES.keys() | {"MD901"}


@pytest.mark.parametrize(
    ("words", "constraint", "unused"),
    [
        (base.EventKind, "event_kind_check", set[str]()),
        (base.MemoryType, "memory_type_check", set[str]()),
        (memories.Tier, "memory_tier_check", {"archive"}),
        (memories.Method, "justification_method_check", set[str]()),
        (memories.Relation, "edge_relation_check", set[str]()),
    ],
)
def test_words_are_those_of_the_database(
    db: Any, words: Any, constraint: str, unused: set[str]
) -> None:
    """`unused` are words that a caller may read but not write."""
    (definition,) = db.execute(
        "select pg_get_constraintdef(c.oid) from pg_constraint c where c.conname = %s"
        " and c.connamespace = 'memdb'::regnamespace",
        [constraint],
    ).fetchone()
    assert set(get_args(words)) == set(re.findall(r"'(\w+)'::text", definition)) - unused


def test_fields_are_those_of_the_facade() -> None:
    """What Python can say, HTTP can say, and by the same names."""
    from inspect import signature

    from api.schemas.events import NewEvent
    from api.schemas.recall import ForContext, Question
    from api.schemas.truth import NewVersion
    from memdb import operations

    def names(operation: Any) -> set[str]:
        return set(signature(operation).parameters) - {"scope"}

    assert set(NewEvent.model_fields) == names(operations.observe) | {"parent"}
    assert set(memories.NewMemory.model_fields) == names(operations.remember) | {"trust"}
    # A function cannot be sent.
    renamed = names(operations.recall) - {"log_recall", "rewriter"} | {"log"}
    assert set(Question.model_fields) == renamed
    assert set(ForContext.model_fields) == names(operations.context) - {"log_recall"} | {"log"}
    fixed = {"memory_id"}
    assert set(NewVersion.model_fields) == names(operations.supersede) - fixed
