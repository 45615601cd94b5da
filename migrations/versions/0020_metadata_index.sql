-- 0020_metadata_index: what memories were written with, found within a tenant or a namespace.

-- scoped_metadata_v1: metadata together with the scope it belongs to.
--
-- The scope is a key of the document like any other: one look-up meets its own rows only. A key of that
-- name in the metadata is hidden by it, on both sides: what is found is more, never less.
create function memdb.scoped_metadata_v1 (
  p_tenant    integer,
  p_namespace integer,
  p_metadata  jsonb
)
  returns jsonb
  language sql immutable parallel safe
begin atomic
  select p_metadata || jsonb_object(array[E'\x01t', p_tenant::text, E'\x01n', p_namespace::text]);
end;
comment on function memdb.scoped_metadata_v1 (integer, integer, jsonb) is 'Metadata together with the scope it belongs to.';

-- Not for current versions alone: retiring one would then write to every index anew.
create index memory_version_metadata_idx on memdb.memory_version
  using gin (memdb.scoped_metadata_v1(tenant_id, namespace_id, metadata) jsonb_path_ops)
  where metadata <> '{}';
