-- 0018_profile: what is known of users, put together from their memories, and whether it is due again.

create table memdb.profile (
  tenant_id    integer not null,
  profile_id   bigint generated always as identity,
  namespace_id integer not null,
  user_id      text not null,
  memory_id    bigint,
  due_at       timestamptz,
  attempts     smallint not null default 0,
  refreshed_at timestamptz,
  constraint profile_pkey primary key (tenant_id, profile_id),
  constraint profile_user_key unique (tenant_id, namespace_id, user_id),
  constraint profile_namespace_fkey foreign key (tenant_id, namespace_id)
    references memdb.namespace (tenant_id, namespace_id),
  constraint profile_memory_fkey foreign key (tenant_id, memory_id)
    references memdb.memory (tenant_id, memory_id) on delete set null (memory_id)
) with (fillfactor = 70);
comment on table memdb.profile is 'Profiles of users: the memory that holds each, and from when on it is to be written anew.';
create index profile_due_idx on memdb.profile (tenant_id, due_at) where due_at is not null;
create index profile_memory_idx on memdb.profile (tenant_id, memory_id) where memory_id is not null;

create table memdb.profile_mark (
  tenant_id integer not null,
  reason_id bigint not null default 0,
  belief_at timestamptz not null default '-infinity',
  constraint profile_mark_pkey primary key (tenant_id),
  constraint profile_mark_tenant_fkey foreign key (tenant_id) references memdb.tenant (tenant_id)
);
comment on table memdb.profile_mark is 'Up to which reason and which correction of a tenant it was seen whose profiles changed.';

alter table memdb.profile      enable row level security;
alter table memdb.profile_mark enable row level security;
