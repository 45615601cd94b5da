-- Running summaries of sessions and users, kept as memories and written only when there is a reason.
--
-- Each is a memory of type summary in the namespace of what it sums up; every version rests on the
-- memories it was made of, so that history, the answer to why, corrections and erasure are those
-- of any memory. It is made anew from those memories and never from its own last version: nothing
-- that was taken back lives on in it. Without a model it is their texts; a model puts it in words.
--
-- due_summaries hands out what is due, summary_material shows what goes in, record_summary writes.

-- _queue_for_summaries: note new memory versions for the summaries they may make due.
create or replace function memdb._queue_for_summaries ()
  returns trigger
  language plpgsql volatile
as $$
begin
  insert into memdb.summary_queue (tenant_id, memory_id, version) select n.tenant_id, n.memory_id, n.version from new_version n;
  return null;
end $$;
comment on function memdb._queue_for_summaries () is 'Note new memory versions for the summaries they may make due.';

-- Only where it is missing, as memory_version_keyword.
do $$
begin
  if not exists (select from pg_catalog.pg_trigger t
                  where t.tgrelid = 'memdb.memory_version'::regclass and t.tgname = 'memory_version_summary') then
    create trigger memory_version_summary
      after insert on memdb.memory_version
      referencing new table as new_version
      for each statement execute function memdb._queue_for_summaries();
  end if;
end $$;

-- _new_facts: take memory versions off the queue and count them by what they may be summed up in.
--
-- Summaries themselves do not count. is_done: one of them comes from the end of a task.
create or replace function memdb._new_facts (p_tenant integer, p_limit integer)
  returns table (namespace_id integer, session_id bigint, user_id text, facts integer, is_done boolean)
  language sql volatile rows 100
begin atomic
  with taken as (
    delete from memdb.summary_queue q
     where q.tenant_id = p_tenant
       and q.ctid = any (array(select f.ctid from memdb.summary_queue f where f.tenant_id = p_tenant
                                order by f.queue_id limit p_limit for update skip locked))
    returning q.memory_id, q.version
  ), fact as (
    select m.namespace_id, m.session_id, m.user_id, m.memory_id,
           coalesce(e.kind = 'answer' or e.metadata ->> 'task' = 'done', false) as is_done
      from taken t
      join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = t.memory_id and m.type <> 'summary'
      join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = t.memory_id and v.version = t.version
      left join memdb.shown_event e on e.tenant_id = p_tenant and e.event_id = v.event_id)
  select f.namespace_id, f.session_id, null::text, count(*)::integer, bool_or(f.is_done)
    from fact f where f.session_id is not null group by f.namespace_id, f.session_id
  union all
  select f.namespace_id, null, f.user_id, count(*)::integer, bool_or(f.is_done)
    from fact f where f.user_id is not null group by f.namespace_id, f.user_id;
end;
comment on function memdb._new_facts (integer, integer) is 'Take memory versions off the queue and count them by what they may be summed up in.';

-- _find_summary: the row of the running summary of a session or of a user; none before the first.
--
-- Written out, since no index serves `is not distinct from`.
create or replace function memdb._find_summary (p_tenant integer, p_namespace integer, p_session bigint, p_user text)
  returns setof memdb.summary
  language sql stable rows 1
begin atomic
  select s.* from memdb.summary s
   where p_session is not null and s.tenant_id = p_tenant and s.namespace_id = p_namespace and s.session_id = p_session
  union all
  select s.* from memdb.summary s
   where p_session is null and s.tenant_id = p_tenant and s.namespace_id = p_namespace and s.session_id is null
     and s.user_id = p_user;
end;
comment on function memdb._find_summary (integer, integer, bigint, text) is 'The row of the running summary of a session or of a user; none before the first.';

-- _count_facts: fold new memories into the summaries they concern, and make those due that have a reason.
create or replace function memdb._count_facts (p_tenant integer, p_limit integer, p_now timestamptz)
  returns void
  language sql volatile
