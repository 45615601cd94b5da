-- The vector leg: the memories whose vectors lie nearest to the query's.
--
-- Vectors are unit length, so the negative inner product orders as the cosine does and is the
-- cheapest distance. The hot table holds current versions only; archived ones are cold.
--
-- A nearest-neighbour index over everybody's vectors starves small scopes: it filters after, and
-- comes back with few rows or none. So an index holds one scope alone, a large namespace or a
-- whole tenant (83), smaller scopes are measured row by row, and a filter that leaves too
-- little of what an index finds is answered row by row as well. Figures: docs/decisions/0008.

-- _model_vector: a vector as a model's rows are stored: half precision, length 1.
--
-- Raises MD004 for another dimension, NaN, infinity or length 0.
create or replace function memdb._model_vector (p_dimensions integer, p_vector real[])
  returns halfvec
  language plpgsql immutable
as $$
declare
  v_vector vector;
  v_reason text;
begin
  begin
    v_vector := p_vector::vector;
    v_reason := case
      when v_vector is null then 'a vector is required'
      when vector_dims(v_vector) <> p_dimensions then format('expected %s dimensions, got %s', p_dimensions, vector_dims(v_vector))
      when vector_norm(v_vector) = 0 then 'a vector of length 0 has no direction' end;
  exception when data_exception or program_limit_exceeded or array_subscript_error then
    v_reason := sqlerrm;
  end;
  if v_reason is not null then
    perform memdb._raise('MD004', v_reason, jsonb_build_object('field', 'vector'),
      'Encode the query with the model whose vectors are searched.');
  end if;
  return l2_normalize(v_vector)::halfvec;
end $$;
comment on function memdb._model_vector (integer, real[]) is 'A vector as a model''s rows are stored: half precision, length 1.';

-- _query_vector: the query's vector as the active model's rows are stored: half precision, length 1.
--
-- Raises MD105 where the tenant has no active model, MD004 as _model_vector.
create or replace function memdb._query_vector (
  p_tenant integer,
  p_vector real[],
  out model_id integer,
  out vector   halfvec
)
  language plpgsql stable
as $$
declare
  v_dimensions integer;
begin
  select m.model_id, m.dimensions into model_id, v_dimensions
    from memdb.embedding_model m where m.tenant_id = p_tenant and m.state = 'active';
  if model_id is null then
    perform memdb._raise('MD105', 'the tenant has no embedding model', null,
      'Register the encoder first: memdb.register_embedding_model(tenant, name, dimensions); or recall without a vector.');
  end if;
  vector := memdb._model_vector(v_dimensions, p_vector);
end $$;
comment on function memdb._query_vector (integer, real[]) is 'The query''s vector as the active model''s rows are stored: half precision, length 1.';

-- _ann_rows: from how many vectors on a scope gets a nearest-neighbour index.
--
-- Searching one takes as long as measuring 10,000 rows of 384 dimensions that lie side by side, or 6,500
-- of more; and each row written to it costs half a millisecond and more. So 10,000 rows, and 7,500 of
-- long vectors, where measuring 10,000 would take twice as long again.
create or replace function memdb._ann_rows (p_dimensions integer)
  returns integer
  language sql immutable parallel safe
begin atomic
  select case when p_dimensions <= 1024 then 10000 else 7500 end;
end;
comment on function memdb._ann_rows (integer) is 'From how many vectors on a scope gets a nearest-neighbour index.';

-- _ann_name: the name of the nearest-neighbour index of a scope; namespace 0 is the whole tenant.
create or replace function memdb._ann_name (p_tenant integer, p_model integer, p_namespace integer)
  returns text
  language sql immutable parallel safe
begin atomic
  select format('embedding_ann_%s_%s_%s_idx', p_tenant, p_model, p_namespace);
end;
comment on function memdb._ann_name (integer, integer, integer) is 'The name of the nearest-neighbour index of a scope; namespace 0 is the whole tenant.';

-- _ann_scopes: the namespaces of a tenant that have an index of a model ready for use; 0 is the whole tenant.
--
-- The catalog is the only list there is: it cannot say anything else than what the planner finds.
-- An index that is being built, or whose build failed, is not valid and not used.
create or replace function memdb._ann_scopes (p_tenant integer, p_model integer)
  returns integer[]
  language plpgsql stable
