-- Forgetting: what others record while the list is made.
--
-- The list of a large erasure takes a while, and nobody waits for it. What was recorded meanwhile is
-- found by its numbers, at a cost that grows with it and what rests on it, not with the list. Where any of
-- it is tied to the list, that is made anew: while others go on, and at last, if need be, under the truth lock.

-- _last_recorded: the last justification and the last event anybody may have recorded by now; later ones have higher numbers.
--
-- Nobody records at the moment it looks: for an instant it holds the truth lock alone. Taken in a
-- block that fails, the lock is let go again at once. Events come without that lock, but for corrections.
create or replace function memdb._last_recorded (p_tenant integer, out reason bigint, out event bigint, out at timestamptz)
  language plpgsql volatile
as $$
begin
  begin
    perform memdb._lock_truth(p_tenant, true);
    select j.last_value, e.last_value, memdb.current_time() into reason, event, at
      from memdb.justification_justification_id_seq j cross join memdb.event_event_id_seq e;
    raise exception using errcode = 'MDDRY', message = 'the lock is let go';
  exception when sqlstate 'MDDRY' then
    return;
  end;
end $$;
comment on function memdb._last_recorded (integer) is 'The last justification and the last event anybody may have recorded by now; later ones have higher numbers.';

-- _list_late_events: put on the list the corrections of listed events that were made later than an event.
create or replace function memdb._list_late_events (p_tenant integer, p_receipt bigint, p_after bigint)
  returns void
  language plpgsql volatile
as $$
declare
  v_found bigint;
begin
  loop
    insert into memdb.erasure_item (tenant_id, subject, subject_id, receipt_id)
      select p_tenant, 'event', e.event_id, p_receipt
        from memdb.event e
        join memdb.erasure_item i
          on i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'event' and i.subject_id = e.parent_event_id
       where e.tenant_id = p_tenant and e.event_id > p_after and e.kind = 'correction'
      on conflict do nothing;
    get diagnostics v_found = row_count;
    exit when v_found = 0;
  end loop;
end $$;
comment on function memdb._list_late_events (integer, bigint, bigint) is 'Put on the list the corrections of listed events that were made later than an event.';

-- _is_late: whether a reason or a premise was recorded since the list was begun that is of something on it, or rests on it.
create or replace function memdb._is_late (p_tenant integer, p_receipt bigint, p_after bigint, p_since timestamptz)
  returns boolean
  language sql stable
as $$
  select exists (
    select
      from (select j.memory_id, p.event_id, p.memory_id as premise_id
              from memdb.justification j
              join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id
             where j.tenant_id = p_tenant and j.justification_id > p_after
            union all
            select j.memory_id, p.event_id, p.memory_id
              from memdb.premise p
              join memdb.justification j on j.tenant_id = p_tenant and j.justification_id = p.justification_id
             where p.tenant_id = p_tenant and p.added_at >= p_since) l
      join memdb.erasure_item i
        on i.tenant_id = p_tenant and i.receipt_id = p_receipt
       and (i.subject, i.subject_id) in (('event', l.event_id), ('version', l.memory_id), ('memory', l.memory_id),
                                         ('version', l.premise_id), ('memory', l.premise_id)));
$$;
comment on function memdb._is_late (integer, bigint, bigint, timestamptz) is 'Whether a reason or a premise was recorded since the list was begun that is of something on it, or rests on it.';

-- _extend_list: make the list anew where something was recorded since that is tied to it; whether there was.
--
-- p_reason, p_event and p_since: what _last_recorded told before the list was made, or extended last.
create or replace function memdb._extend_list (
  p_tenant  integer,
  p_receipt bigint,
  p_target  jsonb,
  p_reason  bigint,
  p_event   bigint,
  p_since   timestamptz
)
  returns boolean
  language plpgsql volatile
as $$
begin
  perform memdb._list_late_events(p_tenant, p_receipt, p_event);
  if not memdb._is_late(p_tenant, p_receipt, p_reason, p_since) then
    return false;
  end if;
  -- Not worked in: what stays by another version, or loses one, hangs on all of the list.
  delete from memdb.erasure_item i where i.tenant_id = p_tenant and i.receipt_id = p_receipt;
  perform memdb._list_erasure(p_tenant, p_receipt, p_target);
  return true;
end $$;
comment on function memdb._extend_list (integer, bigint, jsonb, bigint, bigint, timestamptz) is 'Make the list anew where something was recorded since that is tied to it; whether there was.';
