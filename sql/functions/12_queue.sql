-- The queue of events that are still to become memories.
--
-- It is a table: an event is queued in the transaction that stores it, and a worker marks it done
-- in the transaction that records its memories. So nothing is processed before its commit or after
-- its rollback, and nothing twice. A worker claims (short transaction), thinks (no transaction),
-- records. Events of one session are handed out in their order and to one worker at a time.

-- _is_worked_on: whether a worker holds a live lease on an event of a session.
create or replace function memdb._is_worked_on (p_tenant integer, p_session bigint, p_now timestamptz)
  returns boolean
  language sql stable
begin atomic
  select exists (
    select from memdb.extraction x
     where x.tenant_id = p_tenant and x.session_id = p_session and x.state = 'leased' and x.leased_until > p_now);
end;
comment on function memdb._is_worked_on (integer, bigint, timestamptz) is 'Whether a worker holds a live lease on an event of a session.';

-- _due_sessions: sessions whose next open event is due, the one that waits longest first.
--
-- A session with a live lease, or whose next event waits for its retry, is left alone: later
-- events must not overtake. Cost: three index look-ups for each session with open events.
create or replace function memdb._due_sessions (p_tenant integer, p_namespaces integer[], p_now timestamptz)
  returns setof bigint
  language sql stable rows 10
as $$
  with recursive open (session_id) as (
    (select x.session_id from memdb.extraction x
      where x.tenant_id = p_tenant and x.session_id is not null and x.state in ('pending', 'leased', 'failed')
      order by x.session_id limit 1)
    union all
    select (select x.session_id from memdb.extraction x
             where x.tenant_id = p_tenant and x.session_id > o.session_id and x.state in ('pending', 'leased', 'failed')
             order by x.session_id limit 1)
      from open o
     where o.session_id is not null)
  select o.session_id
    from open o
    cross join lateral (
      select x.event_id, x.state, x.next_at, x.namespace_id
        from memdb.extraction x
       where x.tenant_id = p_tenant and x.session_id = o.session_id and x.state in ('pending', 'leased', 'failed')
       order by x.sequence limit 1) head
   where (head.state = 'leased' or head.next_at <= p_now)
     and (p_namespaces is null or head.namespace_id = any (p_namespaces))
     and not exists (
       select from memdb.extraction l
        where l.tenant_id = p_tenant and l.session_id = o.session_id and l.state = 'leased' and l.leased_until > p_now)
   order by head.event_id;
$$;
comment on function memdb._due_sessions (integer, integer[], timestamptz) is 'Sessions whose next open event is due, the one that waits longest first.';

-- _next_events: the events at the head of a locked session that may be handed out together.
--
-- Whether the session is free is asked again: another claim may have been committed between the
-- look and the lock. An event that was tried twice goes alone, so that one which kills its worker
-- does not use up the attempts of those behind it.
create or replace function memdb._next_events (
  p_tenant  integer,
  p_session bigint,
  p_limit   integer,
  p_now     timestamptz
)
  returns setof bigint
  language sql volatile rows 20
as $$
  select x.event_id
    from (select o.event_id, o.sequence,
                 bool_and((o.state = 'leased' or o.next_at <= p_now) and (o.place = 1 or o.most_attempts < 2))
                   over (order by o.sequence) as is_next
            from (select x.event_id, x.sequence, x.state, x.next_at, row_number() over by_sequence as place,
                         max(x.attempts) over by_sequence as most_attempts
                    from memdb.extraction x
                   where x.tenant_id = p_tenant and x.session_id = p_session and x.state in ('pending', 'leased', 'failed')
                     and not memdb._is_listed(p_tenant, 'event', x.event_id)
                  window by_sequence as (order by x.sequence)
                   order by x.sequence
                   limit p_limit) o) x
   where x.is_next and not memdb._is_worked_on(p_tenant, p_session, p_now)
   order by x.sequence;
$$;
comment on function memdb._next_events (integer, bigint, integer, timestamptz) is 'The events at the head of a locked session that may be handed out together.';

-- _claimable_events: events that are due, of as many free sessions as it takes, in order.
--
-- The session row is the mutex of a claim: `skip locked` lets several workers pick different
-- sessions at the same moment, and none waits for an append that is still open. A statement for each
-- step, so that what is read after a lock is what others committed before.
create or replace function memdb._claimable_events (
  p_tenant     integer,
  p_namespaces integer[],
  p_limit      integer,
  p_now        timestamptz
)
  returns bigint[]
  language plpgsql volatile
as $$
declare
  v_events  bigint[] := '{}';
  v_session bigint;
