"""Whatever JSON arrives, the answer is one that the OpenAPI document declares, and never a 500."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.schemas.events import NewEvent
from api.schemas.memories import NewMemory
from api.schemas.recall import Question

WORDS = [
    "default",
    "team/a",
    "fact",
    "user",
    "s1",
    "2026-03-01T09:30:00Z",
    "",
    "\0",
    "\ud800",
    "茶",
]
NUMBERS = [0, 1, -1, 0.5, 1e308, 2**31, 2**63, 2**70]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(WORDS),
    st.sampled_from(NUMBERS),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def objects(model: Any) -> st.SearchStrategy[Any]:
    """Objects with some of a model's fields, of any type, and a text in most cases."""
    names = st.sampled_from(sorted(model.model_fields))
    some = st.dictionaries(names, VALUES, max_size=4)
    spoken = st.fixed_dictionaries({}, optional={"text": st.text(min_size=1, max_size=20)})
    return st.builds(lambda one, two: {**one, **two}, some, spoken)


BODIES = {
    "/v1/events": st.fixed_dictionaries({"events": st.lists(objects(NewEvent), max_size=3)}),
    "/v1/memories": st.fixed_dictionaries({"memories": st.lists(objects(NewMemory), max_size=3)}),
    "/v1/recall": st.builds(
        lambda one, query: {**one, "query": query},
        st.dictionaries(st.sampled_from(sorted(Question.model_fields)), VALUES, max_size=3),
        st.text(max_size=20),
    ),
}


@pytest.mark.parametrize("path", list(BODIES))
async def test_any_json(path: str, client: httpx.AsyncClient) -> None:
    loop = asyncio.get_running_loop()

    # The client compares each answer with the document; hypothesis itself is synchronous.
    @given(st.one_of(VALUES, BODIES[path]))
    @settings(
        max_examples=100,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    def ask(body: Any) -> None:
        content = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        sent = asyncio.run_coroutine_threadsafe(
            client.post(path, content=content, headers=headers), loop
        )
        answer = sent.result(60)
        assert answer.status_code < 500, answer.text

    await asyncio.to_thread(ask)
