-- 0008_recall_as_of: recall about the past.

-- These got further arguments; beside the new ones they would make calls by name ambiguous.
drop function if exists memdb.recall (integer, text, real[], text[], text, text, text, text[], integer, text[], integer, text[], boolean);
drop function if exists memdb._recall_candidates (integer, text, real[], text[], text, text, text, text[], integer, text[], integer, text[]);
drop function if exists memdb._recall_sources (integer, bigint[], integer[]);
drop function if exists memdb._fresh_leg (integer, integer[], text, bigint[], text[], double precision[], double precision, integer);
drop function if exists memdb._context_rows (integer, integer[], text, bigint[], text[], text[], bigint[], bigint[], integer);
drop function if exists memdb._graph_leg (integer, integer[], text, bigint[], text[], text[], bigint[], double precision[], integer);
drop function if exists memdb._ranked (integer, integer[], text, bigint[], text[], text[], text, text, bigint[], integer[], timestamptz[], integer[], double precision[], bigint[], boolean[], double precision[], bigint[], boolean[], bigint[], double precision[], bigint[], double precision[], integer, halfvec, integer, timestamptz[], timestamptz[], double precision[], bigint[], double precision[], integer, integer, integer);

-- The ties of a memory at a time gone by: those that ended since are in neither index of the others.
create index edge_from_ended_idx on memdb.edge (tenant_id, from_memory_id) where retired_at is not null;
create index edge_to_ended_idx on memdb.edge (tenant_id, to_memory_id) where retired_at is not null;
