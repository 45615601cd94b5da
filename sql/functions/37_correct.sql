-- Corrections: taking back, putting right, and bringing back what was taken back.
--
-- Each function is one transaction under the exclusive truth lock: it changes the state of one
-- event or memory, lets the consequences run (35_truth) and returns every event and memory whose
-- state changed. p_dry_run runs the same code, returns the same rows and undoes it.

-- _begin_correction: check rights, take the truth lock, and draw the time of this correction.
create or replace function memdb._begin_correction (p_tenant integer)
  returns timestamptz
  language plpgsql volatile
as $$
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._lock_truth(p_tenant, true);
  return memdb._truth_time(p_tenant);
end $$;
comment on function memdb._begin_correction (integer) is 'Check rights, take the truth lock, and draw the time of this correction.';

-- _truth_changes: what the correction made at p_now changed, as far as the caller may read it.
--
-- One row per event and memory, of the spell that began and the one that ended. Stale before and
-- after: another cause keeps it out by now. What fell in other namespaces fell, and is not told of.
-- Grouped and not joined, since the planner takes a moment it has no statistics of for rare, and
-- would loop.
create or replace function memdb._truth_changes (p_tenant integer, p_now timestamptz)
  returns setof memdb._truth_change
  language sql stable rows 100
begin atomic
  with readable (namespace_ids) as materialized (
    select memdb._readable(p_tenant, null, null)
  )
  select w.subject, w.subject_id, m.version, coalesce(w.depth, w.old_depth), coalesce(w.old_status, 'active'),
         coalesce(w.status, m.status, 'active'), coalesce(w.cause, w.old_cause), coalesce(w.root, w.old_root),
         coalesce(w.root_id, w.old_root_id)
    from (select s.subject, s.subject_id,
                 max(s.status) filter (where s.is_new) as status, max(s.status) filter (where not s.is_new) as old_status,
                 max(s.depth) filter (where s.is_new) as depth, max(s.depth) filter (where not s.is_new) as old_depth,
                 max(s.cause) filter (where s.is_new) as cause, max(s.cause) filter (where not s.is_new) as old_cause,
                 max(s.root) filter (where s.is_new) as root, max(s.root) filter (where not s.is_new) as old_root,
                 max(s.root_id) filter (where s.is_new) as root_id, max(s.root_id) filter (where not s.is_new) as old_root_id
            from (select b.*, true as is_new from memdb.belief b where b.tenant_id = p_tenant and b.from_at = p_now
                  union all
                  select b.*, false from memdb.belief b where b.tenant_id = p_tenant and b.to_at = p_now) s
           cross join readable r
           where r.namespace_ids is null or s.namespace_id = any (r.namespace_ids)
           group by s.subject, s.subject_id) w
    left join memdb.memory m on m.tenant_id = p_tenant and w.subject = 'memory' and m.memory_id = w.subject_id
  union all
  select 'memory', v.memory_id, v.version, 1, 'active', m.status, 'superseded', null, null
    from memdb.memory_version v
    join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = v.memory_id and m.status = 'active'
    cross join readable r
   where (r.namespace_ids is null or m.namespace_id = any (r.namespace_ids)) and v.tenant_id = p_tenant and v.recorded_at = p_now
     and v.event_id in (
       select e.event_id from memdb.event e
        where e.tenant_id = p_tenant and e.kind = 'correction' and e.parent_event_id in (
          select b.subject_id from memdb.belief b where b.tenant_id = p_tenant and b.from_at = p_now and b.subject = 'event'))
  order by 4, 1, 2;
end;
comment on function memdb._truth_changes (integer, timestamptz) is 'What the correction made at p_now changed, as far as the caller may read it.';

-- _fallen_beside: how many memories other than one became stale at p_now that were not before, and the caller may read.
create or replace function memdb._fallen_beside (p_tenant integer, p_now timestamptz, p_memory bigint)
  returns bigint
  language sql stable
