-- Forgetting, the steps: one bounded batch of an erasure, phase by phase.

-- _is_meant_recall: whether a row of the recall log was asked by whom, or only where, a request names.
create or replace function memdb._is_meant_recall (p_recall memdb.recall, p_target jsonb)
  returns boolean
  language sql stable
as $$
  select not p_target ?| array['types', 'kinds', 'entities', 'event_ids', 'memory_ids']
     and (p_target -> 'user' is null or coalesce((p_recall).user_id = p_target ->> 'user', false))
     and (p_target -> 'agent' is null or coalesce((p_recall).agent_id = p_target ->> 'agent', false))
     and (p_target -> 'namespaces' is null
          or coalesce(p_target -> 'namespaces' @> to_jsonb((p_recall).namespace_ids), false))
     and (p_target -> 'sessions' is null or exists (
            select from jsonb_array_elements_text(p_target -> 'sessions') w
              join memdb.session s on s.tenant_id = (p_recall).tenant_id and s.session_id = w.value::bigint
             where s.external_id = (p_recall).arguments ->> 'session'))
     and (p_target -> 'from' is null or (p_recall).recorded_at >= to_timestamp((p_target ->> 'from')::numeric))
     and (p_target -> 'to' is null or (p_recall).recorded_at < to_timestamp((p_target ->> 'to')::numeric));
$$;
comment on function memdb._is_meant_recall (memdb.recall, jsonb) is 'Whether a row of the recall log was asked by whom, or only where, a request names.';

-- _erase_recalls: go on through the recall log: delete what the request names, take listed memories out of the rest.
--
-- Returns the last row looked at, null at the end of the log.
create or replace function memdb._erase_recalls (
  p_tenant  integer,
  p_receipt bigint,
  p_target  jsonb,
  p_after   bigint,
  p_limit   integer,
  out last   bigint,
  out counts jsonb
)
  language plpgsql volatile
as $$
declare
  v_named bigint[];
  v_told  bigint[];
  v_rows  bigint;
begin
  with page as (
    select r from memdb.recall r where r.tenant_id = p_tenant and r.recall_id > p_after order by r.recall_id limit p_limit
  ), judged as materialized (
    select (p.r).recall_id, memdb._is_meant_recall(p.r, p_target) as is_named,
           exists (select from unnest((p.r).memory_ids || coalesce((p.r).used_ids, '{}')) u (id)
                     join memdb.erasure_item i on i.tenant_id = p_tenant and i.subject = 'memory' and i.subject_id = u.id
                      and i.receipt_id = p_receipt) as tells
      from page p)
  select max(j.recall_id), array_agg(j.recall_id) filter (where j.is_named),
         array_agg(j.recall_id) filter (where not j.is_named and j.tells)
    into last, v_named, v_told
    from judged j;
  delete from memdb.recall r where r.tenant_id = p_tenant and r.recall_id = any (v_named);
  get diagnostics v_rows = row_count;
  counts := memdb._add_count('{}', 'recall', v_rows);
  update memdb.recall r
     set (memory_ids, versions, scores, legs) = (
           select coalesce(array_agg(u.id order by u.place), '{}'), coalesce(array_agg(u.version order by u.place), '{}'),
                  coalesce(array_agg(u.score order by u.place), '{}'), coalesce(jsonb_agg(r.legs -> (u.place::integer - 1) order by u.place), '[]')
             from unnest(r.memory_ids, r.versions, r.scores) with ordinality u (id, version, score, place)
            where not exists (select from memdb.erasure_item i
                               where i.tenant_id = p_tenant and i.subject = 'memory' and i.subject_id = u.id)),
         used_ids = array(select u.id from unnest(r.used_ids) u (id)
                           where not exists (select from memdb.erasure_item i
                                              where i.tenant_id = p_tenant and i.subject = 'memory' and i.subject_id = u.id))
   where r.tenant_id = p_tenant and r.recall_id = any (v_told);
end $$;
comment on function memdb._erase_recalls (integer, bigint, jsonb, bigint, integer) is 'Go on through the recall log: delete what the request names, take listed memories out of the rest.';

