-- 0009_recall_filters: further filters of recall, its budget and pages.

-- These got further arguments; beside the new ones they would make calls by name ambiguous.
drop function if exists memdb.recall (integer, text, real[], text[], text, text, text, text[], integer, text[], integer, text[], boolean, timestamptz, timestamptz);
drop function if exists memdb._check_recall (text, real[], text[], integer, text[], integer, text[]);
drop function if exists memdb._recall_candidates (integer, text, real[], text[], text, text, text, text[], integer, text[], integer, text[], timestamptz, timestamptz);
