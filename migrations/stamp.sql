-- stamp: which code this database was made for; the last step of every install and upgrade.
--
-- Services compare it with themselves before they serve. Anybody who may use memdb may
-- read it.
insert into memdb.schema_info as s (key, value)
values ('package_version', :'package_version'),
       ('sql_sha256', :'sql_sha256')
on conflict (key) do update
   set value = excluded.value, updated_at = now()
 where s.value is distinct from excluded.value;

comment on table memdb.alembic_version is 'The newest revision of migrations/versions this database has had.';

grant usage on schema memdb to memdb_reader;
grant select on memdb.alembic_version, memdb.schema_info to memdb_reader;
