-- What becomes of the fallen: nothing is deleted, and policy when_stale says who looks at it again.
--
-- keep: it stays stale until its support comes back or somebody writes a new version. review: a
-- person is asked, in review_item. derive: a model is to think again, in rederivation; where it
-- fails too often a person is asked. What stands again by itself is taken off both lists.

-- _drop_tasks: take memories off the lists of what is to be looked at again.
create or replace function memdb._drop_tasks (p_tenant integer, p_memory_ids bigint[], p_now timestamptz)
  returns void
  language sql volatile
begin atomic
  delete from memdb.rederivation d where d.tenant_id = p_tenant and d.memory_id = any (p_memory_ids);
  -- `is not distinct from`: an index on all open items must not look like a way to find a few of them.
  update memdb.review_item i set state = 'decided', decision = 'settled', decided_at = p_now
   where i.tenant_id = p_tenant and i.memory_id = any (p_memory_ids) and i.kind = 'stale' and i.state is not distinct from 'open';
end;
comment on function memdb._drop_tasks (integer, bigint[], timestamptz) is 'Take memories off the lists of what is to be looked at again.';

-- _ask_about_stale: put the question whether a stale memory still holds.
--
-- In Chinese for a Chinese memory, otherwise in English.
create or replace function memdb._ask_about_stale (p_text text, p_language text)
  returns text
  language sql immutable parallel safe
begin atomic
  select case when p_language = 'zh' then format('这条记忆的依据已不成立，它还正确吗？「%s」', left(p_text, 500))
              else format('What this memory rested on no longer holds. Is it still right? "%s"', left(p_text, 500)) end;
end;
comment on function memdb._ask_about_stale (text, text) is 'Put the question whether a stale memory still holds.';

-- _open_stale_reviews: ask a person about some stale memories; a question that is open already is not put twice.
create or replace function memdb._open_stale_reviews (p_tenant integer, p_memory_ids bigint[], p_now timestamptz)
  returns void
  language sql volatile
begin atomic
  insert into memdb.review_item (tenant_id, namespace_id, kind, memory_id, version, question, details, confidence, recorded_at)
    select p_tenant, m.namespace_id, 'stale', m.memory_id, m.version, memdb._ask_about_stale(v.text, v.language),
           jsonb_build_object('cause', b.cause, 'root', b.root, 'root_id', b.root_id, 'depth', b.depth), m.confidence, p_now
      from memdb.memory m
      join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
      join memdb.belief b on b.tenant_id = p_tenant and b.subject = 'memory' and b.subject_id = m.memory_id and b.to_at is null
     where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids) and m.status = 'stale'
     order by m.memory_id
    on conflict do nothing;
end;
comment on function memdb._open_stale_reviews (integer, bigint[], timestamptz) is 'Ask a person about some stale memories; a question that is open already is not put twice.';

-- _queue_fallen: hand what fell at p_now to a person or a model, as policy when_stale says.
create or replace function memdb._queue_fallen (p_tenant integer, p_now timestamptz)
  returns void
  language plpgsql volatile
as $$
declare
  v_namespace record;
  v_ids       bigint[];
begin
  for v_namespace in
    select n.namespace_id, memdb._policy(p_tenant, 'when_stale', n.namespace_id) #>> '{}' as rule
      from (select distinct b.namespace_id from memdb.belief b
             where b.tenant_id = p_tenant and b.from_at = p_now and b.subject = 'memory' and b.status = 'stale') n
  loop
    continue when v_namespace.rule = 'keep';
    v_ids := array(select b.subject_id from memdb.belief b
                    where b.tenant_id = p_tenant and b.from_at = p_now and b.subject = 'memory' and b.status = 'stale'
                      and b.namespace_id = v_namespace.namespace_id);
    if v_namespace.rule = 'derive' then
      insert into memdb.rederivation (tenant_id, memory_id, version, namespace_id, next_at)
        select p_tenant, m.memory_id, m.version, m.namespace_id, p_now
          from memdb.memory m
         where m.tenant_id = p_tenant and m.memory_id = any (v_ids)
         order by m.memory_id
        on conflict do nothing;
    elsif v_namespace.rule = 'review' then
      perform memdb._open_stale_reviews(p_tenant, v_ids, p_now);
    end if;
  end loop;