as $$
  with wanted as materialized (
    select f.*,
           case when f.is_done and memdb._policy(p_tenant, 'summary_after_task', f.namespace_id) = 'true' then 'task'
                when coalesce(s.facts, 0) + f.facts >= (nullif(memdb._policy(p_tenant, 'summary_after_facts', f.namespace_id), 'null'))::integer
                then 'facts' end as reason
      from memdb._new_facts(p_tenant, p_limit) f
      left join lateral memdb._find_summary(p_tenant, f.namespace_id, f.session_id, f.user_id) s on true)
  insert into memdb.summary as s (tenant_id, namespace_id, session_id, user_id, facts, due_at, reason)
    select p_tenant, w.namespace_id, w.session_id, w.user_id, w.facts, case when w.reason is not null then p_now end, w.reason
      from wanted w
     order by w.namespace_id, w.session_id, w.user_id
    on conflict on constraint summary_subject_key
    do update set facts = s.facts + excluded.facts, due_at = coalesce(s.due_at, excluded.due_at),
                  reason = case when s.due_at is null then excluded.reason else s.reason end;
$$;
comment on function memdb._count_facts (integer, integer, timestamptz) is 'Fold new memories into the summaries they concern, and make those due that have a reason.';

-- _find_stale_summaries: make summaries due that fell with what they rested on.
--
-- Only corrections since the last look are read; those of a tenant come one after the other, each
-- later than the one before (_truth_time), so none is missed.
create or replace function memdb._find_stale_summaries (p_tenant integer, p_now timestamptz)
  returns void
  language plpgsql volatile
as $$
declare
  v_from timestamptz := (select k.belief_at from memdb.summary_mark k where k.tenant_id = p_tenant);
  v_to   timestamptz := (select t.truth_at from memdb.tenant t where t.tenant_id = p_tenant);
begin
  if v_to is not distinct from v_from or v_to = '-infinity' then
    return;
  end if;
  update memdb.summary s set due_at = coalesce(s.due_at, p_now), reason = coalesce(s.reason, 'stale')
    from memdb.belief b
   where b.tenant_id = p_tenant and b.from_at > coalesce(v_from, '-infinity') and b.from_at <= v_to
     and b.subject = 'memory' and b.status = 'stale' and b.to_at is null
     and s.tenant_id = p_tenant and s.memory_id = b.subject_id;
  insert into memdb.summary_mark as k (tenant_id, belief_at) values (p_tenant, v_to)
    on conflict on constraint summary_mark_pkey do update set belief_at = greatest(k.belief_at, excluded.belief_at);
end $$;
comment on function memdb._find_stale_summaries (integer, timestamptz) is 'Make summaries due that fell with what they rested on.';

-- due_summaries: hand out running summaries that are to be written anew, for a limited time.
--
-- A summary is due when policy summary_after_facts new memories of its session or user came in,
-- when a task was finished (summary_after_task), or when something it rests on no longer holds.
-- First up to 10,000 new memories are counted. p_limit 1 to 1,000, longest waiting first; a row that
-- record_summary does not answer within p_lease_seconds (1 to 86,400, doubling each time up to an
-- hour) is handed out again. reason is facts, task or stale; memory_id and version are the summary as
-- it stands, null for a first one. Only namespaces the caller may write. Commit at once. Raises
-- MD001, MD301. Cost: the new memories, the corrections since the last call, the rows returned.
create or replace function memdb.due_summaries (
  p_tenant        integer,
  p_limit         integer default 20,
  p_lease_seconds integer default 300
)
  returns table (namespace text, session text, user_id text, reason text, memory_id bigint, version integer, attempts integer)
  language plpgsql volatile security definer rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now   timestamptz;
  v_scope integer[];
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_limit(p_limit, 1000);
  if p_lease_seconds between 1 and 86400 is not true then
    perform memdb._raise('MD001', 'a lease lasts 1 to 86,400 seconds', jsonb_build_object('field', 'lease_seconds'));
  end if;
  v_scope := memdb._namespaces_granted(p_tenant, true);
  -- One counter of a tenant at a time ("mems" in ASCII): a summary's count is read and then raised.
  perform pg_advisory_xact_lock(1835363699, p_tenant);
  -- Not before: what the one before us made due must not lie in our future.
  v_now := memdb.current_time();
  perform memdb._count_facts(p_tenant, 10000, v_now);
  perform memdb._find_stale_summaries(p_tenant, v_now);
  return query
    with due as materialized (
      select s.summary_id from memdb.summary s
       where s.tenant_id = p_tenant and s.due_at <= v_now and (v_scope is null or s.namespace_id = any (v_scope))
         -- Not while it, or its session, may be what is being forgotten.
         and (not (select memdb._is_erasing())
              or not memdb._is_listed(p_tenant, 'session', s.session_id) and not memdb._is_listed(p_tenant, 'memory', s.memory_id))
       order by s.due_at, s.summary_id
       limit p_limit
         for no key update skip locked
    ), leased as (
      update memdb.summary s
         set facts = 0, attempts = least(s.attempts + 1, 1000),
             due_at = v_now + make_interval(secs => greatest(p_lease_seconds, least(3600, p_lease_seconds * 2.0 ^ least(s.attempts, 12))))
        from due
       where s.tenant_id = p_tenant and s.summary_id = due.summary_id
      returning s.*)
    select n.path, c.external_id, l.user_id, l.reason, l.memory_id, m.version, l.attempts::integer
      from leased l
      join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = l.namespace_id
      left join memdb.session c on c.tenant_id = p_tenant and c.session_id = l.session_id
      left join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = l.memory_id
     order by l.summary_id;
