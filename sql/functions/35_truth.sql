-- Truth maintenance: what holds, what falls, what stands again.
--
-- A memory is in (status active) while one justification of its current version holds: all of
-- that justification's premises are in. An event is in unless it was retracted or corrected. A
-- memory version is in while its memory is active and it is the current one; a conclusion whose
-- own validity ended before the version was retired keeps it.
-- Of the justifications that hold exactly one is marked supports, chosen so that following
-- supporting premises never runs in a circle: support is well-founded, and a loop that only
-- supports itself falls.
-- A fall goes down along supporting premises only, wave by wave; then alternatives are looked
-- for among the fallen, and what they lift lifts others in turn. A rise is that second half.
-- Whoever changes truth holds _lock_truth exclusively: recorders cannot rest a memory on what is
-- falling, and two corrections come one after the other. Readers are never blocked.
-- Method: justification-based truth maintenance (Doyle 1979), done set-wise in waves.
-- What a correction touches it has often just made, and the planner has no statistics of it: it
-- would take a tenant or a moment for one row and read all of it for every id. So look-ups are
-- written in two forms that leave it no choice: `key = any (ids)`, where one index only fits, and
-- `cross join lateral (select ... where key = w.id offset 0)`, which is a look-up for each id.

-- _truth_time: the time of a correction, later than that of every earlier one of the tenant.
create or replace function memdb._truth_time (p_tenant integer)
  returns timestamptz
  language sql volatile
begin atomic
  update memdb.tenant t
     set truth_at = greatest(memdb.current_time(), t.truth_at + interval '1 microsecond')
   where t.tenant_id = p_tenant
  returning t.truth_at;
end;
comment on function memdb._truth_time (integer) is 'The time of a correction, later than that of every earlier one of the tenant.';

-- _ended_before: whether what a justification concludes was over in the world before a premise of it was replaced.
--
-- "In May the office was in Paris", derived from "the office is in Paris", stays right when the
-- office moves in June.
create or replace function memdb._ended_before (
  p_tenant        integer,
  p_justification bigint,
  p_premise       bigint,
  p_version       integer
)
  returns boolean
  language sql stable
begin atomic
  select exists (
    select from memdb.justification j
      join memdb.memory_version c
        on c.tenant_id = p_tenant and c.memory_id = j.memory_id and c.version = j.version
      join memdb.memory_version p
        on p.tenant_id = p_tenant and p.memory_id = p_premise and p.version = p_version
      left join memdb.memory_version n
        on n.tenant_id = p_tenant and n.memory_id = p_premise and n.version = p_version + 1
     where j.tenant_id = p_tenant and j.justification_id = p_justification
       and c.valid_to <= coalesce(n.valid_from, p.retired_at));
end;
comment on function memdb._ended_before (integer, bigint, bigint, integer) is 'Whether what a justification concludes was over in the world before a premise of it was replaced.';

-- _broken_premises: the premises of a justification that are out.
--
-- is_replaced: the memory has another version by now, and not the conclusion's time was over before.
-- A set, so that `exists (select from ...)` becomes part of the caller's plan: as a function
-- called for each justification it cost more than everything else in a cascade.
create or replace function memdb._broken_premises (p_tenant integer, p_justification bigint)
  returns table (memory_id bigint, is_replaced boolean)
  language sql stable rows 1
begin atomic
  select p.memory_id, r.is_replaced
    from memdb.premise p
    left join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = p.memory_id
    cross join lateral (
      select coalesce(m.version <> p.memory_version, false)
         and not memdb._ended_before(p_tenant, p.justification_id, p.memory_id, p.memory_version)) r (is_replaced)
   where p.tenant_id = p_tenant and p.justification_id = p_justification
     -- Not `to_at is null`: an index on open beliefs fits that too. Not `exists`: it may hash them all.
     and (m.status <> 'active' or r.is_replaced
          or (select b.from_at from memdb.belief b
               where b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = p.event_id
                 and coalesce(b.to_at, 'infinity') = 'infinity') is not null);
end;
comment on function memdb._broken_premises (integer, bigint) is 'The premises of a justification that are out.';

-- _premises_hold: whether every premise of a justification is in.
create or replace function memdb._premises_hold (p_tenant integer, p_justification bigint)
  returns boolean
  language sql stable
