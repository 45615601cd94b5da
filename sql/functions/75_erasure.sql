-- Forgetting, first half: what a request means, all of it.
--
--   75 erasure   which events and memories a request names, and what rests on nothing else
--   75 late      what others record while that list is made
--   75 survivor  what has other support: it stays, and loses what was forgotten
--   76 erase     hiding and deleting, batch by batch
--   76 forget    the functions people call: dry run, receipt, legal holds, proof
--
-- There is one list, erasure_item. From the moment it is committed nobody reads what is on it (04_shown,
-- row security, _is_recallable), though not a row of that was touched yet. Lines of the list:
--   event            goes
--   memory           goes; with `stays`: is to lose reasons or versions, and is hidden until it has
--   version          goes, or with `stays` has support of its own; wave 0 was named, others rest on what was
--   session, entity  go if nothing of them is left

-- _erasure_hash: an id or a name as a receipt keeps it: SHA-256 with the receipt's salt, first 16 bytes.
create or replace function memdb._erasure_hash (p_salt bytea, p_subject text, p_value text)
  returns bytea
  language sql immutable parallel safe
begin atomic
  select substring(sha256(p_salt || convert_to(p_subject || E'\x1f' || p_value, 'UTF8')) for 16);
end;
comment on function memdb._erasure_hash (bytea, text, text) is 'An id or a name as a receipt keeps it: SHA-256 with the receipt''s salt, first 16 bytes.';

-- _ids_of: the numbers in one array of a request; null where it does not name any.
create or replace function memdb._ids_of (p_target jsonb, p_key text)
  returns bigint[]
  language sql immutable
begin atomic
  select case when p_target ? p_key then array(select e.value::bigint from jsonb_array_elements_text(p_target -> p_key) e) end;
end;
comment on function memdb._ids_of (jsonb, text) is 'The numbers in one array of a request; null where it does not name any.';

-- _is_meant: whether a row lies within what a request names by user, agent, session, namespace and time.
--
-- p_own are the sessions the user speaks in alone: what nobody signed there is part of it. Plain, so
-- that the planner inlines it.
create or replace function memdb._is_meant (
  p_user text, p_own bigint[], p_agent text, p_sessions bigint[], p_namespaces bigint[], p_from timestamptz, p_to timestamptz,
  p_row_namespace integer, p_row_session bigint, p_row_user text, p_row_agent text, p_row_at timestamptz
)
  returns boolean
  language sql immutable parallel safe
begin atomic
  select (p_namespaces is null or p_row_namespace = any (p_namespaces))
     and (p_sessions is null or coalesce(p_row_session = any (p_sessions), false))
     and (p_user is null or coalesce(p_row_user = p_user, false)
          or (p_row_user is null and coalesce(p_row_session = any (p_own), false)))
     and (p_agent is null or coalesce(p_row_agent = p_agent, false))
     and (p_from is null or p_row_at >= p_from)
     and (p_to is null or p_row_at < p_to);
end;
comment on function memdb._is_meant (text, bigint[], text, bigint[], bigint[], timestamptz, timestamptz, integer, bigint, text, text, timestamptz) is 'Whether a row lies within what a request names by user, agent, session, namespace and time.';

-- _list_named: put on the list what a request names itself: events, and memories with all their versions.
--
-- Types name memories and kinds events; ids name one or the other. An entity names the memories
-- that mention it and the events they quote, for its name stands in those. A correction of an event
-- belongs to it.
create or replace function memdb._list_named (p_tenant integer, p_receipt bigint, p_target jsonb)
  returns void
  language plpgsql volatile
as $$
declare
  v_user       text := p_target ->> 'user';
  v_own        bigint[] := memdb._ids_of(p_target, 'own_sessions');
  v_agent      text := p_target ->> 'agent';
  v_sessions   bigint[] := memdb._ids_of(p_target, 'sessions');
  v_namespaces bigint[] := memdb._ids_of(p_target, 'namespaces');
  v_from       timestamptz := to_timestamp((p_target ->> 'from')::numeric);
  v_to         timestamptz := to_timestamp((p_target ->> 'to')::numeric);
  v_entities   bigint[] := memdb._ids_of(p_target, 'entities');
  v_events     bigint[] := memdb._ids_of(p_target, 'event_ids');
  v_memories   bigint[] := memdb._ids_of(p_target, 'memory_ids');
  v_found      bigint;
