-- Events: every observed step, stored first and never changed.
--
-- append_events is the only way in. It takes a batch, in one transaction with whatever the
-- caller does beside it, gives each event its place in its session, and queues what is to be
-- turned into memories. Everything after it may fail; the event stays.

-- _event_items: a checked batch of event objects as typed rows, with the defaults filled in.
--
-- Raises MD001 for a wrong type or a value out of range, MD003 for a text above 1 MiB or a
-- snapshot above 4 MiB, MD006 for a time or zone that is none; the detail names index and field.
-- Where the client gave a time but no key, one is made from time, content and who took part: the
-- same step told twice is one event, two people's "yes" at the same moment are two. `rows 1000` keeps large batches out of nested loops.
create or replace function memdb._event_items (
  p_events jsonb,
  p_now    timestamptz
)
  returns table (
    ordinal integer, kind text, text text, input jsonb, output jsonb, namespace text, session text,
    user_id text, agent_id text, speaker text, language text, parent_event_id bigint, parent integer,
    occurred_at timestamptz, time_zone text, trust real, key text, content_hash bytea, metadata jsonb, to_extract boolean)
  language plpgsql volatile rows 1000
as $$
declare
  v_item jsonb;
begin
  ordinal := -1;
  for v_item in select i.item from jsonb_array_elements(p_events) i (item) loop
    ordinal         := ordinal + 1;
    kind            := v_item ->> 'kind';
    text            := coalesce(v_item ->> 'text', '');
    input           := nullif(v_item -> 'input', 'null');
    output          := nullif(v_item -> 'output', 'null');
    namespace       := coalesce(v_item ->> 'namespace', 'default');
    session         := v_item ->> 'session';
    user_id         := v_item ->> 'user';
    agent_id        := v_item ->> 'agent';
    speaker         := v_item ->> 'speaker';
    language        := lower(v_item ->> 'language');
    parent_event_id := v_item ->> 'parent_event_id';
    parent          := v_item ->> 'parent';
    occurred_at     := v_item ->> 'occurred_at';
    time_zone       := coalesce(v_item ->> 'time_zone', 'UTC');
    trust           := v_item ->> 'trust';
    metadata        := coalesce(nullif(v_item -> 'metadata', 'null'), '{}');
    to_extract      := coalesce(v_item ->> 'extract', 'true');
    key             := v_item ->> 'key';
    content_hash    := memdb._content_hash(concat_ws(E'\x1f', kind, session, speaker, text, input::text, output::text));
    perform memdb._check_event(ordinal, kind, text, input, output, user_id, agent_id, speaker, key, trust, parent, metadata);
    perform memdb._check_time(ordinal, v_item ->> 'occurred_at', time_zone);
    if char_length(language) > 35 then
      perform memdb._raise('MD001', 'a language is named by a code', jsonb_build_object('index', ordinal, 'field', 'language'),
        'Give it as ISO 639-1, such as en or zh.');
    end if;
    if key is null and occurred_at is not null then
      -- concat, not concat_ws: nobody in one field and somebody in the next is not the other way round.
      key := 'at:' || extract(epoch from occurred_at) || ':' || encode(content_hash, 'hex') || ':'
        || md5(concat(user_id, E'\x1f', agent_id, E'\x1f', session, E'\x1f', speaker));
    end if;
    occurred_at := coalesce(occurred_at, p_now);
    return next;
  end loop;
exception
  when invalid_text_representation or numeric_value_out_of_range then
    perform memdb._raise('MD001', sqlerrm, jsonb_build_object('index', ordinal), 'A field has the wrong type.');
  when invalid_datetime_format or datetime_field_overflow or invalid_time_zone_displacement_value then
    perform memdb._raise('MD006', sqlerrm, jsonb_build_object('index', ordinal, 'field', 'occurred_at'),
      'Give times as ISO 8601 with an offset.');
end $$;
comment on function memdb._event_items (jsonb, timestamptz) is 'A checked batch of event objects as typed rows, with the defaults filled in.';