end $$;
comment on function memdb.due_summaries (integer, integer, integer) is 'Hand out running summaries that are to be written anew, for a limited time.';

-- _summary_material: the memories of a session or user that a summary is made of, in the order they happened.
--
-- Pinned and most important first, the newer before the older, as many as fit into p_tokens; what
-- is longer than a quarter of that is cut, so that one long text does not push out all others.
create or replace function memdb._summary_material (
  p_tenant    integer,
  p_namespace integer,
  p_session   bigint,
  p_user      text,
  p_tokens    integer
)
  returns table (memory_id bigint, version integer, type text, text text, occurred_at timestamptz, tokens integer)
  language sql stable rows 20
begin atomic
  with known as (
    (select m.* from memdb.shown_memory m
      where p_session is not null and m.tenant_id = p_tenant and m.namespace_id = p_namespace and m.session_id = p_session
        and m.status = 'active' and m.type <> 'summary')
    union all
    (select m.* from memdb.shown_memory m
      where p_session is null and m.tenant_id = p_tenant and m.namespace_id = p_namespace and m.user_id = p_user
        and m.status = 'active' and m.type <> 'summary'
      order by m.importance desc
      limit 1000)
  ), shown as (
    select k.memory_id, k.version, k.type, k.is_pinned, k.importance, k.occurred_at, c.text,
           memdb._estimate_tokens(c.text) as tokens
      from known k
      join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = k.memory_id and v.version = k.version
      cross join lateral (select memdb._cut_tokens(coalesce(v.summary, v.text), greatest(p_tokens / 4, 16))) c (text)
  ), ranked as (
    select s.*, sum(s.tokens) over by_worth as total, row_number() over by_worth as place
      from shown s
    window by_worth as (order by s.is_pinned desc, s.importance desc, s.occurred_at desc, s.memory_id desc rows unbounded preceding))
  select r.memory_id, r.version, r.type, r.text, r.occurred_at, r.tokens
    from ranked r
   where r.total <= p_tokens or r.place = 1
   order by r.occurred_at, r.memory_id;
end;
comment on function memdb._summary_material (integer, integer, bigint, text, integer) is 'The memories of a session or user that a summary is made of, in the order they happened.';

-- _summary_subject: the namespace and session (or user) a summary is about, checked.
--
-- Raises MD001 unless exactly one of session and user is given, MD102, MD106.
create or replace function memdb._summary_subject (p_tenant integer, p_namespace text, p_session text, p_user text)
  returns memdb.summary
  language plpgsql stable
as $$
declare
  v_subject memdb.summary;
  v_session memdb.session;