begin
  if not p_target ?| array['kinds', 'event_ids'] or p_target ? 'memory_ids' then
    insert into memdb.erasure_item (tenant_id, subject, subject_id, version, receipt_id)
      select p_tenant, 'version', m.memory_id, v.version, p_receipt
        from memdb.memory m
        join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id
       where m.tenant_id = p_tenant and m.erasure_id is null
         and memdb._is_meant(v_user, v_own, v_agent, v_sessions, v_namespaces, v_from, v_to,
               m.namespace_id, m.session_id, m.user_id, m.agent_id, m.occurred_at)
         and (p_target -> 'types' is null or p_target -> 'types' ? m.type)
         and (v_memories is null or m.memory_id = any (v_memories))
         and (v_entities is null or exists (
                select from memdb.mention n
                 where n.tenant_id = p_tenant and n.memory_id = m.memory_id and n.entity_id = any (v_entities)))
      on conflict do nothing;
  end if;
  if not p_target ?| array['types', 'memory_ids', 'entities'] or p_target ? 'event_ids' then
    insert into memdb.erasure_item (tenant_id, subject, subject_id, receipt_id)
      select p_tenant, 'event', e.event_id, p_receipt
        from memdb.event e
       where e.tenant_id = p_tenant
         and memdb._is_meant(v_user, v_own, v_agent, v_sessions, v_namespaces, v_from, v_to,
               e.namespace_id, e.session_id, e.user_id, e.agent_id, e.occurred_at)
         and (p_target -> 'kinds' is null or p_target -> 'kinds' ? e.kind)
         and (v_events is null or e.event_id = any (v_events))
      on conflict do nothing;
  elsif p_target ? 'entities' then
    insert into memdb.erasure_item (tenant_id, subject, subject_id, receipt_id)
      select distinct p_tenant, 'event', p.event_id, p_receipt
        from memdb.erasure_item i
        join memdb.premise p on p.tenant_id = p_tenant and p.conclusion_id = i.subject_id and p.event_id is not null
        join memdb.justification j on j.tenant_id = p_tenant and j.justification_id = p.justification_id and j.memory_id = i.subject_id
       where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version'
      on conflict do nothing;
  end if;
  loop
    insert into memdb.erasure_item (tenant_id, subject, subject_id, receipt_id)
      select p_tenant, 'event', c.event_id, p_receipt
        from memdb.erasure_item i
        join memdb.event c on c.tenant_id = p_tenant and c.parent_event_id = i.subject_id and c.kind = 'correction'
       where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'event'
      on conflict do nothing;
    get diagnostics v_found = row_count;
    exit when v_found = 0;
  end loop;
end $$;
comment on function memdb._list_named (integer, bigint, jsonb) is 'Put on the list what a request names itself: events, and memories with all their versions.';

-- _list_quoted: put on the list the events that only memories named by the request quote.
--
-- Where memories were named, their words stand in those events too, and would become memories again.
-- Not the words of another user.
create or replace function memdb._list_quoted (p_tenant integer, p_receipt bigint, p_target jsonb)
  returns void
  language plpgsql volatile
as $$
declare
  v_agent      text := p_target ->> 'agent';
  v_sessions   bigint[] := memdb._ids_of(p_target, 'sessions');
  v_namespaces bigint[] := memdb._ids_of(p_target, 'namespaces');
  v_from       timestamptz := to_timestamp((p_target ->> 'from')::numeric);
  v_to         timestamptz := to_timestamp((p_target ->> 'to')::numeric);
begin
  insert into memdb.erasure_item (tenant_id, subject, subject_id, receipt_id)
    select distinct p_tenant, 'event', e.event_id, p_receipt
      from memdb.erasure_item i
      join memdb.justification j on j.tenant_id = p_tenant and j.memory_id = i.subject_id and j.version = i.version
      join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id
      join memdb.event e on e.tenant_id = p_tenant and e.event_id = p.event_id
      join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = i.subject_id
     where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and i.wave = 0
       and (e.user_id is null or e.user_id = m.user_id)
       and memdb._is_meant(null, null, v_agent, v_sessions, v_namespaces, v_from, v_to,
           e.namespace_id, e.session_id, e.user_id, e.agent_id, e.occurred_at)
       and not exists (
         select from memdb.premise o
           join memdb.justification k on k.tenant_id = p_tenant and k.justification_id = o.justification_id
          where o.tenant_id = p_tenant and o.event_id = e.event_id
            and not exists (select from memdb.erasure_item d
                             where d.tenant_id = p_tenant and d.subject = 'version' and d.subject_id = k.memory_id
                               and d.version = k.version))
    on conflict do nothing;
end $$;
comment on function memdb._list_quoted (integer, bigint, jsonb) is 'Put on the list the events that only memories named by the request quote.';

