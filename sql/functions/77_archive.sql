-- Archive: what faded leaves the hot index and nothing else.
--
-- A memory in tier archive keeps its id, words, edges and sources. Its vectors lie in the cold
-- table, which has no nearest-neighbour index: recall measures them one by one, and only where
-- archive is asked for (p_include) or the question is about the past.

-- _chill_vectors: move the vectors of some memories to the cold table; returns how many moved.
--
-- For memories that were just archived, in their transaction. Vectors of old versions lie there already.
create or replace function memdb._chill_vectors (p_tenant integer, p_memory_ids bigint[])
  returns bigint
  language plpgsql volatile
as $$
declare
  v_moved bigint;
begin
  with moved as (
    delete from memdb.embedding e
     where e.tenant_id = p_tenant and e.memory_id = any (p_memory_ids)
    returning e.*)
  insert into memdb.embedding_cold select d.* from moved d on conflict do nothing;
  get diagnostics v_moved = row_count;
  return v_moved;
end $$;
comment on function memdb._chill_vectors (integer, bigint[]) is 'Move the vectors of some memories to the cold table; returns how many moved.';

-- _warm_vectors: move the vectors of the current versions of some memories back to the hot table; returns how many moved.
create or replace function memdb._warm_vectors (p_tenant integer, p_memory_ids bigint[])
  returns bigint
  language plpgsql volatile
as $$
declare
  v_moved bigint;
begin
  with moved as (
    delete from memdb.embedding_cold e
     using memdb.memory m
     where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)
       and e.tenant_id = p_tenant and e.memory_id = m.memory_id and e.version = m.version
    returning e.*)
  insert into memdb.embedding select d.* from moved d on conflict do nothing;
  get diagnostics v_moved = row_count;
  return v_moved;
end $$;
comment on function memdb._warm_vectors (integer, bigint[]) is 'Move the vectors of the current versions of some memories back to the hot table; returns how many moved.';

-- restore_archived: bring archived memories back into everyday recall.
--
-- They become long-term, their vectors go back to the hot table, and this counts as a use: without
-- one they would fade again at once. Of p_memory_ids (at most 10,000) those that are not archived
-- are left as they are. Returns how many came back. Raises MD001, MD003, MD103 for one that does not
-- exist for the caller, MD301, MD302. Cost: an update and a moved vector each; a millisecond more
-- where the scope has a nearest-neighbour index.
create or replace function memdb.restore_archived (
  p_tenant     integer,
  p_memory_ids bigint[]
)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now  timestamptz := memdb.current_time();
  v_back bigint[];
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_ids(p_tenant, p_memory_ids);
  with back as (
    update memdb.memory m
       set tier = 'long_term', use_count = m.use_count + 1, last_used_at = v_now, fades_at = v_now
      from (select w.memory_id from memdb.memory w
             where w.tenant_id = p_tenant and w.memory_id = any (p_memory_ids) and w.tier = 'archive'
             order by w.memory_id for no key update) w
     where m.tenant_id = p_tenant and m.memory_id = w.memory_id
    returning m.memory_id)
  select coalesce(array_agg(b.memory_id), '{}') into v_back from back b;
  perform memdb._warm_vectors(p_tenant, v_back);
  return cardinality(v_back);
end $$;
comment on function memdb.restore_archived (integer, bigint[]) is 'Bring archived memories back into everyday recall.';

-- _check_ids: stop unless all of these memories exist for the caller, who may write them.
create or replace function memdb._check_ids (p_tenant integer, p_memory_ids bigint[])
  returns void
  language plpgsql volatile
as $$
declare
  v_readable integer[] := memdb._readable(p_tenant, null, null);
  v_lost     record;
begin
  if p_memory_ids is null or cardinality(p_memory_ids) > 10000 then
    perform memdb._raise(case when p_memory_ids is null then 'MD001' else 'MD003' end, 'give 1 to 10,000 memory ids',
      jsonb_build_object('field', 'memory_ids'), 'Send several smaller batches.');
  end if;
  select w.place - 1 as index, w.memory_id into v_lost
    from unnest(p_memory_ids) with ordinality w (memory_id, place)
    left join memdb.memory m
      on m.tenant_id = p_tenant and m.memory_id = w.memory_id and (v_readable is null or m.namespace_id = any (v_readable))
   where m.memory_id is null
   order by w.place
   limit 1;
  if found then
    perform memdb._raise('MD103', 'no such memory', jsonb_build_object('index', v_lost.index, 'memory_id', v_lost.memory_id),
      'Check the id and the tenant; a forgotten memory is gone.');
  end if;
  perform memdb._writable(p_tenant, n.path, null)
     from (select distinct m.namespace_id from memdb.memory m where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)) w
     join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = w.namespace_id;
end $$;
comment on function memdb._check_ids (integer, bigint[]) is 'Stop unless all of these memories exist for the caller, who may write them.';
