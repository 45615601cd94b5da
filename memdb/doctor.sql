-- doctor: what a server and a database offer memdb, as one object.
--
-- Reads catalogs only, so it works for any role that can connect, with or without memdb, on a
-- standby too; what the role may not see is null.
with memdb_table as (
  select c.relname, c.relrowsecurity
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
   where n.nspname = 'memdb' and c.relkind in ('r', 'p')
), app_role as (
  select r.rolname
    from pg_roles r
   where (r.rolsuper or r.rolbypassrls) and r.rolname !~ '^(pg_|memdb_)'
     and exists (select from pg_roles g
                   join pg_auth_members m on m.roleid = g.oid and m.member = r.oid
                  where g.rolname in ('memdb_reader', 'memdb_writer', 'memdb_operator', 'memdb_service'))
), setting as (
  select s.name, s.setting from pg_settings s
   where s.name in ('shared_preload_libraries', 'session_preload_libraries', 'azure.extensions', 'rds.extensions')
)
select jsonb_build_object(
  'server_version', current_setting('server_version'),
  'server_version_num', current_setting('server_version_num')::integer,
  'encoding', current_setting('server_encoding'),
  'database', current_database(),
  'role', session_user,
  'is_superuser', (select r.rolsuper from pg_roles r where r.rolname = session_user),
  'bypasses_row_security', (select r.rolsuper or r.rolbypassrls from pg_roles r where r.rolname = session_user),
  'is_standby', pg_is_in_recovery(),
  'available', (select coalesce(jsonb_object_agg(e.name, e.default_version), '{}') from pg_available_extensions e
                 where e.name in ('vector', 'age', 'pg_cron', 'pg_textsearch')),
  'installed', (select coalesce(jsonb_object_agg(e.extname, e.extversion), '{}') from pg_extension e
                 where e.extname in ('vector', 'age', 'pg_cron', 'pg_textsearch')),
  'settings', (select coalesce(jsonb_object_agg(s.name, s.setting), '{}') from setting s),
  'cloud_signs', (select coalesce(jsonb_agg(r.rolname), '[]') from pg_roles r
                   where r.rolname in ('rds_superuser', 'azure_pg_admin', 'cloudsqlsuperuser', 'supabase_admin',
                                       'neon_superuser', 'pg_rds_superuser', 'polar_superuser')),
  'roles', (select coalesce(jsonb_object_agg(r.rolname, pg_has_role(session_user, r.oid, 'member')), '{}') from pg_roles r
             where r.rolname in ('memdb_owner', 'memdb_reader', 'memdb_writer', 'memdb_operator', 'memdb_service')),
  'tables', (select count(*) from memdb_table t),
  'tables_without_row_security', (select coalesce(jsonb_agg(t.relname order by t.relname), '[]') from memdb_table t
                                   where not t.relrowsecurity),
  'app_roles_that_bypass', (select coalesce(jsonb_agg(a.rolname order by a.rolname), '[]') from app_role a)
) as facts;