begin atomic
  select not exists (select from memdb._broken_premises(p_tenant, p_justification));
end;
comment on function memdb._premises_hold (integer, bigint) is 'Whether every premise of a justification is in.';

-- _resting_on_events: the memories that some events support now.
create or replace function memdb._resting_on_events (p_tenant integer, p_event_ids bigint[])
  returns bigint[]
  language sql stable
begin atomic
  select coalesce(array_agg(distinct p.conclusion_id), '{}')
    from memdb.premise p
   where p.tenant_id = p_tenant and p.event_id = any (p_event_ids) and p.supports;
end;
comment on function memdb._resting_on_events (integer, bigint[]) is 'The memories that some events support now.';

-- _resting_on_memories: the memories that some memories supported and no longer do.
--
-- Where only the version changed, conclusions that were over before it stay.
create or replace function memdb._resting_on_memories (p_tenant integer, p_memory_ids bigint[])
  returns bigint[]
  language sql stable
begin atomic
  select coalesce(array_agg(distinct p.conclusion_id), '{}')
    from memdb.premise p
   where p.tenant_id = p_tenant and p.memory_id = any (p_memory_ids) and p.supports
     and exists (select from memdb._broken_premises(p_tenant, p.justification_id));
end;
comment on function memdb._resting_on_memories (integer, bigint[]) is 'The memories that some memories supported and no longer do.';

-- _standing: of some memories, those that are active, in the order of their ids, as a wave of a fall.
create or replace function memdb._standing (p_tenant integer, p_memory_ids bigint[], p_depth integer)
  returns table (memory_ids bigint[], namespace_ids integer[], depths integer[])
  language sql stable rows 1
begin atomic
  select array_agg(m.memory_id order by m.memory_id), array_agg(m.namespace_id order by m.memory_id),
         array_fill(p_depth, array[count(*)::integer])
    from (select distinct w.memory_id from unnest(p_memory_ids) w (memory_id)) w
    cross join lateral (
      select m.memory_id, m.namespace_id from memdb.memory m
       where m.tenant_id = p_tenant and m.memory_id = w.memory_id and m.status = 'active'
      offset 0) m;
end;
comment on function memdb._standing (integer, bigint[], integer) is 'Of some memories, those that are active, in the order of their ids, as a wave of a fall.';

-- _next_waves: the active memories that rest on a wave that fell and, while they stay few, on those in turn.
--
-- p_depth is the depth of the next wave. Several at once, since in a chain every memory is a wave
-- of its own and would cost a statement: complete ones only, each memory at its least depth, at
-- most 1,000 memories; no rows where the next wave alone is larger. One snapshot for all of them
-- will do: nobody can record below them, for the caller holds the truth lock. The limit ends the
-- recursion: rows come out wave by wave, and no more are made than are asked for.
create or replace function memdb._next_waves (p_tenant integer, p_wave bigint[], p_depth integer)
  returns table (memory_ids bigint[], namespace_ids integer[], depths integer[])
  language sql stable rows 1
begin atomic
  with recursive met (memory_id, namespace_id, depth) as (
    select w.memory_id, null::integer, p_depth - 1 from unnest(p_wave) w (memory_id)
    union
    select n.memory_id, n.namespace_id, t.depth + 1
      from met t
      cross join lateral (
        select m.memory_id, m.namespace_id
          from memdb.premise p
          join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = p.conclusion_id and m.status = 'active'
         where p.tenant_id = p_tenant and p.memory_id = t.memory_id and p.supports
        offset 0) n
  ), taken as (
    select t.memory_id, t.namespace_id, t.depth, max(t.depth) over () as last, count(*) over () as taken
      from (select m.* from met m limit 1001 + cardinality(p_wave)) t
  ), complete as (
    select t.memory_id, t.namespace_id, min(t.depth) as depth
      from taken t
     where t.depth >= p_depth and (t.depth < t.last or t.taken <= 1000 + cardinality(p_wave))
     group by t.memory_id, t.namespace_id
  )
  select array_agg(c.memory_id order by c.depth, c.memory_id), array_agg(c.namespace_id order by c.depth, c.memory_id),
         array_agg(c.depth order by c.depth, c.memory_id)
    from complete c
  having count(*) > 0 or (select t.last from taken t limit 1) < p_depth;
