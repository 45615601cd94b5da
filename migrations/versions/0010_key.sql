-- 0010_key: keys of the HTTP service, what they did, and requests that may be sent twice.
--
-- api_key      who may ask the service for what; only the hash of the secret is kept
-- audit        what was written with which key, and which keys were made, used and taken back
-- api_request  writes that came with an Idempotency-Key, and what was answered

create table memdb.api_key (
  tenant_id    integer not null,
  key_id       bigint generated always as identity,
  name         text not null,
  role         text not null,
  prefix       text not null,
  key_hash     bytea not null,
  namespaces   text[],
  agents       text[],
  created_at   timestamptz not null default memdb.current_time(),
  expires_at   timestamptz,
  revoked_at   timestamptz,
  last_used_at timestamptz,
  constraint api_key_pkey primary key (tenant_id, key_id),
  constraint api_key_tenant_fkey foreign key (tenant_id) references memdb.tenant (tenant_id),
  constraint api_key_name_check check (name <> '' and char_length(name) <= 200),
  constraint api_key_role_check check (role in ('reader', 'writer', 'operator')),
  constraint api_key_prefix_check check (char_length(prefix) between 4 and 40),
  constraint api_key_hash_check check (octet_length(key_hash) = 32),
  constraint api_key_bounds_check check (cardinality(namespaces) > 0 and cardinality(agents) > 0),
  constraint api_key_operator_check check (role <> 'operator' or (namespaces is null and agents is null))
) with (fillfactor = 70);
comment on table memdb.api_key is 'Keys of the HTTP service: the SHA-256 of each secret, its first characters, and what it may do.';
comment on column memdb.api_key.namespaces is 'Paths it may read (and write), each with the paths below it; null: all of the tenant.';
comment on column memdb.api_key.agents is 'Agents it may act as, and whose namespaces it therefore sees; null: any, and none.';
-- Not unique: a secret has 256 random bits, and a unique index without the tenant could not be distributed.
create index api_key_hash_idx on memdb.api_key (key_hash);

create table memdb.audit (
  tenant_id   integer not null,
  audit_id    bigint generated always as identity,
  recorded_at timestamptz not null default memdb.current_time(),
  key_id      bigint,
  role_name   name not null,
  action      text not null,
  request_id  text,
  detail      jsonb not null default '{}',
  constraint audit_pkey primary key (tenant_id, audit_id, recorded_at),
  constraint audit_action_check check (action <> '' and char_length(action) <= 200)
) partition by range (recorded_at);
comment on table memdb.audit is 'Who changed what through the service, and what became of its keys; ids and names, no contents.';
comment on column memdb.audit.role_name is 'The database role that spoke: of the service, or of whoever made or revoked a key.';
create table memdb.audit_default partition of memdb.audit default;
comment on table memdb.audit_default is 'Rows of the audit that no month partition holds.';

create table memdb.api_request (
  tenant_id       integer not null,
  key_id          bigint not null,
  idempotency_key text not null,
  request_hash    bytea not null,
  request_id      text not null,
  recorded_at     timestamptz not null default memdb.current_time(),
  status          smallint,
  answer          jsonb,
  constraint api_request_pkey primary key (tenant_id, key_id, idempotency_key),
  constraint api_request_tenant_fkey foreign key (tenant_id) references memdb.tenant (tenant_id),
  constraint api_request_idempotency_check check (char_length(idempotency_key) between 1 and 255),
  constraint api_request_answer_check check ((status is null) = (answer is null))
);
comment on table memdb.api_request is 'Writes that came with an Idempotency-Key, for a day: written in their own transaction, so that none happens twice.';
comment on column memdb.api_request.key_id is 'The key it came with; 0 where the service asks for none.';
create index api_request_time_idx on memdb.api_request (tenant_id, recorded_at);

alter table memdb.api_key       enable row level security;
alter table memdb.audit         enable row level security;
alter table memdb.audit_default enable row level security;
alter table memdb.api_request   enable row level security;

-- Neither has a policy for readers and writers: what they may know of them, functions tell.
create policy audit_operator on memdb.audit for select to memdb_operator using (true);

-- _service_tenant: the tenant the service declared for this transaction, else null.
--
-- The setting counts for members of memdb_service, and for memdb_reader and memdb_writer
-- themselves where such a member has taken their part (set local role), which is how the service
-- runs a request. It counts for nobody else: any role can set a custom variable. After `set local`
-- it is empty, not null, hence nullif.
create or replace function memdb._service_tenant ()
  returns integer
  language sql stable parallel safe
begin atomic
  select case when pg_has_role(memdb._caller(), 'memdb_service', 'member')
                or (memdb._caller() in ('memdb_reader', 'memdb_writer') and pg_has_role(session_user, 'memdb_service', 'member'))
              then nullif(current_setting('memdb.tenant', true), '')::integer end;
end;
comment on function memdb._service_tenant () is 'The tenant the service declared for this transaction, else null.';

-- _service_agents: the agents the service may act as in this transaction; null means any, and none.
create function memdb._service_agents ()
  returns text[]
  language sql stable parallel safe
begin atomic
  select case when memdb._service_tenant() is not null
              then string_to_array(nullif(current_setting('memdb.agents', true), ''), E'\n') end;
end;
comment on function memdb._service_agents () is 'The agents the service may act as in this transaction; null means any, and none.';

-- _agents_see: whether any of some agents may read a namespace; null agents may.
create function memdb._agents_see (p_tenant integer, p_namespace integer, p_agents text[])
  returns boolean
  language sql stable parallel safe security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
  select p_agents is null
      or exists (select
                   from memdb.namespace n
                   cross join unnest(p_agents) a (agent_id)
                   left join memdb.agent_grant g
                     on g.tenant_id = n.tenant_id and g.namespace_id = n.namespace_id and g.agent_id = a.agent_id
                  where n.tenant_id = p_tenant and n.namespace_id = p_namespace
                    and coalesce(g.can_read, n.visibility in ('shared', 'public') or n.owner_agent_id = a.agent_id));
$$;
comment on function memdb._agents_see (integer, integer, text[]) is 'Whether any of some agents may read a namespace; null agents may.';

-- bound_tenants: tenants of which the caller may see every namespace; for row-security policies.
create or replace function memdb.bound_tenants ()
  returns integer[]
  language sql stable parallel safe security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
  select coalesce(array_agg(g.tenant_id), '{}')
    from memdb._grants() g
   where g.namespaces is null and memdb._service_agents() is null;
$$;

-- bound_namespaces: namespaces the caller may see one by one; for row-security policies.
create or replace function memdb.bound_namespaces ()
  returns integer[]
  language sql stable parallel safe security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
  select coalesce(array_agg(distinct n.namespace_id), '{}')
    from memdb._grants() g
    cross join lateral (select memdb._service_agents()) s (agents)
    join memdb.namespace n on n.tenant_id = g.tenant_id
   where (g.namespaces is not null or s.agents is not null)
     and (g.namespaces is null
          or exists (select from unnest(g.namespaces) granted (path)
                      where n.path = granted.path or starts_with(n.path, granted.path || '/')))
     and (s.agents is null or memdb._agents_see(n.tenant_id, n.namespace_id, s.agents));
$$;