begin
  for v_session in select d from memdb._due_sessions(p_tenant, p_namespaces, p_now) d loop
    exit when cardinality(v_events) >= p_limit;
    perform from memdb.session s where s.tenant_id = p_tenant and s.session_id = v_session for no key update skip locked;
    if found then
      v_events := v_events
        || array(select e from memdb._next_events(p_tenant, v_session, p_limit - cardinality(v_events), p_now) e);
    end if;
  end loop;
  if cardinality(v_events) < p_limit then
    v_events := v_events
      || array(select e from memdb._events_alone(p_tenant, p_namespaces, p_limit - cardinality(v_events), p_now) e);
  end if;
  return v_events;
end $$;
comment on function memdb._claimable_events (integer, integer[], integer, timestamptz) is 'Events that are due, of as many free sessions as it takes, in order.';

-- _lease_events: lease events to a worker; returns those it got.
--
-- The state is asked once more, since the update may have waited for a worker whose lease ran out
-- and who finished all the same. An event whose lease ran out three times as often as events
-- may fail is dead: whoever takes it dies or hangs.
create or replace function memdb._lease_events (
  p_tenant integer,
  p_worker text,
  p_events bigint[],
  p_until  timestamptz,
  p_now    timestamptz
)
  returns bigint[]
  language sql volatile
as $$
  with judged as (
    update memdb.extraction x
       set state = case when j.is_dead then 'dead' else 'leased' end,
           worker = case when not j.is_dead then p_worker end,
           leased_until = case when not j.is_dead then p_until end,
           attempts = x.attempts + (not j.is_dead)::integer,
           error = case when j.is_dead then 'the lease ran out each time: the worker died or did not answer' else x.error end
      from (select e.event_id,
                   o.state = 'leased'
                   and o.attempts >= 3 * (memdb._policy(p_tenant, 'extraction_attempts', o.namespace_id))::integer as is_dead
              from unnest(p_events) e (event_id)
              join memdb.extraction o on o.tenant_id = p_tenant and o.event_id = e.event_id) j
     where x.tenant_id = p_tenant and x.event_id = j.event_id
       and (x.state in ('pending', 'failed') or (x.state = 'leased' and x.leased_until <= p_now))
    returning x.event_id, x.state)
  select coalesce(array_agg(j.event_id), '{}') from judged j where j.state = 'leased';
$$;
comment on function memdb._lease_events (integer, text, bigint[], timestamptz, timestamptz) is 'Lease events to a worker; returns those it got.';

-- _events_alone: events without a session that are due, oldest first, locked.
create or replace function memdb._events_alone (
  p_tenant     integer,
  p_namespaces integer[],
  p_limit      integer,
  p_now        timestamptz
)
  returns setof bigint
  language sql volatile rows 20
as $$
  select x.event_id from memdb.extraction x
   where x.tenant_id = p_tenant and x.session_id is null and x.state in ('pending', 'leased', 'failed')
     and case when x.state = 'leased' then x.leased_until <= p_now else x.next_at <= p_now end
     and (p_namespaces is null or x.namespace_id = any (p_namespaces))
     and not memdb._is_listed(p_tenant, 'event', x.event_id)
   order by x.event_id
   limit p_limit
     for no key update skip locked;
$$;
comment on function memdb._events_alone (integer, integer[], integer, timestamptz) is 'Events without a session that are due, oldest first, locked.';

-- claim_events: take events that are still to become memories, for a limited time.
--
-- p_worker names the caller (complete_events and fail_event ask for it again); p_limit 1 to 1,000
-- events; p_lease_seconds 1 to 86,400: after that another worker may
-- take them. Returns the events, each session's in order, with how often each was tried (this
-- time included). Commit at once: the lease counts, no lock is held. Raises MD001, MD301.
-- Cost: three index look-ups per session with open events, plus the rows returned.
create or replace function memdb.claim_events (
  p_tenant        integer,
  p_worker        text,
  p_limit         integer default 20,
  p_lease_seconds integer default 300
)
  returns table (
    event_id bigint, namespace text, session text, session_id bigint, sequence integer, kind text, text text,
    input jsonb, output jsonb, user_id text, agent_id text, speaker text, language text, occurred_at timestamptz,
    time_zone text, trust real, parent_event_id bigint, metadata jsonb, attempts integer, leased_until timestamptz)
  language plpgsql volatile security definer rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now    timestamptz := memdb.current_time();
  v_scope  integer[];
  v_events bigint[];