begin atomic
  select count(*) from memdb._truth_changes(p_tenant, p_now) c
   where c.subject = 'memory' and c.new_status = 'stale' and c.old_status <> 'stale' and c.subject_id is distinct from p_memory;
end;
comment on function memdb._fallen_beside (integer, timestamptz, bigint) is 'How many memories other than one became stale at p_now that were not before, and the caller may read.';

-- _find_event: an event the caller may write about; MD104 where there is none.
create or replace function memdb._find_event (p_tenant integer, p_event bigint)
  returns memdb.event
  language plpgsql volatile
as $$
declare
  v_event memdb.event;
  v_scope integer[] := memdb._namespaces_granted(p_tenant, true);
begin
  select e.* into v_event from memdb.shown_event e
   where e.tenant_id = p_tenant and e.event_id = p_event and (v_scope is null or e.namespace_id = any (v_scope));
  if not found then
    perform memdb._raise('MD104', 'no such event', jsonb_build_object('event_id', p_event),
      'Check the id and the tenant; a forgotten event is gone.');
  end if;
  return v_event;
end $$;
comment on function memdb._find_event (integer, bigint) is 'An event the caller may write about; MD104 where there is none.';

-- _find_memory: a memory the caller may write, locked; MD103 where there is none.
create or replace function memdb._find_memory (p_tenant integer, p_memory bigint)
  returns memdb.memory
  language plpgsql volatile
as $$
declare
  v_memory memdb.memory;
  v_scope  integer[] := memdb._namespaces_granted(p_tenant, true);
begin
  select m.* into v_memory from memdb.shown_memory m
   where m.tenant_id = p_tenant and m.memory_id = p_memory and (v_scope is null or m.namespace_id = any (v_scope))
     for no key update;
  if not found then
    perform memdb._raise('MD103', 'no such memory', jsonb_build_object('memory_id', p_memory),
      'Check the id and the tenant; a forgotten memory is gone.');
  end if;
  return v_memory;
end $$;
comment on function memdb._find_memory (integer, bigint) is 'A memory the caller may write, locked; MD103 where there is none.';

-- _put_out: note that an event no longer counts, and let fall what rested on it; nothing if it is out already.
create or replace function memdb._put_out (
  p_tenant integer,
  p_event  bigint,
  p_status text,
  p_reason text,
  p_now    timestamptz
)
  returns void
  language plpgsql volatile
as $$
declare
  v_event memdb.event := memdb._find_event(p_tenant, p_event);
begin
  if exists (select from memdb.belief b
              where b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = p_event and b.to_at is null) then
    return;
  end if;
  insert into memdb.belief (tenant_id, namespace_id, subject, subject_id, status, from_at, cause, root, root_id, actor, reason)
    values (p_tenant, v_event.namespace_id, 'event', p_event, p_status, p_now, p_status, 'event', p_event, memdb._caller(), p_reason);
  perform memdb._fall(p_tenant, memdb._resting_on_events(p_tenant, array[p_event]), p_status, 'event', p_event, p_reason, p_now);
end $$;
comment on function memdb._put_out (integer, bigint, text, text, timestamptz) is 'Note that an event no longer counts, and let fall what rested on it; nothing if it is out already.';

-- _let_in: let an event count again, and lift what fell with it.
create or replace function memdb._let_in (p_tenant integer, p_event bigint, p_now timestamptz)
  returns void
  language plpgsql volatile
as $$
begin
  perform memdb._find_event(p_tenant, p_event);
  perform memdb._close_beliefs(p_tenant, 'event', array[p_event], p_now);
  perform memdb._rise(p_tenant, array(
    select p.justification_id from memdb.premise p where p.tenant_id = p_tenant and p.event_id = p_event), p_now);
  perform memdb._rename_causes(p_tenant, 'event', array[p_event], p_now);
end $$;
comment on function memdb._let_in (integer, bigint, timestamptz) is 'Let an event count again, and lift what fell with it.';