begin
  if (p_session is null) = (p_user is null) then
    perform memdb._raise('MD001', 'a summary is about a session or about a user', jsonb_build_object('field', 'session'),
      'Give one of session and user.');
  end if;
  v_subject.tenant_id    := p_tenant;
  v_subject.namespace_id := (memdb._readable(p_tenant, array[p_namespace], null))[1];
  v_subject.user_id      := p_user;
  if p_session is not null then
    v_session            := memdb._named_session(p_tenant, p_session, p_namespace, null);
    v_subject.session_id := v_session.session_id;
  end if;
  return v_subject;
end $$;
comment on function memdb._summary_subject (integer, text, text, text) is 'The namespace and session (or user) a summary is about, checked.';

-- summary_material: the memories that a running summary of a session or user is to be made of.
--
-- p_token_budget null takes policy summary_tokens. In the order they happened, each text cut to a
-- quarter of the budget. Give the rows to record_summary as sources, {memory_id, version}. Raises
-- MD001, MD102, MD106, MD301.
create or replace function memdb.summary_material (
  p_tenant       integer,
  p_namespace    text,
  p_session      text    default null,
  p_user         text    default null,
  p_token_budget integer default null
)
  returns table (memory_id bigint, version integer, type text, text text, occurred_at timestamptz, tokens integer)
  language plpgsql stable rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_subject memdb.summary;
begin
  perform memdb._authorize(p_tenant, false);
  v_subject := memdb._summary_subject(p_tenant, p_namespace, p_session, p_user);
  return query
    select m.* from memdb._summary_material(p_tenant, v_subject.namespace_id, v_subject.session_id, p_user,
      coalesce(p_token_budget, (select e.value::integer from memdb.effective_policy(p_tenant, p_namespace) e
                                 where e.key = 'summary_tokens'))) m;
end $$;
comment on function memdb.summary_material (integer, text, text, text, integer) is 'The memories that a running summary of a session or user is to be made of.';

-- _close_summary: note that a summary was written, and whether it is due again already.
--
-- Memories that came in while it was being made count towards the next one. One that was born stale
-- (a source fell meanwhile) stays due.
create or replace function memdb._close_summary (p_subject memdb.summary, p_memory bigint, p_now timestamptz)
  returns void
  language sql volatile
as $$
  with judged as (
    select case when m.status = 'stale' then 'stale'
                when s.facts >= (nullif(memdb._policy((p_subject).tenant_id, 'summary_after_facts', (p_subject).namespace_id), 'null'))::integer
                then 'facts' end as reason
      from (select 1) one
      left join memdb.memory m on m.tenant_id = (p_subject).tenant_id and m.memory_id = p_memory
      left join lateral memdb._find_summary((p_subject).tenant_id, (p_subject).namespace_id, (p_subject).session_id,
                                            (p_subject).user_id) s on true)
  insert into memdb.summary as s (tenant_id, namespace_id, session_id, user_id, memory_id, due_at, reason, summarised_at)
    select (p_subject).tenant_id, (p_subject).namespace_id, (p_subject).session_id, (p_subject).user_id, p_memory,
           case when j.reason is not null then p_now end, j.reason, p_now
      from judged j
     -- Of what nothing is known, no row begins to name it: it may just have been forgotten.
     where p_memory is not null
        or exists (select from memdb._find_summary((p_subject).tenant_id, (p_subject).namespace_id, (p_subject).session_id, (p_subject).user_id))
    on conflict on constraint summary_subject_key
    do update set memory_id = coalesce(excluded.memory_id, s.memory_id), due_at = excluded.due_at, reason = excluded.reason,
                  attempts = 0, summarised_at = excluded.summarised_at;
$$;
comment on function memdb._close_summary (memdb.summary, bigint, timestamptz) is 'Note that a summary was written, and whether it is due again already.';

-- record_summary: write the running summary of a session or of a user, as a new version of its memory.
--
-- p_text null writes the texts of summary_material, line by line; otherwise p_text is their wording
-- by p_model, and p_sources the rows it was made of, [{memory_id, version}]. The memory rests on all
-- of them. Returns the memory, the version it is at, and outcome: created, versioned, confirmed (the
-- same words for other reasons), unchanged, or empty: nothing is left to sum up, and nothing was
-- written. Raises MD001 to MD003, MD102, MD103, MD106, MD301, MD302. Cost: the memories of the
-- subject; a new version takes the truth lock of the tenant.
create or replace function memdb.record_summary (
  p_tenant    integer,
  p_namespace text,
  p_session   text  default null,
  p_user      text  default null,
  p_text      text  default null,
  p_sources   jsonb default null,
  p_model     text  default null
)
  returns table (memory_id bigint, version integer, outcome text)
  language plpgsql volatile security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_subject memdb.summary;
  v_text    text  := p_text;
  v_sources jsonb := p_sources;
  v_done    record;
