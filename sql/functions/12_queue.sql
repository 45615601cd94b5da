-- The queue of events that are still to become memories.
--
-- It is a table: an event is queued in the transaction that stores it, and a worker marks it done
-- in the transaction that records its memories. So nothing is processed before its commit or after
-- its rollback, and nothing twice. A worker claims (short transaction), thinks (no transaction),
-- records. Events of one session are handed out in their order and to one worker at a time.

-- _claimable_sessions: sessions whose next open event is due, locked.
--
-- The session row is the mutex of a claim: `skip locked` lets several workers pick different
-- sessions at the same moment. A session with a live lease, or whose next event waits for its
-- retry, is left alone: later events must not overtake.
create or replace function memdb._claimable_sessions (
  p_tenant     integer,
  p_namespaces integer[],
  p_limit      integer,
  p_now        timestamptz
)
  returns setof bigint
  language sql volatile rows 10
as $$
  select s.session_id
    from memdb.session s
   where s.tenant_id = p_tenant
     and s.session_id in (
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
           select x.state, x.next_at, x.leased_until, x.namespace_id
             from memdb.extraction x
            where x.tenant_id = p_tenant and x.session_id = o.session_id and x.state in ('pending', 'leased', 'failed')
            order by x.sequence limit 1) head
        where case when head.state = 'leased' then head.leased_until <= p_now else head.next_at <= p_now end
          and (p_namespaces is null or head.namespace_id = any (p_namespaces)))
   order by s.session_id
   limit p_limit
     for no key update skip locked;
$$;
comment on function memdb._claimable_sessions (integer, integer[], integer, timestamptz) is 'Sessions whose next open event is due, locked.';

-- _lease_events: lease to a worker the open events at the head of some sessions, and events without a session.
create or replace function memdb._lease_events (
  p_tenant     integer,
  p_worker     text,
  p_sessions   bigint[],
  p_namespaces integer[],
  p_limit      integer,
  p_until      timestamptz,
  p_now        timestamptz
)
  returns bigint[]
  language sql volatile
as $$
  with head as (
    select x.event_id
      from unnest(p_sessions) w (session_id)
      cross join lateral (
        select x.* from memdb.extraction x
         where x.tenant_id = p_tenant and x.session_id = w.session_id and x.state in ('pending', 'leased', 'failed')
         order by x.sequence limit p_limit) x
     where x.next_at <= p_now
     order by x.session_id, x.sequence
     limit p_limit
  ), alone as (
    select x.event_id from memdb.extraction x
     where x.tenant_id = p_tenant and x.session_id is null and x.state in ('pending', 'leased', 'failed')
       and case when x.state = 'leased' then x.leased_until <= p_now else x.next_at <= p_now end
       and (p_namespaces is null or x.namespace_id = any (p_namespaces))
     order by x.event_id
     limit greatest(p_limit - (select count(*) from head), 0)
       for no key update skip locked
  ), leased as (
    update memdb.extraction x
       set state = 'leased', worker = p_worker, leased_until = p_until, attempts = least(x.attempts + 1, 32000)
     where x.tenant_id = p_tenant
       and x.event_id in (select h.event_id from head h union all select a.event_id from alone a)
    returning x.event_id)
  select coalesce(array_agg(l.event_id), '{}') from leased l;
$$;
comment on function memdb._lease_events (integer, text, bigint[], integer[], integer, timestamptz, timestamptz) is 'Lease to a worker the open events at the head of some sessions, and events without a session.';

-- claim_events: take events that are still to become memories, for a limited time.
--
-- p_worker names the caller (complete_events and fail_event ask for it again); p_limit 1 to 1,000
-- events, of at most p_limit sessions; p_lease_seconds 1 to 86,400: after that another worker may
-- take them. Returns the events, each session's in order, with how often each was tried (this
-- time included). Commit at once: the lease counts, no lock is held. Raises MD001, MD301.
-- Cost: one index look-up per session with open events, plus the rows returned.
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
  v_events := memdb._lease_events(p_tenant, p_worker,
    array(select s from memdb._claimable_sessions(p_tenant, v_scope, p_limit, v_now) s),
    v_scope, p_limit, v_now + make_interval(secs => p_lease_seconds), v_now);
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
-- holder of the row may finish it.
create or replace function memdb._own_lease (p_tenant integer, p_worker text, p_event_ids bigint[])
  returns void
  language plpgsql volatile
as $$
declare
  v_lost bigint;
begin
  perform from memdb.extraction x
    where x.tenant_id = p_tenant and x.event_id = any (p_event_ids) order by x.event_id for no key update;
  select w.event_id into v_lost
    from unnest(p_event_ids) w (event_id)
    left join memdb.extraction x
      on x.tenant_id = p_tenant and x.event_id = w.event_id and x.state = 'leased' and x.worker = p_worker
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
-- broken connection: not the event's fault). Returns the new state. Raises MD204, MD301.
create or replace function memdb.fail_event (
  p_tenant     integer,
  p_worker     text,
  p_event      bigint,
  p_error      text,
  p_raw_output text    default null,
  p_charge     boolean default true
)
  returns text
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_row memdb.extraction;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._own_lease(p_tenant, p_worker, array[p_event]);
  update memdb.extraction x
     set attempts = case when p_charge then x.attempts else greatest(x.attempts - 1, 0) end, worker = null,
         leased_until = null, error = left(p_error, 4096), raw_output = left(p_raw_output, 65536),
         state = case when p_charge
                       and x.attempts >= (memdb._policy(p_tenant, 'extraction_attempts', x.namespace_id))::integer
                      then 'dead' when p_charge then 'failed' else 'pending' end,
         next_at = memdb.current_time() + case when not p_charge then interval '0' else
           least(interval '1 hour', make_interval(secs =>
             (memdb._policy(p_tenant, 'extraction_backoff_seconds', x.namespace_id))::float8 * 2 ^ least(x.attempts - 1, 12))) end
   where x.tenant_id = p_tenant and x.event_id = p_event
  returning x.* into v_row;
  update memdb.extraction x
     set state = 'pending', worker = null, leased_until = null, attempts = greatest(x.attempts - 1, 0)
   where x.tenant_id = p_tenant and x.session_id = v_row.session_id and x.sequence > v_row.sequence
     and x.state = 'leased' and x.worker = p_worker and v_row.state <> 'dead';
  return v_row.state;
end $$;
comment on function memdb.fail_event (integer, text, bigint, text, text, boolean) is 'Give a claimed event back with the reason it failed, and what the model said.';

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
-- Returns how many are still held; fewer than asked means the others are lost. Raises MD301.
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
  v_count integer;
begin
  perform memdb._authorize(p_tenant, true);
  update memdb.extraction x set leased_until = memdb.current_time() + make_interval(secs => p_lease_seconds)
   where x.tenant_id = p_tenant and x.event_id = any (p_event_ids) and x.state = 'leased' and x.worker = p_worker;
  get diagnostics v_count = row_count;
  return v_count;
end $$;
comment on function memdb.extend_lease (integer, text, bigint[], integer) is 'Keep claimed events for longer, while a model is still thinking.';
