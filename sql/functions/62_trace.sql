-- Paths: the reasons above a memory, what follows below it, and a session played again in order.
--
-- Candidates by definer, content through security, as in 36_explain: the walk returns ids, those
-- of sources the caller may not read left out, and the public functions join the words.

-- _version_at: the version a memory was at, at a time ('infinity': is at now).
create or replace function memdb._version_at (p_tenant integer, p_memory bigint, p_at timestamptz)
  returns integer
  language sql stable
begin atomic
  select max(v.version) from memdb.memory_version v
   where v.tenant_id = p_tenant and v.memory_id = p_memory and v.recorded_at <= p_at;
end;
comment on function memdb._version_at (integer, bigint, timestamptz) is 'The version a memory was at, at a time (''infinity'': is at now).';

-- _steps_up: what some memory versions rest on: premises, and memories they name as premise or cause.
--
-- An edge reads: from_memory has to_memory as its premise, its cause, and so on.
create or replace function memdb._steps_up (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_versions   integer[],
  p_relations  text[],
  p_at         timestamptz
)
  returns table (
    from_id bigint, event_id bigint, memory_id bigint, version integer, relation text, supports boolean,
    justification_id bigint, ordinal integer, span_from integer, span_to integer)
  language sql stable rows 100
begin atomic
  select w.memory_id, p.event_id, p.memory_id, p.memory_version, 'derived_from',
         case when p_at = 'infinity' then p.supports else memdb._held(p_tenant, j.justification_id, p_at) end,
         j.justification_id, p.ordinal::integer, p.span_from, p.span_to
    from unnest(p_memory_ids, p_versions) w (memory_id, version)
    join memdb.justification j
      on j.tenant_id = p_tenant and j.memory_id = w.memory_id and j.version = w.version and j.recorded_at <= p_at
    join memdb.premise p
      on p.tenant_id = p_tenant and p.justification_id = j.justification_id and coalesce(p.added_at <= p_at, true)
   where 'derived_from' = any (p_relations)
  union all
  select w.memory_id, null, e.to_memory_id, memdb._version_at(p_tenant, e.to_memory_id, p_at), e.relation, null, null, null, null, null
    from unnest(p_memory_ids) w (memory_id)
    join memdb.edge e
      on e.tenant_id = p_tenant and e.from_memory_id = w.memory_id and e.relation = any (p_relations)
     and e.recorded_at <= p_at and (e.retired_at is null or e.retired_at > p_at);
end;
comment on function memdb._steps_up (integer, bigint[], integer[], text[], timestamptz) is 'What some memory versions rest on: premises, and memories they name as premise or cause.';

-- _steps_down: what rests on some memories, in the version it has at a time, and what names them as premise or cause.
create or replace function memdb._steps_down (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_relations  text[],
  p_at         timestamptz
)
  returns table (from_id bigint, memory_id bigint, version integer, relation text, supports boolean)
  language sql stable rows 100
begin atomic
  select p.memory_id, j.memory_id, j.version, 'derived_from',
         bool_or(case when p_at = 'infinity' then p.supports else memdb._held(p_tenant, j.justification_id, p_at) end)
    from unnest(p_memory_ids) w (memory_id)
    join memdb.premise p
      on p.tenant_id = p_tenant and p.memory_id = w.memory_id and coalesce(p.added_at <= p_at, true)
    join memdb.justification j
      on j.tenant_id = p_tenant and j.justification_id = p.justification_id and j.recorded_at <= p_at
     and j.version = memdb._version_at(p_tenant, j.memory_id, p_at)
   where 'derived_from' = any (p_relations)
   group by p.memory_id, j.memory_id, j.version
  union all
  select e.to_memory_id, e.from_memory_id, memdb._version_at(p_tenant, e.from_memory_id, p_at), e.relation, null
    from unnest(p_memory_ids) w (memory_id)
    join memdb.edge e
      on e.tenant_id = p_tenant and e.to_memory_id = w.memory_id and e.relation = any (p_relations)
     and e.recorded_at <= p_at and (e.retired_at is null or e.retired_at > p_at);
end;
comment on function memdb._steps_down (integer, bigint[], text[], timestamptz) is 'What rests on some memories, in the version it has at a time, and what names them as premise or cause.';