begin
  perform memdb._authorize(p_tenant, true);
  v_subject := memdb._summary_subject(p_tenant, p_namespace, p_session, p_user);
  perform memdb._writable(p_tenant, p_namespace, null);
  if p_text is null then
    select string_agg(m.text, E'\n' order by m.place), jsonb_agg(jsonb_build_object('memory_id', m.memory_id, 'version', m.version) order by m.place)
      into v_text, v_sources
      from memdb._summary_material(p_tenant, v_subject.namespace_id, v_subject.session_id, p_user,
             (memdb._policy(p_tenant, 'summary_tokens', v_subject.namespace_id))::integer)
           with ordinality m (memory_id, version, type, text, occurred_at, tokens, place);
  end if;
  if v_text is null then
    perform memdb._close_summary(v_subject, null, memdb.current_time());
    return query select null::bigint, null::integer, 'empty';
    return;
  end if;
  perform memdb._check_items(v_sources, array['memory_id', 'version'], array['memory_id', 'version']);
  select r.* into v_done
    from memdb.record_memories(p_tenant, memdb._summary_item(v_subject, p_namespace, v_text, v_sources, p_model)) r;
  perform memdb._close_summary(v_subject, v_done.memory_id, memdb.current_time());
  return query select v_done.memory_id, v_done.version, v_done.outcome;
end $$;
comment on function memdb.record_summary (integer, text, text, text, text, jsonb, text) is 'Write the running summary of a session or of a user, as a new version of its memory.';

-- _summary_item: a summary as the batch of one that record_memories takes.
--
-- It is as trusted as the best it rests on now. So where the trusted reasons of its last version are
-- gone the memory's trust is lowered here, before record_memories would refuse to put something
-- less trusted in its place: that rule is for other people's words, not for what is derived anew.
create or replace function memdb._summary_item (
  p_subject   memdb.summary,
  p_namespace text,
  p_text      text,
  p_sources   jsonb,
  p_model     text
)
  returns jsonb
  language plpgsql volatile
as $$
declare
  v_key  text := memdb._summary_key((p_subject).session_id, (p_subject).user_id);
  v_now  timestamptz := memdb.current_time();
  v_rest record;
begin
  select max(m.trust) as trust, max(m.occurred_at) as occurred_at, max(m.importance) as importance,
         round(avg(m.confidence)::numeric, 3) as confidence
    into v_rest
    from jsonb_to_recordset(p_sources) s (memory_id bigint)
    join memdb.memory m on m.tenant_id = (p_subject).tenant_id and m.memory_id = s.memory_id;
  -- With less trust it fades earlier: at once is a lower bound, the job works out when.
  update memdb.memory m set trust = v_rest.trust, fades_at = least(m.fades_at, v_now)
   where m.tenant_id = (p_subject).tenant_id and m.namespace_id = (p_subject).namespace_id and m.external_id = v_key
     and m.trust > v_rest.trust;
  return jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
    'text', p_text, 'type', 'summary', 'namespace', p_namespace, 'external_id', v_key, 'method', 'summary', 'model', p_model,
    'user', coalesce((p_subject).user_id, (select s.user_id from memdb.session s
              where s.tenant_id = (p_subject).tenant_id and s.session_id = (p_subject).session_id)),
    'metadata', jsonb_build_object('sums_up', jsonb_path_query_array(p_sources, '$[*].memory_id')),
    'occurred_at', v_rest.occurred_at, 'importance', v_rest.importance, 'confidence', v_rest.confidence, 'sources', p_sources)));
end $$;
comment on function memdb._summary_item (memdb.summary, text, text, jsonb, text) is 'A summary as the batch of one that record_memories takes.';
