"""Appending events: what holds for a batch as a whole."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

WHERE = st.tuples(
    st.sampled_from(["default", "work", "work/plans", "a"]),
    st.sampled_from([None, "s1", "s2", "s3"]),
    st.sampled_from([None, "k1", "k2", "k3", "k4"]),
)
SETTINGS = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@SETTINGS
@given(where=st.lists(WHERE, min_size=1, max_size=30))
def test_ids_follow_the_order_of_the_batch(db, tenant, where):
    one = tenant().id
    items = [
        {"kind": "user_message", "text": f"n{key or place}", "namespace": namespace}
        | ({"session": session} if session else {})
        | ({"key": f"{key} {session}"} if key else {})
        for place, (namespace, session, key) in enumerate(where)
    ]
    seen: set[tuple[str, str | None, str]] = set()
    rows = db.execute(
        "select * from memdb.append_events(%s, %s)", [one, json.dumps(items)]
    ).fetchall()
    assert [row.ordinal for row in rows] == list(range(len(where)))
    fresh = [row for row in rows if row.is_new]
    assert [row.event_id for row in fresh] == sorted(row.event_id for row in fresh)
    by_session: dict[int, list[int]] = {}
    for row, (namespace, session, key) in zip(rows, where, strict=True):
        assert row.is_new == (key is None or (namespace, session, key) not in seen)
        seen.add((namespace, session, key or ""))
        if row.is_new and row.session_id is not None:
            by_session.setdefault(row.session_id, []).append(row.sequence)
    for sequences in by_session.values():
        assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
