-- 0015_recall_cache: a cache of recalls, and near-duplicates among hits.

create type memdb._recall_hit as (memory_id bigint, version integer, event_id bigint, score real, legs jsonb);
comment on type memdb._recall_hit is 'A hit of recall on its way through the ranking, as ids and numbers.';

create table memdb.recall_cache (
  tenant_id     integer not null,
  cache_key     bytea not null,
  namespace_ids integer[],
  snapshot      pg_snapshot not null,
  hits          memdb._recall_hit[] not null,
  stored_at     timestamptz not null default memdb.current_time(),
  constraint recall_cache_pkey primary key (tenant_id, cache_key)
);
comment on table memdb.recall_cache is 'What recent recalls found, as ids, by a hash of all they were asked; valid while the snapshot saw every write to their scope.';
comment on column memdb.recall_cache.namespace_ids is 'The namespaces that were searched; null = all of the tenant.';
create index recall_cache_stored_idx on memdb.recall_cache (tenant_id, stored_at);

create table memdb.scope_write (
  tenant_id    integer not null,
  namespace_id integer not null,
  xid          xid8 not null,
  constraint scope_write_pkey primary key (tenant_id, namespace_id, xid)
);
comment on table memdb.scope_write is 'Which transactions wrote to which namespace (0: to something all of a tenant depend on), for as long as a cached recall may not have seen them.';

alter table memdb.recall_cache enable row level security;
alter table memdb.scope_write  enable row level security;
create policy recall_cache_operator on memdb.recall_cache for select to memdb_operator using (true);
create policy scope_write_operator  on memdb.scope_write  for select to memdb_operator using (true);
