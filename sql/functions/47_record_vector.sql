-- Storing vectors: checked, brought to length 1, kept as half precision.

-- _has_vector: whether a memory version has a vector of a model, hot or cold.
create or replace function memdb._has_vector (p_tenant integer, p_model_id integer, p_memory bigint, p_version integer)
  returns boolean
  language sql stable parallel safe
begin atomic
  select exists (select from memdb.embedding e
                  where e.tenant_id = p_tenant and e.model_id = p_model_id and e.memory_id = p_memory and e.version = p_version)
      or exists (select from memdb.embedding_cold e
                  where e.tenant_id = p_tenant and e.model_id = p_model_id and e.memory_id = p_memory and e.version = p_version);
end;
comment on function memdb._has_vector (integer, integer, bigint, integer) is 'Whether a memory version has a vector of a model, hot or cold.';

-- _unit_vectors: vectors given as text, checked and brought to length 1.
--
-- Normalised in single precision and only then halved: no component of a unit vector leaves the
-- range of a half, so a long vector neither overflows nor loses its direction. Raises MD004
-- with the index where a text is no vector, has another dimension, a NaN or infinity, or length 0.
create or replace function memdb._unit_vectors (p_dimensions integer, p_vectors text[])
  returns halfvec[]
  language plpgsql immutable
  set search_path = pg_catalog, memdb, public, pg_temp
as $$
declare
  v_units    halfvec[] := '{}';
  v_vector   vector;
  v_reason   text;
  v_is_sound boolean;
begin
  -- All at once; only if one of them is unsound are they looked through for which and why.
  begin
    select array_agg(l2_normalize(v.vector)::halfvec order by v.place),
           count(v.vector) = count(*) and bool_and(vector_dims(v.vector) = p_dimensions and vector_norm(v.vector) > 0)
      into v_units, v_is_sound
      from (select t.text::vector as vector, t.place from unnest(p_vectors) with ordinality t (text, place) offset 0) v;
    if v_is_sound is not false then
      return coalesce(v_units, '{}');
    end if;
  exception when data_exception or program_limit_exceeded then
    null;
  end;
  v_units := '{}';
  for v_index in 1 .. coalesce(cardinality(p_vectors), 0) loop
    begin
      v_vector := p_vectors[v_index];
      v_reason := case
        when v_vector is null then 'a vector is required'
        when vector_dims(v_vector) <> p_dimensions then format('expected %s dimensions, got %s', p_dimensions, vector_dims(v_vector))
        when vector_norm(v_vector) = 0 then 'a vector of length 0 has no direction' end;
    exception when data_exception or program_limit_exceeded then
      v_reason := sqlerrm;
    end;
    if v_reason is not null then
      perform memdb._raise('MD004', v_reason, jsonb_build_object('index', v_index - 1, 'field', 'vector'),
        'Pass the numbers the registered encoder returned for this text, as [x, y, ...].');
    end if;
    v_units[v_index] := l2_normalize(v_vector)::halfvec;
  end loop;
  return v_units;
end $$;
comment on function memdb._unit_vectors (integer, text[]) is 'Vectors given as text, checked and brought to length 1.';

-- _insert_embeddings: store vectors of memory versions and take them off the queue.
--
-- The three arrays go side by side. A version that has a vector of the model keeps it; one no
-- longer current goes to embedding_cold, so recall never meets it. Returns how many were stored.
-- Raises MD004 (index = place in the arrays). Only called by definer functions that checked the
-- caller and that the versions exist. Rows are touched in key order, so two workers whose leases
-- overlapped do not deadlock.
create or replace function memdb._insert_embeddings (
  p_tenant     integer,
  p_model_id   integer,
  p_memory_ids bigint[],
  p_versions   integer[],
  p_vectors    text[]
)
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, memdb, public, pg_temp
as $$
declare
  v_units  halfvec[];
  v_queued tid[];
  v_stored integer;
begin
  select memdb._unit_vectors(e.dimensions, p_vectors) into v_units
    from memdb.embedding_model e
   where e.tenant_id = p_tenant and e.model_id = p_model_id;
  v_queued := array(
    select w.place
      from (select u.memory_id, u.version from unnest(p_memory_ids, p_versions) u (memory_id, version) order by 1, 2) a
      cross join lateral (
        select q.ctid as place from memdb.embedding_queue q
         where q.tenant_id = p_tenant and q.model_id = p_model_id and q.memory_id = a.memory_id and q.version = a.version
           for update) w);
  with unit as (
    select m.memory_id, a.version, m.namespace_id, m.user_id, m.type, a.vector,
           m.version = a.version and m.tier <> 'archive' as is_current
      from unnest(p_memory_ids, p_versions, v_units) a (memory_id, version, vector)
      join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = a.memory_id
     where not memdb._has_vector(p_tenant, p_model_id, a.memory_id, a.version)
     order by m.memory_id, a.version),
  hot as (
    insert into memdb.embedding as e (tenant_id, model_id, memory_id, version, namespace_id, user_id, type, vector)
      select p_tenant, p_model_id, u.memory_id, u.version, u.namespace_id, u.user_id, u.type, u.vector
        from unit u where u.is_current
      on conflict on constraint embedding_pkey do nothing returning 1),
  cold as (
    insert into memdb.embedding_cold as e (tenant_id, model_id, memory_id, version, namespace_id, user_id, type, vector)
      select p_tenant, p_model_id, u.memory_id, u.version, u.namespace_id, u.user_id, u.type, u.vector
        from unit u where not u.is_current
      on conflict on constraint embedding_cold_pkey do nothing returning 1)
  select (select count(*) from hot) + (select count(*) from cold) into v_stored;
  -- Locked above, so each row still lies where it was found.
  delete from memdb.embedding_queue q where q.tenant_id = p_tenant and q.ctid = any (v_queued);
  return v_stored;