end;
comment on function memdb._next_waves (integer, bigint[], integer) is 'The active memories that rest on a wave that fell and, while they stay few, on those in turn.';

-- _fall: let memories that lost their support fall, and all that rested on them, but for what other support holds.
--
-- p_memory_ids lost their supporting justification. The words of p_reason stay in the namespace of
-- the root: who reads another one may not read them. p_now comes from _truth_time and marks every
-- belief row of this fall. p_root null: the causes differ and are looked for. Returns how many
-- are stale now that were active. Cost per fallen memory: one update, one belief row, one range
-- each of premise_memory_idx and justification_other_idx; memory used: the ids of the widest wave.
create or replace function memdb._fall (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_cause      text,
  p_root       text,
  p_root_id    bigint,
  p_reason     text,
  p_now        timestamptz
)
  returns bigint
  language plpgsql volatile
  -- Plans are the same for any ids: made once a session, not once a wave.
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_actor  name   := memdb._caller();
  v_home   integer := case p_root
    when 'event' then (select e.namespace_id from memdb.event e where e.tenant_id = p_tenant and e.event_id = p_root_id)
    else (select m.namespace_id from memdb.memory m where m.tenant_id = p_tenant and m.memory_id = p_root_id) end;
  v_fallen bigint := 0;
  v_last   bigint[];
  v_depth  integer;
  v_wave   record;
begin
  select * into v_wave from memdb._standing(p_tenant, p_memory_ids, 1) s;
  while v_wave.memory_ids is not null loop
    update memdb.memory m set status = 'stale' where m.tenant_id = p_tenant and m.memory_id = any (v_wave.memory_ids);
    insert into memdb.belief (tenant_id, namespace_id, subject, subject_id, status, from_at, cause, root, root_id, depth, actor, reason)
      select p_tenant, w.namespace_id, 'memory', w.memory_id, 'stale', p_now,
             case when w.depth = 1 then p_cause else 'premise_out' end, p_root, p_root_id, w.depth, v_actor,
             case when w.namespace_id = v_home then p_reason end
        from unnest(v_wave.memory_ids, v_wave.namespace_ids, v_wave.depths) w (memory_id, namespace_id, depth);
    v_fallen := v_fallen + cardinality(v_wave.memory_ids);
    v_depth := v_wave.depths[cardinality(v_wave.depths)];
    v_last := v_wave.memory_ids[array_position(v_wave.depths, v_depth):];
    if cardinality(v_last) <= 1000 then
      select * into v_wave from memdb._next_waves(p_tenant, v_last, v_depth + 1) n;
      continue when found;
    end if;
    select * into v_wave
      from memdb._standing(p_tenant, array(
             select p.conclusion_id from memdb.premise p
              where p.tenant_id = p_tenant and p.memory_id = any (v_last) and p.supports), v_depth + 1) s;
  end loop;
  if v_fallen > 0 then
    v_fallen := v_fallen - memdb._rise(p_tenant, memdb._alternatives(p_tenant, p_now), p_now);
  end if;
  if v_fallen > 0 and p_root is null then
    perform memdb._name_causes(p_tenant, array(
      select b.subject_id from memdb.belief b
       where b.tenant_id = p_tenant and b.from_at = p_now and b.subject = 'memory' and b.root is null), p_now);
  end if;
  return v_fallen;
end $$;
comment on function memdb._fall (integer, bigint[], text, text, bigint, text, timestamptz) is 'Let memories that lost their support fall, and all that rested on them, but for what other support holds.';

-- _alternatives: the justifications of memories that have just fallen, other than the one they stood on.
create or replace function memdb._alternatives (p_tenant integer, p_now timestamptz)
  returns bigint[]
  language sql stable
begin atomic
  select coalesce(array_agg(j.justification_id), '{}')
    from memdb.belief b
    cross join lateral (
      select j.justification_id from memdb.justification j
       where j.tenant_id = p_tenant and j.memory_id = b.subject_id and not j.supports
      offset 0) j
   where b.tenant_id = p_tenant and b.from_at = p_now and b.subject = 'memory';
