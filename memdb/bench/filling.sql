-- filling: memories of made-up words, written set by set by the owner; called by filling.py.
--
-- The recorder is measured elsewhere. What recall reads is all there: sessions of 20 turns, an
-- edge a memory, keyword statistics. Vectors are copied in by the client.

-- find_fill: the ids of the tenant of that name and of its encoder; null where there is none.
create or replace function pg_temp.find_fill (p_name text)
  returns integer[]
  language sql
as $$
  select array[t.tenant_id, m.model_id]
    from memdb.tenant t
    join memdb.embedding_model m on m.tenant_id = t.tenant_id
   where t.name = p_name;
$$;

-- begin_fill: make a tenant with an encoder and namespaces; returns the ids of tenant, encoder, and namespaces as p_paths has them.
create or replace function pg_temp.begin_fill (p_name text, p_dimensions integer, p_paths text[])
  returns integer[]
  language plpgsql
as $$
declare
  v_tenant     integer;
  v_model      integer;
  v_namespaces integer[];
begin
  insert into memdb.tenant as t (name) values (p_name) returning t.tenant_id into v_tenant;
  insert into memdb.embedding_model as m (tenant_id, name, dimensions) values (v_tenant, 'bench', p_dimensions)
    returning m.model_id into v_model;
  with made as (
    insert into memdb.namespace as n (tenant_id, path) select v_tenant, p.path from unnest(p_paths) p (path)
    returning n.namespace_id, n.path)
  select array_agg(m.namespace_id order by array_position(p_paths, m.path)) into v_namespaces from made m;
  create temp table if not exists filling (number integer, namespace_id integer, text text);
  -- Foreign keys and triggers are switched off where the caller may do that.
  if (select r.rolsuper from pg_roles r where r.rolname = current_user) then
    set local session_replication_role = replica;
  end if;
  return array[v_tenant, v_model] || v_namespaces;
end $$;

-- copy_statement: how the client sends words, or vectors.
create or replace function pg_temp.copy_statement (p_what text)
  returns text
  language sql
as $$
  select case p_what
    when 'words' then 'copy filling from stdin'
    when 'vectors' then 'copy memdb.embedding (tenant_id, model_id, memory_id, version, namespace_id, user_id, type, vector)'
                        ' from stdin (format binary)' end;
$$;

-- take_ids: that many memory ids in one piece; returns the one before the first.
create or replace function pg_temp.take_ids (p_count integer)
  returns bigint
  language sql
as $$
  select setval('memdb.memory_memory_id_seq', nextval('memdb.memory_memory_id_seq') + p_count) - p_count;
$$;

-- fill: write what stands in table filling as memories p_before + number.
create or replace function pg_temp.fill (p_tenant integer, p_before bigint)
  returns void
  language plpgsql
as $$
declare
  v_now timestamptz := clock_timestamp();
begin
  create temp table placed on commit drop as
    select f.number, f.namespace_id, f.text, r.place, p_before || '/' || f.namespace_id || '/' || r.place / 20 as session
      from filling f
      join (select g.number, row_number() over (partition by g.namespace_id order by g.number) as place from filling g) r
        on r.number = f.number;
  analyze placed;
  insert into memdb.session (tenant_id, namespace_id, external_id)
    select distinct p_tenant, p.namespace_id, p.session from placed p;
  insert into memdb.memory (tenant_id, memory_id, namespace_id, session_id, sequence, type, content_hash, occurred_at, recorded_at)
    overriding system value
    select p_tenant, p_before + p.number, p.namespace_id, s.session_id, p.place, 'observation', int8send(p_before + p.number),
           v_now - make_interval(mins => 2000000 - p.number), v_now
      from placed p
      join memdb.session s on s.tenant_id = p_tenant and s.namespace_id = p.namespace_id and s.external_id = p.session
     order by p.number;
  insert into memdb.memory_version (tenant_id, memory_id, version, namespace_id, text, recorded_at)
    select p_tenant, p_before + p.number, 1, p.namespace_id, p.text, v_now from placed p order by p.number;
  insert into memdb.edge (tenant_id, namespace_id, from_memory_id, to_memory_id, relation, weight, recorded_at)
    select p_tenant, p.namespace_id, p_before + p.number, p_before + q.number, 'cause', 0.8, v_now
      from placed p
      join placed q on q.namespace_id = p.namespace_id and q.place = 1 + p.place * 7 / 8
     where q.number <> p.number;
  insert into memdb.keyword_queue (tenant_id, namespace_id, memory_id, version)
    select p_tenant, p.namespace_id, p_before + p.number, 1 from placed p order by p.number;
  truncate filling;
  drop table placed;
