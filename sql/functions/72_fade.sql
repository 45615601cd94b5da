-- Fading: what moves memories between tiers by itself, in bounded batches that jobs repeat.
--
-- fold_uses    counts uses from the log, promotes by them, sees which memories gained or lost their ties
-- fade_due     meets memories at fades_at: those that have really faded leave their tier
--
-- fades_at is a lower bound: a use moves the crossing later and leaves fades_at alone, so that it
-- is a HOT update; the job works the crossing out anew when it meets the row, and sets it again.
-- What moves the crossing earlier (policy, confidence, a lost tie) moves fades_at with it.

-- _note_uses: append to the log of uses, for fold_uses; p_uses 0 notes a tie made or lost.
create or replace function memdb._note_uses (p_tenant integer, p_memory_ids bigint[], p_uses integer, p_now timestamptz)
  returns void
  language sql volatile
begin atomic
  insert into memdb.memory_use (tenant_id, memory_id, uses, used_at)
    select p_tenant, i.id, p_uses, p_now from unnest(p_memory_ids) i (id);
end;
comment on function memdb._note_uses (integer, bigint[], integer, timestamptz) is 'Append to the log of uses, for fold_uses; p_uses 0 notes a tie made or lost.';

-- _note_loosened: note what was tied to the memories that fell or rose in the next correction not seen yet.
--
-- One correction a call; returns how many it noted, null where there was none: then everything up to now is seen, for
-- the caller holds the truth lock and no correction is in flight. Beliefs tell: writers pay nothing for it.
create or replace function memdb._note_loosened (p_tenant integer, p_now timestamptz)
  returns bigint
  language plpgsql volatile
as $$
declare
  v_mark timestamptz;
  v_next timestamptz;
  v_ids  bigint[];
begin
  insert into memdb.fold_mark (tenant_id, belief_at)
    select t.tenant_id, least(t.created_at, p_now) - interval '1 second' from memdb.tenant t where t.tenant_id = p_tenant
  on conflict do nothing;
  select f.belief_at into v_mark from memdb.fold_mark f where f.tenant_id = p_tenant for no key update;
  select least((select b.from_at from memdb.belief b where b.tenant_id = p_tenant and b.from_at > v_mark order by b.from_at limit 1),
               (select b.to_at from memdb.belief b where b.tenant_id = p_tenant and b.to_at > v_mark order by b.to_at limit 1))
    into v_next;
  if v_next is null then
    -- Otherwise the next search would go through what other tenants corrected since, every time.
    -- A correction that comes now may have this very moment.
    update memdb.fold_mark f set belief_at = p_now - interval '1 microsecond'
     where f.tenant_id = p_tenant and f.belief_at < p_now - interval '1 microsecond';
    return null;
  end if;
  v_ids := array(
    with changed as materialized (
      select b.subject_id as memory_id from memdb.belief b
       where b.from_at = v_next and b.tenant_id = p_tenant and b.subject = 'memory'
      union
      select b.subject_id from memdb.belief b
       where b.to_at = v_next and b.tenant_id = p_tenant and b.subject = 'memory')
    select p.memory_id
      from changed c
      join memdb.justification j on j.tenant_id = p_tenant and j.memory_id = c.memory_id
      join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id and p.memory_id is not null
    union
    select e.to_memory_id from changed c
      join memdb.edge e on e.tenant_id = p_tenant and e.from_memory_id = c.memory_id and e.retired_at is null
    union
    select e.from_memory_id from changed c
      join memdb.edge e on e.tenant_id = p_tenant and e.to_memory_id = c.memory_id and e.retired_at is null);
  perform memdb._note_uses(p_tenant, v_ids, 0, p_now);
  update memdb.fold_mark f set belief_at = v_next where f.tenant_id = p_tenant;
  return cardinality(v_ids);
end $$;
comment on function memdb._note_loosened (integer, timestamptz) is 'Note what was tied to the memories that fell or rose in the next correction not seen yet.';

-- _add_uses: add uses to locked memories, promote them, see anew what is isolated; returns the archived ones that were used.
--
-- The arrays go side by side; p_tied are those of them that something live is tied to.
create or replace function memdb._add_uses (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_uses       integer[],
  p_used_at    timestamptz[],
  p_tied       bigint[]
)
  returns bigint[]
  language plpgsql volatile
  -- A table filled since it was last analyzed looks small, and a join of all with all takes minutes a batch then.
  set enable_nestloop = off
as $$
declare
  v_revived bigint[];
