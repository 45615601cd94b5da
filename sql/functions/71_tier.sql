-- Tiers: working, short_term, long_term, archive; moving memories between them by hand, and looking at their life.
--
-- What moves by itself is in 72_fade. Archived memories keep their text, edges and sources; recall
-- finds them only where it is asked to include them.

-- _tied: those of some memories that something live is tied to: an active memory they rest on, that rests on them, or an edge joins to them.
create or replace function memdb._tied (p_tenant integer, p_memory_ids bigint[])
  returns bigint[]
  language plpgsql stable
as $$
begin
  return array(
    select p.memory_id from memdb.premise p
      join memdb.memory o on o.tenant_id = p_tenant and o.memory_id = p.conclusion_id
     where p.tenant_id = p_tenant and p.memory_id = any (p_memory_ids) and p.supports and o.status = 'active'
    union
    select j.memory_id from memdb.justification j
      join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id
      join memdb.memory o on o.tenant_id = p_tenant and o.memory_id = p.memory_id
     where j.tenant_id = p_tenant and j.memory_id = any (p_memory_ids) and j.supports and o.status = 'active'
    union
    select e.from_memory_id from memdb.edge e
      join memdb.memory o on o.tenant_id = p_tenant and o.memory_id = e.to_memory_id
     where e.tenant_id = p_tenant and e.from_memory_id = any (p_memory_ids) and e.retired_at is null and o.status = 'active'
    union
    select e.to_memory_id from memdb.edge e
      join memdb.memory o on o.tenant_id = p_tenant and o.memory_id = e.from_memory_id
     where e.tenant_id = p_tenant and e.to_memory_id = any (p_memory_ids) and e.retired_at is null and o.status = 'active');
end $$;
comment on function memdb._tied (integer, bigint[]) is 'Those of some memories that something live is tied to: an active memory they rest on, that rests on them, or an edge joins to them.';

-- _lock_memories: lock memories a caller names and may write, in the order of their ids; those found.
--
-- Raises MD001 above 10,000, MD103 for one that is not there or not the caller's to write.
create or replace function memdb._lock_memories (p_tenant integer, p_memory_ids bigint[])
  returns bigint[]
  language plpgsql volatile
as $$
declare
  v_namespaces integer[] := memdb._namespaces_granted(p_tenant, true);
  v_found      bigint[];
  v_missing    bigint;
begin
  if p_memory_ids is null or cardinality(p_memory_ids) > 10000 then
    perform memdb._raise('MD001', 'give at most 10,000 memories', jsonb_build_object('field', 'memory_ids'), 'Pass an array of ids.');
  end if;
  v_found := array(select m.memory_id from memdb.shown_memory m
                    where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)
                      and (v_namespaces is null or m.namespace_id = any (v_namespaces))
                    order by m.memory_id for no key update);
  select i.id into v_missing from unnest(p_memory_ids) i (id) where i.id is null or i.id <> all (v_found) limit 1;
  if found then
    perform memdb._raise('MD103', 'no such memory', jsonb_build_object('memory_id', v_missing),
      'Check the id, and that this role may write its namespace.');
  end if;
  return v_found;
end $$;
comment on function memdb._lock_memories (integer, bigint[]) is 'Lock memories a caller names and may write, in the order of their ids; those found.';

-- _arm_memories: set when memories fade, by the policies of today; the caller has locked them.
--
-- For whoever changes something that strength is made of, or brings a memory back from the archive.
create or replace function memdb._arm_memories (p_tenant integer, p_memory_ids bigint[])
  returns void
  language sql volatile
begin atomic
  with life as materialized (
    select n.namespace_id, memdb._life(p_tenant, n.namespace_id) as life
      from (select distinct m.namespace_id from memdb.memory m
             where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)) n)
  update memdb.memory m set fades_at = memdb._memory_fades_at(l.life, m, m.tier, m.is_isolated, 0, null)
    from life l
   where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids) and m.namespace_id = l.namespace_id;
end;
comment on function memdb._arm_memories (integer, bigint[]) is 'Set when memories fade, by the policies of today; the caller has locked them.';

-- _archive: put locked memories into the archive, and their vectors out of the index.
create or replace function memdb._archive (p_tenant integer, p_memory_ids bigint[])
  returns void
  language plpgsql volatile
as $$
begin
  update memdb.memory m set tier = 'archive', fades_at = null
   where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids) and m.tier <> 'archive';
  perform memdb._chill(p_tenant, p_memory_ids);
end $$;
comment on function memdb._archive (integer, bigint[]) is 'Put locked memories into the archive, and their vectors out of the index.';

-- _chill: take the vectors of archived memories out of the hot table (77_archive).
create or replace function memdb._chill (p_tenant integer, p_memory_ids bigint[])
  returns void
  language plpgsql volatile
as $$
begin
  if p_memory_ids <> '{}' then
    perform memdb._chill_vectors(p_tenant, p_memory_ids);
  end if;
end $$;
comment on function memdb._chill (integer, bigint[]) is 'Take the vectors of archived memories out of the hot table (77_archive).';

-- archive_memories: put memories into the archive now, whatever their strength.
--
-- They keep text, edges and sources, and what rests on them stays; recall finds them only where p_include holds
-- archive. Pinned ones are archived too: who names them means them. A use brings a memory back, as does restore_archived. Returns
-- how many were not archived before. Raises MD001 above 10,000 ids, MD103, MD301.
create or replace function memdb.archive_memories (p_tenant integer, p_memory_ids bigint[])
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_ids bigint[];
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._lock_truth(p_tenant, false);
  v_ids := memdb._lock_memories(p_tenant, p_memory_ids);
  v_ids := array(select m.memory_id from memdb.memory m
                  where m.tenant_id = p_tenant and m.memory_id = any (v_ids) and m.tier <> 'archive');
  perform memdb._archive(p_tenant, v_ids);
  return cardinality(v_ids);
