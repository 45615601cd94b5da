"""PrecisionMemBench: how its words become ours, and what counts as a failure."""

import json

import pytest

from memdb import Memory
from memdb.bench.precision import cases_of, run_case, store_beliefs


def belief(name: str, **more):
    values = {
        "_id": name, "user_id": "u", "type": "preference", "canonical_name": name, "aliases": [],
        "content": f"content of {name}", "scope": ["domain:code"], "pinned": False,
        "superseded_by": None, "resolved_at": None,
    }  # fmt: skip
    return {**values, **more}


BELIEFS = [
    belief("alpha", aliases=["first letter"]),
    belief("beta", superseded_by="gamma"),
    belief("gamma", pinned=True),
    belief("question", type="open_question", aliases=["open thing"]),
    belief("resolved", type="open_question", resolved_at="2026-01-01T00:00:00Z"),
    belief("tie", type="relation", aliases=["tie between"], participants=["alpha"]),
    belief("elsewhere", aliases=["first letter"], scope=["domain:writing"]),
    belief("manner", pinned=True, scope=["user:universal"]),
]
CASES = [
    ("the first letter", {"relevantBeliefs": {"shouldOnlyInclude": ["alpha"]}}),
    ("the frist leter alpah", {"relevantBeliefs": {"shouldOnlyInclude": ["alpha"]}}),
    ("tie between them", {"relevantBeliefs": {"shouldOnlyInclude": ["alpha", "tie"]}}),
    ("beta", {"relevantBeliefs": {"shouldOnlyInclude": []},
              "pinnedFacts": {"mustInclude": ["gamma"]}}),
    ("", {"openQuestions": {"mustInclude": ["question"], "mustExclude": ["resolved"]},
          "personaPrelude": {"nonEmpty": True}}),
    ("first letter", {"noiseCheck": {"mustNotSurface": ["elsewhere"]}}),
]  # fmt: skip
WRONG = [
    ("the first letter", {"relevantBeliefs": {"shouldOnlyInclude": []}}, "has alpha"),
    ("nothing at all", {"relevantBeliefs": {"shouldOnlyInclude": ["alpha"]}}, "lacks alpha"),
    ("x", {"pinnedFacts": {"mustExclude": ["gamma"]}}, "has gamma"),
]


@pytest.fixture
def memory(dsn):
    with Memory(dsn, tenant="precision", encoder=None, create_tenant=True) as client:
        yield client


def test_cases_pass_and_fail_as_they_should(memory, tmp_path):
    ids = store_beliefs(memory, BELIEFS)
    file = tmp_path / "cases.json"
    every = [(query, expect, None) for query, expect in CASES] + WRONG
    rows = [
        {"caseId": str(n), "scope": ["domain:code"], "query": query, "expect": expect}
        for n, (query, expect, _) in enumerate(every)
    ]
    file.write_text(json.dumps(rows))
    for case, (_, _, failure) in zip(cases_of(file), every, strict=True):
        outcome = run_case(memory, case, ids, "u")
        if failure is None:
            assert outcome.failures == []
        else:
            assert failure in outcome.failures[0]


def test_a_session_learns_on_the_way_and_says_what_it_did_not_run(memory, tmp_path):
    ids = store_beliefs(memory, BELIEFS)
    turns = [
        {"turnIndex": 0, "scope": ["domain:code"], "userMessage": "by the zeroth sign",
         "expect": {"topicRetrieval": {}, "relevantBeliefs": {"shouldOnlyInclude": []}},
         "updateBeliefAtTurn": {"beliefId": "alpha", "addAliases": ["zeroth sign"]}},
        {"turnIndex": 1, "scope": ["domain:code"], "userMessage": "the zeroth sign, and newcomer",
         "createBeliefAtTurn": belief("newcomer"),
         "expect": {"relevantBeliefs": {"shouldOnlyInclude": ["alpha", "newcomer"]}}},
    ]  # fmt: skip
    file = tmp_path / "sessions.json"
    file.write_text(json.dumps([{"caseId": "s", "turns": turns}]))
    first, second = [run_case(memory, case, ids, "u") for case in cases_of(file)]
    assert first.failures == [] and "model" in first.not_run[0]
    assert second.failures == [] and second.is_exact and second.not_run == []