begin
  with life as materialized (
    select n.namespace_id, memdb._life(p_tenant, n.namespace_id) as life
      from (select distinct m.namespace_id from memdb.memory m
             where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)) n),
  judged as materialized (
    select m.memory_id, u.uses, u.used_at, l.life, t.memory_id is null as is_isolated
      from memdb.memory m
      join unnest(p_memory_ids, p_uses, p_used_at) u (memory_id, uses, used_at) on u.memory_id = m.memory_id
      join life l on l.namespace_id = m.namespace_id
      left join unnest(p_tied) t (memory_id) on t.memory_id = m.memory_id
     where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)),
  folded as (
    update memdb.memory m
       set use_count = m.use_count + j.uses, last_used_at = greatest(m.last_used_at, j.used_at), is_isolated = j.is_isolated,
           tier = memdb._promoted_tier(j.life, m.tier, m.use_count + j.uses),
           -- Only what comes earlier, or counts in another tier, is written: the rest stays a lower bound.
           fades_at = case when memdb._promoted_tier(j.life, m.tier, m.use_count + j.uses) <> m.tier or (j.is_isolated and not m.is_isolated)
                           then memdb._memory_fades_at(j.life, m, memdb._promoted_tier(j.life, m.tier, m.use_count + j.uses),
                                                       j.is_isolated, j.uses, j.used_at)
                           else m.fades_at end
      from judged j
     where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids) and m.memory_id = j.memory_id
    returning m.memory_id, m.tier = 'archive' and j.uses > 0 as is_revived)
  select array_agg(f.memory_id order by f.memory_id) filter (where f.is_revived) into v_revived from folded f;
  return v_revived;
end $$;
comment on function memdb._add_uses (integer, bigint[], integer[], timestamptz[], bigint[]) is 'Add uses to locked memories, promote them, see anew what is isolated; returns the archived ones that were used.';

-- fold_uses: count noted uses, promote what has earned it, and see anew what is isolated; one bounded step.
--
-- Takes up to p_limit (1 to 100,000) rows of the log. Uses are added to use_count and last_used_at; from promote_uses
-- on a memory goes up a tier; one that lost its last tie fades faster from now on. A used memory that is archived comes
-- back. Returns how many rows are left, counted up to 10,000: call again until 0. Safe beside itself: a row
-- is taken once. Raises MD001, MD301. Cost: a few index look-ups and one HOT update a memory.
create or replace function memdb.fold_uses (p_tenant integer, p_limit integer default 1000)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
  set enable_seqscan = off
as $$
declare
  v_now   timestamptz;
  v_used  record;
  v_noted bigint := 0;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_limit(p_limit, 100000);
  perform memdb._lock_truth(p_tenant, false);
  v_now := memdb.current_time();
  while v_noted < p_limit loop
    v_noted := v_noted + memdb._note_loosened(p_tenant, v_now);
    exit when v_noted is null;
  end loop;
  with taken as (
    delete from memdb.memory_use u
     where u.tenant_id = p_tenant
       and u.ctid = any (array(select f.ctid from memdb.memory_use f where f.tenant_id = p_tenant
                                order by f.memory_id, f.use_id limit p_limit for update skip locked))
    returning u.memory_id, u.uses, u.used_at)
  select array_agg(s.memory_id) as memory_ids, array_agg(s.uses) as uses, array_agg(s.used_at) as used_at
    into v_used
    from (select t.memory_id, sum(t.uses)::integer as uses, max(t.used_at) filter (where t.uses > 0) as used_at
            from taken t group by t.memory_id) s;
  if v_used.memory_ids is not null then
    perform from memdb.memory m where m.tenant_id = p_tenant and m.memory_id = any (v_used.memory_ids)
      order by m.memory_id for no key update;
    perform memdb._revive(p_tenant, memdb._add_uses(p_tenant, v_used.memory_ids, v_used.uses, v_used.used_at,
      memdb._tied(p_tenant, v_used.memory_ids)));
  end if;
  -- A search that ended at the limit has not come to the last correction yet.
  return greatest((v_noted is not null)::integer,
                  (select count(*) from (select from memdb.memory_use u where u.tenant_id = p_tenant limit 10000) w));
end $$;
comment on function memdb.fold_uses (integer, integer) is 'Count noted uses, promote what has earned it, and see anew what is isolated; one bounded step.';

-- _revive: bring archived memories back that were used, or learnt again, as long-term ones; the caller has locked them.
create or replace function memdb._revive (p_tenant integer, p_memory_ids bigint[])
  returns void
  language plpgsql volatile