end $$;
comment on function memdb.archive_memories (integer, bigint[]) is 'Put memories into the archive now, whatever their strength.';

-- promote_memories: put memories into a higher tier by hand.
--
-- p_tier is short_term or long_term; null is the next above each. What is there already, higher, or archived stays.
-- By themselves memories go up by their uses (policy promote_uses) when these are folded. Returns how
-- many moved. Raises MD001, MD103, MD301.
create or replace function memdb.promote_memories (p_tenant integer, p_memory_ids bigint[], p_tier text default null)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_ids bigint[];
begin
  perform memdb._authorize(p_tenant, true);
  if p_tier not in ('short_term', 'long_term') then
    perform memdb._raise('MD001', 'memories are promoted to short_term or long_term', jsonb_build_object('field', 'tier'),
      'restore_archived brings archived memories back, archive_memories puts them away.');
  end if;
  perform memdb._lock_truth(p_tenant, false);
  v_ids := memdb._lock_memories(p_tenant, p_memory_ids);
  with promoted as (
    update memdb.memory m
       set tier = coalesce(p_tier, case m.tier when 'working' then 'short_term' else 'long_term' end)
     where m.tenant_id = p_tenant and m.memory_id = any (v_ids)
       and (m.tier = 'working' or (m.tier = 'short_term' and p_tier is distinct from 'short_term'))
    returning m.memory_id)
  select coalesce(array_agg(p.memory_id), '{}') into v_ids from promoted p;
  perform memdb._arm_memories(p_tenant, v_ids);
  return cardinality(v_ids);
end $$;
comment on function memdb.promote_memories (integer, bigint[], text) is 'Put memories into a higher tier by hand.';

-- pin_memory: keep a memory from ever fading, or let it fade again.
--
-- Pinning does not bring a memory back from the archive. Unpinned, it fades as if it had never been
-- pinned: at once, if it has not been used for long. Returns whether that changed anything.
-- Raises MD103, MD301.
create or replace function memdb.pin_memory (p_tenant integer, p_memory bigint, p_is_pinned boolean default true)
  returns boolean
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_ids bigint[];
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._lock_truth(p_tenant, false);
  v_ids := memdb._lock_memories(p_tenant, array[p_memory]);
  update memdb.memory m set is_pinned = p_is_pinned
   where m.tenant_id = p_tenant and m.memory_id = any (v_ids) and m.is_pinned <> p_is_pinned;
  if not found then
    return false;
  end if;
  perform memdb._arm_memories(p_tenant, v_ids);
  return true;
end $$;
comment on function memdb.pin_memory (integer, bigint, boolean) is 'Keep a memory from ever fading, or let it fade again.';

-- memory_life: how strong memories are now, and what they fade by.
--
-- One row for each of p_memory_ids (at most 10,000) that the caller may read. strength counts uses up to the last fold;
-- half_life_days and threshold are those of its type and tier, the half-life shortened where is_isolated. fades_at is when it
-- leaves its tier if nobody uses it, never later than it really does; null = never. Raises MD001, MD301.
create or replace function memdb.memory_life (p_tenant integer, p_memory_ids bigint[])
  returns table (memory_id bigint, tier text, is_pinned boolean, strength double precision, threshold double precision,
                 half_life_days double precision, is_isolated boolean, use_count integer, last_used_at timestamptz,
                 fades_at timestamptz)
  language plpgsql stable security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
  v_now        timestamptz;
begin
  perform memdb._authorize(p_tenant, false);
  v_namespaces := memdb._readable(p_tenant, null, null);
  v_now := memdb.current_time();
  if cardinality(p_memory_ids) > 10000 then
    perform memdb._raise('MD001', 'give at most 10,000 memories', jsonb_build_object('field', 'memory_ids'), 'Ask in several calls.');
  end if;
  return query
    with life as materialized (
      select n.namespace_id, memdb._life(p_tenant, n.namespace_id) as life
        from (select distinct m.namespace_id from memdb.shown_memory m
               where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)) n)
    select m.memory_id, m.tier, m.is_pinned,
           memdb._strength(m.importance, least(m.confidence, m.trust), m.use_count,
             extract(epoch from v_now - greatest(m.recorded_at, m.last_used_at))::double precision / 86400, h.days,
             (l.life ->> 'use_weight')::double precision),
           case when m.tier <> 'archive' then
             coalesce(l.life -> 'fade_below' ->> m.type, l.life -> 'fade_below' ->> m.tier)::double precision end,
           h.days, m.is_isolated, m.use_count, m.last_used_at, m.fades_at
      from memdb.shown_memory m
      join life l on l.namespace_id = m.namespace_id
      -- An archived memory goes on fading as a long-term one.
      cross join lateral (select memdb._half_life_days(
        l.life, m.type, case when m.tier = 'archive' then 'long_term' else m.tier end, m.is_isolated)) h (days)
     where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)
       and (v_namespaces is null or m.namespace_id = any (v_namespaces))
     order by m.memory_id;
end $$;
comment on function memdb.memory_life (integer, bigint[]) is 'How strong memories are now, and what they fade by.';
