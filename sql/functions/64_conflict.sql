-- Decisions: conflicts between memories, and the other questions put to people.
--
-- Whatever is decided changes the truth through the functions of 37 and 38, so that it falls
-- through what rests on it, and is noted in review_item.effects, so that it can be undone.

create or replace view memdb.open_conflicts
  with (security_invoker = true) as
  select i.tenant_id, i.review_id, n.path as namespace, i.question, i.confidence, i.details, i.recorded_at,
         i.memory_id, i.version, v.text, m.status, m.occurred_at, m.confidence as memory_confidence, m.trust,
         i.other_memory_id, i.other_version, w.text as other_text, o.status as other_status,
         o.occurred_at as other_occurred_at, o.confidence as other_confidence, o.trust as other_trust
    from memdb.review_item i
    join memdb.namespace n on n.tenant_id = i.tenant_id and n.namespace_id = i.namespace_id
    join memdb.shown_memory m on m.tenant_id = i.tenant_id and m.memory_id = i.memory_id
    join memdb.memory_version v on v.tenant_id = i.tenant_id and v.memory_id = i.memory_id and v.version = i.version
    left join memdb.memory o on o.tenant_id = i.tenant_id and o.memory_id = i.other_memory_id
    left join memdb.memory_version w
      on w.tenant_id = i.tenant_id and w.memory_id = i.other_memory_id and w.version = i.other_version
   where i.kind = 'conflict' and i.state = 'open'
     and (not (select memdb._is_erasing()) or not memdb._is_hidden(i.tenant_id, 'memory', i.other_memory_id));
comment on view memdb.open_conflicts is 'Pairs of memories that cannot both be true, with both sides and the question to put; other_ is the older one.';

-- open_conflicts: the pairs of memories that cannot both be true, oldest question first.
--
-- p_namespaces null = all the caller may read (MD102 for an unknown one); p_limit 1 to 1,000, after
-- review p_after. Rows of the view open_conflicts; a side the caller may not read is null. Runs
-- as the caller. Raises MD001, MD102, MD301.
create or replace function memdb.open_conflicts (
  p_tenant     integer,
  p_namespaces text[]  default null,
  p_after      bigint  default 0,
  p_limit      integer default 50
)
  returns setof memdb.open_conflicts
  language plpgsql stable rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, false);
  if p_limit between 1 and 1000 is not true then
    perform memdb._raise('MD001', 'a page holds 1 to 1,000 conflicts', jsonb_build_object('field', 'limit'));
  end if;
  perform memdb._readable(p_tenant, p_namespaces, null);
  return query
    select c.* from memdb.open_conflicts c
     where c.tenant_id = p_tenant and c.review_id > coalesce(p_after, 0)
       and (p_namespaces is null or c.namespace = any (p_namespaces))
     order by c.review_id
     limit p_limit;
end $$;
comment on function memdb.open_conflicts (integer, text[], bigint, integer) is 'The pairs of memories that cannot both be true, oldest question first.';

-- _find_review: a question the caller may decide, locked; MD107 where there is none.
create or replace function memdb._find_review (p_tenant integer, p_review bigint)
  returns memdb.review_item
  language plpgsql volatile
as $$
declare
  v_item  memdb.review_item;
  v_scope integer[] := memdb._namespaces_granted(p_tenant, true);
begin
  select i.* into v_item from memdb.review_item i
   where i.tenant_id = p_tenant and i.review_id = p_review and (v_scope is null or i.namespace_id = any (v_scope))
     for no key update;
  if not found then
    perform memdb._raise('MD107', 'no such question', jsonb_build_object('review_id', p_review),
      'review_items lists them; a decision needs the right to write to the namespace.');
  end if;
  return v_item;
end $$;
comment on function memdb._find_review (integer, bigint) is 'A question the caller may decide, locked; MD107 where there is none.';

-- _open_review: as _find_review, but stop where it has been decided; MD201.
create or replace function memdb._open_review (p_tenant integer, p_review bigint)
  returns memdb.review_item
  language plpgsql volatile
as $$
declare
  v_item memdb.review_item := memdb._find_review(p_tenant, p_review);
begin
  if v_item.state <> 'open' then
    perform memdb._raise('MD201', 'this question has been decided',
      jsonb_build_object('review_id', p_review, 'decision', v_item.decision, 'decided_by', v_item.decided_by),
      'reopen_review undoes the decision.');
  end if;
  return v_item;
end $$;
comment on function memdb._open_review (integer, bigint) is 'As _find_review, but stop where it has been decided; MD201.';

-- _close_review: note what was decided about a question and what that changed.
create or replace function memdb._close_review (
  p_tenant   integer,
  p_review   bigint,
  p_decision text,
  p_effects  jsonb,
  p_now      timestamptz
)
  returns void
  language sql volatile
