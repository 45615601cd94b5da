-- 0022_factors: recall takes exponents of its factors, by call and by policy.

-- By how much each factor of a recall counts: exponents, what a tier is worth, and the half-life of freshness; null: that of the memory.
create type memdb._recall_weights as (
  importance double precision, reliability double precision, status double precision, tier double precision, namespace double precision,
  freshness double precision, centrality double precision, strength double precision,
  working double precision, short_term double precision, long_term double precision, archive double precision,
  half_life_days double precision
);
comment on type memdb._recall_weights is 'By how much each factor of a recall counts, where not as usual: exponents, what each tier is worth, a half-life.';

-- These got further arguments; beside the new ones they would make calls by name ambiguous.
drop function if exists memdb._anchored(integer, integer[], text, bigint[], text[], text[], memdb._recall_filter, text, double precision, bigint[], bigint[], integer[], double precision[]);
drop function if exists memdb._cached_candidates(integer, text, real[], text[], text, text, text, text[], integer, text[], integer, text[], timestamptz, timestamptz, integer, text[], timestamptz, timestamptz, text[], bigint, jsonb, text, integer);
drop function if exists memdb._graph_leg(integer, integer[], text, bigint[], text[], text[], bigint[], double precision[], integer, timestamptz, timestamptz, memdb._recall_filter);
drop function if exists memdb._recall_candidates(integer, text, real[], text[], text, text, text, text[], integer, text[], integer, text[], timestamptz, timestamptz, integer, text[], timestamptz, timestamptz, text[], bigint, jsonb, text, integer);
drop function if exists memdb._recall_factors(integer, text, text, bigint[], integer[], timestamptz, timestamptz);
drop function if exists memdb._search(integer, integer[], text, bigint[], text[], text[], memdb._recall_filter, text, text, integer, halfvec, text[], integer, integer, integer, timestamptz, timestamptz, timestamptz);
drop function if exists memdb.build_context(integer, text, real[], text[], text, text, text, text[], integer, text[], integer, real, boolean, timestamptz, timestamptz, integer, text[], timestamptz, timestamptz, text[], bigint, jsonb);
drop function if exists memdb.explain_recall(integer, text, bigint, real[], text[], text, text, text, text[], integer, text[], integer, text[], timestamptz, timestamptz, text[], timestamptz, timestamptz, text[], bigint, jsonb);
drop function if exists memdb.recall(integer, text, real[], text[], text, text, text, text[], integer, text[], integer, text[], boolean, timestamptz, timestamptz, integer, text[], timestamptz, timestamptz, text[], bigint, jsonb, text, integer, boolean);
