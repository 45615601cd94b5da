-- 0019_context_filters: build_context takes the filters and the budget of recall.
--
-- Near-duplicates are judged by what was known at the time asked about. A function with further
-- arguments would stand beside the old one; it is made anew from its file.

drop function if exists memdb.build_context(
  integer, text, real[], text[], text, text, text, text[], integer, text[], integer, real, boolean, timestamptz, timestamptz);
drop function if exists memdb._collapse(integer, integer, memdb._recall_hit[], integer);
drop function if exists memdb._backing(integer, bigint[], integer[]);