as $$
begin
  -- Not a SQL function: its plan would be made anew in every recall.
  return (
    select coalesce(array_agg(split_part(c.relname, '_', 5)::integer), '{}')
      from pg_catalog.pg_class c
      join pg_catalog.pg_index i on i.indexrelid = c.oid
     -- A span of names, which the catalog has in order: ":" comes after the digits.
     where c.relname between format('embedding_ann_%s_%s_', p_tenant, p_model)::name
                         and format('embedding_ann_%s_%s_:', p_tenant, p_model)::name
       and i.indrelid = 'memdb.embedding'::regclass and i.indisvalid);
end $$;
comment on function memdb._ann_scopes (integer, integer) is 'The namespaces of a tenant that have an index of a model ready for use; 0 is the whole tenant.';

-- _owned_rows: how many vectors of a scope are a user's or nobody's, counted up to p_most.
--
-- Dynamic for the reason given at _nearest_exact.
create or replace function memdb._owned_rows (p_tenant integer, p_namespaces integer[], p_user text, p_model integer, p_most integer)
  returns integer
  language plpgsql stable
as $$
declare
  v_rows integer;
begin
  execute $sql$
    select count(*)
      from ((select from memdb.embedding e
              where e.tenant_id = $1 and e.model_id = $2 and e.namespace_id = any ($3) and e.user_id = $4 limit $5)
            union all
            (select from memdb.embedding e
              where e.tenant_id = $1 and e.model_id = $2 and e.namespace_id = any ($3) and e.user_id is null limit $5)) r
    $sql$
    into v_rows using p_tenant, p_model, p_namespaces, p_user, p_most;
  return v_rows;
end $$;
comment on function memdb._owned_rows (integer, integer[], text, integer, integer) is 'How many vectors of a scope are a user''s or nobody''s, counted up to p_most.';

-- _vector_strategy: how the nearest vectors of a scope are found.
--
-- indexes: the scopes whose index is searched, 0 the whole tenant's, empty where every row is
-- measured; rest: the namespaces measured beside them. A session, and a user who owns little, are
-- measured. A list of namespaces is searched one by one, unless they are more than 8, or hold too much
-- without an index: then in the tenant's index, if at least a twentieth of it is theirs. Few chosen
-- memories are measured.
create or replace function memdb._vector_strategy (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_model      integer,
  p_vector     halfvec,
  p_also       memdb._recall_filter default null,
  out indexes integer[],
  out rest    integer[]
)
  language plpgsql stable
as $$
declare
  v_rows   integer := memdb._ann_rows(vector_dims(p_vector));
  v_have   integer[] := case when p_sessions is null and (p_also).chosen is null then memdb._ann_scopes(p_tenant, p_model) else '{}' end;
  v_within integer[] := p_namespaces;
begin
  indexes := '{}';
  if v_have = '{}' then
    return;
  end if;
  if v_within is null then
    v_within := array(select n.namespace_id from memdb.namespace n where n.tenant_id = p_tenant);
  end if;
  if p_user is not null and memdb._owned_rows(p_tenant, v_within, p_user, p_model, v_rows) < v_rows then
    return;
  end if;
  rest := array(select w.id from unnest(v_within) w (id) where w.id <> all (v_have));
  indexes := array(select w.id from unnest(v_within) w (id) where w.id = any (v_have));
  if 0 <> all (v_have) then
    return;
  end if;
  if p_namespaces is not null then
    if cardinality(indexes) <= 8 and coalesce((
         select sum(s.documents) from memdb.namespace_stat s where s.tenant_id = p_tenant and s.namespace_id = any (rest)), 0) <= v_rows
    then
      return;
    end if;
    if (select sum(s.documents) filter (where s.namespace_id = any (v_within)) * 20 < sum(s.documents)
          from memdb.namespace_stat s where s.tenant_id = p_tenant) is not false then
      return;
    end if;
  end if;
  indexes := '{0}';
  rest := '{}';
