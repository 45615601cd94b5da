-- Forgetting, the functions people call: what would be forgotten, forgetting it, and the proof.

-- _refuse_held: stop where a legal hold covers something an erasure lists.
--
-- Raises MD207 with the number of events and memories held.
create or replace function memdb._refuse_held (p_tenant integer, p_receipt bigint, p_target jsonb)
  returns void
  language plpgsql volatile
as $$
declare
  v_held bigint;
begin
  if not exists (select from memdb.legal_hold h where h.tenant_id = p_tenant and h.lifted_at is null) then
    return;
  end if;
  select count(*) into v_held
    from memdb.erasure_item i
    left join memdb.event e on i.subject = 'event' and e.tenant_id = p_tenant and e.event_id = i.subject_id
    left join memdb.memory m on i.subject in ('memory', 'version') and m.tenant_id = p_tenant and m.memory_id = i.subject_id
   where i.tenant_id = p_tenant and i.receipt_id = p_receipt and not i.stays
     and memdb._is_held(p_tenant, coalesce(e.namespace_id, m.namespace_id), coalesce(e.user_id, m.user_id));
  if v_held > 0 or p_target -> 'everything' = 'true' then
    perform memdb._raise('MD207', 'a legal hold forbids to forget this', jsonb_build_object('held', v_held),
      'Lift the hold first: memdb.set_legal_hold(tenant, ..., p_is_on => false); or name less.');
  end if;
end $$;
comment on function memdb._refuse_held (integer, bigint, jsonb) is 'Stop where a legal hold covers something an erasure lists.';

-- _is_held: whether a legal hold covers what is of a user in a namespace.
create or replace function memdb._is_held (p_tenant integer, p_namespace integer, p_user text)
  returns boolean
  language sql stable
as $$
  select exists (
    select from memdb.legal_hold h
      left join memdb.namespace o on o.tenant_id = p_tenant and o.namespace_id = h.namespace_id
      left join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = p_namespace
     where h.tenant_id = p_tenant and h.lifted_at is null and p_namespace is not null
       and (h.user_id is null or h.user_id = p_user)
       and (h.namespace_id is null or n.path = o.path or starts_with(n.path, o.path || '/')));
$$;
comment on function memdb._is_held (integer, integer, text) is 'Whether a legal hold covers what is of a user in a namespace.';

-- set_legal_hold: forbid to forget what is of a user, of a namespace and those below it, or of the whole tenant; or allow it again.
--
-- p_user and p_namespace both null is the tenant; both given is that user there. p_is_on false lifts the
-- hold that was set with the same two. p_reason (up to 1,000 characters) is kept. Also stops erasures
-- that are under way, once they have hidden all that goes. Returns whether anything changed. Operators only.
-- Raises MD001, MD102, MD301, MD303.
create or replace function memdb.set_legal_hold (
  p_tenant    integer,
  p_reason    text,
  p_user      text    default null,
  p_namespace text    default null,
  p_is_on     boolean default true
)
  returns boolean
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespace integer;
  v_rows      bigint;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  if coalesce(p_reason, '') = '' or char_length(p_reason) > 1000 or p_is_on is null then
    perform memdb._raise('MD001', 'a hold has a reason of 1 to 1,000 characters', jsonb_build_object('field', 'reason'));
  end if;
  if p_namespace is not null then
    v_namespace := (memdb._readable(p_tenant, array[p_namespace], null))[1];
  end if;
  if p_is_on then
    insert into memdb.legal_hold (tenant_id, namespace_id, user_id, reason, actor, set_at)
      values (p_tenant, v_namespace, p_user, p_reason, memdb._caller(), memdb.current_time())
      on conflict do nothing;
  else
    update memdb.legal_hold h set lifted_at = memdb.current_time()
     where h.tenant_id = p_tenant and h.lifted_at is null
       and h.namespace_id is not distinct from v_namespace and h.user_id is not distinct from p_user;
  end if;
  get diagnostics v_rows = row_count;
  return v_rows > 0;
