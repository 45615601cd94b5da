-- Who may see what: tenants, roles, namespaces, agents, policies.
--
-- Two walls. Inside definer functions the first statement is _authorize, and every query
-- carries tenant_id = p_tenant; content leaves only through tables under row security.
-- A role sees a tenant through role_tenant; members of memdb_operator see all of them;
-- the HTTP service, a member of memdb_service, declares for each transaction what its caller may
-- see: memdb.tenant, memdb.namespaces and memdb.agents (one a line), memdb.can_write.

-- _authorize: stop unless the caller may read (or write) the tenant.
--
-- Raises MD001 for null, MD301 where the caller has no grant (also for a tenant that does not
-- exist: a stranger must not learn which ids are taken), MD101 to operators. Cost: one look-up.
create or replace function memdb._authorize (
  p_tenant integer,
  p_write  boolean
)
  returns void
  language plpgsql stable security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  if p_tenant is null then
    perform memdb._raise('MD001', 'tenant is required', null, 'Pass the tenant id; find_tenant(name) finds it.');
  end if;
  if exists (select from memdb._grants() g where g.tenant_id = p_tenant and (g.can_write or not p_write)) then
    return;
  end if;
  if not memdb._is_operator() then
    perform memdb._raise('MD301', 'this role has no such right on the tenant', jsonb_build_object('tenant', p_tenant),
      'An operator grants it with memdb.grant_role(tenant, role, can_write).');
  end if;
  if not exists (select from memdb.tenant t where t.tenant_id = p_tenant) then
    perform memdb._raise('MD101', 'no such tenant', jsonb_build_object('tenant', p_tenant),
      'Create it with memdb.create_tenant(name); tenants never appear by themselves.');
  end if;
end $$;
comment on function memdb._authorize (integer, boolean) is 'Stop unless the caller may read (or write) the tenant.';

-- _require_operator: stop unless the caller administers memdb.
create or replace function memdb._require_operator ()
  returns void
  language plpgsql stable
as $$
begin
  if not memdb._is_operator() then
    perform memdb._raise('MD303', 'only an operator may do this', null, 'Ask a member of memdb_operator.');
  end if;
end $$;
comment on function memdb._require_operator () is 'Stop unless the caller administers memdb.';

-- _agent_denied: the namespaces of a tenant an acting agent may not read (or write).
--
-- A grant row decides; without one a private namespace belongs to its owner, a public one is
-- read by all and written by its owner, a shared one is open.
create or replace function memdb._agent_denied (p_tenant integer, p_agent text, p_write boolean)
  returns integer[]
  language sql stable security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
  select coalesce(array_agg(n.namespace_id), '{}')
    from memdb.namespace n
    left join memdb.agent_grant g
      on g.tenant_id = p_tenant and g.namespace_id = n.namespace_id and g.agent_id = p_agent
   where n.tenant_id = p_tenant
     and not coalesce(
       case when p_write then g.can_write else g.can_read end,
       n.visibility = 'shared' or n.owner_agent_id = p_agent or (n.visibility = 'public' and not p_write));
$$;
comment on function memdb._agent_denied (integer, text, boolean) is 'The namespaces of a tenant an acting agent may not read (or write).';

-- _namespaces_granted: the namespaces the caller itself may see in a tenant; null means all.
create or replace function memdb._namespaces_granted (p_tenant integer, p_write boolean)
  returns integer[]
  language sql stable security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
  select case
    when memdb._is_operator()
      or memdb._service_agents() is null
         and exists (select from memdb._grants() g
                      where g.tenant_id = p_tenant and g.namespaces is null and (g.can_write or not p_write)) then null
    else (select coalesce(array_agg(distinct n.namespace_id), '{}')
            from memdb._grants() g
            join memdb.namespace n on n.tenant_id = p_tenant
           where g.tenant_id = p_tenant and (g.can_write or not p_write)
             and (g.namespaces is null
                  or exists (select from unnest(g.namespaces) granted (path)
                              where n.path = granted.path or starts_with(n.path, granted.path || '/')))
             and (memdb._service_agents() is null
                  or exists (select from unnest(memdb._service_agents()) a (agent_id)
                              where n.namespace_id <> all (memdb._agent_denied(p_tenant, a.agent_id, p_write))))) end;
$$;
comment on function memdb._namespaces_granted (integer, boolean) is 'The namespaces the caller itself may see in a tenant; null means all.';

-- _check_agent: stop where the service may not act as an agent.
--
-- Raises MD302. No agent (null) is let through: such a caller sees what its agents see together.
create or replace function memdb._check_agent (p_agent text)
  returns void
  language plpgsql stable
as $$
begin
  if p_agent <> all (memdb._service_agents()) then
    perform memdb._raise('MD302', 'this key may not act as the agent', jsonb_build_object('agent', left(p_agent, 300)),
      'An operator makes a key for it: memdb key create --agent NAME.');
  end if;
end $$;
comment on function memdb._check_agent (text) is 'Stop where the service may not act as an agent.';

