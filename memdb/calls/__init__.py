"""One function for each public SQL function: same name, arguments without `p_`.

Each returns a `Call`: the statement, its parameters and the kind of row that comes back. No
I/O happens here; `memdb.db` runs calls. What a function does, costs and raises is written
where it is defined, in `sql/functions`, and shown by `\\df+ memdb.*` in psql.

Where an argument's name is a word of Python, it has an underscore at its end.
"""

from memdb.calls.access import (
    create_tenant,
    effective_policy,
    find_tenant,
    grant_agent,
    grant_role,
    set_namespace,
    set_policy,
)
from memdb.calls.context import (
    due_summaries,
    record_summary,
    session_context,
    summary_material,
)
from memdb.calls.graph import cypher, rebuild_graph, switch_graph
from memdb.calls.history import (
    diff_versions,
    export_prov,
    memory_history,
    replay_session,
    rollback_memory,
    trace_memory,
)
from memdb.calls.ledger import (
    model_budgets,
    model_spend,
    open_model_call,
    record_model_call,
)
from memdb.calls.pipeline import (
    explain_writing,
    find_candidates,
    record_assertions,
    record_assessments,
    request_reviews,
    review_items,
)
from memdb.calls.queue import (
    claim_events,
    complete_events,
    earlier_events,
    extend_lease,
    fail_event,
    failed_events,
    retry_events,
)
from memdb.calls.read import (
    expand_related,
    explain_memory,
    explain_memory_json,
    get_memory,
    list_memories,
    memory_as_of,
    neighbours,
    read_turns,
    recall,
)
from memdb.calls.review import (
    claim_rederivations,
    complete_rederivations,
    decide_review,
    fail_rederivation,
    open_conflicts,
    reopen_review,
    resolve_conflict,
)
from memdb.calls.store import (
    append_events,
    known_events,
    merge_entities,
    record_memories,
    relate_memories,
)
from memdb.calls.truth import (
    add_premises,
    correct_event,
    restore_event,
    restore_memory,
    retract_event,
    retract_memory,
    supersede_memory,
)
from memdb.calls.upkeep import check_consistency, fold_keyword_stats, health
from memdb.calls.vector import (
    compose_passages,
    enqueue_embeddings,
    fail_embedding,
    list_embedding_models,
    pending_embeddings,
    record_embeddings,
    register_embedding_model,
)
from memdb.statement import Call

__all__ = [
    "Call",
    "add_premises",
    "append_events",
    "check_consistency",
    "claim_events",
    "claim_rederivations",
    "complete_events",
    "complete_rederivations",
    "compose_passages",
    "correct_event",
    "create_tenant",
    "earlier_events",
    "cypher",
    "decide_review",
    "diff_versions",
    "due_summaries",
    "effective_policy",
    "enqueue_embeddings",
    "expand_related",
    "explain_memory",
    "explain_memory_json",
    "explain_writing",
    "export_prov",
    "extend_lease",
    "fail_embedding",
    "fail_event",
    "fail_rederivation",
    "failed_events",
    "find_candidates",
    "find_tenant",
    "fold_keyword_stats",
    "get_memory",
    "grant_agent",
    "grant_role",
    "health",
    "known_events",
    "list_embedding_models",
    "list_memories",
    "memory_as_of",
    "memory_history",
    "merge_entities",
    "model_budgets",
    "model_spend",
    "neighbours",
    "open_conflicts",
    "open_model_call",
    "pending_embeddings",
    "read_turns",
    "rebuild_graph",
    "recall",
    "record_assertions",
    "record_assessments",
    "record_embeddings",
    "record_memories",
    "record_model_call",
    "record_summary",
    "register_embedding_model",
    "relate_memories",
    "reopen_review",
    "replay_session",
    "request_reviews",
    "resolve_conflict",
    "restore_event",
    "restore_memory",
    "retract_event",
    "retract_memory",
    "retry_events",
    "review_items",
    "rollback_memory",
    "session_context",
    "set_namespace",
    "set_policy",
    "summary_material",
    "supersede_memory",
    "switch_graph",
    "trace_memory",
]