-- _check_event: refuse an event whose fields are missing, out of range or too large.
create or replace function memdb._check_event (
  p_index integer, p_kind text, p_text text, p_input jsonb, p_output jsonb, p_user text, p_agent text,
  p_speaker text, p_key text, p_trust real, p_parent integer, p_metadata jsonb
)
  returns void
  language plpgsql volatile
as $$
declare
  v_field text := case
    when p_kind not in ('user_message', 'assistant_message', 'system_message', 'tool_call', 'tool_result', 'thought',
                        'answer', 'observation', 'recall', 'reflection', 'correction', 'document') then 'kind'
    when p_text = '' and p_input is null and p_output is null then 'text'
    when not (p_trust >= 0 and p_trust <= 1) then 'trust'
    when p_user = '' or char_length(p_user) > 200 then 'user'
    when p_agent = '' or char_length(p_agent) > 200 then 'agent'
    when char_length(p_speaker) > 200 then 'speaker'
    when p_key = '' or char_length(p_key) > 512 then 'key'
    when p_parent < 0 or p_parent >= p_index then 'parent'
    when jsonb_typeof(p_metadata) <> 'object' then 'metadata' end;
begin
  if v_field is not null then
    perform memdb._raise('MD001', format('field "%s" is empty or out of range', v_field),
      jsonb_build_object('index', p_index, 'field', v_field),
      'kind is a known kind; text, input or output is given; trust is 0 to 1; user, agent and speaker have at most '
      '200 characters, a key 512; parent is the index of an earlier item; metadata is an object.');
  end if;
  v_field := case
    when octet_length(p_text) > 1048576 then 'text'
    when octet_length(p_input::text) > 4194304 then 'input'
    when octet_length(p_output::text) > 4194304 then 'output'
    when octet_length(p_metadata::text) > 1048576 then 'metadata' end;
  if v_field is not null then
    perform memdb._raise('MD003', 'an event holds at most 1 MiB of text, 4 MiB in each snapshot and 1 MiB of metadata',
      jsonb_build_object('index', p_index, 'field', v_field),
      'Split the document into several events, or store it elsewhere and keep its address.');
  end if;
end $$;
comment on function memdb._check_event (integer, text, text, jsonb, jsonb, text, text, text, text, real, integer, jsonb) is 'Refuse an event whose fields are missing, out of range or too large.';

-- _check_time: refuse a time that is no date or out of range, and a zone PostgreSQL does not know.
--
-- "now" and "yesterday" are times to PostgreSQL, but not to whoever reads the event later.
create or replace function memdb._check_time (p_index integer, p_at text, p_zone text)
  returns void
  language plpgsql volatile
as $$
begin
  if p_at !~ '^\s*[0-9]' then
    perform memdb._raise('MD006', 'a time must be a date', jsonb_build_object('index', p_index, 'field', 'occurred_at'),
      'Give times as ISO 8601 with an offset; leave the field out where the time is not known.');
  end if;
  if not memdb._is_moment(p_at::timestamptz) then
    perform memdb._raise('MD006', 'a time lies between 4500 BC and the year 200,000',
      jsonb_build_object('index', p_index, 'field', 'occurred_at'));
  end if;
  if p_zone <> 'UTC' then
    perform timezone(p_zone, now());
  end if;
exception when invalid_parameter_value then
  perform memdb._raise('MD006', 'no such time zone', jsonb_build_object('index', p_index, 'field', 'time_zone'),
    'Use an IANA name such as Asia/Shanghai.');
end $$;
comment on function memdb._check_time (integer, text, text) is 'Refuse a time that is no date or out of range, and a zone PostgreSQL does not know.';

-- _open_sessions: make the sessions a batch names, and lock them.
--
-- Rows are locked in id order, so two batches over the same sessions cannot deadlock; the
-- locks last until commit, which keeps sequences gap-free and in the order of the commits.
create or replace function memdb._open_sessions (
  p_tenant integer,
  p_events jsonb
)
  returns void
  language plpgsql volatile
