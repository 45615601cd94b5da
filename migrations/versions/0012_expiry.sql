-- 0012_expiry: until when memories live that their client gave a time to live.

create table memdb.expiry (
  tenant_id    integer not null,
  memory_id    bigint not null,
  namespace_id integer not null,
  minutes      double precision not null,
  expires_at   timestamptz not null,
  constraint expiry_pkey primary key (tenant_id, memory_id),
  constraint expiry_memory_fkey foreign key (tenant_id, memory_id)
    references memdb.memory (tenant_id, memory_id) on delete cascade,
  constraint expiry_minutes_check check (minutes > 0)
);
comment on table memdb.expiry is 'Memories that live for a while only: how long after they were written or last read, and until when that is.';

create index expiry_time_idx on memdb.expiry (tenant_id, expires_at);

alter table memdb.expiry enable row level security;
create policy expiry_app on memdb.expiry for select to memdb_reader
  using (tenant_id = any ((select memdb.bound_tenants())::integer[])
      or namespace_id = any ((select memdb.bound_namespaces())::integer[]));
create policy expiry_operator on memdb.expiry for select to memdb_operator using (true);
