-- 0001_core: clock, tenants, namespaces, who may see what, policies.
--
-- Everything in this schema belongs to memdb_owner. App roles hold SELECT on what
-- row security lets them see and EXECUTE on functions; nobody but the owner writes
-- a table. The functions here are named by row-security policies, so they live in a
-- revision and not among the repeatable files.

create table memdb.schema_info (
  key        text primary key,
  value      text not null,
  updated_at timestamptz not null default now()
);
comment on table memdb.schema_info is 'One row per installation fact: package version, hash of sql/, switches such as test_clock.';

-- current_time: now, unless the owner switched the test clock on and the session set one.
create function memdb.current_time ()
  returns timestamptz
  language plpgsql volatile parallel safe security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_fake text := nullif(current_setting('memdb.fake_now', true), '');
begin
  if v_fake is not null
     and exists (select from memdb.schema_info s where s.key = 'test_clock' and s.value = 'on') then
    return v_fake::timestamptz;
  end if;
  return clock_timestamp();
end $$;
comment on function memdb.current_time () is 'Now, unless the owner switched the test clock on and the session set one.';

create table memdb.tenant (
  tenant_id   integer generated always as identity,
  name        text not null,
  created_at  timestamptz not null default memdb.current_time(),
  truth_at    timestamptz not null default '-infinity',
  constraint tenant_pkey primary key (tenant_id),
  constraint tenant_name_key unique (name),
  constraint tenant_name_check check (name <> '' and char_length(name) <= 200)
);
comment on table memdb.tenant is 'The outermost wall: nothing in memdb refers across two tenants.';
comment on column memdb.tenant.truth_at is 'Time of the last correction: the next one is later, whatever the clock does, so that its time names it.';

create table memdb.namespace (
  tenant_id      integer not null,
  namespace_id   integer generated always as identity,
  path           text not null,
  visibility     text not null default 'shared',
  owner_agent_id text,
  created_at     timestamptz not null default memdb.current_time(),
  constraint namespace_pkey primary key (tenant_id, namespace_id),
  constraint namespace_path_key unique (tenant_id, path),
  constraint namespace_tenant_fkey foreign key (tenant_id) references memdb.tenant (tenant_id),
  constraint namespace_path_check check (
    char_length(path) between 1 and 255 and path !~ '(^/|/$|//|[[:cntrl:]])' and path !~ '(^|/)\.\.?(/|$)'),
  constraint namespace_visibility_check check (visibility in ('shared', 'private', 'public')),
  constraint namespace_owner_check check (visibility <> 'private' or owner_agent_id is not null)
);
comment on table memdb.namespace is 'A slash path inside a tenant (team/support) that memories live under; appears on first write.';
comment on column memdb.namespace.visibility is 'shared: agents may read and write unless a grant says otherwise; private: only owner_agent_id and granted agents; public: every agent reads, granted agents write.';

create table memdb.role_tenant (
  tenant_id  integer not null,
  role_name  name not null,
  namespaces text[],
  can_write  boolean not null default false,
  granted_at timestamptz not null default memdb.current_time(),
  constraint role_tenant_pkey primary key (tenant_id, role_name),
  constraint role_tenant_tenant_fkey foreign key (tenant_id) references memdb.tenant (tenant_id)
);
comment on table memdb.role_tenant is 'Which database role may see which tenant; namespaces null means all of them, a path also covers the paths below it.';

create table memdb.agent_grant (
  tenant_id    integer not null,
  agent_id     text not null,
  namespace_id integer not null,
  can_read     boolean not null default true,
  can_write    boolean not null default false,
  weight       real not null default 1,
  granted_at   timestamptz not null default memdb.current_time(),
  constraint agent_grant_pkey primary key (tenant_id, agent_id, namespace_id),
  constraint agent_grant_namespace_fkey foreign key (tenant_id, namespace_id)
    references memdb.namespace (tenant_id, namespace_id),
  constraint agent_grant_weight_check check (weight > 0 and weight <= 10),
  constraint agent_grant_agent_check check (agent_id <> '')
);
comment on table memdb.agent_grant is 'What one agent may do in one namespace, and how much a memory from there weighs in its recall.';

create table memdb.policy (
  tenant_id    integer not null,
  policy_id    bigint generated always as identity,
  namespace_id integer,
  key          text not null,
  value        jsonb not null,
  updated_at   timestamptz not null default memdb.current_time(),
  constraint policy_pkey primary key (tenant_id, policy_id),
  constraint policy_key_key unique nulls not distinct (tenant_id, namespace_id, key),
  constraint policy_tenant_fkey foreign key (tenant_id) references memdb.tenant (tenant_id),
  constraint policy_namespace_fkey foreign key (tenant_id, namespace_id)
    references memdb.namespace (tenant_id, namespace_id)
);
comment on table memdb.policy is 'Half-lives, thresholds, boundaries, budgets: one value per key, tenant wide or for one namespace.';