begin atomic
  update memdb.review_item i
     set state = 'decided', decision = p_decision, decided_by = memdb._caller(), decided_at = p_now, effects = p_effects
   where i.tenant_id = p_tenant and i.review_id = p_review;
end;
comment on function memdb._close_review (integer, bigint, text, jsonb, timestamptz) is 'Note what was decided about a question and what that changed.';

-- _loser: which side of a conflict a rule lets go, null where it cannot tell.
--
-- newest: later in the world (occurred_at), then later recorded. more_confident, higher_authority:
-- by confidence, by trust of the source; equal is no answer.
create or replace function memdb._loser (p_tenant integer, p_rule text, p_new bigint, p_old bigint)
  returns bigint
  language sql stable
begin atomic
  select case p_rule
    when 'newest' then case when (n.occurred_at, n.recorded_at, n.memory_id) > (o.occurred_at, o.recorded_at, o.memory_id)
                            then p_old else p_new end
    when 'more_confident' then case when n.confidence > o.confidence then p_old when n.confidence < o.confidence then p_new end
    when 'higher_authority' then case when n.trust > o.trust then p_old when n.trust < o.trust then p_new end end
    from memdb.memory n
    join memdb.memory o on o.tenant_id = p_tenant and o.memory_id = p_old
   where n.tenant_id = p_tenant and n.memory_id = p_new;
end;
comment on function memdb._loser (integer, text, bigint, bigint) is 'Which side of a conflict a rule lets go, null where it cannot tell.';

-- _is_settled: whether a conflict is over by itself: a side is no longer held, or says something else by now.
create or replace function memdb._is_settled (p_tenant integer, p_item memdb.review_item)
  returns boolean
  language sql stable
begin atomic
  select exists (
    select from (values (p_item.memory_id, p_item.version), (p_item.other_memory_id, p_item.other_version)) s (memory_id, version)
      join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = s.memory_id
     where m.version <> s.version or m.status <> 'active');
end;
comment on function memdb._is_settled (integer, memdb.review_item) is 'Whether a conflict is over by itself: a side is no longer held, or says something else by now.';

-- resolve_conflict: let a rule decide which of two memories that contradict each other holds.
--
-- p_rule: newest, more_confident, higher_authority, keep_both (nothing changes), or ask. The side
-- that is let go becomes contradicted, what rests on it alone stale. outcome is resolved; settled
-- (it was over by itself: a side fell or changed meanwhile); or ask: nothing was decided, because
-- p_rule says so or the sides are equal, and question is what to put to the user, whose answer goes
-- to decide_review. fallen counts the other memories that became stale. reopen_review undoes it.
-- Raises MD001 (rule, or the question is no conflict), MD103, MD107, MD201 (decided already), MD301.
create or replace function memdb.resolve_conflict (
  p_tenant integer,
  p_review bigint,
  p_rule   text,
  p_reason text default null
)
  returns table (review_id bigint, outcome text, kept_id bigint, dropped_id bigint, fallen bigint, question text)
  language plpgsql volatile security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now   timestamptz := memdb._begin_correction(p_tenant);
  v_item  memdb.review_item := memdb._open_review(p_tenant, p_review);
  v_loser bigint;
begin
  if p_rule in ('newest', 'more_confident', 'higher_authority', 'keep_both', 'ask') is not true or v_item.kind <> 'conflict' then
    perform memdb._raise('MD001', 'a conflict is resolved by newest, more_confident, higher_authority, keep_both or ask',
      jsonb_build_object('field', 'rule', 'kind', v_item.kind), 'Other questions are answered with decide_review.');
  end if;
  review_id := p_review;
  if memdb._is_settled(p_tenant, v_item) then
    perform memdb._close_review(p_tenant, p_review, 'settled', '{}', v_now);
    outcome := 'settled';
  elsif p_rule = 'keep_both' then
    perform memdb._close_review(p_tenant, p_review, p_rule, '{}', v_now);
    outcome := 'resolved';
  else
    v_loser := memdb._loser(p_tenant, p_rule, v_item.memory_id, v_item.other_memory_id);
    outcome := case when v_loser is null then 'ask' else 'resolved' end;
  end if;
  if v_loser is not null then
    dropped_id := v_loser;
    kept_id := v_item.memory_id + v_item.other_memory_id - v_loser;
    perform memdb._put_memory_out(p_tenant, v_loser, 'contradicted', coalesce(p_reason, v_item.question), v_now);
    perform memdb._queue_fallen(p_tenant, v_now);
    perform memdb._close_review(p_tenant, p_review, p_rule, jsonb_build_object('out', jsonb_build_array(v_loser)), v_now);
  end if;
  fallen := memdb._fallen_beside(p_tenant, v_now, v_loser);
  question := case when outcome = 'ask' then v_item.question end;
  return next;