-- _trace_rows: the walk of trace_memory, as ids, one direction.
--
-- Breadth first, each memory and event once, at its smallest depth, so that shared parts and circles end.
-- A hidden source comes without its id and is not walked through. Stops after p_limit rows.
create or replace function memdb._trace_rows (
  p_tenant    integer,
  p_memory    bigint,
  p_version   integer,
  p_is_up     boolean,
  p_max_depth integer,
  p_relations text[],
  p_limit     integer,
  p_belief_at timestamptz
)
  returns table (
    depth integer, from_id bigint, event_id bigint, memory_id bigint, version integer, relation text, supports boolean,
    is_hidden boolean, span_from integer, span_to integer)
  language plpgsql stable security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
  v_at         timestamptz := coalesce(p_belief_at, 'infinity');
  v_wave       bigint[]    := array[p_memory];
  v_versions   integer[]   := array[p_version];
  v_met        bigint[]    := array[p_memory];
  v_events     bigint[]    := '{}';
  v_left       integer     := p_limit;
  v_rows       jsonb;
begin
  perform memdb._authorize(p_tenant, false);
  v_namespaces := memdb._readable(p_tenant, null, null);
  -- Also called by whoever may call trace_memory: a memory that is hidden has no ways.
  if not exists (select from memdb.shown_memory m
                  where m.tenant_id = p_tenant and m.memory_id = p_memory
                    and (v_namespaces is null or m.namespace_id = any (v_namespaces))) then
    return;
  end if;
  for v_depth in 1 .. p_max_depth loop
    exit when v_wave = '{}' or v_left <= 0;
    with step as (
      select u.* from memdb._steps_up(p_tenant, v_wave, v_versions, p_relations, v_at) u where p_is_up
      union all
      select d.from_id, null, d.memory_id, d.version, d.relation, d.supports, null, null, null, null
        from memdb._steps_down(p_tenant, v_wave, p_relations, v_at) d where not p_is_up
    ), seen as (
      select s.*, not coalesce(coalesce(e.namespace_id, m.namespace_id) = any (v_namespaces), v_namespaces is null) as is_hidden
        from step s
        left join memdb.shown_event e on e.tenant_id = p_tenant and e.event_id = s.event_id
        left join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = s.memory_id
       where case when s.event_id is not null then s.event_id <> all (v_events)
                  else s.version is not null and s.memory_id <> all (v_met) end
    ), one as (
      select distinct on (s.event_id, s.memory_id, case when s.is_hidden then s.from_id end) s.*
        from seen s
       order by s.event_id, s.memory_id, case when s.is_hidden then s.from_id end, s.supports desc nulls last, s.justification_id, s.ordinal
    )
    select coalesce(jsonb_agg(to_jsonb(o) order by o.supports desc nulls last, o.justification_id, o.ordinal, o.memory_id), '[]')
      into v_rows from (select * from one limit v_left) o;
    return query
      select v_depth, r.from_id, case when not r.is_hidden then r.event_id end, case when not r.is_hidden then r.memory_id end,
             case when not r.is_hidden then r.version end, r.relation, r.supports, r.is_hidden,
             case when not r.is_hidden then r.span_from end, case when not r.is_hidden then r.span_to end
        from jsonb_to_recordset(v_rows) r (from_id bigint, event_id bigint, memory_id bigint, version integer, relation text,
                                           supports boolean, is_hidden boolean, span_from integer, span_to integer);
    v_left := v_left - jsonb_array_length(v_rows);
    select coalesce(array_agg(r.memory_id), '{}'), coalesce(array_agg(r.version), '{}')
      into v_wave, v_versions
      from jsonb_to_recordset(v_rows) r (memory_id bigint, version integer, is_hidden boolean)
     where r.memory_id is not null and not r.is_hidden;
    v_met := v_met || v_wave;
    v_events := v_events || array(
      select r.event_id from jsonb_to_recordset(v_rows) r (event_id bigint, is_hidden boolean)
       where r.event_id is not null and not r.is_hidden);
  end loop;
end $$;
comment on function memdb._trace_rows (integer, bigint, integer, boolean, integer, text[], integer, timestamptz) is 'The walk of trace_memory, as ids, one direction.';

-- trace_memory: the paths through a memory: up to what it rests on, down to what rests on it.
--
-- p_direction up, down or both; p_max_depth 1 to 100; at most p_limit rows (1 to 10,000) each way,
-- the nearest first. p_relations: derived_from (hard premises) and the soft edges premise, cause,
-- refines, opposes, parallel, next; default derived_from, premise and cause. p_kinds: only
-- memories of these types and events of these kinds are returned (the walk goes through all).
-- Row 0 is the memory itself. from_id is the memory a row was reached from; supports: what that
-- stands on now (or what stands on it). source is event, memory or hidden. p_as_of_belief and
-- p_as_of_world: the paths as they were known then, from the version that spoke of that day.
-- Runs as the caller. Raises MD001, MD103, MD301. Cost: the premises and edges of what is met.
create or replace function memdb.trace_memory (
  p_tenant       integer,
  p_memory       bigint,
  p_direction    text        default 'up',
  p_max_depth    integer     default 10,
  p_kinds        text[]      default null,
  p_relations    text[]      default '{derived_from,premise,cause}',
  p_limit        integer     default 1000,
  p_as_of_belief timestamptz default null,
  p_as_of_world  timestamptz default null
)
  returns table (
    depth integer, direction text, from_id bigint, relation text, supports boolean, source text, event_id bigint,
    memory_id bigint, version integer, kind_or_type text, status text, text text, quote text, speaker text, session text,
    occurred_at timestamptz)
  language plpgsql stable rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_at      timestamptz := coalesce(p_as_of_belief, 'infinity');
  v_version integer;
  v_field   text := case
    when p_direction in ('up', 'down', 'both') is not true then 'direction'
    when p_max_depth between 1 and 100 is not true then 'max_depth'
    when p_limit between 1 and 10000 is not true then 'limit'
    when p_relations <@ array['derived_from', 'premise', 'cause', 'refines', 'opposes', 'parallel', 'next'] is not true
      then 'relations' end;