-- _tells_of: whether a JSON value names the user of a request, or an event or memory that is listed.
create or replace function memdb._tells_of (p_tenant integer, p_value jsonb, p_target jsonb)
  returns boolean
  language sql stable
as $$
  select coalesce(jsonb_path_exists(p_value, '$.** ? (@ == $user)', jsonb_build_object('user', p_target -> 'user')), false)
      or exists (select from jsonb_path_query(p_value, '$.**.memory_id ? (@.type() == "number")') w (id)
                   join memdb.erasure_item i on i.tenant_id = p_tenant and i.subject = 'memory' and i.subject_id = w.id::bigint)
      or exists (select from jsonb_path_query(p_value, '$.**.event_id ? (@.type() == "number")') w (id)
                   join memdb.erasure_item i on i.tenant_id = p_tenant and i.subject = 'event' and i.subject_id = w.id::bigint);
$$;
comment on function memdb._tells_of (integer, jsonb, jsonb) is 'Whether a JSON value names the user of a request, or an event or memory that is listed.';

-- _erase_audit: go on through the audit: empty what tells of the listed; answers kept for a day that do go at once.
--
-- Returns the last row looked at, null at the end.
create or replace function memdb._erase_audit (
  p_tenant integer,
  p_target jsonb,
  p_after  bigint,
  p_limit  integer,
  out last   bigint,
  out counts jsonb
)
  language plpgsql volatile
as $$
declare
  v_ids  bigint[];
  v_rows bigint := 0;
begin
  if p_after = 0 then
    delete from memdb.api_request r where r.tenant_id = p_tenant and memdb._tells_of(p_tenant, r.answer, p_target);
    get diagnostics v_rows = row_count;
  end if;
  counts := memdb._add_count('{}', 'api_request', v_rows);
  with page as (
    select a.audit_id, a.detail from memdb.audit a
     where a.tenant_id = p_tenant and a.audit_id > p_after order by a.audit_id limit p_limit)
  select max(p.audit_id), array_agg(p.audit_id) filter (where memdb._tells_of(p_tenant, p.detail, p_target)) into last, v_ids
    from page p;
  update memdb.audit a set detail = '{}' where a.tenant_id = p_tenant and a.audit_id = any (v_ids);
  get diagnostics v_rows = row_count;
  counts := memdb._add_count(counts, 'audit', v_rows);
end $$;
comment on function memdb._erase_audit (integer, jsonb, bigint, integer) is 'Go on through the audit: empty what tells of the listed; answers kept for a day that do go at once.';

-- _erase_tenant: delete what is left of a tenant all of which was to be forgotten, and give it another name.
--
-- Every table that has a tenant, whatever it is for, in an order that their references allow. The
-- id stays, for the receipt.
create or replace function memdb._erase_tenant (p_tenant integer, p_target jsonb)
  returns jsonb
  language plpgsql volatile
as $$
declare
  v_counts jsonb := '{}';
  v_tables text[];
  v_left   text[];
  v_table  text;
  v_rows   bigint;
begin
  if p_target -> 'everything' is distinct from 'true' then
    return v_counts;
  end if;
  v_tables := array(
    select c.relname from pg_catalog.pg_class c
      join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
     where c.relnamespace = 'memdb'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
       and c.relname not in ('tenant', 'event_tombstone', 'erasure_receipt', 'erasure_item', 'erasure_hash')
     order by c.relname);
  while v_tables <> '{}' loop
    v_left := '{}';
    foreach v_table in array v_tables loop
      begin
        execute format('delete from memdb.%I d where d.tenant_id = $1', v_table) using p_tenant;
        get diagnostics v_rows = row_count;
        v_counts := memdb._add_count(v_counts, v_table, v_rows);
      exception when foreign_key_violation then
        v_left := v_left || v_table;
      end;
    end loop;
    if cardinality(v_left) = cardinality(v_tables) then
      perform memdb._raise('40001', 'somebody writes to a tenant that is being deleted', null, 'Take its grants away, and try again.');
    end if;
    v_tables := v_left;
  end loop;
  update memdb.tenant t set name = 'forgotten-' || t.tenant_id where t.tenant_id = p_tenant;
  return v_counts;
