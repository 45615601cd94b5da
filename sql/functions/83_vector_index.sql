-- Nearest-neighbour indexes: which scopes need one, and the statements that make them so.
--
-- An index is of one scope: a namespace, or a whole tenant. None exists until a scope is large
-- enough to need it (_ann_rows), for it makes each row written into the scope cost half a millisecond more.
-- All tenants together have 64 at most: every statement on the table locks and considers each of them.
-- Functions cannot build them without stopping writers; `memdb models index`, or anybody who
-- runs the statements of the plan one by one, does it online.

-- _ann_most: how many nearest-neighbour indexes a database has at most.
create or replace function memdb._ann_most ()
  returns integer
  language sql immutable parallel safe
begin atomic
  select 64;
end;
comment on function memdb._ann_most () is 'How many nearest-neighbour indexes a database has at most.';

-- _ann_wanted: the scopes of a tenant that should have an index, namespace 0 the whole tenant.
--
-- A namespace wants one from _ann_rows on, and keeps it down to half of that, so that one at
-- the limit is not built again and again. The whole tenant wants one where more than _ann_rows would be left
-- to measure, or more than one index to search: recall without namespaces then takes that one.
-- Vectors of a retired model are not searched. Cost: counts the tenant's vectors in an index.
create or replace function memdb._ann_wanted (p_tenant integer)
  returns table (model_id integer, namespace_id integer, vectors bigint, place bigint)
  language sql stable rows 20
begin atomic
  with size as (
    select e.model_id, e.namespace_id, count(*) as vectors
      from memdb.embedding e
     where e.tenant_id = p_tenant
     group by e.model_id, e.namespace_id),
  space as (
    select s.model_id, s.namespace_id, s.vectors,
           s.vectors >= memdb._ann_rows(m.dimensions)
           / case when s.namespace_id = any (memdb._ann_scopes(p_tenant, s.model_id)) then 2 else 1 end as is_wanted
      from size s
      join memdb.embedding_model m on m.tenant_id = p_tenant and m.model_id = s.model_id and m.state <> 'retired'),
  whole as (
    select s.model_id, sum(s.vectors)::bigint as vectors
      from space s
      join memdb.embedding_model m on m.tenant_id = p_tenant and m.model_id = s.model_id
     group by s.model_id, m.dimensions
    having count(*) filter (where s.is_wanted) > 1
        or coalesce(sum(s.vectors) filter (where not s.is_wanted), 0) >= memdb._ann_rows(m.dimensions))
  select w.model_id, w.namespace_id, w.vectors, row_number() over (order by w.vectors desc, w.model_id, w.namespace_id)
    from (select s.model_id, s.namespace_id, s.vectors from space s where s.is_wanted
          union all
          select a.model_id, 0, a.vectors from whole a) w;
end;
comment on function memdb._ann_wanted (integer) is 'The scopes of a tenant that should have an index, namespace 0 the whole tenant.';

-- _ann_existing: the nearest-neighbour indexes there are, of all tenants.
--
-- state: valid; building, while a session is at it; broken, what a failed build left behind.
create or replace function memdb._ann_existing ()
  returns table (name text, tenant_id integer, model_id integer, namespace_id integer, state text)
  language sql stable rows 20
begin atomic
  select c.relname::text, split_part(c.relname, '_', 3)::integer, split_part(c.relname, '_', 4)::integer,
         split_part(c.relname, '_', 5)::integer,
         case when i.indisvalid then 'valid'
              when exists (select from pg_catalog.pg_stat_progress_create_index b where b.index_relid = c.oid) then 'building'
              else 'broken' end
    from pg_catalog.pg_index i
    join pg_catalog.pg_class c on c.oid = i.indexrelid
   where i.indrelid = 'memdb.embedding'::regclass and c.relname ~ '^embedding_ann_\d+_\d+_\d+_idx$';
end;
comment on function memdb._ann_existing () is 'The nearest-neighbour indexes there are, of all tenants.';

-- _ann_statement: the statement that builds the index of a scope while others read and write.
--
-- The type and the operator class are named with the schema pgvector is in.
create or replace function memdb._ann_statement (p_tenant integer, p_model integer, p_namespace integer, p_dimensions integer)
  returns text
  language sql stable
begin atomic
  select format('create index concurrently %1$I on memdb.embedding using hnsw ((vector::%2$I.halfvec(%3$s)) %2$I.halfvec_ip_ops)'
                ' where tenant_id = %4$s and model_id = %5$s',
                memdb._ann_name(p_tenant, p_model, p_namespace), n.nspname, p_dimensions, p_tenant, p_model)
         || case when p_namespace > 0 then ' and namespace_id = ' || p_namespace else '' end
    from pg_catalog.pg_extension x
    join pg_catalog.pg_namespace n on n.oid = x.extnamespace
   where x.extname = 'vector';
