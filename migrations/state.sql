-- state: the stamp, as one row. Fails with 42P01 or 3F000 where memdb is not installed,
-- and with 42501 where the caller may not use it.
select (select v.version_num from memdb.alembic_version v)                          as revision,
       (select s.value from memdb.schema_info s where s.key = 'package_version') as package_version,
       (select s.value from memdb.schema_info s where s.key = 'sql_sha256')      as sql_sha256;