begin
  perform memdb._authorize(p_tenant, true);
  if coalesce(p_worker, '') = '' or p_limit between 1 and 1000 is not true or p_lease_seconds between 1 and 86400 is not true then
    perform memdb._raise('MD001', 'a claim has a worker name, a limit of 1 to 1,000 and a lease of 1 to 86,400 seconds',
      jsonb_build_object('field', 'worker, limit or lease_seconds'));
  end if;
  v_scope := memdb._namespaces_granted(p_tenant, true);
  v_events := memdb._lease_events(p_tenant, p_worker, memdb._claimable_events(p_tenant, v_scope, p_limit, v_now),
    v_now + make_interval(secs => p_lease_seconds), v_now);
  return query
    select e.event_id, n.path, s.external_id, e.session_id, e.sequence, e.kind, e.text, e.input, e.output, e.user_id,
           e.agent_id, e.speaker, e.language, e.occurred_at, e.time_zone, e.trust, e.parent_event_id, e.metadata,
           x.attempts::integer, x.leased_until
      from memdb.event e
      join memdb.extraction x on x.tenant_id = p_tenant and x.event_id = e.event_id
      join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = e.namespace_id
      left join memdb.session s on s.tenant_id = p_tenant and s.session_id = e.session_id
     where e.tenant_id = p_tenant and e.event_id = any (v_events)
     order by e.session_id nulls last, e.sequence, e.event_id;
end $$;
comment on function memdb.claim_events (integer, text, integer, integer) is 'Take events that are still to become memories, for a limited time.';

-- _own_lease: stop unless the worker holds all of these events; their rows are locked.
--
-- Closes the race of a slow worker with the one that took over its expired lease: only the
-- holder of the row may finish it. Events of a namespace the caller may not write are not its own.
create or replace function memdb._own_lease (p_tenant integer, p_worker text, p_event_ids bigint[])
  returns void
  language plpgsql volatile
as $$
declare
  v_scope integer[] := memdb._namespaces_granted(p_tenant, true);
  v_lost  bigint;
begin
  perform from memdb.extraction x
    where x.tenant_id = p_tenant and x.event_id = any (p_event_ids) order by x.event_id for no key update;
  select w.event_id into v_lost
    from unnest(p_event_ids) w (event_id)
    left join memdb.extraction x
      on x.tenant_id = p_tenant and x.event_id = w.event_id and x.state = 'leased' and x.worker = p_worker
     and (v_scope is null or x.namespace_id = any (v_scope))
   where x.event_id is null
   limit 1;
  if found then
    perform memdb._raise('MD204', 'this worker no longer holds the event', jsonb_build_object('event_id', v_lost),
      'Drop the result: the lease ran out and the event went to another worker, or it is finished.');
  end if;
end $$;
comment on function memdb._own_lease (integer, text, bigint[]) is 'Stop unless the worker holds all of these events; their rows are locked.';

-- complete_events: mark claimed events as done, in the transaction that records their memories.
--
-- Returns how many. Raises MD204 where the lease went to another worker, MD301.
create or replace function memdb.complete_events (
  p_tenant    integer,
  p_worker    text,
  p_event_ids bigint[]
)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_done integer;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._own_lease(p_tenant, p_worker, p_event_ids);
  update memdb.extraction x
     set state = 'done', worker = null, leased_until = null, error = null, raw_output = null, finished_at = memdb.current_time()
   where x.tenant_id = p_tenant and x.event_id = any (p_event_ids);
  get diagnostics v_done = row_count;
  return v_done;
end $$;
comment on function memdb.complete_events (integer, text, bigint[]) is 'Mark claimed events as done, in the transaction that records their memories.';

-- fail_event: give a claimed event back with the reason it failed, and what the model said.
--
-- It is tried again after a wait that doubles each time (policy extraction_backoff_seconds), until
-- extraction_attempts are used up: then it is dead, kept and listed, and no longer holds up its
-- session. Later events of the session that the worker holds go back too: they must not overtake.
-- p_raw_output is kept up to 64 KiB. p_charge false gives the attempt back (a shutdown, a
-- broken connection: not the event's fault). p_wait_seconds is the least wait before the next try (an
-- endpoint that asks for a pause). Returns the new state. Raises MD001, MD204, MD301.
create or replace function memdb.fail_event (
  p_tenant       integer,
  p_worker       text,
  p_event        bigint,
  p_error        text,
  p_raw_output   text    default null,
  p_charge       boolean default true,
  p_wait_seconds integer default 0
)
  returns text
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_row memdb.extraction;
begin
  perform memdb._authorize(p_tenant, true);
  if p_wait_seconds between 0 and 86400 is not true then
    perform memdb._raise('MD001', 'a wait lasts 0 to 86,400 seconds', jsonb_build_object('field', 'wait_seconds'));
  end if;
  perform memdb._own_lease(p_tenant, p_worker, array[p_event]);
  update memdb.extraction x
     set attempts = case when p_charge then x.attempts else greatest(x.attempts - 1, 0) end, worker = null,
         leased_until = null, error = left(p_error, 4096), raw_output = left(p_raw_output, 65536),
         state = case when p_charge
                       and x.attempts >= (memdb._policy(p_tenant, 'extraction_attempts', x.namespace_id))::integer
                      then 'dead' when p_charge then 'failed' else 'pending' end,
         next_at = memdb.current_time() + greatest(make_interval(secs => p_wait_seconds),
           case when p_charge then least(interval '1 hour', make_interval(secs =>
             (memdb._policy(p_tenant, 'extraction_backoff_seconds', x.namespace_id))::float8 * 2 ^ least(x.attempts - 1, 12))) end)
   where x.tenant_id = p_tenant and x.event_id = p_event
  returning x.* into v_row;
  update memdb.extraction x
     set state = 'pending', worker = null, leased_until = null, attempts = greatest(x.attempts - 1, 0)
   where x.tenant_id = p_tenant and x.session_id = v_row.session_id and x.sequence > v_row.sequence
     and x.state = 'leased' and x.worker = p_worker and v_row.state <> 'dead';
  return v_row.state;