end $$;
comment on function memdb.set_legal_hold (integer, text, text, text, boolean) is 'Forbid to forget what is of a user, of a namespace and those below it, or of the whole tenant; or allow it again.';

-- _sessions_of: the sessions in which a user speaks, or is spoken for, alone.
create or replace function memdb._sessions_of (p_tenant integer, p_user text)
  returns jsonb
  language sql stable
as $$
  select coalesce(jsonb_agg(s.session_id), '[]')
    from memdb.session s
   where s.tenant_id = p_tenant and s.user_id = p_user
     and not exists (select from memdb.event e
                      where e.tenant_id = p_tenant and e.session_id = s.session_id and e.user_id <> p_user);
$$;
comment on function memdb._sessions_of (integer, text) is 'The sessions in which a user speaks, or is spoken for, alone.';

-- _checked_target: what a request to forget names, with ids in place of names; checked.
--
-- Raises MD001 where nothing is named or a type, kind, entity or span of time is none, MD102, MD106.
create or replace function memdb._checked_target (
  p_tenant integer, p_user text, p_session text, p_agent text, p_namespace text, p_types text[], p_kinds text[], p_from timestamptz,
  p_to timestamptz, p_entity bigint, p_event_ids bigint[], p_memory_ids bigint[], p_everything boolean
)
  returns jsonb
  language plpgsql stable
as $$
declare
  v_target jsonb;
begin
  if num_nonnulls(p_user, p_session, p_agent, p_namespace, p_types, p_kinds, p_from, p_to, p_entity, p_event_ids, p_memory_ids) = 0
     and p_everything is not true
     or num_nonnulls(p_user, p_session, p_agent, p_namespace, p_types, p_kinds, p_from, p_to, p_entity, p_event_ids, p_memory_ids) > 0
     and p_everything then
    perform memdb._raise('MD001', 'say what to forget, or that it is everything', jsonb_build_object('field', 'everything'),
      'Name a user, session, agent, namespace, types, kinds, a time, an entity or ids; all that are named must fit.');
  end if;
  if p_from >= p_to or not memdb._is_moment(p_from) or not memdb._is_moment(p_to) then
    perform memdb._raise('MD001', 'a span of time begins before it ends', jsonb_build_object('field', 'from'));
  end if;
  v_target := jsonb_strip_nulls(jsonb_build_object(
    'user', p_user, 'agent', p_agent, 'types', p_types, 'kinds', p_kinds, 'event_ids', p_event_ids, 'memory_ids', p_memory_ids,
    'from', extract(epoch from p_from), 'to', extract(epoch from p_to), 'everything', nullif(p_everything, false),
    'own_sessions', case when p_user is not null then memdb._sessions_of(p_tenant, p_user) end));
  if p_namespace is not null then
    perform memdb._readable(p_tenant, array[p_namespace], null);
    v_target := v_target || jsonb_build_object('namespaces', (
      select jsonb_agg(n.namespace_id) from memdb.namespace n
       where n.tenant_id = p_tenant and (n.path = p_namespace or starts_with(n.path, p_namespace || '/'))));
  end if;
  if p_session is not null then
    v_target := v_target || jsonb_build_object('sessions', (
      select coalesce(jsonb_agg(s.session_id), '[]') from memdb.session s
       where s.tenant_id = p_tenant and s.external_id = p_session
         and (p_namespace is null or v_target -> 'namespaces' @> to_jsonb(s.namespace_id))));
    if v_target -> 'sessions' = '[]' then
      perform memdb._raise('MD106', 'no such session', jsonb_build_object('session', left(p_session, 200)), 'Check the namespace.');
    end if;
  end if;
  if p_entity is not null then
    v_target := v_target || jsonb_build_object('entities', (
      select coalesce(jsonb_agg(e.entity_id), '[]') from memdb.entity e
       where e.tenant_id = p_tenant and p_entity in (e.entity_id, e.merged_into)));
    if v_target -> 'entities' = '[]' then
      perform memdb._raise('MD001', 'no such entity', jsonb_build_object('entity', p_entity), 'View memdb.entities lists them.');
    end if;
  end if;
  return v_target;