as $$
begin
  insert into memdb.session as s (tenant_id, namespace_id, external_id, user_id, agent_id)
    select p_tenant, n.namespace_id, w.session, min(w."user"), min(w.agent)
      from jsonb_to_recordset(p_events) w (namespace text, session text, "user" text, agent text)
      join memdb.namespace n on n.tenant_id = p_tenant and n.path = coalesce(w.namespace, 'default')
     where w.session is not null
     group by n.namespace_id, w.session
     order by n.namespace_id, w.session
    on conflict on constraint session_external_key do nothing;
  perform from memdb.session s
   where s.tenant_id = p_tenant
     and (s.namespace_id, s.external_id) in (
       select n.namespace_id, w.session
         from jsonb_to_recordset(p_events) w (namespace text, session text)
         join memdb.namespace n on n.tenant_id = p_tenant and n.path = coalesce(w.namespace, 'default')
        where w.session is not null)
   order by s.session_id
     for no key update;
exception when check_violation then
  perform memdb._raise('MD001', 'a session id has 1 to 512 characters', (
    select jsonb_build_object('index', min(i.place) - 1, 'field', 'session')
      from jsonb_array_elements(p_events) with ordinality i (item, place)
     where char_length(i.item ->> 'session') not between 1 and 512));
end $$;
comment on function memdb._open_sessions (integer, jsonb) is 'Make the sessions a batch names, and lock them.';

-- _is_readable_event: whether an event exists for the caller.
create or replace function memdb._is_readable_event (p_tenant integer, p_event bigint)
  returns boolean
  language plpgsql stable
as $$
declare
  v_readable integer[] := memdb._readable(p_tenant, null, null);
begin
  return exists (
    select from memdb.shown_event e
     where e.tenant_id = p_tenant and e.event_id = p_event and (v_readable is null or e.namespace_id = any (v_readable))
       and not memdb._is_hidden(p_tenant, 'event', p_event));
end $$;
comment on function memdb._is_readable_event (integer, bigint) is 'Whether an event exists for the caller.';

-- _key_hash: an idempotency key of a namespace as its tombstone keeps it.
create or replace function memdb._key_hash (p_namespace integer, p_key text)
  returns bytea
  language sql immutable parallel safe
begin atomic
  select sha256(convert_to(p_namespace || E'\x1f' || p_key, 'UTF8'));
end;
comment on function memdb._key_hash (integer, text) is 'An idempotency key of a namespace as its tombstone keeps it.';

-- _insert_events: insert the new ones of a checked batch, number them, queue them; the work of append_events.
--
-- One statement: the sessions are locked, so next_sequence read here is still right when it is
-- raised. Ids are drawn before the insert because an item may name an earlier one as parent;
-- they are looked up in one array, since the planner cannot know how many items are new and
-- would loop. Raises MD202; 40001 where a writer of another session took the same key at the
-- same moment: leaving that event out would leave a gap in the sequence.
create or replace function memdb._insert_events (
  p_tenant integer,
  p_events jsonb,
  p_now    timestamptz
)
  returns table (ordinal integer, event_id bigint, session_id bigint, sequence integer, is_new boolean)
  language sql volatile rows 100