as $$
begin
  if p_memory_ids is null then
    return;
  end if;
  update memdb.memory m set tier = 'long_term'
   where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids) and m.tier = 'archive';
  perform memdb._arm_memories(p_tenant, p_memory_ids);
  perform memdb._warm_vectors(p_tenant, p_memory_ids);
end $$;
comment on function memdb._revive (integer, bigint[]) is 'Bring archived memories back that were used, or learnt again, as long-term ones; the caller has locked them.';

-- _recompute_fading: after a change of policy, move fades_at of the next memories to where it has to be.
--
-- Only where the new policy makes them fade earlier: fades_at stays a lower bound, and most rows
-- are only read. Promotes by the new policy too. Returns how many memories are still to be looked at, counted up to 10,000.
create or replace function memdb._recompute_fading (p_tenant integer, p_limit integer)
  returns integer
  language plpgsql volatile
  set enable_nestloop = off  -- as in _add_uses
as $$
declare
  v_from bigint;
  v_ids  bigint[];
begin
  select r.memory_id into v_from from memdb.refade r where r.tenant_id = p_tenant for update skip locked;
  if not found then
    return 0;
  end if;
  v_ids := array(select m.memory_id from memdb.memory m
                  where m.tenant_id = p_tenant and m.memory_id > v_from order by m.memory_id limit p_limit);
  if v_ids = '{}' then
    delete from memdb.refade r where r.tenant_id = p_tenant;
    return 0;
  end if;
  perform from memdb.memory m where m.tenant_id = p_tenant and m.memory_id = any (v_ids) order by m.memory_id for no key update;
  with life as materialized (
    select n.namespace_id, memdb._life(p_tenant, n.namespace_id) as life
      from (select distinct m.namespace_id from memdb.memory m where m.tenant_id = p_tenant and m.memory_id = any (v_ids)) n),
  wanted as materialized (
    select m.memory_id, t.tier, memdb._memory_fades_at(l.life, m, t.tier, m.is_isolated, 0, null) as fades_at
      from memdb.memory m
      join life l on l.namespace_id = m.namespace_id
      cross join lateral (select memdb._promoted_tier(l.life, m.tier, m.use_count)) t (tier)
     where m.tenant_id = p_tenant and m.memory_id = any (v_ids) and m.tier <> 'archive')
  update memdb.memory m set tier = w.tier, fades_at = w.fades_at
    from wanted w
   where m.tenant_id = p_tenant and m.memory_id = any (v_ids) and m.memory_id = w.memory_id
     and (w.tier <> m.tier or w.fades_at < coalesce(m.fades_at, 'infinity'));
  update memdb.refade r set memory_id = v_ids[cardinality(v_ids)] where r.tenant_id = p_tenant;
  return (select count(*) from (select from memdb.memory m
                                 where m.tenant_id = p_tenant and m.memory_id > v_ids[cardinality(v_ids)] limit 10000) w);
end $$;
comment on function memdb._recompute_fading (integer, integer) is 'After a change of policy, move fades_at of the next memories to where it has to be.';

-- _next_life: where a due memory belongs now, and when it leaves that; is_alone and uses are those of today.
create or replace function memdb._next_life (
  p_life       jsonb,
  p_memory     memdb.memory,
  p_is_alone   boolean,
  p_uses       bigint,
  p_used_at    timestamptz,
  p_now        timestamptz,
  out tier     text,
  out fades_at timestamptz
)
  language plpgsql immutable parallel safe
as $$
begin
  tier := (p_memory).tier;
  fades_at := memdb._memory_fades_at(p_life, p_memory, tier, p_is_alone, p_uses, p_used_at);
  if fades_at <= p_now then
    tier := coalesce(p_life -> 'fade_to' ->> tier, 'archive');
    fades_at := case when tier <> 'archive' then memdb._memory_fades_at(p_life, p_memory, tier, p_is_alone, p_uses, p_used_at) end;
  end if;
end $$;
comment on function memdb._next_life (jsonb, memdb.memory, boolean, bigint, timestamptz, timestamptz) is 'Where a due memory belongs now, and when it leaves that; is_alone and uses are those of today.';

-- _move_due: give locked memories that are due the tier and the moment they have now; returns those that are archived by it.
--
-- Uses not yet folded count, and so do ties made since the last fold: p_tied.
create or replace function memdb._move_due (p_tenant integer, p_memory_ids bigint[], p_tied bigint[], p_now timestamptz)
  returns bigint[]
  language plpgsql volatile
  set enable_nestloop = off  -- as in _add_uses
as $$
declare
  v_gone bigint[];