-- _readable: the namespaces a read may touch; null means the whole tenant.
--
-- p_namespaces null asks for all the caller may read. A namespace that is named must exist
-- (MD102) and be readable (MD302; to a caller bound to some namespaces, one outside them does
-- not exist). p_agent narrows to what that agent may read; null = no agent, private
-- namespaces of agents included.
create or replace function memdb._readable (
  p_tenant     integer,
  p_namespaces text[],
  p_agent      text
)
  returns integer[]
  language plpgsql stable security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_granted integer[] := memdb._namespaces_granted(p_tenant, false);
  v_denied  integer[] := case when p_agent is null then '{}' else memdb._agent_denied(p_tenant, p_agent, false) end;
  v_asked   integer[];
  v_missing text;
begin
  perform memdb._check_agent(p_agent);
  if p_namespaces is null then
    if v_granted is null and v_denied = '{}' then
      return null;
    end if;
    return array(select n.namespace_id from memdb.namespace n
                  where n.tenant_id = p_tenant and n.namespace_id <> all (v_denied)
                    and (v_granted is null or n.namespace_id = any (v_granted)));
  end if;
  select array_agg(n.namespace_id), min(a.path) filter (where n.namespace_id is null)
    into v_asked, v_missing
    from unnest(p_namespaces) a (path)
    left join memdb.namespace n
      on n.tenant_id = p_tenant and n.path = a.path and (v_granted is null or n.namespace_id = any (v_granted));
  -- Not array_position: it takes no nested array.
  if v_missing is not null or exists (select from unnest(p_namespaces) a (path) where a.path is null) then
    perform memdb._raise('MD102', 'no such namespace', jsonb_build_object('namespace', v_missing),
      'A namespace appears with the first event or memory written to it; check the spelling.');
  end if;
  if v_asked && v_denied then
    perform memdb._raise('MD302', 'the agent may not read this namespace', jsonb_build_object('agent', p_agent),
      'An operator grants it with memdb.grant_agent(tenant, agent, namespace).');
  end if;
  return coalesce(v_asked, '{}');
end $$;
comment on function memdb._readable (integer, text[], text) is 'The namespaces a read may touch; null means the whole tenant.';

-- _writable: the id of a namespace to write to, created on first write.
--
-- Raises MD302 where the role or the acting agent may not write it, MD001 for a malformed path.
-- Two first writers at once: `on conflict do nothing`, then the row is read again.
create or replace function memdb._writable (
  p_tenant    integer,
  p_namespace text,
  p_agent     text
)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_id integer;
begin
  perform memdb._check_agent(p_agent);
  select n.namespace_id into v_id from memdb.namespace n where n.tenant_id = p_tenant and n.path = p_namespace;
  if v_id is null and memdb._may_create(p_tenant, p_namespace) then
    begin
      insert into memdb.namespace as n (tenant_id, path) values (p_tenant, p_namespace)
        on conflict on constraint namespace_path_key do nothing returning n.namespace_id into v_id;
    exception when check_violation or not_null_violation then
      perform memdb._raise('MD001', 'malformed namespace', jsonb_build_object('namespace', left(p_namespace, 300)),
        'A namespace is a path like team/support: 1 to 255 characters, no leading, trailing or double slash, no control characters.');
    end;
    if v_id is null then
      select n.namespace_id into v_id from memdb.namespace n where n.tenant_id = p_tenant and n.path = p_namespace;
    end if;
  end if;
  if v_id is null
     or not coalesce(v_id = any (memdb._namespaces_granted(p_tenant, true)), true)
     or (p_agent is not null and v_id = any (memdb._agent_denied(p_tenant, p_agent, true))) then
    perform memdb._raise('MD302', 'this namespace may not be written',
      jsonb_build_object('namespace', left(p_namespace, 300), 'agent', left(p_agent, 300)),
      'An operator widens memdb.grant_role (for roles) or memdb.grant_agent (for agents).');
  end if;
  return v_id;
end $$;
comment on function memdb._writable (integer, text, text) is 'The id of a namespace to write to, created on first write.';

-- _may_create: whether the caller's grants cover a namespace that does not exist yet.
create or replace function memdb._may_create (p_tenant integer, p_namespace text)
  returns boolean
  language sql stable security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
  select memdb._is_operator()
      or exists (select from memdb._grants() g
                  where g.tenant_id = p_tenant and g.can_write
                    and (g.namespaces is null
                         or exists (select from unnest(g.namespaces) granted (path)
                                     where p_namespace = granted.path
                                        or starts_with(p_namespace, granted.path || '/'))));
$$;
comment on function memdb._may_create (integer, text) is 'Whether the caller''s grants cover a namespace that does not exist yet.';

-- create_tenant: make a tenant, or find the one of that name.
--
-- Returns its id and whether it is new. Operators only (MD303); MD001 for an empty or
-- over-long (200 characters) name.
create or replace function memdb.create_tenant (p_name text)
  returns table (tenant_id integer, is_new boolean)
  language plpgsql volatile security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._require_operator();
  if p_name is null or p_name = '' or char_length(p_name) > 200 then
    perform memdb._raise('MD001', 'a tenant name has 1 to 200 characters', jsonb_build_object('field', 'name'));
  end if;
  return query
    with inserted as (
      insert into memdb.tenant as t (name) values (p_name)
        on conflict on constraint tenant_name_key do nothing returning t.tenant_id)
    select i.tenant_id, true from inserted i;
  if not found then
    return query select t.tenant_id, false from memdb.tenant t where t.name = p_name;
  end if;