end $$;
comment on function memdb._vector_strategy (integer, integer[], text, bigint[], integer, halfvec, memdb._recall_filter) is 'How the nearest vectors of a scope are found.';

-- _nearest_chosen: the nearest vectors of a session, or of what few memories were chosen, found by key.
--
-- Arguments are those of _nearest_exact.
create or replace function memdb._nearest_chosen (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_model      integer,
  p_vector     halfvec,
  p_limit      integer,
  p_also       memdb._recall_filter,
  p_statuses   text[]
)
  returns table (memory_id bigint, version integer, similarity double precision)
  language plpgsql stable rows 50
as $$
begin
  return query
    select m.memory_id, m.version, e.similarity
      from (select c.id from unnest((p_also).chosen) c (id)
            union all
            select s.memory_id from memdb.memory s
             where (p_also).chosen is null and s.tenant_id = p_tenant and s.session_id = any (p_sessions)) c (id)
      cross join lateral (
        select m.memory_id, m.version
          from memdb.memory m
         where m.tenant_id = p_tenant and m.memory_id = c.id
           and (p_namespaces is null or m.namespace_id = any (p_namespaces))
           and (p_statuses is null or memdb._is_recallable(m, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also))
        offset 0) m
      cross join lateral (
        select -(e.vector <#> p_vector) as similarity
          from memdb.embedding e
         where e.tenant_id = p_tenant and e.model_id = p_model and e.memory_id = m.memory_id and e.version = m.version
        offset 0) e
     order by 3 desc, 1
     limit p_limit;
end $$;
comment on function memdb._nearest_chosen (integer, integer[], text, bigint[], text[], integer, halfvec, integer, memdb._recall_filter, text[]) is 'The nearest vectors of a session, or of what few memories were chosen, found by key.';

-- _nearest_exact: the nearest vectors of a scope, every one of them measured.
--
-- Rows of embedding repeat what never changes (namespace, user, type), so these filters cost no
-- look-up; a session and what few memories were chosen are found by key; the caller applies the rest.
-- Up to 768 dimensions embedding_scope_idx holds the vectors themselves, those of a scope side by
-- side. With p_statuses, only what passes all filters counts. `+ 0` keeps the planner from answering with a nearest-neighbour index. Dynamic where there are several
-- namespaces or filters, so that it is planned for these very namespaces: a plan for any of them
-- takes a small one for a tenth of the table, and reads it all.
create or replace function memdb._nearest_exact (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_model      integer,
  p_vector     halfvec,
  p_limit      integer,
  p_also       memdb._recall_filter default null,
  p_statuses   text[] default null
)
  returns table (memory_id bigint, version integer, similarity double precision)
  language plpgsql stable rows 50
as $$
declare
  c_scope constant text := 'select e.memory_id, e.version, (e.vector <#> $3) + 0 as distance from memdb.embedding e'
    || ' where e.tenant_id = $1 and e.model_id = $2'
    || case when vector_dims(p_vector) <= 768 then ' and vector_dims(e.vector) <= 768' else '' end
    || case when p_namespaces is not null or p_user is not null then ' and e.namespace_id = any ($4)' else '' end
    || case when p_types is not null then ' and e.type = any ($5)' else '' end
    || case when (p_also).members is not null then ' and $8 @> e.memory_id' else '' end;
  v_metadata jsonb;
begin
  if p_sessions is not null or (p_also).chosen is not null then
    return query
      select c.* from memdb._nearest_chosen(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_model, p_vector, p_limit, p_also, p_statuses) c;
    return;
  end if;
  if cardinality(p_namespaces) = 1 and num_nonnulls(p_user, p_types, (p_also).members, p_statuses) = 0 and vector_dims(p_vector) <= 768 then
    -- The plan for one namespace is the same for all of them, and planning takes as long as measuring 1,000 rows.
    return query
      select n.memory_id, n.version, -n.distance
        from (select e.memory_id, e.version, (e.vector <#> p_vector) + 0 as distance
                from memdb.embedding e
               where e.tenant_id = p_tenant and e.model_id = p_model and vector_dims(e.vector) <= 768
                 and e.namespace_id = p_namespaces[1]
               order by 3, 1
               limit p_limit) n;
    return;
  end if;
  if p_statuses is not null then
    -- Asked of the version itself: cheaper than once more of each memory.
    v_metadata := (p_also).metadata;
    p_also.metadata := null;
  end if;
  -- Two scans for a user, its own and nobody's: "null or equal" in one would use no index.
  return query execute
    'select n.memory_id, n.version, -n.distance from ('
    || c_scope || case when p_user is not null then ' and e.user_id = $6 union all ' || c_scope || ' and e.user_id is null' else '' end
    || ' order by 3, 1' || case when p_statuses is null then ' limit $7) n' else
      -- An ordered subquery under a lateral join keeps its order: looked up are the nearest, until enough pass.
      ' offset 0) n' || case when v_metadata is null then '' else
        ' cross join lateral (select from memdb.memory_version v where v.tenant_id = $1 and v.memory_id = n.memory_id'
        ' and v.version = n.version and v.metadata @> $12 offset 0) v' end
      || ' cross join lateral (select from memdb.memory m where m.tenant_id = $1 and m.memory_id = n.memory_id'
      ' and m.version = n.version and memdb._is_recallable(m, $9, $6, null, $5, $10, $11) offset 0) m limit $7' end
    using p_tenant, p_model, p_vector,
          coalesce(p_namespaces, case when p_user is not null then array(
            select n.namespace_id from memdb.namespace n where n.tenant_id = p_tenant) end),
          p_types, p_user, p_limit, (p_also).members, p_namespaces, p_statuses, p_also, v_metadata;
end $$;
comment on function memdb._nearest_exact (integer, integer[], text, bigint[], text[], integer, halfvec, integer, memdb._recall_filter, text[]) is 'The nearest vectors of a scope, every one of them measured.';

-- _nearest_cold: the nearest vectors of archived memories, every one of them measured.
create or replace function memdb._nearest_cold (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_model      integer,
  p_vector     halfvec,
  p_limit      integer,
  p_also       memdb._recall_filter default null
)
  returns table (memory_id bigint, version integer, similarity double precision)
  language sql stable rows 50
begin atomic
  select m.memory_id, m.version, -(e.vector <#> p_vector)
    from memdb.embedding_cold e
    join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = e.memory_id and m.version = e.version
   where e.tenant_id = p_tenant and e.model_id = p_model
     and memdb._is_recallable(m, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also)
   order by 3 desc, 1
   limit p_limit;
end;
comment on function memdb._nearest_cold (integer, integer[], text, bigint[], text[], text[], integer, halfvec, integer, memdb._recall_filter) is 'The nearest vectors of archived memories, every one of them measured.';

-- _nearest_indexed: what the indexes of a strategy find: of each the p_limit nearest, and of these what passes the filters.
--
-- Beside that one row an index without a memory: the similarity down to which it has told all, 2
-- where it came back with fewer rows than it was asked for. A partial index is used only where
-- its condition stands in the statement as numbers, hence the dynamic SQL. What is found is
-- filtered after; iterative makes up for rows that were deleted and not vacuumed yet.
create or replace function memdb._nearest_indexed (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_types      text[],
  p_model      integer,
  p_vector     halfvec,
  p_indexes    integer[],
  p_limit      integer,
  p_also       memdb._recall_filter default null
)
  returns table (memory_id bigint, version integer, similarity double precision)
  language plpgsql stable rows 50
as $$
declare
  v_namespace integer;
begin
  -- Not in a `set` clause of the function: that fails in a session that has not loaded pgvector.
  perform set_config('hnsw.ef_search', least(1000, greatest(200, 2 * p_limit))::text, true),
          set_config('hnsw.iterative_scan', 'relaxed_order', true);
  foreach v_namespace in array p_indexes loop
    return query execute format(
      $sql$
      with near as materialized (
        select e.memory_id, e.version, e.namespace_id, e.user_id, e.type, -(e.vector <#> $1) as similarity
          from memdb.embedding e
         where e.tenant_id = %1$s and e.model_id = %2$s%3$s
         order by e.vector::halfvec(%4$s) <#> $1::halfvec(%4$s)
         limit %5$s)
      select n.memory_id, n.version, n.similarity
        from near n
       where ($2 is null or n.namespace_id = any ($2)) and ($3 is null or n.user_id is null or n.user_id = $3)
         and ($4 is null or n.type = any ($4)) and ($5 is null or $5 @> n.memory_id)
      union all
      select null, null, case when count(*) < %5$s then 2 else min(n.similarity) end from near n
      $sql$,
      p_tenant, p_model, case when v_namespace > 0 then ' and e.namespace_id = ' || v_namespace else '' end,
      vector_dims(p_vector), p_limit)
      using p_vector, p_namespaces, p_user, p_types, (p_also).members;
  end loop;
end $$;
comment on function memdb._nearest_indexed (integer, integer[], text, text[], integer, halfvec, integer[], integer, memdb._recall_filter) is 'What the indexes of a strategy find: of each the p_limit nearest, and of these what passes the filters.';

-- _vector_leg: the memories nearest to the query, best first, with their cosine.
--
-- Status and session are looked up only for the nearest rows. Hits are certain down to the horizon: the similarity
-- below which some source may hold more. Where too few certain ones pass, indexes are asked once more,
-- eight times as deep; then every row is measured, and the nearest looked up until enough pass.
create or replace function memdb._vector_leg (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_model      integer,
  p_vector     halfvec,
  p_limit      integer,
  p_also       memdb._recall_filter default null,
  out memory_ids bigint[],
  out scores     double precision[]
)
  language plpgsql stable
as $$
declare
  v_depth   integer := p_limit + 20;
  v_how     record;
  v_horizon double precision;
  v_is_last boolean := false;
begin
  if p_limit < 1 or p_vector is null then
    return;
  end if;
  v_how := memdb._vector_strategy(p_tenant, p_namespaces, p_user, p_sessions, p_model, p_vector, p_also);
  for v_try in 1 .. 3 loop
    with near as materialized (
      select 1 as source, i.*
        from memdb._nearest_indexed(p_tenant, p_namespaces, p_user, p_types, p_model, p_vector, v_how.indexes, v_depth, p_also) i
       where v_how.indexes <> '{}'
      union all
      select 2, x.*
        from memdb._nearest_exact(p_tenant, case when v_how.indexes = '{}' then p_namespaces else v_how.rest end,
               p_user, p_sessions, p_types, p_model, p_vector, v_depth, p_also, case when v_is_last then p_statuses end) x
       where v_how.indexes = '{}' or v_how.rest <> '{}'
      union all
      select 3, c.*
        from memdb._nearest_cold(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_model, p_vector, v_depth, p_also) c
       where 'archive' = any (p_statuses)),
    -- An ordered subquery under a lateral join keeps its order: no more are looked up than are needed.
    hit as (
      select n.memory_id, n.similarity
        from (select n.* from near n where n.memory_id is not null order by n.similarity desc, n.memory_id offset 0) n
        cross join lateral (
          select from memdb.memory m
           where m.tenant_id = p_tenant and m.memory_id = n.memory_id and m.version = n.version
             and memdb._is_recallable(m, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also)
          offset 0) m
       limit p_limit)
    select h.memory_ids, h.scores, o.horizon
      into memory_ids, scores, v_horizon
      from (select array_agg(h.memory_id order by h.similarity desc, h.memory_id) as memory_ids,
                   array_agg(h.similarity order by h.similarity desc, h.memory_id) as scores
              from hit h) h
      cross join (
        select greatest(max(n.similarity) filter (where n.memory_id is null),
                        case when count(*) filter (where n.source = 2) = v_depth then min(n.similarity) filter (where n.source = 2) end,
                        case when count(*) filter (where n.source = 3) = v_depth then min(n.similarity) filter (where n.source = 3) end)
                 as horizon
          from near n) o;
    exit when v_horizon is null or scores[p_limit] >= v_horizon;
    if v_try = 1 and v_how.indexes <> '{}' then
      v_depth := v_depth * 8;
    else
      v_how.indexes := '{}';
      v_is_last := true;
    end if;
  end loop;
end $$;
comment on function memdb._vector_leg (integer, integer[], text, bigint[], text[], text[], integer, halfvec, integer, memdb._recall_filter) is 'The memories nearest to the query, best first, with their cosine.';
