-- writing: what `memdb bench write` needs beside memdb's own functions; for the owner of the tables.

-- copied_tables: the tables a recorded batch has rows in, in the order of their foreign keys, and which rows these are.
--
-- %1$s in a condition is the tenant, %2$s and %3$s are the first and the last memory. Ties are also noted of the
-- memories at the other end: these rows are known by the transaction that wrote the edges.
create or replace function pg_temp.copied_tables ()
  returns table (place integer, name text, condition text)
  language sql
as $$
  select t.place, t.name, coalesce(t.condition, t.key || ' between %2$s and %3$s')
    from (values (1, 'memory', 'memory_id', null), (2, 'memory_version', 'memory_id', null), (3, 'justification', 'memory_id', null),
                 (4, 'premise', 'conclusion_id', null), (5, 'edge', 'from_memory_id', null), (6, 'embedding', 'memory_id', null),
                 (7, 'keyword_queue', 'memory_id', null),
                 (8, 'memory_use', null, 'xmin in (select e.xmin from memdb.edge e where e.tenant_id = %1$s and e.from_memory_id = %3$s)'))
         t (place, name, key, condition);
$$;

-- twin_tenant: a tenant with everything the memories of another one refer to, under the same ids.
create or replace function pg_temp.twin_tenant (p_from integer, p_name text)
  returns integer
  language plpgsql
as $$
declare
  v_to    integer;
  v_table record;
begin
  insert into memdb.tenant as t (name) values (p_name) returning t.tenant_id into v_to;
  for v_table in
    select c.name, string_agg(format('%I', a.attname), ', ' order by a.attnum) as into_columns,
           string_agg(case when a.attname = 'tenant_id' then v_to::text else format('%I', a.attname) end, ', ' order by a.attnum)
             as from_columns
      from (values (1, 'namespace'), (2, 'session'), (3, 'event'), (4, 'embedding_model')) c (place, name)
      join pg_attribute a on a.attrelid = ('memdb.' || c.name)::regclass and a.attnum > 0 and not a.attisdropped
       and a.attgenerated = ''
     group by c.place, c.name
     order by c.place
  loop
    execute format('insert into memdb.%I (%s) overriding system value select %s from memdb.%I where tenant_id = %s',
      v_table.name, v_table.into_columns, v_table.from_columns, v_table.name, p_from);
  end loop;
  return v_to;
end $$;

-- copy_statements: for each table the two statements that copy the rows of some memories out, and into the twin.
--
-- Ids are moved up by p_shift: in the graph for Cypher two tenants with one id would share a vertex,
-- and the copy would have less to write.
create or replace function pg_temp.copy_statements (
  p_from integer, p_to integer, p_first bigint, p_last bigint, p_format text, p_shift bigint
)
  returns setof text[]
  language sql
as $$
  select array[
         format('copy (select %s from memdb.%I where tenant_id = %s and %s) to stdout (format %s)',
           string_agg(case when a.attname = 'tenant_id' then p_to::text
                           when a.attname in ('memory_id', 'conclusion_id', 'from_memory_id', 'to_memory_id', 'edge_id',
                                              'justification_id') then format('%I + %s', a.attname, p_shift)
                           else format('%I', a.attname) end, ', ' order by a.attnum),
           c.name, p_from, format(c.condition, p_from, p_first, p_last), p_format),
         format('copy memdb.%I (%s) from stdin (format %s)', c.name,
           string_agg(format('%I', a.attname), ', ' order by a.attnum), p_format)]
    from pg_temp.copied_tables() c
    join pg_attribute a on a.attrelid = ('memdb.' || c.name)::regclass and a.attnum > 0 and not a.attisdropped
     and a.attgenerated = ''
   group by c.place, c.name, c.condition
   order by c.place;
$$;

-- has_age: whether the graph for Cypher can be switched on.
create or replace function pg_temp.has_age ()
  returns boolean
  language sql
as $$
  select exists (select from pg_available_extensions a where a.name = 'age');
$$;

-- row_counts: how many rows each of the copied tables has of a tenant.
create or replace function pg_temp.row_counts (p_tenant integer)
  returns bigint[]
  language plpgsql
as $$
declare
  v_counts bigint[] := '{}';
  v_count  bigint;
  v_name   text;
begin
  for v_name in select c.name from pg_temp.copied_tables() c order by c.place loop
    execute format('select count(*) from memdb.%I where tenant_id = %s', v_name, p_tenant) into v_count;
    v_counts := v_counts || v_count;
  end loop;
  return v_counts;
end $$;

-- settle: give the planner statistics, which a database in use has and a new one gets within a minute.
create or replace function pg_temp.settle ()
  returns void
  language plpgsql
as $$
declare
  v_name text;
begin
  for v_name in
    select c.relname from pg_class c where c.relnamespace = 'memdb'::regnamespace and c.relkind in ('r', 'p')
  loop
    execute format('analyze memdb.%I', v_name);
  end loop;
end $$;