begin atomic
  with boundary as materialized (
    select n.namespace_id, memdb._policy(p_tenant, 'event_kinds', n.namespace_id) as kept,
           memdb._policy(p_tenant, 'memory_kinds', n.namespace_id) as remembered,
           memdb._reliability(p_tenant, n.namespace_id) as reliability
      from memdb.namespace n
     where n.tenant_id = p_tenant and n.path in (
       select coalesce(r.namespace, 'default') from jsonb_to_recordset(p_events) r (namespace text))
  ), item as materialized (
    select i.*, n.namespace_id, b.reliability, b.remembered ? i.kind as is_remembered, s.session_id, s.next_sequence, e.event_id as known_id, e.sequence as known_sequence,
           coalesce(e.content_hash, first_value(i.content_hash) over same) as known_hash,
           first_value(i.ordinal) over same as first_ordinal,
           e.event_id is null and row_number() over same = 1 and (b.kept = 'null' or b.kept ? i.kind)
             and (i.key is null or not exists (select from memdb.event_tombstone t
                    where t.tenant_id = p_tenant and t.key_hash = memdb._key_hash(n.namespace_id, i.key))) as is_fresh
      from memdb._event_items(p_events, p_now) i
      join memdb.namespace n on n.tenant_id = p_tenant and n.path = i.namespace
      join boundary b on b.namespace_id = n.namespace_id
      left join memdb.session s
        on s.tenant_id = p_tenant and s.namespace_id = n.namespace_id and s.external_id = i.session
      left join memdb.event e
        on e.tenant_id = p_tenant and e.namespace_id = n.namespace_id and e.idempotency_key = i.key
    window same as (partition by n.namespace_id, i.key is null, coalesce(i.key, i.ordinal::text) order by i.ordinal)
  ), numbered as materialized (
    -- Ids are drawn in the order of the batch, whatever the windows were sorted by.
    select o.*, case when o.is_fresh then nextval('memdb.event_event_id_seq') else o.known_id end as id
      from (select i.*, case when i.is_fresh and i.session_id is not null then
                     (i.next_sequence - 1 + count(*) filter (where i.is_fresh) over (partition by i.session_id order by i.ordinal))::integer
                     else i.known_sequence end as place
              from item i
             order by i.ordinal
            offset 0) o
  ), ids as materialized (
    select array_agg(coalesce(n.id, 0) order by n.ordinal) as id, array_agg(coalesce(n.place, 0) order by n.ordinal) as place,
           array_agg(n.first_ordinal + 1 order by n.ordinal) as first
      from numbered n
  ), inserted as (
    insert into memdb.event as e (
      tenant_id, event_id, namespace_id, session_id, sequence, kind, text, input, output, user_id, agent_id, speaker,
      language, parent_event_id, occurred_at, time_zone, recorded_at, trust, idempotency_key, content_hash, metadata)
    overriding system value
    select p_tenant, n.id, n.namespace_id, n.session_id, n.place, n.kind, n.text, n.input, n.output, n.user_id,
           n.agent_id, n.speaker, n.language,
           coalesce(n.parent_event_id, nullif(ids.id[ids.first[n.parent + 1]], 0)),
           n.occurred_at, n.time_zone, p_now,
           coalesce(n.trust, coalesce((n.reliability -> 'reliability_of_kinds' ->> n.kind)::real, 1)
                             * coalesce((n.reliability -> 'reliability_of_agents' ->> n.agent_id)::real, 1)),
           n.key, n.content_hash, n.metadata
      from numbered n, ids
     where n.is_fresh
     -- In the order of the keys: two batches with the same keys wait for each other, never in a circle.
     order by n.namespace_id, n.key, n.ordinal
    on conflict do nothing
    returning e.event_id
  ), queued as (
    insert into memdb.extraction (tenant_id, event_id, namespace_id, session_id, sequence, next_at)
    select p_tenant, n.id, n.namespace_id, n.session_id, n.place, p_now from numbered n
     where n.is_fresh and n.to_extract and n.is_remembered
  ), counted as (
    update memdb.session s set next_sequence = s.next_sequence + c.added, last_event_at = p_now
      from (select n.session_id, count(*)::integer as added from numbered n
             where n.is_fresh and n.session_id is not null group by 1) c
     where s.tenant_id = p_tenant and s.session_id = c.session_id
  )
  select n.ordinal, nullif(ids.id[n.first_ordinal + 1], 0), n.session_id, nullif(ids.place[n.first_ordinal + 1], 0), n.is_fresh
    from numbered n, ids
   where case when n.is_fresh and n.parent_event_id is not null
                   and not memdb._is_readable_event(p_tenant, n.parent_event_id) then
                memdb._raise('MD104', 'no such parent event',
                  jsonb_build_object('index', n.ordinal, 'field', 'parent_event_id', 'event_id', n.parent_event_id),
                  'A parent is stored before its children, in the same tenant.')
              when n.known_hash <> n.content_hash then
                memdb._raise('MD202', 'this key belongs to an event with other content',
                  jsonb_build_object('index', n.ordinal, 'field', 'key'), 'Use a new key for a new step.')
              when (select count(*) from inserted) < (select count(*) from numbered f where f.is_fresh) then
                memdb._raise('40001', 'another writer stored the same key at the same moment', null, 'Try again.')
              else true end
   order by n.ordinal;