end;
comment on function memdb._alternatives (integer, timestamptz) is 'The justifications of memories that have just fallen, other than the one they stood on.';

-- _unsupported: of some memories, the active ones whose supporting justification does not hold.
--
-- A new version may name as source what rested on the old one, and so fell with it.
create or replace function memdb._unsupported (p_tenant integer, p_memory_ids bigint[])
  returns bigint[]
  language sql stable
begin atomic
  select coalesce(array_agg(m.memory_id), '{}')
    from memdb.memory m
   where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids) and m.status = 'active'
     and not exists (
       select from memdb.justification j
        where j.tenant_id = p_tenant and j.memory_id = m.memory_id and j.version = m.version and j.supports
          and memdb._premises_hold(p_tenant, j.justification_id));
end;
comment on function memdb._unsupported (integer, bigint[]) is 'Of some memories, the active ones whose supporting justification does not hold.';

-- _risers: the memories that candidates lift now and, while they stay few, those that these lift in turn.
--
-- Each with one justification of its current version, and whether it stood on that before it fell.
-- The second kind is lifted by just that one, where nothing but the memory just lifted was missing:
-- support stays well-founded, since each step rests on what was in before and on the step before
-- it. Several steps at once for the reason given with _next_waves; what is cut off by the limit, or
-- needs two that rise together, comes in the next round.
create or replace function memdb._risers (p_tenant integer, p_justification_ids bigint[])
  returns table (memory_id bigint, justification_id bigint, supports boolean)
  language sql stable rows 100
begin atomic
  with recursive first as materialized (
    select distinct on (n.memory_id) n.memory_id, n.justification_id, n.supports
      from unnest(p_justification_ids) w (justification_id)
      cross join lateral (
        select j.memory_id, j.justification_id, j.supports
          from memdb.justification j
          join memdb.memory m
            on m.tenant_id = p_tenant and m.memory_id = j.memory_id and m.version = j.version and m.status = 'stale'
         where j.tenant_id = p_tenant and j.justification_id = w.justification_id
        offset 0) n
     where not exists (select from memdb._broken_premises(p_tenant, n.justification_id))
     order by n.memory_id, n.justification_id
  ), riser (memory_id, justification_id, supports, is_first) as (
    select f.memory_id, f.justification_id, f.supports, true from first f
    union
    select n.memory_id, n.justification_id, true, false
      from riser r
      cross join lateral (
        select m.memory_id, p.justification_id
          from memdb.premise p
          join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = p.conclusion_id and m.status = 'stale'
         where p.tenant_id = p_tenant and p.memory_id = r.memory_id and p.supports
        offset 0) n
     where not exists (select from memdb._broken_premises(p_tenant, n.justification_id) b
                        where b.is_replaced or b.memory_id is distinct from r.memory_id)
  ), taken as (
    select r.* from riser r limit greatest(1000, (select count(*) from first))
  )
  select distinct on (t.memory_id) t.memory_id, t.justification_id, t.supports from taken t order by t.memory_id, t.is_first desc;
end;
comment on function memdb._risers (integer, bigint[]) is 'The memories that candidates lift now and, while they stay few, those that these lift in turn.';

-- _rise: let fallen memories stand again on justifications that hold, and what rests on those, wave by wave.
--
-- p_justification_ids are candidates; those that do not hold are passed over. A fall of this
-- very moment (p_now) is undone without trace, an older one ends now. Returns how many rose.
create or replace function memdb._rise (
  p_tenant            integer,
  p_justification_ids bigint[],
  p_now               timestamptz
)
  returns bigint
  language plpgsql volatile
  -- Plans are the same for any ids: made once a session, not once a wave.
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_candidates bigint[] := p_justification_ids;
  v_memories   bigint[];
  v_moved      bigint[];
  v_reasons    bigint[];
  v_risen      bigint := 0;
