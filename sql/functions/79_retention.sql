-- Retention: what is kept for some days only, by policy, and then forgotten like anything else.
--
-- Policy retention_days of a tenant or a namespace says how many: {"event.tool_result": 30, "event":
-- 365, "memory.observation": 90}. The kind or type counts where it is named, else "event" or "memory";
-- 0 and what is not named are kept for ever. Days count from when memdb accepted the event or recorded
-- the memory. Pinned memories stay, and what a legal hold covers.

-- _kept_days: for how many days a policy keeps an event of a kind or a memory of a type; null is for ever.
create or replace function memdb._kept_days (p_policy jsonb, p_subject text, p_kind text)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select nullif(coalesce(p_policy ->> (p_subject || '.' || p_kind), p_policy ->> p_subject)::double precision, 0);
end;
comment on function memdb._kept_days (jsonb, text, text) is 'For how many days a policy keeps an event of a kind or a memory of a type; null is for ever.';

-- _outdated: events and memories that are kept no longer, at most p_limit of each, oldest first.
create or replace function memdb._outdated (p_tenant integer, p_limit integer, p_now timestamptz)
  returns table (subject text, subject_id bigint, namespace_id integer, kind text, recorded_at timestamptz)
  language plpgsql stable rows 100
as $$
declare
  v_is_held boolean := exists (select from memdb.legal_hold h where h.tenant_id = p_tenant and h.lifted_at is null);
begin
  return query
    with rule as materialized (
      select r.namespace_id, r.policy
        from (select n.namespace_id, memdb._policy(p_tenant, 'retention_days', n.namespace_id) as policy
                from memdb.namespace n where n.tenant_id = p_tenant) r
       where r.policy <> '{}')
    (select 'event', e.event_id, e.namespace_id, e.kind, e.recorded_at
       from rule r
       join memdb.shown_event e on e.tenant_id = p_tenant and e.namespace_id = r.namespace_id
      where e.recorded_at < p_now - make_interval(secs => 86400 * memdb._kept_days(r.policy, 'event', e.kind))
        and (not v_is_held or not memdb._is_held(p_tenant, e.namespace_id, e.user_id))
      order by e.event_id
      limit p_limit)
    union all
    (select 'memory', m.memory_id, m.namespace_id, m.type, m.recorded_at
       from rule r
       join memdb.shown_memory m on m.tenant_id = p_tenant and m.namespace_id = r.namespace_id
      where m.recorded_at < p_now - make_interval(secs => 86400 * memdb._kept_days(r.policy, 'memory', m.type))
        and not m.is_pinned
        and (not v_is_held or not memdb._is_held(p_tenant, m.namespace_id, m.user_id))
      order by m.memory_id
      limit p_limit);
end $$;
comment on function memdb._outdated (integer, integer, timestamptz) is 'Events and memories that are kept no longer, at most p_limit of each, oldest first.';

-- retention_report: what retention would forget now, by namespace and kind; nothing is changed.
--
-- One row for each kind of event and type of memory with anything due, before what rests on it alone is
-- counted; days is what the policy says, oldest the time of the oldest. Counts up to 100,000 of each.
-- Operators only. Raises MD301, MD303. Cost: reads the events and memories of namespaces with a policy.
create or replace function memdb.retention_report (p_tenant integer)
  returns table (namespace text, subject text, kind text, days double precision, due bigint, oldest timestamptz)
  language plpgsql stable security definer rows 10
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, false);
  perform memdb._require_operator();
  return query
    select n.path, o.subject, o.kind, memdb._kept_days(memdb._policy(p_tenant, 'retention_days', n.namespace_id), o.subject, o.kind),
           count(*), min(o.recorded_at)
      from memdb._outdated(p_tenant, 100000, memdb.current_time()) o
      join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = o.namespace_id
     group by n.path, n.namespace_id, o.subject, o.kind
     order by n.path, o.subject, o.kind;
end $$;
comment on function memdb.retention_report (integer) is 'What retention would forget now, by namespace and kind; nothing is changed.';

-- _forget_outdated: begin to forget some outdated things together, or, where a hold covers what rests on one of them, one by one.
--
-- Returns how many were begun with.
create or replace function memdb._forget_outdated (p_tenant integer, p_events bigint[], p_memories bigint[])
  returns integer
  language plpgsql volatile
as $$
declare
  v_one   record;
  v_begun integer := 0;
begin
  begin
    perform from memdb._forget(p_tenant, jsonb_build_object('event_ids', p_events, 'memory_ids', p_memories), 'retention', false);
    return cardinality(p_events) + cardinality(p_memories);
  exception when sqlstate 'MD207' then
    null;
  end;
  for v_one in
    select 'event_ids' as key, w.id from unnest(p_events) w (id)
    union all
    select 'memory_ids', w.id from unnest(p_memories) w (id)
    limit 100
  loop
    begin
      perform from memdb._forget(p_tenant, jsonb_build_object(v_one.key, jsonb_build_array(v_one.id)), 'retention', false);
      v_begun := v_begun + 1;
    exception when sqlstate 'MD207' then
      null;
    end;
  end loop;
  return v_begun;
end $$;
comment on function memdb._forget_outdated (integer, bigint[], bigint[]) is 'Begin to forget some outdated things together, or, where a hold covers what rests on one of them, one by one.';

-- apply_retention: forget what policy retention_days keeps no longer, one bounded batch.
--
-- Goes on with what was begun before it begins with more: up to p_limit (1 to 10,000) events and as many
-- memories, each batch with a receipt of its own (reason retention). Returns how many things are
-- left to be deleted or, when nothing was left of earlier ones, what this call began; call again until
-- 0. retention_report is the dry run. Operators only. Raises MD001, MD301, MD303. Cost: as
-- forget, and a look at the events and memories of the namespaces with a policy.
create or replace function memdb.apply_retention (p_tenant integer, p_limit integer default 500)
  returns bigint
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_events   bigint[];
  v_memories bigint[];
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  perform memdb._check_limit(p_limit, 10000);
  if exists (select from memdb.erasure_receipt r where r.tenant_id = p_tenant and r.state = 'erasing' and r.reason = 'retention') then
    -- One more than what is left, so that it is looked for more when this is done.
    return memdb.continue_erasures(p_tenant, p_limit) + 1;
  end if;
  select coalesce(array_agg(o.subject_id) filter (where o.subject = 'event'), '{}'),
         coalesce(array_agg(o.subject_id) filter (where o.subject = 'memory'), '{}')
    into v_events, v_memories
    from memdb._outdated(p_tenant, p_limit, memdb.current_time()) o;
  if v_events = '{}' and v_memories = '{}' then
    return 0;
  end if;
  return memdb._forget_outdated(p_tenant, v_events, v_memories);
end $$;
comment on function memdb.apply_retention (integer, integer) is 'Forget what policy retention_days keeps no longer, one bounded batch.';