end $$;
comment on function memdb._checked_target (integer, text, text, text, text, text[], text[], timestamptz, timestamptz, bigint, bigint[], bigint[], boolean) is 'What a request to forget names, with ids in place of names; checked.';

-- _count_erasure: the rows an erasure is about to delete, by table, from its list.
--
-- Sessions and entities count where nothing else is in them.
create or replace function memdb._count_erasure (p_tenant integer, p_receipt bigint)
  returns jsonb
  language plpgsql stable
as $$
declare
  c_version constant text := 'i.subject = ''version'' and d.memory_id = i.subject_id and d.version = i.version';
  c_memory  constant text := 'i.subject = ''memory'' and d.memory_id = i.subject_id';
  c_event   constant text := 'i.subject = ''event'' and d.event_id = i.subject_id';
  v_counts  jsonb := '{}';
  v_table   record;
  v_rows    bigint;
begin
  for v_table in
    select w.name, string_agg(format(
      'select d.ctid from memdb.erasure_item i join memdb.%I d on d.tenant_id = $1 and %s'
      ' where i.tenant_id = $1 and i.receipt_id = $2 and not i.stays', w.name, w.condition), ' union ') as found
      from (values
        ('event', c_event), ('extraction', c_event), ('memory', c_memory), ('mention', c_memory), ('memory_version', c_version),
        ('justification', c_version), ('embedding', c_version), ('embedding_cold', c_version), ('embedding_queue', c_version),
        ('assertion', c_version), ('rederivation', c_version), ('belief', 'd.subject = i.subject and d.subject_id = i.subject_id'),
        ('edge', 'i.subject = ''memory'' and d.from_memory_id = i.subject_id'),
        ('edge', 'i.subject = ''memory'' and d.to_memory_id = i.subject_id'), ('edge', c_event),
        ('review_item', c_version), ('review_item', c_event),
        ('review_item', 'i.subject = ''version'' and d.other_memory_id = i.subject_id and d.other_version = i.version'),
        ('assessment', c_version), ('assessment', c_event)) w (name, condition)
     group by w.name
  loop
    execute format('select count(*) from (%s) f', v_table.found) using p_tenant, p_receipt into v_rows;
    v_counts := memdb._add_count(v_counts, v_table.name, v_rows);
  end loop;
  select count(*) into v_rows
    from memdb.erasure_item i
    join memdb.justification j on j.tenant_id = p_tenant and j.memory_id = i.subject_id and j.version = i.version
    join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id
   where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and not i.stays;
  v_counts := memdb._add_count(v_counts, 'premise', v_rows);
  -- And the reasons that versions lose which stay.
  return memdb._add_counts(v_counts, (
    select jsonb_build_object('justification', count(distinct j.justification_id), 'premise', count(p.ordinal))
      from memdb.erasure_item i
      join memdb.justification j on j.tenant_id = p_tenant and j.memory_id = i.subject_id and j.version = i.version
      join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id
     where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and i.stays
       and memdb._is_broken(p_tenant, j.justification_id)));
end $$;
comment on function memdb._count_erasure (integer, bigint) is 'The rows an erasure is about to delete, by table, from its list.';

-- _count_kept: what an erasure found and leaves: versions with other support, events of others that were quoted.
create or replace function memdb._count_kept (p_tenant integer, p_receipt bigint)
  returns jsonb
  language sql stable
as $$
  select jsonb_build_object('memory_version', (
           select count(*) from memdb.erasure_item i
            where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and i.stays),
         'event', (
           select count(distinct p.event_id)
             from memdb.erasure_item i
             join memdb.justification j on j.tenant_id = p_tenant and j.memory_id = i.subject_id and j.version = i.version
             join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id and p.event_id is not null
            where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and not i.stays
              and not exists (select from memdb.erasure_item e
                               where e.tenant_id = p_tenant and e.subject = 'event' and e.subject_id = p.event_id)));