end $$;
comment on function memdb.resolve_conflict (integer, bigint, text, text) is 'Let a rule decide which of two memories that contradict each other holds.';

-- _confirm: let a memory stand on the word of whoever decides, and be certain.
create or replace function memdb._confirm (p_tenant integer, p_memory memdb.memory, p_event bigint)
  returns void
  language plpgsql volatile
as $$
begin
  perform memdb.record_memories(p_tenant, (
    select jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
             'text', v.text, 'namespace', n.path, 'user', p_memory.user_id, 'external_id', p_memory.external_id,
             'method', 'manual', 'sources', jsonb_build_array(jsonb_build_object('event_id', p_event)))))
      from memdb.memory_version v
      join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = v.namespace_id
     where v.tenant_id = p_tenant and v.memory_id = p_memory.memory_id and v.version = p_memory.version));
  update memdb.memory m set confidence = 1 where m.tenant_id = p_tenant and m.memory_id = p_memory.memory_id;
end $$;
comment on function memdb._confirm (integer, memdb.memory, bigint) is 'Let a memory stand on the word of whoever decides, and be certain.';

-- _decide: carry out a decision about the memory in question; returns its effects.
create or replace function memdb._decide (
  p_tenant   integer,
  p_item     memdb.review_item,
  p_decision text,
  p_new      jsonb,
  p_reason   text,
  p_now      timestamptz
)
  returns jsonb
  language plpgsql volatile
as $$
declare
  v_memory  memdb.memory := memdb._find_memory(p_tenant, p_item.memory_id);
  v_effects jsonb := jsonb_build_object('version', v_memory.version, 'confidence', v_memory.confidence);
  v_out     bigint;
  v_event   bigint;
begin
  perform memdb._expect_version(v_memory, p_item.version);
  if p_decision = 'reject' then
    v_out := v_memory.memory_id;
    perform memdb._put_memory_out(p_tenant, v_out, case when p_item.kind = 'conflict' then 'contradicted' else 'retracted' end,
      coalesce(p_reason, 'rejected in review'), p_now);
    return v_effects || jsonb_build_object('out', jsonb_build_array(v_out));
  end if;
  if p_item.kind = 'conflict' then
    perform memdb._put_memory_out(p_tenant, p_item.other_memory_id, 'contradicted', coalesce(p_reason, p_item.question), p_now);
    v_effects := v_effects || jsonb_build_object('out', jsonb_build_array(p_item.other_memory_id));
    if p_decision = 'accept' then
      return v_effects;
    end if;
  end if;
  v_event := memdb._note(p_tenant, v_memory, 'reflection',
    coalesce(nullif(btrim(p_reason), ''), case p_decision when 'edit' then p_new ->> 'text' else 'confirmed in review' end));
  v_effects := v_effects || jsonb_build_object('event_id', v_event);
  if p_decision = 'edit' then
    return v_effects || jsonb_build_object('edited', memdb._supersede(p_tenant, v_memory,
      jsonb_build_object('method', 'manual', 'confidence', 1) || p_new
      || jsonb_build_object('sources', jsonb_build_array(jsonb_build_object('event_id', v_event))), v_event, null, p_now));
  end if;
  perform memdb._confirm(p_tenant, v_memory, v_event);
  return v_effects;
end $$;
comment on function memdb._decide (integer, memdb.review_item, text, jsonb, text, timestamptz) is 'Carry out a decision about the memory in question; returns its effects.';

-- decide_review: answer a question that was put to a person: accept, edit or reject.
--
-- accept: the memory holds. Of a conflict the newer side holds and the older one is contradicted; a
-- stale or uncertain memory gets a reason of its own, an event of kind reflection with p_reason,
-- and is certain. reject: it does not; of a conflict the older side holds. edit: it says p_item
-- instead ({text, ...} as in supersede_memory, without sources), and holds. fallen counts the
-- other memories that became stale. reopen_review undoes it. Raises MD001 (decision, item), MD103,
-- MD107, MD201 (decided already, or the memory changed meanwhile), MD301.
create or replace function memdb.decide_review (
  p_tenant   integer,
  p_review   bigint,
  p_decision text,
  p_item     jsonb default null,
  p_reason   text  default null
)
  returns table (review_id bigint, decision text, memory_id bigint, version integer, status text, fallen bigint)
  language plpgsql volatile security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now     timestamptz := memdb._begin_correction(p_tenant);
  v_item    memdb.review_item := memdb._open_review(p_tenant, p_review);
  v_effects jsonb;