end $$;
comment on function memdb.create_tenant (text) is 'Make a tenant, or find the one of that name.';

-- find_tenant: the id of a tenant by its name.
--
-- Raises MD101 where there is none the caller may see. Cost: one look-up.
create or replace function memdb.find_tenant (p_name text)
  returns integer
  language plpgsql stable security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_id integer;
begin
  select t.tenant_id into v_id
    from memdb.tenant t
   where t.name = p_name
     and (memdb._is_operator() or exists (select from memdb._grants() g where g.tenant_id = t.tenant_id));
  if v_id is null then
    perform memdb._raise('MD101', 'no such tenant', jsonb_build_object('name', left(p_name, 200)),
      'Create it with memdb.create_tenant(name); tenants never appear by themselves.');
  end if;
  return v_id;
end $$;
comment on function memdb.find_tenant (text) is 'The id of a tenant by its name.';

-- grant_role: let a database role read or write a tenant, or some of its namespaces.
--
-- p_namespaces null means all; a path covers the paths below it. Granting again replaces.
-- The role also needs membership in memdb_reader or memdb_writer, which only an administrator
-- of the server can give. Operators only (MD303); MD001 for a role that does not exist.
create or replace function memdb.grant_role (
  p_tenant     integer,
  p_role       name,
  p_can_write  boolean default false,
  p_namespaces text[]  default null
)
  returns void
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._require_operator();
  perform memdb._authorize(p_tenant, true);
  if not exists (select from pg_roles r where r.rolname = p_role) then
    perform memdb._raise('MD001', 'no such role', jsonb_build_object('role', p_role), 'Create it first: create role ... login;');
  end if;
  if p_can_write is null then
    perform memdb._raise('MD001', 'a role may write or not', jsonb_build_object('field', 'can_write'));
  end if;
  insert into memdb.role_tenant as g (tenant_id, role_name, namespaces, can_write)
    values (p_tenant, p_role, p_namespaces, p_can_write)
    on conflict on constraint role_tenant_pkey
    do update set namespaces = excluded.namespaces, can_write = excluded.can_write;
end $$;
comment on function memdb.grant_role (integer, name, boolean, text[]) is 'Let a database role read or write a tenant, or some of its namespaces.';

-- set_namespace: create a namespace or change who may use it.
--
-- p_visibility: shared (every agent unless a grant says otherwise), private (p_owner_agent and
-- granted agents), public (every agent reads). Returns its id. Operators only (MD303).
create or replace function memdb.set_namespace (
  p_tenant      integer,
  p_path        text,
  p_visibility  text default 'shared',
  p_owner_agent text default null
)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_id integer;
begin
  perform memdb._require_operator();
  perform memdb._authorize(p_tenant, true);
  v_id := memdb._writable(p_tenant, p_path, null);
  update memdb.namespace n set visibility = p_visibility, owner_agent_id = p_owner_agent
   where n.tenant_id = p_tenant and n.namespace_id = v_id;
  return v_id;
exception when check_violation or not_null_violation then
  perform memdb._raise('MD001', 'visibility is shared, private (with an owner agent) or public',
    jsonb_build_object('field', 'visibility'));
end $$;
comment on function memdb.set_namespace (integer, text, text, text) is 'Create a namespace or change who may use it.';

-- grant_agent: say what an agent may do in a namespace, and how much its memories weigh.
--
-- p_weight multiplies the score of hits from that namespace (0 < weight <= 10). Granting again
-- replaces; can_read false is a denial. Operators only (MD303).
create or replace function memdb.grant_agent (
  p_tenant    integer,
  p_agent     text,
  p_namespace text,
  p_can_read  boolean default true,
  p_can_write boolean default false,
  p_weight    real    default 1
)
  returns void
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._require_operator();
  perform memdb._authorize(p_tenant, true);
  if char_length(p_agent) > 200 then
    perform memdb._raise('MD001', 'the name of an agent has at most 200 characters', jsonb_build_object('field', 'agent'));
  end if;
  insert into memdb.agent_grant as g (tenant_id, agent_id, namespace_id, can_read, can_write, weight)
    values (p_tenant, p_agent, memdb._writable(p_tenant, p_namespace, null), p_can_read, p_can_write, p_weight)
    on conflict on constraint agent_grant_pkey
    do update set can_read = excluded.can_read, can_write = excluded.can_write, weight = excluded.weight;
exception when check_violation or not_null_violation then
  perform memdb._raise('MD001', 'an agent has a name, and a weight above 0 up to 10', jsonb_build_object('field', 'weight'));
end $$;
comment on function memdb.grant_agent (integer, text, text, boolean, boolean, real) is 'Say what an agent may do in a namespace, and how much its memories weigh.';