begin
  with life as materialized (
    select n.namespace_id, memdb._life(p_tenant, n.namespace_id) as life
      from (select distinct m.namespace_id from memdb.memory m
             where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)) n),
  used as materialized (
    select u.memory_id, sum(u.uses) as uses, max(u.used_at) filter (where u.uses > 0) as used_at
      from memdb.memory_use u
     where u.tenant_id = p_tenant and u.memory_id = any (p_memory_ids)
     group by u.memory_id),
  now as materialized (
    select m.memory_id, a.is_alone, n.tier, n.fades_at
      from memdb.memory m
      join life l on l.namespace_id = m.namespace_id
      left join used u on u.memory_id = m.memory_id
      left join unnest(p_tied) t (memory_id) on t.memory_id = m.memory_id
      cross join lateral (select m.is_isolated and t.memory_id is null) a (is_alone)
      cross join lateral memdb._next_life(l.life, m, a.is_alone, coalesce(u.uses, 0), u.used_at, p_now) n
     where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)),
  moved as (
    update memdb.memory m set tier = n.tier, is_isolated = n.is_alone, fades_at = n.fades_at
      from now n
     where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids) and m.memory_id = n.memory_id
    returning m.memory_id, m.tier)
  select coalesce(array_agg(g.memory_id) filter (where g.tier = 'archive'), '{}') into v_gone from moved g;
  return v_gone;
end $$;
comment on function memdb._move_due (integer, bigint[], bigint[], timestamptz) is 'Give locked memories that are due the tier and the moment they have now; returns those that are archived by it.';

-- _count_spent: count the uses of memories that faded nevertheless: left in the log, they would bring them back.
create or replace function memdb._count_spent (p_tenant integer, p_memory_ids bigint[])
  returns void
  language plpgsql volatile
as $$
begin
  if not exists (select from memdb.memory_use u where u.tenant_id = p_tenant and u.memory_id = any (p_memory_ids)) then
    return;
  end if;
  with spent as (
    delete from memdb.memory_use u where u.tenant_id = p_tenant and u.memory_id = any (p_memory_ids)
    returning u.memory_id, u.uses, u.used_at),
  counted as (
    select s.memory_id, sum(s.uses)::integer as uses, max(s.used_at) filter (where s.uses > 0) as used_at
      from spent s group by s.memory_id)
  update memdb.memory m set use_count = m.use_count + c.uses, last_used_at = greatest(m.last_used_at, c.used_at)
    from counted c
   where m.tenant_id = p_tenant and m.memory_id = c.memory_id;
end $$;
comment on function memdb._count_spent (integer, bigint[]) is 'Count the uses of memories that faded nevertheless: left in the log, they would bring them back.';

-- fade_due: let memories leave their tier that have faded or expired, one bounded batch.
--
-- Meets up to p_limit (1 to 100,000) memories whose fades_at has come, the longest due first; those used meanwhile get
-- a new fades_at. After a change of policy it first goes on with looking at all memories again.
-- Returns how many are still to be looked at, counted up to p_limit: call again until 0. Any number may run at once.
-- Raises MD001, MD301. Cost: an index range scan over what is due; nothing due, nothing read or written.
create or replace function memdb.fade_due (p_tenant integer, p_limit integer default 1000)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
  set enable_seqscan = off
as $$
declare
  v_now  timestamptz;
  v_left integer;
  v_ids  bigint[];
  v_gone bigint[];
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_limit(p_limit, 100000);
  -- Shared, as recorders: a policy does not change while a batch is judged by the old one.
  perform memdb._lock_truth(p_tenant, false);
  v_left := memdb._recompute_fading(p_tenant, p_limit);
  if v_left > 0 then
    return v_left;
  end if;
  v_now := memdb.current_time();
  -- What somebody else is changing is left for the next run: to wait for it would stop those behind.
  v_ids := array(select m.memory_id from memdb.memory m
                  where m.tenant_id = p_tenant and m.fades_at <= v_now
                  order by m.fades_at limit p_limit for no key update skip locked);
  if v_ids = '{}' then
    return 0;
  end if;
  v_gone := memdb._move_due(p_tenant, v_ids, memdb._tied(p_tenant, v_ids), v_now);
  perform memdb._count_spent(p_tenant, v_gone);
  perform memdb._chill(p_tenant, v_gone);
  return (select count(*) from (select from memdb.memory m
                                 where m.tenant_id = p_tenant and m.fades_at <= v_now limit p_limit) w);
end $$;
comment on function memdb.fade_due (integer, integer) is 'Let memories leave their tier that have faded or expired, one bounded batch.';
