-- 0009_recall_filters: further filters of recall, its budget and pages; vectors of a scope side by side.

-- What a memory must also be to be returned; null where it does not matter. members: ids, as ranges:
-- whether one is among many thousands is a binary search. chosen: the ids that can pass at all,
-- where the filters leave so few that looking each of them up is the fastest way.
create type memdb._recall_filter as (
  tiers text[], from_at timestamptz, to_at timestamptz, members int8multirange, metadata jsonb, chosen bigint[]
);
comment on type memdb._recall_filter is 'Further filters of a recall, beside its scope: what a memory must also be to be returned.';

alter table memdb.recall add column timing jsonb;
comment on column memdb.recall.timing is 'Milliseconds in all and of each leg that ran, and the legs left out for lack of time.';

-- The vectors of a scope side by side, in place of one page each: measuring 2,500 of them reads 300
-- pages, not 2,500 (docs/decisions/0008). A row of it has room for 768 dimensions.
create index embedding_scope_idx on memdb.embedding (tenant_id, model_id, namespace_id, user_id)
  include (memory_id, version, type, vector) where vector_dims(vector) <= 768;

-- These got further arguments; beside the new ones they would make calls by name ambiguous.
drop function if exists memdb.recall (integer, text, real[], text[], text, text, text, text[], integer, text[], integer, text[], boolean, timestamptz, timestamptz);
drop function if exists memdb._check_recall (text, real[], text[], integer, text[], integer, text[]);
drop function if exists memdb._recall_candidates (integer, text, real[], text[], text, text, text, text[], integer, text[], integer, text[], timestamptz, timestamptz);
drop function if exists memdb._best_matches (integer, text, tsquery, text[], double precision[], double precision, integer);
drop function if exists memdb._context_rows (integer, integer[], text, bigint[], text[], text[], bigint[], bigint[], integer, timestamptz, timestamptz);
drop function if exists memdb._count_matches (integer, integer[], text, bigint[], text[], text[], text[], integer);
drop function if exists memdb._fresh_leg (integer, integer[], text, bigint[], text[], double precision[], double precision, integer, timestamptz);
drop function if exists memdb._graph_leg (integer, integer[], text, bigint[], text[], text[], bigint[], double precision[], integer, timestamptz, timestamptz);
drop function if exists memdb._keyword_leg (integer, integer[], text, bigint[], text[], text[], text[], integer);
drop function if exists memdb._keyword_matches (integer, integer[], text, bigint[], text[], text[], tsquery, text[], double precision[], double precision, integer);
drop function if exists memdb._keyword_then (integer, integer[], text, bigint[], text[], text[], text[], integer, timestamptz, timestamptz);
drop function if exists memdb._log_recall (integer, text[], text, text, text, jsonb, bigint[], integer[], real[], jsonb, real);
drop function if exists memdb._memories_then (integer, bigint[], integer[], text, bigint[], text[], text[], timestamptz, timestamptz);
drop function if exists memdb._nearest_cold (integer, integer[], text, bigint[], text[], text[], integer, halfvec, integer);
drop function if exists memdb._nearest_exact (integer, integer[], text, bigint[], text[], integer, halfvec, integer);
drop function if exists memdb._nearest_indexed (integer, integer[], text, text[], integer, halfvec, integer[], integer);
drop function if exists memdb._nearest_then (integer, integer[], text, bigint[], text[], text[], integer, halfvec, integer, timestamptz, timestamptz);
drop function if exists memdb._next_then (integer, integer[], text, bigint[], text[], text[], memdb.memory, integer, timestamptz, timestamptz);
drop function if exists memdb._next_to (integer, integer[], text, bigint[], text[], text[], memdb.memory, integer);
drop function if exists memdb._pool (integer, integer[], text, text, bigint[], integer[], timestamptz[], integer[], double precision[], bigint[], boolean[], double precision[], bigint[], boolean[], bigint[], double precision[], integer, halfvec, integer, timestamptz[], timestamptz[], double precision[], bigint[], double precision[], integer);
drop function if exists memdb._ranked (integer, integer[], text, bigint[], text[], text[], text, text, bigint[], integer[], timestamptz[], integer[], double precision[], bigint[], boolean[], double precision[], bigint[], boolean[], bigint[], double precision[], bigint[], double precision[], integer, halfvec, integer, timestamptz[], timestamptz[], double precision[], bigint[], double precision[], integer, integer, integer, timestamptz, timestamptz);
drop function if exists memdb._recall_fate (integer, bigint, text, boolean, text[], text, text, text, text[], text[], text[], timestamptz, timestamptz);
drop function if exists memdb._search_matches (integer, integer[], text, bigint[], text[], text[], text[], double precision[], double precision[], double precision, integer);
drop function if exists memdb._vector_leg (integer, integer[], text, bigint[], text[], text[], integer, halfvec, integer);
drop function if exists memdb._vector_strategy (integer, integer[], text, bigint[], integer, halfvec);
drop function if exists memdb._window_scores (integer, bigint[], integer[], bigint[], text[], double precision[], double precision, integer);
drop function if exists memdb.explain_recall (integer, text, bigint, real[], text[], text, text, text, text[], integer, text[], integer, text[], timestamptz, timestamptz);
drop function if exists memdb._is_recallable (memdb.memory, integer[], text, bigint[], text[], text[]);
drop function if exists memdb._recall_fate (integer, bigint, text, boolean, text[], text, text, text, text[], text[], text[], timestamptz, timestamptz);
drop function if exists memdb.explain_recall (integer, text, bigint, real[], text[], text, text, text, text[], integer, text[], integer, text[], timestamptz, timestamptz);