end;
comment on function memdb._ann_statement (integer, integer, integer, integer) is 'The statement that builds the index of a scope while others read and write.';

-- vector_index_plan: which nearest-neighbour indexes a tenant has and should have, and the statements that lead there.
--
-- One row an index, in the order to work through: action is drop (no longer needed, or left broken by
-- a failed build), create (largest scope first), wait (another session builds it), or keep. namespace
-- null is the whole tenant. bytes is what it takes on disk, or about what it will take; a build
-- is far faster where maintenance_work_mem holds that. statement cannot run inside a transaction; null where
-- nothing is to be done. A broken index has two rows: drop, then create. What does not fit
-- under 64 indexes in all tenants has action full: recall then searches the tenant's index, or measures.
-- Operators only (MD303). Raises MD101, MD301. Cost: counts the tenant's vectors in an index,
-- about 0.1 s a million.
create or replace function memdb.vector_index_plan (p_tenant integer)
  returns table (action text, name text, model text, namespace text, vectors bigint, bytes bigint, statement text)
  language plpgsql stable security definer rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  return query
    with existing as (
      select x.* from memdb._ann_existing() x),
    wanted as (
      select w.*, x.state,
             -- Those of this tenant that are there keep their place, and come first.
             row_number() over (order by x.state is distinct from 'valid', w.namespace_id > 0, w.place)
             + (select count(*) from existing o where o.tenant_id <> p_tenant) as number
        from memdb._ann_wanted(p_tenant) w
        left join existing x on x.tenant_id = p_tenant and x.model_id = w.model_id and x.namespace_id = w.namespace_id),
    step as (
      select 1 as phase, 'drop' as action, x.model_id, x.namespace_id, null::bigint as vectors, x.name as name
        from existing x
       where x.tenant_id = p_tenant
         and (x.state = 'broken'
              or (x.state = 'valid'
                  and not exists (select from wanted w where w.model_id = x.model_id and w.namespace_id = x.namespace_id)))
      union all
      select case when w.state = 'valid' then 3 else 2 end,
             case when w.state = 'valid' then 'keep' when w.state = 'building' then 'wait'
                  when w.number > memdb._ann_most() then 'full' else 'create' end,
             w.model_id, w.namespace_id, w.vectors, memdb._ann_name(p_tenant, w.model_id, w.namespace_id)
        from wanted w)
    select s.action, s.name, m.name, n.path, s.vectors,
           -- A page holds what fits of rows with their vector and 16 neighbours in two directions.
           case when s.action in ('create', 'full') then s.vectors * 8192 / greatest(1, 8000 / (2 * m.dimensions + 350))
                else pg_relation_size(to_regclass('memdb.' || quote_ident(s.name))) end,
           case s.action when 'drop' then format('drop index concurrently if exists memdb.%I', s.name)
                         when 'create' then memdb._ann_statement(p_tenant, s.model_id, s.namespace_id, m.dimensions) end
      from step s
      left join memdb.embedding_model m on m.tenant_id = p_tenant and m.model_id = s.model_id
      left join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = s.namespace_id
     order by s.phase, s.action, s.vectors desc nulls last, s.name;
end $$;
comment on function memdb.vector_index_plan (integer) is 'Which nearest-neighbour indexes a tenant has and should have, and the statements that lead there.';

-- vector_index_progress: how far the builds of nearest-neighbour indexes are that run now, in all tenants.
--
-- done and total are tuples of the table, or its blocks where a build counts those; 0 where it counts nothing. Operators
-- only (MD303). Builds of other roles are seen by members of pg_read_all_stats only.
create or replace function memdb.vector_index_progress ()
  returns table (name text, phase text, done bigint, total bigint)
  language plpgsql stable security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._require_operator();
  return query
    select c.relname::text, b.phase, greatest(b.tuples_done, b.blocks_done),
           case when b.tuples_done > b.blocks_done then b.tuples_total else b.blocks_total end
      from pg_stat_progress_create_index b
      join pg_class c on c.oid = b.index_relid
     where b.relid = 'memdb.embedding'::regclass and starts_with(c.relname, 'embedding_ann_')
     order by 1;
end $$;
comment on function memdb.vector_index_progress () is 'How far the builds of nearest-neighbour indexes are that run now, in all tenants.';
