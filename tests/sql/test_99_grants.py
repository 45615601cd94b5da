"""Rights: who may call and read what."""

from collections import Counter
from pathlib import Path

import pytest

from tests.sql.rows import Rows

# Private functions an app role calls itself, or through a function or policy that runs as it.
# Each either says nothing of any tenant or checks its caller; a new one needs a reason here.
PRIVATE_BUT_CALLED = {
    "_authorize": "memdb_reader",
    "_cached_candidates": "memdb_reader",
    "_caller": "memdb_reader",
    "_candidates": "memdb_writer",
    "_check_cypher": "memdb_operator",
    "_claim_embeddings": "memdb_writer",
    "_conflicting": "memdb_reader",
    "_context_line": "memdb_reader",
    "_count_context": "memdb_reader",
    "_cut_line": "memdb_reader",
    "_cut_tokens": "memdb_reader",
    "_database_figures": "memdb_reader",
    "_estimate_tokens": "memdb_reader",
    "_explain_sources": "memdb_reader",
    "_explained_version": "memdb_reader",
    "_facts_before": "memdb_reader",
    "_filter_flaw": "memdb_reader",
    "_first_turn": "memdb_reader",
    "_grants": "memdb_reader",
    "_graph_end": "memdb_operator",
    "_group_lines": "memdb_reader",
    "_graph_hides": "memdb_operator",
    "_graph_is_alive": "memdb_operator",
    "_graph_is_on": "memdb_operator",
    "_graph_label_ids": "memdb_operator",
    "_graph_oids": "memdb_operator",
    "_graph_shown": "memdb_operator",
    "_has_age_rights": "memdb_operator",
    "_health_rules": "memdb_reader",
    "_health_values": "memdb_reader",
    "_is_erasing": "memdb_reader",
    "_is_hidden": "memdb_reader",
    "_is_operator": "memdb_reader",
    "_keep": "memdb_operator",
    "_labels_match": "memdb_reader",
    "_last_turns": "memdb_reader",
    "_lies_below": "memdb_reader",
    "_list_states": "memdb_reader",
    "_log_recall": "memdb_reader",
    "_made_below": "memdb_reader",
    "_made_of_events": "memdb_reader",
    "_match_flaw": "memdb_reader",
    "_meets": "memdb_reader",
    "_named_session": "memdb_reader",
    "_own_words": "memdb_reader",
    "_points_back": "memdb_reader",
    "_premise_rows": "memdb_reader",
    "_prepare_age": "memdb_operator",
    "_profile_ids": "memdb_reader",
    "_prov_agent": "memdb_reader",
    "_prov_derivations": "memdb_reader",
    "_prov_document": "memdb_reader",
    "_prov_events": "memdb_reader",
    "_prov_id": "memdb_reader",
    "_prov_invalidations": "memdb_reader",
    "_prov_time": "memdb_reader",
    "_prov_type": "memdb_reader",
    "_prov_versions": "memdb_reader",
    "_quoted": "memdb_reader",
    "_raise": "memdb_reader",
    "_read_states": "memdb_reader",
    "_readable": "memdb_reader",
    "_reason_clusters": "memdb_reader",
    "_rebuild_graph": "memdb_operator",
    "_recall_candidates": "memdb_reader",
    "_recall_factors": "memdb_reader",
    "_recall_fate": "memdb_reader",
    "_recall_sources": "memdb_reader",
    "_refused": "memdb_operator",
    "_require_graph": "memdb_operator",
    "_require_operator": "memdb_operator",
    "_run_cypher": "memdb_operator",
    "_say": "memdb_operator",
    "_scratch_tenant": "memdb_operator",
    "_session_named": "memdb_reader",
    "_shown_text": "memdb_reader",
    "_summary_before": "memdb_reader",
    "_summary_key": "memdb_reader",
    "_summary_material": "memdb_reader",
    "_summary_subject": "memdb_reader",
    "_support_rows": "memdb_reader",
    "_kept_expansion": "memdb_reader",
    "_then": "memdb_reader",
    "_topics_of": "memdb_reader",
    "_trace_rows": "memdb_reader",
    "_unbuild_graph": "memdb_operator",
    "_verify_cascade": "memdb_operator",
    "_verify_consistency": "memdb_operator",
    "_verify_past": "memdb_operator",
    "_verify_walls": "memdb_operator",
    "_version_fields": "memdb_reader",
    "_version_status": "memdb_reader",
}