begin
  while v_candidates <> '{}' loop
    select array_agg(r.memory_id), array_agg(r.memory_id) filter (where not r.supports),
           array_agg(r.justification_id) filter (where not r.supports)
      into v_memories, v_moved, v_reasons
      from memdb._risers(p_tenant, v_candidates) r;
    exit when v_memories is null;
    update memdb.memory m set status = 'active' where m.tenant_id = p_tenant and m.memory_id = any (v_memories);
    perform memdb._close_beliefs(p_tenant, 'memory', v_memories, p_now);
    perform memdb._drop_tasks(p_tenant, v_memories, p_now);
    perform memdb._move_support(p_tenant, v_moved, v_reasons);
    v_risen := v_risen + cardinality(v_memories);
    v_candidates := array(
      select distinct n.justification_id
        from unnest(v_memories) w (memory_id)
        cross join lateral (
          select p.justification_id
            from memdb.premise p
            join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = p.conclusion_id and m.status = 'stale'
           where p.tenant_id = p_tenant and p.memory_id = w.memory_id
          offset 0) n);
  end loop;
  return v_risen;
end $$;
comment on function memdb._rise (integer, bigint[], timestamptz) is 'Let fallen memories stand again on justifications that hold, and what rests on those, wave by wave.';

-- _move_support: let each memory stand on another of its justifications; nulls where none does.
create or replace function memdb._move_support (
  p_tenant            integer,
  p_memory_ids        bigint[],
  p_justification_ids bigint[]
)
  returns void
  language plpgsql volatile
as $$
declare
  v_old bigint[];
begin
  if p_memory_ids is null then
    return;
  end if;
  with old as (
    update memdb.justification j set supports = false
     where j.tenant_id = p_tenant and j.memory_id = any (p_memory_ids) and j.supports
    returning j.justification_id)
  select array_agg(o.justification_id) into v_old from old o;
  update memdb.justification j set supports = true where j.tenant_id = p_tenant and j.justification_id = any (p_justification_ids);
  update memdb.premise p set supports = not p.supports
   where p.tenant_id = p_tenant and p.justification_id = any (v_old || p_justification_ids);
end $$;
comment on function memdb._move_support (integer, bigint[], bigint[]) is 'Let each memory stand on another of its justifications; nulls where none does.';

-- _close_beliefs: end the open spell of being out of some events or memories.
--
-- A spell that began at this very moment never was: its row goes; in most corrections there is none,
-- which the last condition finds out once. Times are compared in a way that no index on them fits:
-- the primary key is the only one.
create or replace function memdb._close_beliefs (
  p_tenant  integer,
  p_subject text,
  p_ids     bigint[],
  p_now     timestamptz
)
  returns void
  language sql volatile
begin atomic
  delete from memdb.belief b
   where b.tenant_id = p_tenant and b.subject = p_subject and b.subject_id = any (p_ids) and b.from_at is not distinct from p_now
     and exists (select from memdb.belief n where n.tenant_id = p_tenant and n.from_at = p_now);
  update memdb.belief b set to_at = p_now
   where b.tenant_id = p_tenant and b.subject = p_subject and b.subject_id = any (p_ids) and coalesce(b.to_at, 'infinity') = 'infinity';
end;
comment on function memdb._close_beliefs (integer, text, bigint[], timestamptz) is 'End the open spell of being out of some events or memories.';

-- _relearn: let known facts that had fallen stand on the reasons just recorded for them.
--
-- A fact that was retracted and is observed again is believed again, if the observation holds.
create or replace function memdb._relearn (p_tenant integer, p_justification_ids bigint[], p_now timestamptz)
  returns bigint
  language plpgsql volatile
as $$
declare
  v_believed bigint[];
  v_risen    bigint;
begin
  with believed as (
    update memdb.memory m set status = 'stale'
      from memdb.justification j
     where j.tenant_id = p_tenant and j.justification_id = any (p_justification_ids)
       and m.tenant_id = p_tenant and m.memory_id = j.memory_id and m.version = j.version and m.status = 'retracted'
       and memdb._premises_hold(p_tenant, j.justification_id)
    returning m.memory_id)
  select coalesce(array_agg(b.memory_id), '{}') into v_believed from believed b;
  v_risen := memdb._rise(p_tenant, p_justification_ids, p_now);
  perform memdb._rename_causes(p_tenant, 'memory', v_believed, p_now);
  return v_risen;
end $$;
comment on function memdb._relearn (integer, bigint[], timestamptz) is 'Let known facts that had fallen stand on the reasons just recorded for them.';
