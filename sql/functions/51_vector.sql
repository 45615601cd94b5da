-- The vector leg: the memories whose vectors lie nearest to the query's.
--
-- Vectors are unit length, so the negative inner product orders as the cosine does and is the
-- cheapest distance. The hot table holds current versions only; archived ones are cold.

-- _query_vector: the query's vector as the active model's rows are stored: half precision, length 1.
--
-- Raises MD105 where the tenant has no active model, MD004 for another dimension, NaN, infinity or length 0.
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
  v_vector     vector;
  v_reason     text;
begin
  select m.model_id, m.dimensions into model_id, v_dimensions
    from memdb.embedding_model m where m.tenant_id = p_tenant and m.state = 'active';
  if model_id is null then
    perform memdb._raise('MD105', 'the tenant has no embedding model', null,
      'Register the encoder first: memdb.register_embedding_model(tenant, name, dimensions); or recall without a vector.');
  end if;
  begin
    v_vector := p_vector::vector;
    v_reason := case
      when vector_dims(v_vector) <> v_dimensions then format('expected %s dimensions, got %s', v_dimensions, vector_dims(v_vector))
      when vector_norm(v_vector) = 0 then 'a vector of length 0 has no direction' end;
  exception when data_exception or program_limit_exceeded or array_subscript_error then
    v_reason := sqlerrm;
  end;
  if v_reason is not null then
    perform memdb._raise('MD004', v_reason, jsonb_build_object('field', 'vector'),
      'Encode the query with the active model of the tenant.');
  end if;
  vector := l2_normalize(v_vector)::halfvec;
end $$;
comment on function memdb._query_vector (integer, real[]) is 'The query''s vector as the active model''s rows are stored: half precision, length 1.';

-- _nearest_exact: the nearest vectors of a scope, every one of them measured.
--
-- Rows of embedding repeat what never changes (namespace, user, type), so these filters cost no
-- look-up; a session is few rows, found by its own index; the caller applies the rest. `+ 0` keeps
-- the planner from answering with a nearest-neighbour index, which would filter afterwards and
-- come back with too few rows. With and without namespaces are two statements: "null or any of"
-- in one would use no index. Cold vectors are read where archived memories are asked for.
create or replace function memdb._nearest_exact (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_model      integer,
  p_vector     halfvec,
  p_limit      integer
)
  returns table (memory_id bigint, version integer, similarity double precision)
  language plpgsql stable rows 50
as $$
begin
  if p_sessions is not null then
    return query
      select m.memory_id, m.version, -(e.vector <#> p_vector)
        from memdb.memory m
        join memdb.embedding e
          on e.tenant_id = p_tenant and e.model_id = p_model and e.memory_id = m.memory_id and e.version = m.version
       where m.tenant_id = p_tenant and m.session_id = any (p_sessions)
       order by 3 desc, 1
       limit p_limit;
  elsif p_namespaces is not null then
    return query
      select n.memory_id, n.version, -n.distance
        from (select e.memory_id, e.version, (e.vector <#> p_vector) + 0 as distance
                from memdb.embedding e
               where e.tenant_id = p_tenant and e.model_id = p_model and e.namespace_id = any (p_namespaces)
                 and (p_user is null or e.user_id is null or e.user_id = p_user)
                 and (p_types is null or e.type = any (p_types))
               order by 3, 1
               limit p_limit) n;
  else
    return query
      select n.memory_id, n.version, -n.distance
        from (select e.memory_id, e.version, (e.vector <#> p_vector) + 0 as distance
                from memdb.embedding e
               where e.tenant_id = p_tenant and e.model_id = p_model
                 and (p_user is null or e.user_id is null or e.user_id = p_user)
                 and (p_types is null or e.type = any (p_types))
               order by 3, 1
               limit p_limit) n;
  end if;
  if 'archive' = any (p_statuses) then
    return query
      select m.memory_id, m.version, -(e.vector <#> p_vector)
        from memdb.embedding_cold e
        join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = e.memory_id and m.version = e.version
       where e.tenant_id = p_tenant and e.model_id = p_model
         and memdb._is_recallable(m, p_namespaces, p_user, p_sessions, p_types, p_statuses)
       order by 3 desc, 1
       limit p_limit;
  end if;
end $$;
comment on function memdb._nearest_exact (integer, integer[], text, bigint[], text[], text[], integer, halfvec, integer) is 'The nearest vectors of a scope, every one of them measured.';

-- _vector_leg: the memories nearest to the query, best first, with their cosine.
--
-- The place where the strategy is chosen; so far every scope is scanned exactly. Status and
-- session are looked up only for the nearest rows: where too few of them pass, the search is
-- repeated eight times as deep.
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
  out memory_ids bigint[],
  out scores     double precision[]
)
  language plpgsql stable
as $$
declare
  v_depth integer := p_limit + 20;
  v_seen  integer;
begin
  loop
    select array_agg(r.memory_id order by r.place) filter (where r.is_wanted and r.place <= p_limit),
           array_agg(r.similarity order by r.place) filter (where r.is_wanted and r.place <= p_limit),
           count(*)
      into memory_ids, scores, v_seen
      from (select n.memory_id, n.similarity, m.is_wanted,
                   row_number() over (partition by m.is_wanted order by n.similarity desc, n.memory_id) as place
              from memdb._nearest_exact(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_model, p_vector,
                     v_depth) n
              cross join lateral (
                select memdb._is_recallable(m, p_namespaces, p_user, p_sessions, p_types, p_statuses)
                       and m.version = n.version as is_wanted
                  from memdb.memory m
                 where m.tenant_id = p_tenant and m.memory_id = n.memory_id
                offset 0) m) r;
    exit when cardinality(memory_ids) >= p_limit or v_seen < v_depth;
    v_depth := v_depth * 8;
  end loop;
end $$;
comment on function memdb._vector_leg (integer, integer[], text, bigint[], text[], text[], integer, halfvec, integer) is 'The memories nearest to the query, best first, with their cosine.';