-- _list_derived: put on the list every version that some reason ties to what is on it, wave by wave.
--
-- Too many, for the time being: what has another reason is taken off again by _spare_supported.
create or replace function memdb._list_derived (p_tenant integer, p_receipt bigint)
  returns void
  language plpgsql volatile
as $$
declare
  v_wave  integer := 1;
  v_found bigint;
begin
  insert into memdb.erasure_item (tenant_id, subject, subject_id, version, receipt_id, wave)
    select distinct p_tenant, 'version', j.memory_id, j.version, p_receipt, 1
      from memdb.erasure_item i
      join memdb.premise p on p.tenant_id = p_tenant and p.event_id = i.subject_id
      join memdb.justification j on j.tenant_id = p_tenant and j.justification_id = p.justification_id
     where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'event'
    on conflict do nothing;
  loop
    insert into memdb.erasure_item (tenant_id, subject, subject_id, version, receipt_id, wave)
      select distinct p_tenant, 'version', j.memory_id, j.version, p_receipt, v_wave + 1
        from memdb.erasure_item i
        join memdb.premise p on p.tenant_id = p_tenant and p.memory_id = i.subject_id and p.memory_version = i.version
        join memdb.justification j on j.tenant_id = p_tenant and j.justification_id = p.justification_id
       where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version'
         -- The first time round also what rests on the memories that were named.
         and (i.wave = v_wave or (v_wave = 1 and i.wave = 0))
      on conflict do nothing;
    get diagnostics v_found = row_count;
    exit when v_found = 0;
    v_wave := v_wave + 1;
  end loop;
end $$;
comment on function memdb._list_derived (integer, bigint) is 'Put on the list every version that some reason ties to what is on it, wave by wave.';

-- _is_broken: whether a reason has a premise that is to be forgotten.
create or replace function memdb._is_broken (p_tenant integer, p_justification bigint)
  returns boolean
  language sql stable
begin atomic
  select exists (
    select from memdb.premise p
      join memdb.erasure_item i
        on i.tenant_id = p_tenant and not i.stays
       and i.subject = case when p.event_id is null then 'version' else 'event' end
       and i.subject_id = coalesce(p.event_id, p.memory_id) and i.version = coalesce(p.memory_version, 0)
     where p.tenant_id = p_tenant and p.justification_id = p_justification);
end;
comment on function memdb._is_broken (integer, bigint) is 'Whether a reason has a premise that is to be forgotten.';

-- _is_firm: whether a version has a reason none of whose premises is to be forgotten.
create or replace function memdb._is_firm (p_tenant integer, p_memory bigint, p_version integer)
  returns boolean
  language sql stable
as $$
  select exists (
    select from memdb.justification j
     where j.tenant_id = p_tenant and j.memory_id = p_memory and j.version = p_version
       and not memdb._is_broken(p_tenant, j.justification_id));
$$;
comment on function memdb._is_firm (integer, bigint, integer) is 'Whether a version has a reason none of whose premises is to be forgotten.';

-- _spare_above: mark the derived versions that have support through some that were spared, and what these support.
create or replace function memdb._spare_above (p_tenant integer, p_receipt bigint, p_ids bigint[], p_versions integer[])
  returns void
  language plpgsql volatile
as $$
declare
  v_ids      bigint[] := p_ids;
  v_versions integer[] := p_versions;
begin
  while v_ids is not null loop
    with next as materialized (
      select distinct j.memory_id, j.version
        from unnest(v_ids, v_versions) w (memory_id, version)
        join memdb.premise p on p.tenant_id = p_tenant and p.memory_id = w.memory_id and p.memory_version = w.version
        join memdb.justification j on j.tenant_id = p_tenant and j.justification_id = p.justification_id
    ), spared as (
      update memdb.erasure_item i set stays = true
        from next n
       where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and i.subject_id = n.memory_id
         and i.version = n.version and i.wave > 0 and not i.stays and memdb._is_firm(p_tenant, i.subject_id, i.version)
      returning i.subject_id, i.version)
    select array_agg(s.subject_id), array_agg(s.version) into v_ids, v_versions from spared s;
  end loop;
end $$;
comment on function memdb._spare_above (integer, bigint, bigint[], integer[]) is 'Mark the derived versions that have support through some that were spared, and what these support.';

-- _spare_supported: mark the derived versions that have a reason outside of what is to be forgotten.
--
-- From the ground up: a version is spared for a reason that rests on nothing listed, or on what was
-- spared before it. So support stays well-founded; a ring that has but itself is forgotten.
create or replace function memdb._spare_supported (p_tenant integer, p_receipt bigint)
  returns void
  language plpgsql volatile