$$;
comment on function memdb._count_kept (integer, bigint) is 'What an erasure found and leaves: versions with other support, events of others that were quoted.';

-- forget: forget for good what belongs to a user, session, agent, namespace, type, time, entity, or what ids name.
--
-- What is named must fit all that is given: p_user; p_session, your id of it; p_agent; p_namespace, with
-- those below it; p_types of memories; p_kinds of events; p_from <= when it happened < p_to; p_entity, an id,
-- with all that mentions it; p_event_ids; p_memory_ids; or p_everything, the whole tenant. With it goes
-- what rests on it and on nothing else: memories, summaries, profiles, vectors, words in statistics, calls of
-- models, the recall log, spellings of names. What has other support stays and loses that reason.
-- p_dry_run only counts. Otherwise, when this commits, nothing of it comes back from any read; rows
-- are deleted by continue_erasures, batch by batch. What stays but loses a reason is hidden with it until the first
-- of these batches have parted the two, of small erasures not at all. Keys of forgotten events stay forgotten. p_reason is kept: put no personal data in it.
-- Returns one row: receipt_id (null in a dry run), state (dry_run, erasing), how many things are to be
-- deleted, rows by table, and what is kept by table. Operators only. Raises MD001, MD102, MD106, MD207
-- (legal hold), MD301, MD303; 40001 while an earlier erasure of the tenant is still hiding. Cost: reads the
-- events and memories of the tenant once, then grows with what is found, a third of a millisecond a
-- memory; meanwhile others record, and then wait for one batch, however much is found.
create or replace function memdb.forget (
  p_tenant     integer,
  p_user       text        default null,
  p_session    text        default null,
  p_agent      text        default null,
  p_namespace  text        default null,
  p_types      text[]      default null,
  p_kinds      text[]      default null,
  p_from       timestamptz default null,
  p_to         timestamptz default null,
  p_entity     bigint      default null,
  p_event_ids  bigint[]    default null,
  p_memory_ids bigint[]    default null,
  p_everything boolean     default false,
  p_reason     text        default null,
  p_dry_run    boolean     default true
)
  returns table (receipt_id bigint, state text, remaining bigint, counts jsonb, kept jsonb)
  language plpgsql volatile security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  return query select f.* from memdb._forget(p_tenant, memdb._checked_target(p_tenant, p_user, p_session, p_agent, p_namespace,
    p_types, p_kinds, p_from, p_to, p_entity, p_event_ids, p_memory_ids, p_everything), p_reason, coalesce(p_dry_run, true)) f;
end $$;
comment on function memdb.forget (integer, text, text, text, text, text[], text[], timestamptz, timestamptz, bigint, bigint[], bigint[], boolean, text, boolean) is 'Forget for good what belongs to a user, session, agent, namespace, type, time, entity, or what ids name.';

-- _await_hiding: let one erasure of a tenant at a time make its list, and not before the one before it has parted what stays from what goes.
--
-- Raises 40001 while that is not so: what stays of one may be what another names.
create or replace function memdb._await_hiding (p_tenant integer)
  returns void
  language plpgsql volatile
as $$
begin
  -- 1835363430 ("memf").
  perform pg_advisory_xact_lock(1835363430, p_tenant);
  if exists (select from memdb.erasure_receipt r
              where r.tenant_id = p_tenant and r.state = 'erasing' and r.phase in ('part', 'shed', 'hide')) then
    perform memdb._raise('40001', 'another erasure of this tenant is still hiding what goes', null,
      'Call memdb.continue_erasures, or wait for the job continue_forgetting; then try again.');
  end if;
end $$;
comment on function memdb._await_hiding (integer) is 'Let one erasure of a tenant at a time make its list, and not before the one before it has parted what stays from what goes.';