begin
  perform memdb._authorize(p_tenant, false);
  if v_field is not null then
    perform memdb._raise('MD001', format('argument "%s" is out of range', v_field), jsonb_build_object('field', v_field),
      'direction is up, down or both; max_depth 1 to 100; limit 1 to 10,000; known relations.');
  end if;
  v_version := memdb._explained_version(p_tenant, p_memory, null, p_as_of_belief, p_as_of_world);
  return query
    with walk as (
      select 0 as depth, 'start' as direction, null::bigint as from_id, null::bigint as event_id, p_memory as memory_id,
             v_version as version, null::text as relation, null::boolean as supports, null::integer as span_from,
             null::integer as span_to, 0::bigint as place
      union all
      select r.depth, d.direction, r.from_id, r.event_id, r.memory_id, r.version, r.relation, r.supports, r.span_from, r.span_to, r.place
        from (values ('up'), ('down')) d (direction)
        cross join lateral memdb._trace_rows(p_tenant, p_memory, v_version, d.direction = 'up', p_max_depth, p_relations,
                                             p_limit, p_as_of_belief)
          with ordinality r (depth, from_id, event_id, memory_id, version, relation, supports, is_hidden, span_from, span_to, place)
       where p_direction in (d.direction, 'both'))
    select w.depth, w.direction, w.from_id, w.relation, w.supports,
           case when e.event_id is not null then 'event' when v.memory_id is not null then 'memory' else 'hidden' end,
           e.event_id, v.memory_id, v.version, coalesce(e.kind, v.replaced ->> 'type', m.type),
           case when e.event_id is not null then coalesce(b.status, 'active')
                when v.memory_id is not null then memdb._version_status(p_tenant, v.memory_id, v.version, v_at) end,
           coalesce(q.words, v.text),
           case when w.span_from is null then q.words else substring(e.text from w.span_from + 1 for w.span_to - w.span_from) end,
           e.speaker, s.external_id, coalesce(e.occurred_at, m.occurred_at)
      from walk w
      left join memdb.shown_event e on e.tenant_id = p_tenant and e.event_id = w.event_id
      left join memdb.belief b
        on b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = e.event_id and b.from_at <= v_at
       and (b.to_at is null or b.to_at > v_at)
      left join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = w.memory_id
      left join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = w.version
      left join memdb.session s on s.tenant_id = p_tenant and s.session_id = coalesce(e.session_id, m.session_id)
      cross join lateral (select coalesce(nullif(e.text, ''), e.output::text, e.input::text)) q (words)
     where p_kinds is null or coalesce(e.kind, v.replaced ->> 'type', m.type) = any (p_kinds)
     order by w.depth, w.direction desc, w.place;
end $$;
comment on function memdb.trace_memory (integer, bigint, text, integer, text[], text[], integer, timestamptz, timestamptz) is 'The paths through a memory: up to what it rests on, down to what rests on it.';

-- _made_of_events: the memories that rest on some events directly, in the version they are at, as ids.
create or replace function memdb._made_of_events (p_tenant integer, p_event_ids bigint[], p_belief_at timestamptz default null)
  returns table (event_id bigint, memory_id bigint, version integer)
  language plpgsql stable security definer rows 50
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
  v_at         timestamptz := coalesce(p_belief_at, 'infinity');
begin
  perform memdb._authorize(p_tenant, false);
  v_namespaces := memdb._readable(p_tenant, null, null);
  return query
    select distinct p.event_id, j.memory_id, j.version
      from memdb.premise p
      join memdb.justification j
        on j.tenant_id = p_tenant and j.justification_id = p.justification_id and j.recorded_at <= v_at
       and j.version = memdb._version_at(p_tenant, j.memory_id, v_at)
      join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = j.memory_id
      join memdb.shown_event e on e.tenant_id = p_tenant and e.event_id = p.event_id
     where p.tenant_id = p_tenant and p.event_id = any (p_event_ids) and coalesce(p.added_at <= v_at, true)
       and (v_namespaces is null or (m.namespace_id = any (v_namespaces) and e.namespace_id = any (v_namespaces)));