as $$
declare
  v_ids      bigint[];
  v_versions integer[];
begin
  with spared as (
    update memdb.erasure_item i set stays = true
     where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and i.wave > 0
       and memdb._is_firm(p_tenant, i.subject_id, i.version)
    returning i.subject_id, i.version)
  select array_agg(s.subject_id), array_agg(s.version) into v_ids, v_versions from spared s;
  perform memdb._spare_above(p_tenant, p_receipt, v_ids, v_versions);
end $$;
comment on function memdb._spare_supported (integer, bigint) is 'Mark the derived versions that have a reason outside of what is to be forgotten.';

-- _list_whole: put on the list each memory with a version that goes, or stays and loses a reason.
--
-- In the place of its versions where none of them is left, and as what stays otherwise. Versions that
-- turned out to lose nothing are taken off.
create or replace function memdb._list_whole (p_tenant integer, p_receipt bigint)
  returns void
  language plpgsql volatile
as $$
begin
  delete from memdb.erasure_item i
   where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and i.stays
     and not exists (
       select from memdb.justification j
        where j.tenant_id = p_tenant and j.memory_id = i.subject_id and j.version = i.version
          and memdb._is_broken(p_tenant, j.justification_id));
  insert into memdb.erasure_item (tenant_id, subject, subject_id, receipt_id, stays)
    select p_tenant, 'memory', i.subject_id, p_receipt, count(*) filter (where not i.stays)
             < (select count(*) from memdb.memory_version v where v.tenant_id = p_tenant and v.memory_id = i.subject_id)
      from memdb.erasure_item i
     where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version'
     group by i.subject_id
    on conflict do nothing;
end $$;
comment on function memdb._list_whole (integer, bigint) is 'Put on the list each memory with a version that goes, or stays and loses a reason.';

-- _list_rest: put on the list the sessions and entities that may have nothing left.
create or replace function memdb._list_rest (p_tenant integer, p_receipt bigint, p_target jsonb)
  returns void
  language plpgsql volatile
as $$
begin
  insert into memdb.erasure_item (tenant_id, subject, subject_id, receipt_id)
    select distinct p_tenant, 'session', e.session_id, p_receipt
      from memdb.erasure_item i
      join memdb.event e on e.tenant_id = p_tenant and e.event_id = i.subject_id and e.session_id is not null
     where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'event'
    union
    select p_tenant, 'session', s.session_id, p_receipt
      from memdb.session s
     where s.tenant_id = p_tenant and not p_target ?| array['types', 'kinds', 'from', 'to', 'entities', 'event_ids', 'memory_ids']
       and memdb._is_meant(p_target ->> 'user', null, null, memdb._ids_of(p_target, 'sessions'), memdb._ids_of(p_target, 'namespaces'),
             null, null, s.namespace_id, s.session_id, s.user_id, s.agent_id, s.started_at)
       and (p_target -> 'agent' is null or s.agent_id = p_target ->> 'agent')
    on conflict do nothing;
  insert into memdb.erasure_item (tenant_id, subject, subject_id, receipt_id)
    select distinct p_tenant, 'entity', n.entity_id, p_receipt
      from memdb.erasure_item i
      join memdb.mention n on n.tenant_id = p_tenant and n.memory_id = i.subject_id
     where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and not i.stays
    union
    select p_tenant, 'entity', e.value::bigint, p_receipt from jsonb_array_elements_text(p_target -> 'entities') e
    on conflict do nothing;
end $$;
comment on function memdb._list_rest (integer, bigint, jsonb) is 'Put on the list the sessions and entities that may have nothing left.';

-- _list_erasure: put on the list all that a request to forget means.
--
-- The list is analyzed as it grows; without statistics each step would read it whole for every row.
create or replace function memdb._list_erasure (p_tenant integer, p_receipt bigint, p_target jsonb)
  returns void
  language plpgsql volatile
as $$
begin
  perform memdb._list_named(p_tenant, p_receipt, p_target);
  analyze memdb.erasure_item;
  perform memdb._list_derived(p_tenant, p_receipt);
  analyze memdb.erasure_item;
  perform memdb._spare_supported(p_tenant, p_receipt);
  perform memdb._list_quoted(p_tenant, p_receipt, p_target);
  perform memdb._list_whole(p_tenant, p_receipt);
  perform memdb._list_rest(p_tenant, p_receipt, p_target);
  analyze memdb.erasure_item;
end $$;
comment on function memdb._list_erasure (integer, bigint, jsonb) is 'Put on the list all that a request to forget means.';
