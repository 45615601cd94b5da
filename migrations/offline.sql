-- offline: only in the file that `memdb migrate --sql` prints: is this the database it was printed for?
--
-- A plain file cannot look before it acts, so it refuses instead: a database that is not
-- at the revision the file starts from, and pgvector in another schema than the one
-- written into the functions.
do $$
declare
  v_found text := '';
begin
  if to_regclass('memdb.alembic_version') is not null then
    select v.version_num into v_found from memdb.alembic_version v;
  end if;
  if v_found is distinct from :'from_revision' then
    raise exception 'this file starts from another state than this database is in'
      using errcode = 'MD404',
            detail  = jsonb_build_object('file', :'from_revision', 'database', v_found)::text,
            hint    = 'Print the file again, from the revision this database is at.';
  end if;
  if current_setting('search_path') <> format('memdb, %I, pg_temp', :'vector_schema') then
    raise exception 'this file was printed for pgvector in another schema'
      using errcode = 'MD404',
            detail  = jsonb_build_object('file', :'vector_schema', 'database', current_setting('search_path'))::text,
            hint    = 'Print the file again, naming the schema pgvector lives in.';
  end if;
end $$;