-- _put_memory_out: declare a memory out (retracted, contradicted), and let fall what rested on it.
create or replace function memdb._put_memory_out (
  p_tenant integer,
  p_memory bigint,
  p_status text,
  p_reason text,
  p_now    timestamptz
)
  returns void
  language plpgsql volatile
as $$
declare
  v_memory memdb.memory := memdb._find_memory(p_tenant, p_memory);
begin
  if v_memory.status = p_status then
    return;
  end if;
  perform memdb._close_beliefs(p_tenant, 'memory', array[p_memory], p_now);
  insert into memdb.belief (tenant_id, namespace_id, subject, subject_id, status, from_at, cause, root, root_id, actor, reason)
    values (p_tenant, v_memory.namespace_id, 'memory', p_memory, p_status, p_now, p_status, 'memory', p_memory,
            memdb._caller(), p_reason);
  update memdb.memory m set status = p_status where m.tenant_id = p_tenant and m.memory_id = p_memory;
  perform memdb._fall(p_tenant, memdb._resting_on_memories(p_tenant, array[p_memory]), 'premise_out', 'memory', p_memory, p_reason, p_now);
end $$;
comment on function memdb._put_memory_out (integer, bigint, text, text, timestamptz) is 'Declare a memory out (retracted, contradicted), and let fall what rested on it.';

-- _let_memory_in: let a memory stand on its justifications again; where none holds it is stale.
create or replace function memdb._let_memory_in (p_tenant integer, p_memory bigint, p_now timestamptz)
  returns void
  language plpgsql volatile
as $$
declare
  v_memory memdb.memory := memdb._find_memory(p_tenant, p_memory);
begin
  if v_memory.status in ('active', 'stale') then
    return;
  end if;
  update memdb.memory m set status = 'stale' where m.tenant_id = p_tenant and m.memory_id = p_memory;
  if memdb._rise(p_tenant, array(
       select j.justification_id from memdb.justification j
        where j.tenant_id = p_tenant and j.memory_id = p_memory and j.version = v_memory.version), p_now) = 0 then
    perform memdb._name_causes(p_tenant, array[p_memory], p_now);
  end if;
  perform memdb._rename_causes(p_tenant, 'memory', array[p_memory], p_now);
end $$;
comment on function memdb._let_memory_in (integer, bigint, timestamptz) is 'Let a memory stand on its justifications again; where none holds it is stale.';

-- _correct: carry out one correction and return what it changed; a dry run is carried out and undone.
--
-- Rows returned so far outlive the block that is rolled back, so a dry run returns the same rows.
create or replace function memdb._correct (
  p_tenant  integer,
  p_action  text,
  p_id      bigint,
  p_reason  text,
  p_dry_run boolean,
  p_value   jsonb default null
)
  returns setof memdb._truth_change
  language plpgsql volatile rows 100
as $$
declare
  v_now timestamptz;
  v_new bigint;
begin
  perform memdb._authorize(p_tenant, true);
  if p_action = 'correct_event' then
    v_new := memdb._append_correction(p_tenant, p_id, p_value ->> 'text');
  end if;
  v_now := memdb._begin_correction(p_tenant);
  case p_action
    when 'retract_event' then perform memdb._put_out(p_tenant, p_id, 'retracted', p_reason, v_now);
    when 'restore_event' then perform memdb._let_in(p_tenant, p_id, v_now);
    when 'correct_event' then
      perform memdb._put_right(p_tenant, p_id, v_new, p_value ->> 'text', p_value -> 'values', p_reason, v_now);
    when 'retract_memory' then perform memdb._put_memory_out(p_tenant, p_id, 'retracted', p_reason, v_now);
    when 'restore_memory' then perform memdb._let_memory_in(p_tenant, p_id, v_now);
  end case;
  perform memdb._queue_fallen(p_tenant, v_now);
  return query select c.* from memdb._truth_changes(p_tenant, v_now) c;
  if p_dry_run then
    raise exception using errcode = 'MDDRY', message = 'dry run';
  end if;
exception when sqlstate 'MDDRY' then
  null;
