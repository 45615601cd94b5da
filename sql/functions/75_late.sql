-- Forgetting: what others record while the list is made.
--
-- The list of a large erasure takes a while, and nobody waits for it. What was recorded meanwhile is
-- found by its numbers and worked into the list, at a cost that grows with it and what rests on it, not with the list: first while
-- others go on, until little is new, and what is still missing then under the truth lock.

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

-- _late_versions: the versions that got a reason, or a premise, since the list was begun which ties them to it, and what rests on these.
--
-- With version null: memories on the list that got another version which nothing ties to it.
create or replace function memdb._late_versions (p_tenant integer, p_receipt bigint, p_after bigint, p_since timestamptz)
  returns table (memory_id bigint, version integer)
  language sql stable rows 10
as $$
  with recursive late as (
    select j.memory_id, j.version, p.event_id, p.memory_id as premise_id, p.memory_version as premise_version
      from memdb.justification j
      join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id
     where j.tenant_id = p_tenant and j.justification_id > p_after
    union all
    select j.memory_id, j.version, p.event_id, p.memory_id, p.memory_version
      from memdb.premise p
      join memdb.justification j on j.tenant_id = p_tenant and j.justification_id = p.justification_id
     where p.tenant_id = p_tenant and p.added_at >= p_since
  ), tied as (
    select l.memory_id, l.version,
           bool_or(i.subject = 'event' or i.wave = 0
                   or (i.subject_id, i.version) in ((l.memory_id, l.version), (l.premise_id, l.premise_version))) as is_tied
      from late l
      join memdb.erasure_item i
        on i.tenant_id = p_tenant and i.receipt_id = p_receipt
       and (i.subject, i.subject_id) in (('version', l.memory_id), ('version', l.premise_id), ('event', l.event_id))
     group by l.memory_id, l.version
  ), reached (memory_id, version) as (
    select t.memory_id, t.version from tied t where t.is_tied
    union
    select j.memory_id, j.version
      from reached r
      join memdb.premise p on p.tenant_id = p_tenant and p.memory_id = r.memory_id and p.memory_version = r.version
      join memdb.justification j on j.tenant_id = p_tenant and j.justification_id = p.justification_id
  )
  select r.memory_id, r.version from reached r
  union all
  select t.memory_id, null from tied t where not t.is_tied;
$$;
comment on function memdb._late_versions (integer, bigint, bigint, timestamptz) is 'The versions that got a reason, or a premise, since the list was begun which ties them to it, and what rests on these.';

-- _extend_list: work into the list what was recorded since; whether there was anything.
--
-- p_reason, p_event and p_since: what _last_recorded told before the list was made, or extended last. What is
-- reached is judged anew as by _spare_supported; all else rests on none of it, and stands as it is.
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
declare
  v_late record;
  v_firm record;
begin
  perform memdb._list_late_events(p_tenant, p_receipt, p_event);
  select array_agg(l.memory_id) as ids, array_agg(l.version) as versions into v_late
    from memdb._late_versions(p_tenant, p_receipt, p_reason, p_since) l;
  if v_late.ids is null then
    return false;
  end if;
  -- A further version of what was named is named.
  insert into memdb.erasure_item (tenant_id, subject, subject_id, version, receipt_id, wave)
    select p_tenant, 'version', l.memory_id, l.version, p_receipt, case when exists (
             select from memdb.erasure_item i
              where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and i.subject_id = l.memory_id
                and i.wave = 0) then 0 else 1 end
      from unnest(v_late.ids, v_late.versions) l (memory_id, version)
     where l.version is not null
    on conflict (tenant_id, subject, subject_id, version) do update set stays = false where erasure_item.receipt_id = p_receipt;
  with firm as (
    update memdb.erasure_item i set stays = true
      from unnest(v_late.ids, v_late.versions) l (memory_id, version)
     where i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'version' and i.subject_id = l.memory_id
       and i.version = l.version and i.wave > 0 and memdb._is_firm(p_tenant, i.subject_id, i.version)
    returning i.subject_id, i.version)
  select array_agg(f.subject_id) as ids, array_agg(f.version) as versions into v_firm from firm f;
  perform memdb._spare_above(p_tenant, p_receipt, v_firm.ids, v_firm.versions);
  perform memdb._list_quoted(p_tenant, p_receipt, p_target, p_reason);
  perform memdb._list_whole(p_tenant, p_receipt, v_late.ids);
  insert into memdb.erasure_item (tenant_id, subject, subject_id, receipt_id)
    select p_tenant, 'session', e.session_id, p_receipt
      from memdb.premise p
      join memdb.erasure_item i
        on i.tenant_id = p_tenant and i.receipt_id = p_receipt and i.subject = 'event' and i.subject_id = p.event_id
      join memdb.event e on e.tenant_id = p_tenant and e.event_id = p.event_id and e.session_id is not null
     where p.tenant_id = p_tenant and p.conclusion_id = any (v_late.ids)
    union
    select p_tenant, 'entity', n.entity_id, p_receipt
      from memdb.mention n where n.tenant_id = p_tenant and n.memory_id = any (v_late.ids)
    on conflict do nothing;
  return true;
end $$;
comment on function memdb._extend_list (integer, bigint, jsonb, bigint, bigint, timestamptz) is 'Work into the list what was recorded since; whether there was anything.';