end $$;
comment on function memdb._queue_fallen (integer, timestamptz) is 'Hand what fell at p_now to a person or a model, as policy when_stale says.';

-- claim_rederivations: take stale memories that a model is to think about again, for a limited time.
--
-- The longest waiting first, at most p_limit (1 to 1,000); p_lease_seconds 1 to 86,400: after that
-- another worker may take them. Returns each with what it said and why it fell; explain_memory
-- shows its premises. The answer goes back by supersede_memory, record_memories (the same text on
-- new sources makes it stand again) or retract_memory, and then complete_rederivations. Raises
-- MD001, MD301.
create or replace function memdb.claim_rederivations (
  p_tenant        integer,
  p_worker        text,
  p_limit         integer default 20,
  p_lease_seconds integer default 300
)
  returns table (
    memory_id bigint, version integer, namespace text, user_id text, type text, text text, language text, cause text,
    root text, root_id bigint, depth integer, attempts integer, leased_until timestamptz)
  language plpgsql volatile security definer rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now   timestamptz := memdb.current_time();
  v_scope integer[];
begin
  perform memdb._authorize(p_tenant, true);
  if coalesce(p_worker, '') = '' or p_limit between 1 and 1000 is not true or p_lease_seconds between 1 and 86400 is not true then
    perform memdb._raise('MD001', 'a claim has a worker name, a limit of 1 to 1,000 and a lease of 1 to 86,400 seconds',
      jsonb_build_object('field', 'worker, limit or lease_seconds'));
  end if;
  v_scope := memdb._namespaces_granted(p_tenant, true);
  return query
    with due as materialized (
      select d.memory_id from memdb.rederivation d
       where d.tenant_id = p_tenant and d.next_at <= v_now and (d.leased_until is null or d.leased_until <= v_now)
         and (v_scope is null or d.namespace_id = any (v_scope))
       order by d.next_at, d.memory_id
       limit p_limit
         for no key update skip locked
    ), leased as (
      update memdb.rederivation d
         set worker = p_worker, attempts = d.attempts + 1, leased_until = v_now + make_interval(secs => p_lease_seconds)
        from due
       where d.tenant_id = p_tenant and d.memory_id = due.memory_id
      returning d.*)
    select l.memory_id, l.version, n.path, m.user_id, m.type, v.text, v.language, b.cause, b.root, b.root_id, b.depth,
           l.attempts::integer, l.leased_until
      from leased l
      join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = l.memory_id
      join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = l.memory_id and v.version = l.version
      join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = l.namespace_id
      left join memdb.belief b
        on b.tenant_id = p_tenant and b.subject = 'memory' and b.subject_id = l.memory_id and b.to_at is null
     order by l.memory_id;
end $$;
comment on function memdb.claim_rederivations (integer, text, integer, integer) is 'Take stale memories that a model is to think about again, for a limited time.';

-- complete_rederivations: take claimed memories off the list, in the transaction that records what was thought.
--
-- What stands again or was replaced is off it by itself. Returns how many were taken off. Raises
-- MD204 where another worker holds one by now, MD301.
create or replace function memdb.complete_rederivations (
  p_tenant     integer,
  p_worker     text,
  p_memory_ids bigint[]
)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_done integer;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._own_rederivation(p_tenant, p_worker, p_memory_ids);
  delete from memdb.rederivation d where d.tenant_id = p_tenant and d.memory_id = any (p_memory_ids);
  get diagnostics v_done = row_count;
  return v_done;
end $$;
comment on function memdb.complete_rederivations (integer, text, bigint[]) is 'Take claimed memories off the list, in the transaction that records what was thought.';