end $$;
comment on function memdb.fail_event (integer, text, bigint, text, text, boolean, integer) is 'Give a claimed event back with the reason it failed, and what the model said.';

-- failed_events: events that failed or are dead, with the reason and the raw output.
--
-- p_limit 1 to 1,000, oldest first, after event id p_after. Only events the caller may write
-- about. Raises MD001, MD301.
create or replace function memdb.failed_events (
  p_tenant integer,
  p_after  bigint  default 0,
  p_limit  integer default 100
)
  returns table (event_id bigint, namespace text, state text, attempts integer, next_at timestamptz, error text, raw_output text)
  language plpgsql stable security definer rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_scope integer[];
begin
  perform memdb._authorize(p_tenant, true);
  if p_limit between 1 and 1000 is not true then
    perform memdb._raise('MD001', 'a page holds 1 to 1,000 events', jsonb_build_object('field', 'limit'));
  end if;
  v_scope := memdb._namespaces_granted(p_tenant, true);
  return query
    select x.event_id, n.path, x.state, x.attempts::integer, x.next_at, x.error, x.raw_output
      from memdb.extraction x
      join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = x.namespace_id
     where x.tenant_id = p_tenant and x.event_id > p_after and x.state in ('failed', 'dead')
       and (v_scope is null or x.namespace_id = any (v_scope))
     order by x.event_id
     limit p_limit;
end $$;
comment on function memdb.failed_events (integer, bigint, integer) is 'Events that failed or are dead, with the reason and the raw output.';

-- retry_events: put failed and dead events back at the front of the queue, with their attempts forgotten.
--
-- p_event_ids null means all of the tenant the caller may write about. Returns how many. Raises MD301.
create or replace function memdb.retry_events (
  p_tenant    integer,
  p_event_ids bigint[] default null
)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_scope integer[];
  v_count integer;
begin
  perform memdb._authorize(p_tenant, true);
  v_scope := memdb._namespaces_granted(p_tenant, true);
  update memdb.extraction x set state = 'pending', attempts = 0, next_at = memdb.current_time()
   where x.tenant_id = p_tenant and x.state in ('failed', 'dead')
     and (p_event_ids is null or x.event_id = any (p_event_ids))
     and (v_scope is null or x.namespace_id = any (v_scope));
  get diagnostics v_count = row_count;
  return v_count;
end $$;
comment on function memdb.retry_events (integer, bigint[]) is 'Put failed and dead events back at the front of the queue, with their attempts forgotten.';

-- extend_lease: keep claimed events for longer, while a model is still thinking.
--
-- p_lease_seconds counts from now, 1 to 86,400. Returns how many are still held; fewer than asked
-- means the others are lost, or lie in namespaces the caller may not write. Raises MD001, MD301.
create or replace function memdb.extend_lease (
  p_tenant        integer,
  p_worker        text,
  p_event_ids     bigint[],
  p_lease_seconds integer default 300
)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_scope integer[];
  v_count integer;
begin
  perform memdb._authorize(p_tenant, true);
  if p_lease_seconds between 1 and 86400 is not true then
    perform memdb._raise('MD001', 'a lease lasts 1 to 86,400 seconds', jsonb_build_object('field', 'lease_seconds'));
  end if;
  v_scope := memdb._namespaces_granted(p_tenant, true);
  update memdb.extraction x set leased_until = memdb.current_time() + make_interval(secs => p_lease_seconds)
   where x.tenant_id = p_tenant and x.event_id = any (p_event_ids) and x.state = 'leased' and x.worker = p_worker
     and (v_scope is null or x.namespace_id = any (v_scope));
  get diagnostics v_count = row_count;
  return v_count;
end $$;
comment on function memdb.extend_lease (integer, text, bigint[], integer) is 'Keep claimed events for longer, while a model is still thinking.';