end $$;
comment on function memdb._erase_tenant (integer, jsonb) is 'Delete what is left of a tenant all of which was to be forgotten, and give it another name.';

-- _hashed_target: what a request named, as its receipt keeps it: names and ids as salted hashes.
create or replace function memdb._hashed_target (p_target jsonb, p_salt bytea)
  returns jsonb
  language sql immutable
begin atomic
  select coalesce(jsonb_object_agg(t.key, case
           when t.key in ('types', 'kinds', 'from', 'to', 'everything') then t.value
           when jsonb_typeof(t.value) = 'array' then (
             select coalesce(jsonb_agg(encode(memdb._erasure_hash(p_salt, t.key, e.value), 'hex')), '[]')
               from jsonb_array_elements_text(t.value) e)
           else to_jsonb(encode(memdb._erasure_hash(p_salt, t.key, t.value #>> '{}'), 'hex')) end), '{}')
    from jsonb_each(p_target - 'own_sessions') t;
end;
comment on function memdb._hashed_target (jsonb, bytea) is 'What a request named, as its receipt keeps it: names and ids as salted hashes.';

-- _next_phase: the phase of an erasure after another one; null after the last.
create or replace function memdb._next_phase (p_phase text)
  returns text
  language sql immutable parallel safe
begin atomic
  select w.phases[array_position(w.phases, p_phase) + 1]
    from (select array['part', 'shed', 'hide', 'work', 'recall', 'audit', 'spelling', 'before', 'memory', 'event', 'session', 'entity', 'after', 'tenant'] as phases) w;
end;
comment on function memdb._next_phase (text) is 'The phase of an erasure after another one; null after the last.';

-- _hide_step: one bounded batch of an erasure, in one of the phases before anything is deleted.
--
-- Most events have no work left: ten times as many are looked at.
create or replace function memdb._hide_step (
  p_receipt memdb.erasure_receipt,
  p_limit   integer,
  p_now     timestamptz,
  out is_over boolean,
  out place   bigint,
  out counts  jsonb
)
  language plpgsql volatile
as $$
declare
  v_tenant integer := (p_receipt).tenant_id;
  v_id     bigint := (p_receipt).receipt_id;
  v_phase  text := (p_receipt).phase;
  v_most   integer := case v_phase when 'work' then 10 * p_limit else p_limit end;
  v_ids    bigint[] := memdb._take_items(v_tenant, v_id, case v_phase when 'work' then 'event' else 'memory' end, v_most,
    (p_receipt).place, v_phase in ('part', 'shed'));
begin
  is_over := cardinality(v_ids) < v_most;
  place := case when is_over then 0 else v_ids[v_most] end;
  counts := '{}';
  if v_phase = 'work' then
    perform memdb._end_work(v_tenant, v_ids);
  elsif v_ids <> '{}' then
    counts := case v_phase
      when 'part' then memdb._part_survivors(v_tenant, v_id, v_ids, p_now)
      when 'shed' then memdb._shed_versions(v_tenant, v_id, v_ids, p_now)
      else memdb._hide_memories(v_tenant, v_id, v_ids, p_now) end;
  end if;
end $$;
comment on function memdb._hide_step (memdb.erasure_receipt, integer, timestamptz) is 'One bounded batch of an erasure, in one of the phases before anything is deleted.';

-- _erase_step: one bounded batch of an erasure, in the phase it is in.
--
-- is_over: the phase has nothing left. place is where the next step goes on.
create or replace function memdb._erase_step (
  p_receipt memdb.erasure_receipt,
  p_limit   integer,
  p_now     timestamptz,
  out is_over boolean,
  out place   bigint,
  out counts  jsonb
)
  language plpgsql volatile
as $$
declare
  v_tenant integer := (p_receipt).tenant_id;
  v_id     bigint := (p_receipt).receipt_id;
  v_phase  text := (p_receipt).phase;
  v_ids    bigint[];
begin
  counts := '{}';
  place := 0;
  if v_phase in ('part', 'shed', 'hide', 'work') then
    select h.is_over, h.place, h.counts into is_over, place, counts from memdb._hide_step(p_receipt, p_limit, p_now) h;
  elsif v_phase = 'recall' then
    select e.last, e.counts into place, counts
      from memdb._erase_recalls(v_tenant, v_id, (p_receipt).target, (p_receipt).place, p_limit) e;
    is_over := place is null;
    place := coalesce(place, 0);
  elsif v_phase = 'audit' then
    select e.last, e.counts into place, counts from memdb._erase_audit(v_tenant, (p_receipt).target, (p_receipt).place, p_limit) e;
    is_over := place is null;
    place := coalesce(place, 0);
  elsif v_phase = 'spelling' then
    v_ids := memdb._take_items(v_tenant, v_id, 'entity', p_limit, (p_receipt).place);
    is_over := v_ids = '{}';
    counts := memdb._forget_spellings(v_tenant, v_ids);
    place := coalesce(v_ids[cardinality(v_ids)], 0);
  elsif v_phase = 'before' then
    is_over := memdb.fold_keyword_stats(v_tenant, p_limit) < p_limit;
  elsif v_phase = 'after' then
    place := coalesce(nullif((p_receipt).place, 0), (select max(q.queue_id) from memdb.keyword_queue q where q.tenant_id = v_tenant), 0);
    perform memdb.fold_keyword_stats(v_tenant, p_limit);
    is_over := not exists (select from memdb.keyword_queue q where q.tenant_id = v_tenant and q.queue_id <= place);
  elsif v_phase = 'tenant' then
    counts := memdb._erase_tenant(v_tenant, (p_receipt).target);
    is_over := true;
  else
    v_ids := memdb._take_items(v_tenant, v_id, v_phase, p_limit);
    is_over := v_ids = '{}';
    if not is_over then
      counts := case v_phase
        when 'memory' then memdb._erase_memories(v_tenant, v_ids)
        when 'event' then memdb._erase_events(v_tenant, v_ids, p_now)
        when 'session' then memdb._erase_sessions(v_tenant, v_ids, (p_receipt).target)
        when 'entity' then memdb._erase_entities(v_tenant, v_ids) end;
      perform memdb._strike_items(v_tenant, v_id, v_phase, v_ids, case v_phase
        when 'session' then array(select s.session_id from memdb.session s where s.tenant_id = v_tenant and s.session_id = any (v_ids))
        when 'entity' then array(select e.entity_id from memdb.entity e where e.tenant_id = v_tenant and e.entity_id = any (v_ids))
        else '{}' end);
    end if;
  end if;
end $$;
comment on function memdb._erase_step (memdb.erasure_receipt, integer, timestamptz) is 'One bounded batch of an erasure, in the phase it is in.';

-- _count_listed: how many things erasures of a tenant have still to delete; 1 where only phases are left.
create or replace function memdb._count_listed (p_tenant integer, p_receipt bigint default null)
  returns bigint
  language sql stable
as $$
  select count(*) + (select count(*) from memdb.erasure_receipt r
                      where r.tenant_id = p_tenant and r.state = 'erasing' and (p_receipt is null or r.receipt_id = p_receipt))
    from memdb.erasure_item i
   where i.tenant_id = p_tenant and (p_receipt is null or i.receipt_id = p_receipt) and i.subject <> 'version';
$$;
comment on function memdb._count_listed (integer, bigint) is 'How many things erasures of a tenant have still to delete; 1 where only phases are left.';

-- _advance_erasure: go on with an erasure until a batch is full, or up to a phase; the receipt as it is to be then.
create or replace function memdb._advance_erasure (
  p_receipt memdb.erasure_receipt,
  p_limit   integer,
  p_now     timestamptz,
  p_until   text default null
)
  returns memdb.erasure_receipt
  language plpgsql volatile
as $$
declare
  v_step record;
begin
  while p_receipt.phase is distinct from p_until loop
    v_step := memdb._erase_step(p_receipt, p_limit, p_now);
    p_receipt.counts := memdb._add_counts(p_receipt.counts, v_step.counts);
    p_receipt.place := v_step.place;
    exit when not v_step.is_over;
    p_receipt.phase := memdb._next_phase(p_receipt.phase);
    p_receipt.place := 0;
  end loop;
  return p_receipt;
end $$;
comment on function memdb._advance_erasure (memdb.erasure_receipt, integer, timestamptz, text) is 'Go on with an erasure until a batch is full, or up to a phase; the receipt as it is to be then.';

-- continue_erasures: delete the next bounded batch of what was forgotten and is hidden already.
--
-- p_limit: at most so many memories, events and so on, 1 to 10,000. The oldest erasure of the tenant,
-- or the one of p_receipt; what another call works on is passed over. Call it, each time in a transaction
-- of its own, until it returns 0: how many things are left, and 1 more for each erasure that is not done.
-- First what stays is parted from what goes: the tenant's writers wait for such a batch; then the truth lock
-- is held shared: recording goes on, corrections wait for one batch. Operators only.
-- Raises MD001, MD207 where a legal hold was set meanwhile, MD301, MD303; 40001 where something new was
-- hung on what is deleted at this very moment. Cost: grows with p_limit; about a millisecond a memory.
create or replace function memdb.continue_erasures (
  p_tenant  integer,
  p_limit   integer default 500,
  p_receipt bigint  default null
)
  returns bigint
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
  -- Every look-up is by key; a table not analyzed yet looks small enough to read whole.
  set enable_seqscan = off
as $$
declare
  v_receipt memdb.erasure_receipt;
  v_now     timestamptz;
  v_parts   boolean;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  perform memdb._check_limit(p_limit, 10000);
  select r.* into v_receipt from memdb.erasure_receipt r
   where r.tenant_id = p_tenant and r.state = 'erasing' and (p_receipt is null or r.receipt_id = p_receipt)
   order by r.receipt_id limit 1 for update skip locked;
  if not found then
    return memdb._count_listed(p_tenant, p_receipt);
  end if;
  v_parts := v_receipt.phase in ('part', 'shed');
  perform memdb._lock_truth(p_tenant, v_parts);
  v_now := case when v_parts then memdb._truth_time(p_tenant) else memdb.current_time() end;
  -- The folder of the keyword statistics ("melk"): words are moved in its queue.
  perform pg_advisory_xact_lock(1835363435, p_tenant);
  -- A hold set since stops what deletes, not what hides: what stays must not wait for it.
  if v_receipt.phase in ('part', 'shed', 'hide', 'work') then
    v_receipt := memdb._advance_erasure(v_receipt, p_limit, v_now, 'recall');
  else
    perform memdb._refuse_held(p_tenant, v_receipt.receipt_id, v_receipt.target);
    v_receipt := memdb._advance_erasure(v_receipt, p_limit, v_now);
  end if;
  if v_parts then
    perform memdb._queue_fallen(p_tenant, v_now);
  end if;
  update memdb.erasure_receipt r
     set phase = coalesce(v_receipt.phase, 'tenant'), place = v_receipt.place, counts = v_receipt.counts,
         state = case when v_receipt.phase is null then 'done' else 'erasing' end,
         finished_at = case when v_receipt.phase is null then v_now end,
         target = case when v_receipt.phase is null then memdb._hashed_target(r.target, r.salt) else r.target end
   where r.tenant_id = p_tenant and r.receipt_id = v_receipt.receipt_id;
  return memdb._count_listed(p_tenant, p_receipt);
exception when foreign_key_violation then
  perform memdb._raise('40001', 'something new hangs on what is being deleted', null, 'Try again.');
end $$;
comment on function memdb.continue_erasures (integer, integer, bigint) is 'Delete the next bounded batch of what was forgotten and is hidden already.';