-- _own_rederivation: stop where another worker holds one of these memories by now; the rows are locked.
--
-- What nobody has claimed, or lies in a namespace the caller may not write, is not its own.
create or replace function memdb._own_rederivation (p_tenant integer, p_worker text, p_memory_ids bigint[])
  returns void
  language plpgsql volatile
as $$
declare
  v_scope integer[] := memdb._namespaces_granted(p_tenant, true);
  v_lost  bigint;
begin
  perform from memdb.rederivation d
    where d.tenant_id = p_tenant and d.memory_id = any (p_memory_ids) order by d.memory_id for no key update;
  select d.memory_id into v_lost
    from memdb.rederivation d
   where d.tenant_id = p_tenant and d.memory_id = any (p_memory_ids)
     and (coalesce(d.worker <> p_worker, true) or d.namespace_id <> all (v_scope))
   limit 1;
  if found then
    perform memdb._raise('MD204', 'this worker no longer holds the memory', jsonb_build_object('memory_id', v_lost),
      'Drop the result: the lease ran out and the memory went to another worker.');
  end if;
end $$;
comment on function memdb._own_rederivation (integer, text, bigint[]) is 'Stop where another worker holds one of these memories by now; the rows are locked.';

-- fail_rederivation: give a claimed memory back with the reason; after too many attempts a person is asked.
--
-- The wait doubles each time (policies extraction_backoff_seconds, extraction_attempts). Returns
-- failed (it will be tried again), review (a person is asked), or done (it needs no more thought).
-- Raises MD204, MD301.
create or replace function memdb.fail_rederivation (
  p_tenant integer,
  p_worker text,
  p_memory bigint,
  p_error  text
)
  returns text
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now  timestamptz := memdb.current_time();
  v_task memdb.rederivation;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._own_rederivation(p_tenant, p_worker, array[p_memory]);
  update memdb.rederivation d
     set worker = null, leased_until = null, error = left(p_error, 4096),
         next_at = v_now + least(interval '1 hour', make_interval(secs =>
           (memdb._policy(p_tenant, 'extraction_backoff_seconds', d.namespace_id))::float8 * 2 ^ least(d.attempts - 1, 12)))
   where d.tenant_id = p_tenant and d.memory_id = p_memory
  returning d.* into v_task;
  if not found then
    return 'done';
  end if;
  if v_task.attempts < (memdb._policy(p_tenant, 'extraction_attempts', v_task.namespace_id))::integer then
    return 'failed';
  end if;
  delete from memdb.rederivation d where d.tenant_id = p_tenant and d.memory_id = p_memory;
  perform memdb._open_stale_reviews(p_tenant, array[p_memory], v_now);
  return 'review';
end $$;
comment on function memdb.fail_rederivation (integer, text, bigint, text) is 'Give a claimed memory back with the reason; after too many attempts a person is asked.';

-- _premise_now: what took the place of a premise: an event, or a version of a memory.
create or replace function memdb._premise_now (p_tenant integer, p_event bigint, p_memory bigint, p_version integer)
  returns table (state text, event_id bigint, memory_id bigint, version integer, text text, before text, speaker text,
                 occurred_at timestamptz, namespace_id integer)
  language sql stable rows 1
begin atomic
  select case when b.status is null then 'same' when c.event_id is not null then 'changed' else 'out' end,
         coalesce(c.event_id, e.event_id), null::bigint, null::integer, coalesce(c.text, e.text), e.text, e.speaker, e.occurred_at,
         e.namespace_id
    from memdb.shown_event e
    left join memdb.belief b on b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = e.event_id and b.to_at is null
    left join lateral (
      select c.event_id, c.text from memdb.shown_event c
       where c.tenant_id = p_tenant and c.parent_event_id = e.event_id and c.kind = 'correction'
         and c.namespace_id = e.namespace_id and b.status = 'corrected'
         and not exists (select from memdb.belief x where x.tenant_id = p_tenant and x.subject = 'event' and x.subject_id = c.event_id
                                                      and x.to_at is null)
       order by c.event_id desc limit 1) c on true
   where e.tenant_id = p_tenant and e.event_id = p_event
  union all
  select case when m.status <> 'active' and exists (select from memdb.rederivation d
                                                     where d.tenant_id = p_tenant and d.memory_id = m.memory_id) then 'waiting'
              when m.status <> 'active' then 'out' when m.version <> p_version then 'changed' else 'same' end,
         null, m.memory_id, m.version, v.text, o.text, null, m.occurred_at, m.namespace_id
    from memdb.shown_memory m
    join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
    join memdb.shown_memory_version o on o.tenant_id = p_tenant and o.memory_id = m.memory_id and o.version = p_version
   where m.tenant_id = p_tenant and m.memory_id = p_memory;