GRANTED = """
select p.proname as name, a.grantee::regrole::text as role
  from pg_proc p, aclexplode(p.proacl) a
 where p.pronamespace = 'memdb'::regnamespace and a.grantee <> p.proowner
"""

READABLE = {
    "memdb_reader": {
        *(
            "alembic_version",
            "schema_info",
            "tenant",
            "namespace",
            "session",
            "event",
            "memory",
            "memory_version",
        ),
        *("belief", "entity", "embedding_model"),
        *("memories", "memory_versions", "events", "entities", "open_conflicts"),
        *("shown_memory", "shown_memory_version", "shown_event", "shown_entity"),
        *("review_item", "assessment", "assertion", "topic", "expiry"),
    },
    "memdb_operator": {
        *("role_tenant", "agent_grant", "policy", "extraction", "justification", "premise"),
        *("edge", "entity_alias", "mention", "memory_topic", "recall", "rederivation"),
        *("model_call", "model_usage", "summary", "summary_queue", "audit"),
        *("erasure_receipt", "legal_hold", "cold_file"),
        *("memory_use", "job", "job_run", "golden_query"),
    },
}


def test_every_public_function_is_given_to_exactly_one_role(db):
    given = Counter(row.name for row in db.execute(GRANTED).fetchall())
    public = {
        row.name
        for row in db.execute(
            "select p.proname as name from pg_proc p"
            " where p.pronamespace = 'memdb'::regnamespace and not starts_with(p.proname, '_')"
        ).fetchall()
    }
    frozen = {"scope_lexemes_v1", "scoped_metadata_v1"}
    assert public - frozen - given.keys() == set()
    assert {name for name, times in given.items() if times > 1} == set()


def test_private_functions_are_given_only_for_a_reason(db):
    given = {row.name: row.role for row in db.execute(GRANTED).fetchall()}
    private = {name: role for name, role in given.items() if name.startswith("_")}
    assert private == PRIVATE_BUT_CALLED


def test_tables_are_readable_by_list(db):
    found = db.execute(
        "select a.grantee::regrole::text as role, c.relname as name, a.privilege_type as right"
        " from pg_class c, aclexplode(c.relacl) a"
        " where c.relnamespace = 'memdb'::regnamespace and a.grantee <> c.relowner"
    ).fetchall()
    assert {row.right for row in found} == {"SELECT"}
    for role, names in READABLE.items():
        assert {row.name for row in found if row.role == role} == names


@pytest.mark.parametrize(
    "table",
    [
        *("premise", "justification", "edge", "mention", "entity_alias", "embedding"),
        *("embedding_cold", "embedding_queue", "keyword_queue", "lexeme_stat", "namespace_stat"),
        *("recall", "recall_default", "extraction", "role_tenant", "agent_grant", "policy"),
    ],
)
def test_a_writer_cannot_read_what_is_private(db, tenant, app_role, as_role, refuses, table):
    with refuses("42501"), as_role(app_role(tenant().id)):
        db.execute(f"select 1 from memdb.{table}")


def test_a_function_nobody_listed_cannot_be_used(db, as_role, refuses):
    """Applied again, the file takes away what it does not give."""
    db.execute("set local role memdb_owner")
    db.execute("create function memdb.forgotten() returns integer language sql return 1")
    db.execute("grant execute on function memdb.forgotten() to memdb_reader")
    db.execute("grant insert on memdb.event to memdb_writer")
    file = Path(__file__).parents[2] / "sql" / "functions" / "99_grants.sql"
    db.execute(file.read_text())
    for role in ("memdb_reader", "memdb_writer", "memdb_operator"):
        with refuses("42501"), as_role(role):
            db.execute("select memdb.forgotten()")
    with refuses("42501"), as_role("memdb_operator"):
        db.execute("insert into memdb.event default values")


def test_row_security_works_for_a_role_that_calls_no_function(db, tenant, app_role, as_role):
    """Policies run functions as the reader: those must stay granted."""
    world, other = Rows(db, tenant().id), Rows(db, tenant().id)
    for rows in (world, other):
        rows.memory("same")
        rows.event("same")
    with as_role(app_role(world.tenant, group="memdb_reader")):
        for table in ("tenant", "namespace", "memory", "memory_version", "event"):
            found = db.execute(f"select t.tenant_id from memdb.{table} t").fetchall()
            assert {row.tenant_id for row in found} == {world.tenant}