end;
comment on function memdb._insert_events (integer, jsonb, timestamptz) is 'Insert the new ones of a checked batch, number them, queue them; the work of append_events.';

-- append_events: store a batch of observed steps, all or nothing.
--
-- p_events: array of up to 10,000 objects. kind is required, and one of text, input, output;
-- the other fields are namespace (default `default`), session (your id; made on first use),
-- user, agent, speaker, language (ISO 639-1), parent_event_id or parent (0-based index of an
-- earlier item of the batch), occurred_at (default now), time_zone (IANA, default UTC), trust
-- (0 to 1, default that of its kind and agent: policies reliability_of_kinds and reliability_of_agents), key (idempotency), metadata (object), extract (false: nothing is to be
-- extracted, because a memory is recorded with it).
-- Returns one row per item, in order: its 0-based ordinal, the event, its session and place in
-- it, and whether it is new. The same key with the same content is the same event, in one batch
-- or in two; without a key, an item with a time is identified by time, content, user, agent,
-- session and speaker, and an item without either is always new. A kind that policy event_kinds leaves out, and a key that was
-- forgotten, is not stored and comes back without an event; one that memory_kinds leaves out is stored but not queued.
-- Raises MD001, MD003, MD006 (bad item), MD104 (unknown parent), MD202 (key used for other
-- content), MD301, MD302; 40001 where another session takes the same key at the same moment.
-- Cost: about 0.1 ms an item, plus the wait for other writers of the same session.
create or replace function memdb.append_events (
  p_tenant integer,
  p_events jsonb
)
  returns table (ordinal integer, event_id bigint, session_id bigint, sequence integer, is_new boolean)
  language plpgsql volatile security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
  -- Every look-up is by key; a table not analyzed yet looks small enough to read whole.
  set enable_seqscan = off
as $$
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_items(p_events,
    array['kind', 'text', 'input', 'output', 'namespace', 'session', 'user', 'agent', 'speaker', 'language',
          'parent_event_id', 'parent', 'occurred_at', 'time_zone', 'trust', 'key', 'metadata', 'extract'],
    array['kind']);
  perform memdb._check_plain(p_events, array['input', 'output', 'metadata']);
  perform memdb._writable(p_tenant, w.namespace, w.agent)
     from (select distinct coalesce(r.namespace, 'default') as namespace, r.agent
             from jsonb_to_recordset(p_events) r (namespace text, agent text)
            order by 1, 2) w;
  perform memdb._open_sessions(p_tenant, p_events);
  return query select i.* from memdb._insert_events(p_tenant, p_events, memdb.current_time()) i;
  if memdb._policy(p_tenant, 'notify') = 'true' then
    perform pg_notify('memdb_events', p_tenant::text);
  end if;
exception when foreign_key_violation then
  -- Forgotten between the look and the insert.
  perform memdb._raise('MD104', 'no such parent event', jsonb_build_object('field', 'parent_event_id'),
    'A parent is stored before its children, in the same tenant.');
end $$;
comment on function memdb.append_events (integer, jsonb) is 'Store a batch of observed steps, all or nothing.';

-- known_events: which of some keys belong to stored events.
--
-- Spares a client that sends a file again what it would prepare for nothing. Returns one row per
-- known key: the key and its event. Namespaces the caller may not read hold nothing. Raises MD301.
-- Cost: one index look-up a key.
create or replace function memdb.known_events (
  p_tenant    integer,
  p_namespace text,
  p_keys      text[]
)
  returns table (key text, event_id bigint)
  language plpgsql stable security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_scope integer[];
begin
  perform memdb._authorize(p_tenant, false);
  v_scope := memdb._readable(p_tenant, null, null);
  return query
    select e.idempotency_key, e.event_id
      from memdb.namespace n
      join memdb.event e
        on e.tenant_id = p_tenant and e.namespace_id = n.namespace_id and e.idempotency_key = any (p_keys)
     where n.tenant_id = p_tenant and n.path = p_namespace and (v_scope is null or n.namespace_id = any (v_scope));
end $$;
comment on function memdb.known_events (integer, text, text[]) is 'Which of some keys belong to stored events.';