begin
  if p_decision in ('accept', 'edit', 'reject') is not true or (p_decision = 'edit') <> (p_item is not null) then
    perform memdb._raise('MD001', 'a decision is accept, reject, or edit with the item that takes its place',
      jsonb_build_object('field', case when p_decision in ('accept', 'edit', 'reject') then 'item' else 'decision' end));
  end if;
  if p_item is not null then
    perform memdb._check_items(jsonb_build_array(p_item),
      array['text', 'type', 'summary', 'language', 'importance', 'confidence', 'valid_from', 'valid_to', 'occurred_at', 'metadata'],
      array['text']);
    perform memdb._check_plain(jsonb_build_array(p_item), array['metadata']);
  end if;
  v_effects := memdb._decide(p_tenant, v_item, p_decision, p_item, p_reason, v_now);
  perform memdb._queue_fallen(p_tenant, v_now);
  perform memdb._close_review(p_tenant, p_review, p_decision, v_effects, v_now);
  return query
    select p_review, p_decision, m.memory_id, m.version, m.status, memdb._fallen_beside(p_tenant, v_now, m.memory_id)
      from memdb.memory m
     where m.tenant_id = p_tenant and m.memory_id = v_item.memory_id;
end $$;
comment on function memdb.decide_review (integer, bigint, text, jsonb, text) is 'Answer a question that was put to a person: accept, edit or reject.';

-- reopen_review: undo a decision, and put the question again.
--
-- What was contradicted or rejected holds again where its reasons do, with what fell with it; a
-- reason given by accepting is retracted; an edited memory says again what it said, as a new
-- version. Returns what changed, as retract_event. Where the same question was put anew meanwhile,
-- that one stays and this one stays decided (undone). Raises MD107, MD201 (not decided, or the
-- edited memory changed since), MD301.
create or replace function memdb.reopen_review (
  p_tenant integer,
  p_review bigint,
  p_reason text default null
)
  returns setof memdb._truth_change
  language plpgsql volatile security definer rows 10
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now  timestamptz := memdb._begin_correction(p_tenant);
  v_item memdb.review_item := memdb._find_review(p_tenant, p_review);
begin
  if v_item.state = 'open' then
    perform memdb._raise('MD201', 'this question is open', jsonb_build_object('review_id', p_review),
      'There is nothing to undo.');
  end if;
  perform memdb._undo(p_tenant, v_item, coalesce(p_reason, 'decision undone'), v_now);
  perform memdb._queue_fallen(p_tenant, v_now);
  begin
    update memdb.review_item i
       set state = 'open', decision = null, decided_by = null, decided_at = null, effects = '{}',
           version = (select m.version from memdb.memory m where m.tenant_id = p_tenant and m.memory_id = i.memory_id)
     where i.tenant_id = p_tenant and i.review_id = p_review;
  exception when unique_violation then
    perform memdb._close_review(p_tenant, p_review, 'undone', '{}', v_now);
  end;
  return query select c.* from memdb._truth_changes(p_tenant, v_now) c;
end $$;
comment on function memdb.reopen_review (integer, bigint, text) is 'Undo a decision, and put the question again.';

-- _undo: take back the effects of a decision.
create or replace function memdb._undo (p_tenant integer, p_item memdb.review_item, p_reason text, p_now timestamptz)
  returns void
  language plpgsql volatile
as $$
declare
  v_memory memdb.memory := memdb._find_memory(p_tenant, p_item.memory_id);
  v_id     bigint;
begin
  if p_item.effects ? 'edited' then
    perform memdb._expect_version(v_memory, (p_item.effects ->> 'edited')::integer);
    perform memdb._supersede(p_tenant, v_memory, memdb._item_of(p_tenant, v_memory.memory_id, (p_item.effects ->> 'version')::integer),
      memdb._note(p_tenant, v_memory, 'correction', p_reason), null, p_now);
    perform memdb._copy_justifications(p_tenant, v_memory.memory_id, (p_item.effects ->> 'version')::integer, v_memory.version + 1, p_now);
  elsif p_item.effects ? 'event_id' then
    perform memdb._put_out(p_tenant, (p_item.effects ->> 'event_id')::bigint, 'retracted', p_reason, p_now);
    -- With less confidence it fades earlier: at once is a lower bound, the job works out when.
    update memdb.memory m set confidence = (p_item.effects ->> 'confidence')::real, fades_at = least(m.fades_at, p_now)
     where m.tenant_id = p_tenant and m.memory_id = p_item.memory_id and m.version = p_item.version;
  end if;
  for v_id in select o.id::bigint from jsonb_array_elements_text(p_item.effects -> 'out') o (id) loop
    perform memdb._let_memory_in(p_tenant, v_id, p_now);
  end loop;
end $$;
comment on function memdb._undo (integer, memdb.review_item, text, timestamptz) is 'Take back the effects of a decision.';