end;
comment on function memdb._premise_now (integer, bigint, bigint, integer) is 'What took the place of a premise: an event, or a version of a memory.';

-- rederivation_material: what a fallen memory stood on, and what that says by now.
--
-- One row per premise of the justification it stood on. state is same, changed (the event was
-- corrected, the memory superseded: ids and text are those of what took its place, before is what
-- was said), out (nothing took its place), waiting (it has fallen and is to be derived again itself)
-- or hidden (it lies where the caller may not read; nothing is told of it). No rows where the memory
-- is not waiting for a model, or not the caller's to write. Raises MD301. Cost: its premises, by key.
create or replace function memdb.rederivation_material (p_tenant integer, p_memory bigint)
  returns table (state text, event_id bigint, memory_id bigint, version integer, text text, before text, speaker text,
                 occurred_at timestamptz)
  language plpgsql stable security definer rows 5
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_write integer[];
  v_read  integer[];
begin
  perform memdb._authorize(p_tenant, true);
  v_write := memdb._namespaces_granted(p_tenant, true);
  v_read  := memdb._readable(p_tenant, null, null);
  return query
    select case when not s.is_readable then 'hidden' else s.state end,
           case when s.is_readable then s.event_id end, case when s.is_readable then s.memory_id end,
           case when s.is_readable then s.version end, case when s.is_readable then s.text end,
           case when s.is_readable and s.state = 'changed' then s.before end,
           case when s.is_readable then s.speaker end, case when s.is_readable then s.occurred_at end
      from memdb.rederivation d
      join memdb.justification j on j.tenant_id = p_tenant and j.memory_id = d.memory_id and j.version = d.version and j.supports
      join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id
      cross join lateral (
        select n.state, n.event_id, n.memory_id, n.version, n.text, n.before, n.speaker, n.occurred_at,
               v_read is null or n.namespace_id = any (v_read) as is_readable
          from memdb._premise_now(p_tenant, p.event_id, p.memory_id, p.memory_version) n) s
     where d.tenant_id = p_tenant and d.memory_id = p_memory and (v_write is null or d.namespace_id = any (v_write))
     order by p.ordinal;
end $$;
comment on function memdb.rederivation_material (integer, bigint) is 'What a fallen memory stood on, and what that says by now.';

-- ask_rederivations: hand claimed memories to people: no model is there, or none can tell.
--
-- Takes them off the list and opens a review item of kind stale for each. Returns how many were
-- taken off. Raises MD204 where another worker holds one by now, MD301.
create or replace function memdb.ask_rederivations (
  p_tenant     integer,
  p_worker     text,
  p_memory_ids bigint[]
)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_done bigint[];
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._own_rederivation(p_tenant, p_worker, p_memory_ids);
  with done as (
    delete from memdb.rederivation d where d.tenant_id = p_tenant and d.memory_id = any (p_memory_ids)
    returning d.memory_id)
  select coalesce(array_agg(d.memory_id), '{}') into v_done from done d;
  perform memdb._open_stale_reviews(p_tenant, v_done, memdb.current_time());
  return cardinality(v_done);
end $$;
comment on function memdb.ask_rederivations (integer, text, bigint[]) is 'Hand claimed memories to people: no model is there, or none can tell.';
