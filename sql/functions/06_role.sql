-- Roles of the database that use memdb directly: what they were granted, and taking it back.

-- admit_role: make a role a member of memdb_reader or memdb_writer, with the caller's own right to do so.
--
-- What it may see is for grant_role to say. Returns whether it was not a member yet. Whoever is not an
-- administrator of the server, or was not given these roles with admin option, gets MD303 and the
-- statement to hand on. MD001 for a role that does not exist.
create or replace function memdb.admit_role (
  p_role      name,
  p_can_write boolean default false
)
  returns boolean
  language plpgsql volatile
as $$
declare
  v_group name := case when p_can_write then 'memdb_writer' else 'memdb_reader' end;
begin
  perform memdb._require_operator();
  if p_role is null or not exists (select from pg_roles r where r.rolname = p_role) then
    perform memdb._raise('MD001', 'no such role', jsonb_build_object('role', p_role), 'Create it first: create role ... login;');
  end if;
  if pg_has_role(p_role, v_group, 'usage') then
    return false;
  end if;
  execute format('grant %I to %I', v_group, p_role);
  return true;
exception when insufficient_privilege then
  perform memdb._raise('MD303', 'this role may not admit others', jsonb_build_object('role', p_role),
    format('As an administrator of the server: grant %I to %I;', v_group, p_role));
end $$;
comment on function memdb.admit_role (name, boolean) is 'Make a role a member of memdb_reader or memdb_writer, with the caller''s own right to do so.';

-- revoke_role: take back what grant_role gave a role in a tenant.
--
-- Returns whether there was something. It stays in memdb_reader or memdb_writer, and in other tenants.
-- Counts from the next statement of its sessions on. Operators only (MD303). Raises MD101.
create or replace function memdb.revoke_role (p_tenant integer, p_role name)
  returns boolean
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  delete from memdb.role_tenant g where g.tenant_id = p_tenant and g.role_name = p_role;
  return found;
end $$;
comment on function memdb.revoke_role (integer, name) is 'Take back what grant_role gave a role in a tenant.';

-- list_roles: the roles a tenant was granted to, by name.
--
-- namespaces null means all. is_admitted: the role exists and is in memdb_reader, or for can_write in
-- memdb_writer; without that a grant has no effect. Operators only (MD303). Raises MD101.
create or replace function memdb.list_roles (p_tenant integer)
  returns table (role_name text, can_write boolean, namespaces text[], is_admitted boolean)
  language plpgsql stable security definer rows 10
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, false);
  perform memdb._require_operator();
  return query
    select g.role_name::text, g.can_write, g.namespaces,
           coalesce(pg_has_role(r.oid, case when g.can_write then 'memdb_writer' else 'memdb_reader' end, 'usage'), false)
      from memdb.role_tenant g
      left join pg_roles r on r.rolname = g.role_name
     where g.tenant_id = p_tenant
     order by g.role_name;
end $$;
comment on function memdb.list_roles (integer) is 'The roles a tenant was granted to, by name.';