end $$;

-- table_sizes: bytes of the large tables and indexes by name, the largest first.
create or replace function pg_temp.table_sizes ()
  returns json
  language sql
as $$
  select json_object_agg(c.relname, c.bytes order by c.bytes desc)
    from (select c.relname, pg_relation_size(c.oid) as bytes from pg_class c
           where c.relnamespace = 'memdb'::regnamespace and c.relkind in ('r', 'i')) c
   where c.bytes > 1000000;
$$;

-- nearest_by_count: the p_k nearest of some namespaces (null: all), every row measured.
create or replace function pg_temp.nearest_by_count (p_tenant integer, p_model integer, p_paths text[], p_vector text, p_k integer)
  returns setof bigint
  language plpgsql
as $$
begin
  return query execute
    'select x.memory_id from (select e.memory_id, (e.vector <#> $3::halfvec) + 0 as distance from memdb.embedding e'
    ' where e.tenant_id = $1 and e.model_id = $2'
    || case when p_paths is null then '' else ' and e.namespace_id = any ($4)' end || ' order by 2, 1 limit $5) x'
    using p_tenant, p_model, p_vector,
          array(select n.namespace_id from memdb.namespace n where n.tenant_id = p_tenant and n.path = any (p_paths)), p_k;
end $$;

-- make_bare: the vectors of a tenant in a plain table of two columns with one index, as pgvector's own guide has it.
create or replace function pg_temp.make_bare (p_tenant integer, p_model integer, p_dimensions integer)
  returns text
  language plpgsql
as $$
declare
  v_name text := format('bare_%s_%s', p_tenant, p_model);
begin
  if to_regclass('memdb.' || v_name) is null then
    execute format('create table memdb.%I (id bigint, vector halfvec(%s))', v_name, p_dimensions);
    execute format('alter table memdb.%I alter column vector set storage plain', v_name);
    execute format('insert into memdb.%I select e.memory_id, e.vector from memdb.embedding e where e.tenant_id = %s and e.model_id = %s',
      v_name, p_tenant, p_model);
    execute format('create index on memdb.%I using hnsw (vector halfvec_ip_ops)', v_name);
    execute format('analyze memdb.%I', v_name);
  end if;
  return v_name;
end $$;

-- nearest_bare: the p_k nearest in that table, with every setting as pgvector ships it.
create or replace function pg_temp.nearest_bare (p_name text, p_vector text, p_k integer)
  returns setof bigint
  language plpgsql
as $$
begin
  return query execute format('select b.id from memdb.%I b order by b.vector <#> %L::halfvec limit %s', p_name, p_vector, p_k);
end $$;

-- strategy: how recall finds the nearest vectors of some namespaces, in words.
create or replace function pg_temp.strategy (p_tenant integer, p_model integer, p_paths text[], p_vector text)
  returns text
  language sql
as $$
  select case when s.indexes = '{}' then 'exact' when s.indexes = '{0}' then 'index of the tenant'
              when cardinality(s.indexes) = 1 and s.rest = '{}' then 'index of the namespace'
              else cardinality(s.indexes) || ' indexes' || case when s.rest = '{}' then '' else ' and exact' end end
    from memdb._vector_strategy(p_tenant, (select array_agg(n.namespace_id) from memdb.namespace n
                                            where n.tenant_id = p_tenant and n.path = any (p_paths)),
           null, null, p_model, p_vector::halfvec) s;
$$;

-- nearest_unfiltered: the p_k nearest of all of a tenant in its own index, with every setting as pgvector ships it.
create or replace function pg_temp.nearest_unfiltered (p_tenant integer, p_model integer, p_vector text, p_k integer)
  returns setof bigint
  language plpgsql
as $$
begin
  return query execute format(
    'select e.memory_id from memdb.embedding e where e.tenant_id = %1$s and e.model_id = %2$s'
    ' order by e.vector::halfvec(%3$s) <#> %4$L::halfvec(%3$s) limit %5$s',
    p_tenant, p_model, vector_dims(p_vector::halfvec), p_vector, p_k);
end $$;