end $$;
comment on function memdb._insert_embeddings (integer, integer, bigint[], integer[], text[]) is 'Store vectors of memory versions and take them off the queue.';

-- _insert_first_embeddings: store the vectors of memory versions that this transaction has just written.
--
-- Nobody else can have them in a queue or have encoded them yet, so nothing is looked up. The three
-- arrays go side by side. Raises MD004 (index = place in the arrays).
create or replace function memdb._insert_first_embeddings (
  p_tenant     integer,
  p_model_id   integer,
  p_memory_ids bigint[],
  p_versions   integer[],
  p_vectors    text[]
)
  returns void
  language plpgsql volatile
  set search_path = pg_catalog, memdb, public, pg_temp
as $$
declare
  v_dimensions integer;
begin
  select d.dimensions into v_dimensions
    from memdb.embedding_model d where d.tenant_id = p_tenant and d.model_id = p_model_id;
  insert into memdb.embedding (tenant_id, model_id, memory_id, version, namespace_id, user_id, type, vector)
    select p_tenant, p_model_id, a.memory_id, a.version, m.namespace_id, m.user_id, m.type, a.vector
      from unnest(p_memory_ids, p_versions, memdb._unit_vectors(v_dimensions, p_vectors)) a (memory_id, version, vector)
      join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = a.memory_id;
end $$;
comment on function memdb._insert_first_embeddings (integer, integer, bigint[], integer[], text[]) is 'Store the vectors of memory versions that this transaction has just written.';

-- record_embeddings: store the vectors an encoder returned.
--
-- p_embeddings: array of {memory_id*, version*, vector*: [..] or "[..]"}. Vectors are brought to
-- length 1 and kept as half precision. Returns how many were stored; a version that has its
-- vector already is left alone, so a repeated answer does no harm. All or nothing. Raises with the
-- index: MD001, MD003, MD004 (dimension, NaN, length 0), MD103 where the version does not exist
-- for the caller; MD105, MD301. Cost: one insert a vector; about a millisecond each once the
-- table has a nearest-neighbour index.
create or replace function memdb.record_embeddings (
  p_tenant     integer,
  p_model      text,
  p_embeddings jsonb
)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
  v_model_id   integer;
  v_memory_ids text[];
  v_versions   text[];
  v_vectors    text[];
  v_index      integer;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_items(p_embeddings, array['memory_id', 'version', 'vector'], array['memory_id', 'version', 'vector']);
  v_model_id := (memdb._find_model(p_tenant, p_model)).model_id;
  v_namespaces := memdb._readable(p_tenant, null, null);
  select array_agg(i.item ->> 'memory_id' order by i.place), array_agg(i.item ->> 'version' order by i.place),
         array_agg(i.item ->> 'vector' order by i.place),
         min(i.place) filter (where not (pg_input_is_valid(i.item ->> 'memory_id', 'bigint')
                                         and pg_input_is_valid(i.item ->> 'version', 'integer'))) - 1
    into v_memory_ids, v_versions, v_vectors, v_index
    from jsonb_array_elements(p_embeddings) with ordinality i (item, place);
  if v_index is not null then
    perform memdb._raise('MD001', 'memory_id and version are integers', jsonb_build_object('index', v_index),
      'Pass them as pending_embeddings returned them.');
  end if;
  select a.place - 1 into v_index
    from unnest(v_memory_ids::bigint[], v_versions::integer[]) with ordinality a (memory_id, version, place)
   where not exists (select from memdb.memory_version v
                      where v.tenant_id = p_tenant and v.memory_id = a.memory_id and v.version = a.version
                        and (v_namespaces is null or v.namespace_id = any (v_namespaces)))
   order by a.place
   limit 1;
  if found then
    perform memdb._raise('MD103', 'no such memory version',
      jsonb_build_object('index', v_index, 'memory', v_memory_ids[v_index + 1], 'version', v_versions[v_index + 1]),
      'Store vectors for what pending_embeddings handed out; a memory forgotten since then needs none.');
  end if;
  return memdb._insert_embeddings(p_tenant, v_model_id, v_memory_ids::bigint[], v_versions::integer[], v_vectors);
end $$;
comment on function memdb.record_embeddings (integer, text, jsonb) is 'Store the vectors an encoder returned.';