end $$;
comment on function memdb._made_of_events (integer, bigint[], timestamptz) is 'The memories that rest on some events directly, in the version they are at, as ids.';

-- _session_named: the id of a session the caller may read; MD106 where there is none.
create or replace function memdb._session_named (p_tenant integer, p_session text, p_namespace text)
  returns bigint
  language plpgsql stable
as $$
declare
  v_id bigint;
begin
  select s.session_id into v_id
    from memdb.session s
    join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = s.namespace_id and n.path = p_namespace
   where s.tenant_id = p_tenant and s.external_id = p_session;
  if not found then
    perform memdb._raise('MD106', 'no such session', jsonb_build_object('session', p_session, 'namespace', p_namespace),
      'A session appears with its first event; name the namespace it was written to.');
  end if;
  return v_id;
end $$;
comment on function memdb._session_named (integer, text, text) is 'The id of a session the caller may read; MD106 where there is none.';

-- replay_session: a session step by step: what was said, thought and done, in order, and what was remembered of it.
--
-- Events come by sequence, after p_after, at most p_limit (1 to 10,000). parent_event_id is the
-- step this one answers, depth its distance from a step without one in the same session. memories
-- is an array of {memory_id, version, type, status, text} that rest on the event. p_as_of_belief:
-- as it was known then. Runs as the caller. Raises MD001, MD106, MD301. Cost: the events of the
-- session are read once each by key.
create or replace function memdb.replay_session (
  p_tenant       integer,
  p_session      text,
  p_namespace    text        default 'default',
  p_after        integer     default 0,
  p_limit        integer     default 1000,
  p_as_of_belief timestamptz default null
)
  returns table (
    sequence integer, depth integer, event_id bigint, parent_event_id bigint, kind text, status text, text text, input jsonb,
    output jsonb, speaker text, user_id text, agent_id text, occurred_at timestamptz, memories jsonb)
  language plpgsql stable rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_at      timestamptz := coalesce(p_as_of_belief, 'infinity');
  v_session bigint;
begin
  perform memdb._authorize(p_tenant, false);
  if p_limit between 1 and 10000 is not true then
    perform memdb._raise('MD001', 'a page holds 1 to 10,000 events', jsonb_build_object('field', 'limit'));
  end if;
  v_session := memdb._session_named(p_tenant, p_session, p_namespace);
  return query
    with recursive page as materialized (
      select e.* from memdb.shown_event e
       where e.tenant_id = p_tenant and e.session_id = v_session and e.sequence > coalesce(p_after, 0) and e.recorded_at <= v_at
         and (not (select memdb._is_erasing()) or not memdb._is_hidden(p_tenant, 'event', e.event_id))
       order by e.sequence limit p_limit
    ), tree as (
      select e.event_id, 0 as depth
        from memdb.shown_event e
        left join memdb.shown_event a
          on a.tenant_id = p_tenant and a.event_id = e.parent_event_id and a.session_id = v_session
       where e.tenant_id = p_tenant and e.session_id = v_session and a.event_id is null
      union all
      select e.event_id, t.depth + 1
        from tree t
        join memdb.shown_event e
          on e.tenant_id = p_tenant and e.parent_event_id = t.event_id and e.session_id = v_session
    ), made as (
      select m.event_id,
             jsonb_agg(jsonb_build_object('memory_id', v.memory_id, 'version', v.version, 'text', v.text,
               'type', coalesce(v.replaced ->> 'type', w.type),
               'status', memdb._version_status(p_tenant, v.memory_id, v.version, v_at)) order by v.memory_id) as memories
        from memdb._made_of_events(p_tenant, array(select p.event_id from page p), p_as_of_belief) m
        join memdb.shown_memory w on w.tenant_id = p_tenant and w.memory_id = m.memory_id
        join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
       group by m.event_id)
    select p.sequence, t.depth, p.event_id, p.parent_event_id, p.kind,
           coalesce(b.status, 'active'), p.text, p.input, p.output, p.speaker, p.user_id, p.agent_id, p.occurred_at,
           coalesce(m.memories, '[]')
      from page p
      join tree t on t.event_id = p.event_id
      left join made m on m.event_id = p.event_id
      left join memdb.belief b
        on b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = p.event_id and b.from_at <= v_at
       and (b.to_at is null or b.to_at > v_at)
     order by p.sequence;
end $$;
comment on function memdb.replay_session (integer, text, text, integer, integer, timestamptz) is 'A session step by step: what was said, thought and done, in order, and what was remembered of it.';
