-- Changing the encoder: a second model fills beside the active one, is compared with it, takes over.
--
-- register_embedding_model makes the second one, enqueue_embeddings queues what it lacks,
-- nearest_memories asks both, activate_embedding_model switches, drop_embedding_model clears the
-- old one away. Memories are encoded again; nothing is extracted again.

-- _missing_vectors: how many current memories have no vector of a model, counted up to 10,000.
create or replace function memdb._missing_vectors (p_tenant integer, p_model integer)
  returns integer
  language sql stable
begin atomic
  select count(*)::integer
    from (select from memdb.memory m
           where m.tenant_id = p_tenant and not memdb._has_vector(p_tenant, p_model, m.memory_id, m.version)
           limit 10000) r;
end;
comment on function memdb._missing_vectors (integer, integer) is 'How many current memories have no vector of a model, counted up to 10,000.';

-- activate_embedding_model: make an encoder the one whose vectors recall searches.
--
-- From the end of this transaction on, recall takes vectors of this model; the one before is retired: it
-- gets no new vectors and keeps those it has until drop_embedding_model. p_allow_missing: also
-- where memories have no vector of it yet; they are then found by their other legs only. Returns the
-- name of the model before (null: there was none, or it was this one) and how many memories
-- have no vector yet, counted up to 10,000. Build its indexes before (vector_index_plan): without them
-- large scopes are measured row by row.
-- Raises MD105; MD203 where memories lack vectors and p_allow_missing is false; MD301. Cost: looks up
-- a vector for each memory of the tenant, a few seconds a million.
create or replace function memdb.activate_embedding_model (
  p_tenant        integer,
  p_model         text,
  p_allow_missing boolean default false
)
  returns table (previous text, missing integer)
  language plpgsql volatile security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_model memdb.embedding_model;
begin
  perform memdb._authorize(p_tenant, true);
  -- One change of models at a time, as register_embedding_model has it: two could both become active.
  perform from memdb.tenant t where t.tenant_id = p_tenant for no key update;
  v_model := memdb._find_model(p_tenant, p_model);
  missing := memdb._missing_vectors(p_tenant, v_model.model_id);
  if missing > 0 and p_allow_missing is not true then
    perform memdb._raise('MD203', 'memories have no vector of this model yet',
      jsonb_build_object('model', p_model, 'missing', missing),
      'Queue and encode them (enqueue_embeddings; memdb models embed), or pass p_allow_missing => true.');
  end if;
  -- The old one first: only one may be active.
  update memdb.embedding_model m set state = 'retired'
   where m.tenant_id = p_tenant and m.state = 'active' and m.model_id <> v_model.model_id
  returning m.name into previous;
  update memdb.embedding_model m set state = 'active' where m.tenant_id = p_tenant and m.model_id = v_model.model_id;
  return next;
end $$;
comment on function memdb.activate_embedding_model (integer, text, boolean) is 'Make an encoder the one whose vectors recall searches.';

-- drop_embedding_model: delete the vectors of an encoder, one bounded step, and the encoder with the last of them.
--
-- Takes up to p_limit (1 to 100,000) vectors; from the first step on the model is retired. Returns how many rows are left,
-- counted up to 10,000: call again until 0. Drop its nearest-neighbour indexes before
-- (vector_index_plan), or vacuum will mend what is to be thrown away. Operators only (MD303). Raises MD001; MD105;
-- MD203 for the active model; MD301.
create or replace function memdb.drop_embedding_model (
  p_tenant integer,
  p_model  text,
  p_limit  integer default 10000
)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_model memdb.embedding_model;
  v_table text;
  v_left  integer := p_limit;
  v_gone  integer;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  perform memdb._check_limit(p_limit, 100000);
  perform from memdb.tenant t where t.tenant_id = p_tenant for no key update;
  v_model := memdb._find_model(p_tenant, p_model);
  if v_model.state = 'active' then
    perform memdb._raise('MD203', 'recall searches the vectors of this model', jsonb_build_object('model', p_model),
      'Activate another one first: memdb.activate_embedding_model(tenant, model).');
  end if;
  -- Retired, so that nothing new is queued for it between two steps.
  update memdb.embedding_model m set state = 'retired'
   where m.tenant_id = p_tenant and m.model_id = v_model.model_id and m.state <> 'retired';
  foreach v_table in array array['embedding', 'embedding_cold', 'embedding_queue'] loop
    execute format(
      'delete from memdb.%1$I e where e.tenant_id = $1 and e.ctid = any (array(select f.ctid from memdb.%1$I f'
      ' where f.tenant_id = $1 and f.model_id = $2 limit $3 for update))', v_table)
      using p_tenant, v_model.model_id, v_left;
    get diagnostics v_gone = row_count;
    v_left := v_left - v_gone;
  end loop;
  if v_left > 0 then
    delete from memdb.embedding_model m where m.tenant_id = p_tenant and m.model_id = v_model.model_id;
    return 0;
  end if;
  -- At least one, even where the step took the very last row: the next one deletes the model.
  return (select greatest(1, count(*)) from (
    (select from memdb.embedding e where e.tenant_id = p_tenant and e.model_id = v_model.model_id limit 10000)
    union all
    (select from memdb.embedding_cold e where e.tenant_id = p_tenant and e.model_id = v_model.model_id limit 10000)
    union all
    (select from memdb.embedding_queue e where e.tenant_id = p_tenant and e.model_id = v_model.model_id limit 10000)) r);
end $$;
comment on function memdb.drop_embedding_model (integer, text, integer) is 'Delete the vectors of an encoder, one bounded step, and the encoder with the last of them.';

-- nearest_memories: the memories nearest to a vector by a named encoder, for comparing two encoders.
--
-- The vector leg of recall alone, also for a model that is filling or retired. p_vector: by that
-- model. p_namespaces, p_user: as in recall. p_k: 1 to 1,000. Returns ids and the cosine, nearest
-- first; active memories only. What a memory says: get_memory. Raises MD001, MD004, MD102, MD105, MD301, MD302.
create or replace function memdb.nearest_memories (
  p_tenant     integer,
  p_model      text,
  p_vector     real[],
  p_namespaces text[]  default null,
  p_user       text    default null,
  p_k          integer default 10
)
  returns table (rank integer, memory_id bigint, similarity double precision)
  language plpgsql stable security definer rows 10
  set search_path = pg_catalog, memdb, public, pg_temp
as $$
declare
  v_model memdb.embedding_model;
  v_near  record;
begin
  perform memdb._authorize(p_tenant, false);
  perform memdb._check_limit(p_k, 1000);
  v_model := memdb._find_model(p_tenant, p_model);
  v_near := memdb._vector_leg(p_tenant, memdb._readable(p_tenant, p_namespaces, null), p_user, null, null, array['active'],
    v_model.model_id, memdb._model_vector(v_model.dimensions, p_vector), p_k);
  return query
    select n.place::integer, n.memory_id, n.similarity
      from unnest(v_near.memory_ids, v_near.scores) with ordinality n (memory_id, similarity, place)
     order by n.place;
end $$;
comment on function memdb.nearest_memories (integer, text, real[], text[], text, integer) is 'The memories nearest to a vector by a named encoder, for comparing two encoders.';