end $$;
comment on function memdb._correct (integer, text, bigint, text, boolean, jsonb) is 'Carry out one correction and return what it changed; a dry run is carried out and undone.';

-- retract_event: take an event back: what rests on it and on nothing else becomes stale, at any depth.
--
-- The event and every memory stay readable; as-of reads before this moment see the old world.
-- p_reason is kept with each change. Returns one row per changed event or memory that the caller may
-- read (others change all the same, and are not told of): subject
-- ('event' or 'memory') and its id, version, depth (0 the event, 1 what rested on it directly), old
-- and new status, cause, root cause. Retracting again changes nothing; restore_event undoes it.
-- Raises MD104, MD301. Cost: some 50 microseconds per fallen memory; other writers of the tenant
-- wait, readers do not.
create or replace function memdb.retract_event (
  p_tenant  integer,
  p_event   bigint,
  p_reason  text    default null,
  p_dry_run boolean default false
)
  returns setof memdb._truth_change
  language sql volatile security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
  -- Every look-up is by key; a table not analyzed yet looks small enough to read whole.
  set enable_seqscan = off
as $$
  select * from memdb._correct(p_tenant, 'retract_event', p_event, p_reason, p_dry_run);
$$;
comment on function memdb.retract_event (integer, bigint, text, boolean) is 'Take an event back: what rests on it and on nothing else becomes stale, at any depth.';

-- restore_event: let an event count again that was retracted or corrected: exactly what fell with it rises.
--
-- What also lost another support stays stale. Returns rows as retract_event; an event that is not
-- out changes nothing. Raises MD104, MD301.
create or replace function memdb.restore_event (
  p_tenant  integer,
  p_event   bigint,
  p_reason  text    default null,
  p_dry_run boolean default false
)
  returns setof memdb._truth_change
  language sql volatile security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
  -- Every look-up is by key; a table not analyzed yet looks small enough to read whole.
  set enable_seqscan = off
as $$
  select * from memdb._correct(p_tenant, 'restore_event', p_event, p_reason, p_dry_run);
$$;
comment on function memdb.restore_event (integer, bigint, text, boolean) is 'Let an event count again that was retracted or corrected: exactly what fell with it rises.';

-- retract_memory: declare a memory wrong: it and what rests on it alone no longer hold.
--
-- The memory becomes retracted, its dependents stale. Returns rows as retract_event. Retracting
-- again changes nothing; restore_memory undoes it, and so does learning the same fact anew.
-- Raises MD103, MD301.
create or replace function memdb.retract_memory (
  p_tenant  integer,
  p_memory  bigint,
  p_reason  text    default null,
  p_dry_run boolean default false
)
  returns setof memdb._truth_change
  language sql volatile security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
  -- Every look-up is by key; a table not analyzed yet looks small enough to read whole.
  set enable_seqscan = off
as $$
  select * from memdb._correct(p_tenant, 'retract_memory', p_memory, p_reason, p_dry_run);
$$;
comment on function memdb.retract_memory (integer, bigint, text, boolean) is 'Declare a memory wrong: it and what rests on it alone no longer hold.';

-- restore_memory: believe a memory again that was retracted or contradicted, and what fell with it.
--
-- It is active again where one of its justifications holds, otherwise stale. Returns rows as
-- retract_event; a memory that is active or merely stale is left as it is. Raises MD103, MD301.
create or replace function memdb.restore_memory (
  p_tenant  integer,
  p_memory  bigint,
  p_reason  text    default null,
  p_dry_run boolean default false
)
  returns setof memdb._truth_change
  language sql volatile security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
  -- Every look-up is by key; a table not analyzed yet looks small enough to read whole.
  set enable_seqscan = off
as $$
  select * from memdb._correct(p_tenant, 'restore_memory', p_memory, p_reason, p_dry_run);
$$;
comment on function memdb.restore_memory (integer, bigint, text, boolean) is 'Believe a memory again that was retracted or contradicted, and what fell with it.';