-- _list_all: list, count and check what a request means, and what others record meanwhile until little of it is new.
--
-- reason, event and at: what _last_recorded told at the last look.
create or replace function memdb._list_all (
  p_tenant  integer,
  p_receipt bigint,
  p_target  jsonb,
  p_dry_run boolean,
  out reason bigint,
  out event  bigint,
  out at     timestamptz,
  out counts jsonb,
  out kept   jsonb
)
  language plpgsql volatile
as $$
declare
  v_next    record;
  v_is_late boolean;
begin
  if not p_dry_run then
    select l.* into reason, event, at from memdb._last_recorded(p_tenant) l;
  end if;
  perform memdb._list_erasure(p_tenant, p_receipt, p_target);
  counts := memdb._count_erasure(p_tenant, p_receipt);
  kept := memdb._count_kept(p_tenant, p_receipt);
  perform memdb._refuse_held(p_tenant, p_receipt, p_target);
  for v_try in 1 .. case when p_dry_run then 0 else 5 end loop
    v_next := memdb._last_recorded(p_tenant);
    v_is_late := memdb._extend_list(p_tenant, p_receipt, p_target, reason, event, at);
    reason := v_next.reason; event := v_next.event; at := v_next.at;
    exit when not v_is_late;
  end loop;
end $$;
comment on function memdb._list_all (integer, bigint, jsonb, boolean) is 'List, count and check what a request means, and what others record meanwhile until little of it is new.';

-- _forget: list what a request means, which hides it; a dry run is undone.
--
-- The list is made while others record. Then they wait, for a look at what they recorded last
-- and for one batch of parting and hiding (p_batch): a small erasure is past that when this returns.
create or replace function memdb._forget (p_tenant integer, p_target jsonb, p_reason text, p_dry_run boolean, p_batch integer default 200)
  returns table (receipt_id bigint, state text, remaining bigint, counts jsonb, kept jsonb)
  language plpgsql volatile rows 1
as $$
declare
  v_receipt memdb.erasure_receipt;
  v_listed  record;
  v_now     timestamptz := memdb.current_time();
begin
  perform memdb._await_hiding(p_tenant);
  insert into memdb.erasure_receipt as r (tenant_id, target, reason, actor, salt, requested_at)
    values (p_tenant, p_target, left(p_reason, 1000), memdb._caller(),
            sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), v_now)
    returning r.* into v_receipt;
  receipt_id := v_receipt.receipt_id;
  v_listed := memdb._list_all(p_tenant, receipt_id, p_target, p_dry_run);
  counts := v_listed.counts;
  kept := v_listed.kept;
  if p_dry_run then
    remaining := memdb._count_listed(p_tenant, receipt_id);
    raise exception using errcode = 'MDDRY', message = 'dry run';
  end if;
  v_now := memdb._begin_correction(p_tenant);
  perform pg_advisory_xact_lock(1835363435, p_tenant);
  perform memdb._extend_list(p_tenant, receipt_id, p_target, v_listed.reason, v_listed.event, v_listed.at);
  v_receipt.counts := memdb._forget_answers(p_tenant, p_target);
  if p_batch > 0 then
    v_receipt := memdb._advance_erasure(v_receipt, p_batch, v_now, 'recall');
    perform memdb._queue_fallen(p_tenant, v_now);
  end if;
  update memdb.erasure_receipt r
     set counts = v_receipt.counts, phase = v_receipt.phase, place = v_receipt.place, kept = _forget.kept
   where r.tenant_id = p_tenant and r.receipt_id = _forget.receipt_id;
  state := 'erasing';
  remaining := memdb._count_listed(p_tenant, receipt_id);
  return next;
exception when sqlstate 'MDDRY' then
  receipt_id := null;
  state := 'dry_run';
  return next;
end $$;
comment on function memdb._forget (integer, jsonb, text, boolean, integer) is 'List what a request means, which hides it; a dry run is undone.';