-- _caller: the role that speaks, also inside definer functions, where current_user is the owner.
create function memdb._caller ()
  returns name
  language sql stable parallel safe
begin atomic
  select coalesce(nullif(current_setting('role'), 'none')::name, session_user);
end;
comment on function memdb._caller () is 'The role that speaks, also inside definer functions, where current_user is the owner.';

-- _is_operator: whether the caller administers every tenant.
create function memdb._is_operator ()
  returns boolean
  language sql stable parallel safe
begin atomic
  select pg_has_role(memdb._caller(), 'memdb_operator', 'member');
end;
comment on function memdb._is_operator () is 'Whether the caller administers every tenant.';

-- _service_tenant: the tenant a member of memdb_service declared for this transaction, else null.
--
-- The setting counts for nobody else: any role can set a custom variable. After
-- `set local` it is empty, not null, hence nullif.
create function memdb._service_tenant ()
  returns integer
  language sql stable parallel safe
begin atomic
  select case when pg_has_role(memdb._caller(), 'memdb_service', 'member')
              then nullif(current_setting('memdb.tenant', true), '')::integer end;
end;
comment on function memdb._service_tenant () is 'The tenant a member of memdb_service declared for this transaction, else null.';

-- _grants: the caller's access rows: tenant, namespaces (null = all), may it write.
create function memdb._grants ()
  returns table (tenant_id integer, namespaces text[], can_write boolean)
  language sql stable parallel safe security definer rows 2
  set search_path = pg_catalog, memdb, pg_temp
as $$
  select s.tenant_id,
         string_to_array(nullif(current_setting('memdb.namespaces', true), ''), E'\n'),
         coalesce(nullif(current_setting('memdb.can_write', true), ''), 'on')::boolean
    from (select memdb._service_tenant()) s (tenant_id)
   where s.tenant_id is not null
  union all
  select g.tenant_id, g.namespaces, g.can_write
    from memdb.role_tenant g
    join pg_roles r on r.rolname = g.role_name
   where memdb._service_tenant() is null
     and pg_has_role(memdb._caller(), r.oid, 'member');
$$;
comment on function memdb._grants () is 'The caller''s access rows: tenant, namespaces (null = all), may it write.';

-- bound_tenants: tenants of which the caller may see every namespace; for row-security policies.
create function memdb.bound_tenants ()
  returns integer[]
  language sql stable parallel safe security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
  select coalesce(array_agg(g.tenant_id), '{}') from memdb._grants() g where g.namespaces is null;
$$;
comment on function memdb.bound_tenants () is 'Tenants of which the caller may see every namespace; for row-security policies.';

-- bound_namespaces: namespaces the caller may see one by one; for row-security policies.
create function memdb.bound_namespaces ()
  returns integer[]
  language sql stable parallel safe security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
  select coalesce(array_agg(distinct n.namespace_id), '{}')
    from memdb._grants() g
    cross join unnest(g.namespaces) as granted (path)
    join memdb.namespace n
      on n.tenant_id = g.tenant_id
     and (n.path = granted.path or starts_with(n.path, granted.path || '/'));
$$;
comment on function memdb.bound_namespaces () is 'Namespaces the caller may see one by one; for row-security policies.';

alter table memdb.tenant      enable row level security;
alter table memdb.namespace   enable row level security;
alter table memdb.role_tenant enable row level security;
alter table memdb.agent_grant enable row level security;
alter table memdb.policy      enable row level security;
alter table memdb.schema_info enable row level security;

-- The subselect makes each function an initplan, run once per query and not per row.
create policy tenant_app on memdb.tenant for select to memdb_reader
  using (tenant_id in (select g.tenant_id from memdb._grants() g));
create policy namespace_app on memdb.namespace for select to memdb_reader
  using (tenant_id = any ((select memdb.bound_tenants())::integer[])
      or namespace_id = any ((select memdb.bound_namespaces())::integer[]));
create policy schema_info_app on memdb.schema_info for select to memdb_reader using (true);

create policy tenant_operator      on memdb.tenant      for select to memdb_operator using (true);
create policy namespace_operator   on memdb.namespace   for select to memdb_operator using (true);
create policy role_tenant_operator on memdb.role_tenant for select to memdb_operator using (true);
create policy agent_grant_operator on memdb.agent_grant for select to memdb_operator using (true);
create policy policy_operator      on memdb.policy      for select to memdb_operator using (true);
