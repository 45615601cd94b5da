-- New versions: a memory that says something else from now on, and what becomes of what was derived from it.

-- _supersede: write the next version of a memory; the caller has locked it and the truth.
--
-- p_item is an item of record_memories; what it leaves out stays as it is. Returns the new
-- version, or the current one where the text is the same. p_event is the event that caused it
-- (null: its first event source); p_readable are the namespaces its sources may lie in. Raises MD205 for a less trusted
-- source, MD201 where another memory of the namespace and user says the same already.
create or replace function memdb._supersede (
  p_tenant   integer,
  p_memory   memdb.memory,
  p_item     jsonb,
  p_event    bigint,
  p_readable integer[],
  p_now      timestamptz
)
  returns integer
  language plpgsql volatile
as $$
declare
  v_old     memdb.memory_version;
  v_items   jsonb;
  v_sources memdb._memory_source[];
  v_item    memdb._memory_item[];
  v_place   memdb._memory_place[] := array[(0, p_memory.memory_id, p_memory.version + 1, 'versioned')::memdb._memory_place];
  v_out     integer[];
begin
  select v.* into v_old from memdb.memory_version v
   where v.tenant_id = p_tenant and v.memory_id = p_memory.memory_id and v.version = p_memory.version;
  v_items := jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
      'type', p_memory.type, 'importance', p_memory.importance, 'confidence', p_memory.confidence,
      'metadata', v_old.metadata, 'language', v_old.language)) || p_item || jsonb_build_object(
      'namespace', (select n.path from memdb.namespace n where n.tenant_id = p_tenant and n.namespace_id = p_memory.namespace_id),
      'user', p_memory.user_id, 'external_id', p_memory.external_id));
  v_sources := array(select s from memdb._memory_sources(p_tenant, v_items, p_readable) s);
  v_item := array(select i from memdb._memory_items(p_tenant, v_items, v_sources, p_now) i);
  v_item[1].user_id := p_memory.user_id;
  v_item[1].event_id := coalesce(p_event, v_item[1].event_id);
  if v_item[1].content_hash = p_memory.content_hash then
    return p_memory.version;
  end if;
  if v_item[1].trust < p_memory.trust then
    perform memdb._raise('MD205', 'a less trusted source may not replace a more trusted one',
      jsonb_build_object('memory_id', p_memory.memory_id, 'trust', p_memory.trust),
      'Record it as a memory of its own; both then stand side by side until somebody decides.');
  end if;
  perform memdb._make_way(p_tenant, v_item, v_sources);
  v_out := memdb._sources_out(p_tenant, v_sources);
  perform memdb._advance_memories(p_tenant, v_item, v_place, v_out, p_now);
  perform memdb._write_versions(p_tenant, v_item, v_sources, v_place, v_out, p_now);
  perform memdb._name_born(p_tenant, v_place, v_out, p_now);
  perform memdb._fall(p_tenant, memdb._unsupported(p_tenant, array[p_memory.memory_id]), 'premise_out', null, null, null, p_now);
  perform memdb._write_vectors(p_tenant, v_item, v_place, null);
  perform memdb._write_links(p_tenant, v_item, v_place);
  perform memdb._note_written(p_tenant, v_sources, v_place, p_now);
  return p_memory.version + 1;
exception
  when unique_violation then
    perform memdb._raise('MD201', 'another memory says the same already',
      jsonb_build_object('memory_id', p_memory.memory_id, 'text', left(p_item ->> 'text', 200)),
      'Retract this one and keep the other, or supersede with a text that differs.');
  when invalid_text_representation or numeric_value_out_of_range or invalid_parameter_value or datatype_mismatch then
    perform memdb._raise('MD001', sqlerrm, memdb._bad_memory(jsonb_build_array(p_item)), 'A field has the wrong type.');
  when invalid_datetime_format or datetime_field_overflow or invalid_time_zone_displacement_value then
    perform memdb._raise('MD006', sqlerrm, memdb._bad_memory(jsonb_build_array(p_item)), 'Give times as ISO 8601 with an offset.');
end $$;
comment on function memdb._supersede (integer, memdb.memory, jsonb, bigint, integer[], timestamptz) is 'Write the next version of a memory; the caller has locked it and the truth.';

-- _expect_version: stop where a memory is at another version than the caller has seen.
create or replace function memdb._expect_version (p_memory memdb.memory, p_expected integer)
  returns void
  language plpgsql volatile
as $$
begin
  if p_expected is distinct from p_memory.version then
    perform memdb._raise('MD201', 'the memory has another version by now',
      jsonb_build_object('memory_id', p_memory.memory_id, 'version', p_memory.version),
      'Read it again, merge, and supersede that version.');
  end if;
end $$;
comment on function memdb._expect_version (memdb.memory, integer) is 'Stop where a memory is at another version than the caller has seen.';

-- _superseded: the version a memory is at after p_now, and how many others fell then.
create or replace function memdb._superseded (
  p_tenant  integer,
  p_memory  memdb.memory,
  p_version integer,
  p_now     timestamptz
)
  returns table (memory_id bigint, version integer, outcome text, fallen bigint)
  language sql stable rows 1
begin atomic
  select p_memory.memory_id, p_version, case when p_version = p_memory.version then 'unchanged' else 'versioned' end,
         memdb._fallen_beside(p_tenant, p_now, p_memory.memory_id);
end;
comment on function memdb._superseded (integer, memdb.memory, integer, timestamptz) is 'The version a memory is at after p_now, and how many others fell then.';

-- supersede_memory: give a memory a new version; the old one stays in its history.
--
-- p_expected_version is the version the caller has seen: MD201 with the current one in the detail
-- where somebody was faster. p_item: as in record_memories; text and sources (the event that
-- caused the change) are required, namespace, user and external_id cannot change, the rest stays
-- where left out. What rested on the old version becomes stale (cause premise_superseded),
-- unless its own validity had ended before. Returns the version the memory is at and how many
-- memories fell. Raises MD001 to MD006, MD103, MD104, MD201, MD205, MD301, MD302.
create or replace function memdb.supersede_memory (
  p_tenant           integer,
  p_memory           bigint,
  p_expected_version integer,
  p_item             jsonb
)
  returns table (memory_id bigint, version integer, outcome text, fallen bigint)
  language plpgsql volatile security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
  -- Every look-up is by key; a table not analyzed yet looks small enough to read whole.
  set enable_seqscan = off
as $$
declare
  v_now     timestamptz := memdb._begin_correction(p_tenant);
  v_memory  memdb.memory := memdb._find_memory(p_tenant, p_memory);
  v_version integer;
begin
  perform memdb._check_items(jsonb_build_array(p_item),
    array['text', 'type', 'summary', 'heading', 'speaker', 'language', 'importance', 'confidence', 'is_pinned',
          'valid_from', 'valid_to', 'occurred_at', 'metadata', 'method', 'model', 'sources', 'vector', 'entities', 'edges'],
    array['text']);
  perform memdb._check_plain(jsonb_build_array(p_item), array['metadata', 'sources', 'vector', 'entities', 'edges']);
  perform memdb._expect_version(v_memory, p_expected_version);
  v_version := memdb._supersede(p_tenant, v_memory, p_item, null, memdb._readable(p_tenant, null, null), v_now);
  perform memdb._queue_fallen(p_tenant, v_now);
  return query select * from memdb._superseded(p_tenant, v_memory, v_version, v_now);
end $$;
comment on function memdb.supersede_memory (integer, bigint, integer, jsonb) is 'Give a memory a new version; the old one stays in its history.';

-- _corrected_text: what a derived text says after its event was corrected; null where no rule tells.
--
-- A verbatim copy of the event becomes the new text; otherwise the phrases of p_values that occur
-- are replaced.
create or replace function memdb._corrected_text (
  p_text   text,
  p_event  text,
  p_new    text,
  p_values jsonb
)
  returns text
  language plpgsql immutable
as $$
declare
  v_text text := p_text;
  v_pair record;
begin
  if p_text = p_event then
    return p_new;
  end if;
  for v_pair in select v.key, v.value from jsonb_each_text(p_values) v order by char_length(v.key) desc loop
    v_text := replace(v_text, v_pair.key, v_pair.value);
  end loop;
  return nullif(v_text, p_text);
end $$;
comment on function memdb._corrected_text (text, text, text, jsonb) is 'What a derived text says after its event was corrected; null where no rule tells.';

-- _append_correction: store what an event should have said, as an event of its own.
--
-- Done before the truth lock is taken: it locks the session, as whoever appends to that session
-- and then records a memory does, and in the same order. Without a session the truth lock comes
-- first: of two who say the same correction at once the second then finds the event of the first.
create or replace function memdb._append_correction (p_tenant integer, p_event bigint, p_text text)
  returns bigint
  language plpgsql volatile
as $$
declare
  v_event memdb.event := memdb._find_event(p_tenant, p_event);
begin
  if v_event.session_id is null then
    perform memdb._lock_truth(p_tenant, true);
  end if;
  return (select a.event_id
    from memdb.append_events(p_tenant, jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
      'kind', 'correction', 'text', p_text, 'parent_event_id', p_event,
      'namespace', (select n.path from memdb.namespace n where n.tenant_id = p_tenant and n.namespace_id = v_event.namespace_id),
      'session', (select s.external_id from memdb.session s where s.tenant_id = p_tenant and s.session_id = v_event.session_id),
      'user', v_event.user_id, 'agent', v_event.agent_id, 'speaker', v_event.speaker, 'language', v_event.language,
      'time_zone', v_event.time_zone, 'trust', v_event.trust, 'key', 'correction:' || p_event || ':' || md5(p_text))))) a);
end $$;
comment on function memdb._append_correction (integer, bigint, text) is 'Store what an event should have said, as an event of its own.';

-- _put_right: let a correction take the place of an event, and of what was copied from it.
create or replace function memdb._put_right (
  p_tenant integer,
  p_event  bigint,
  p_new    bigint,
  p_text   text,
  p_values jsonb,
  p_reason text,
  p_now    timestamptz
)
  returns void
  language plpgsql volatile
as $$
declare
  v_event memdb.event := memdb._find_event(p_tenant, p_event);
  v_copy  record;
begin
  perform memdb._put_out(p_tenant, p_event, 'corrected', p_reason, p_now);
  for v_copy in
    select m as memory, memdb._corrected_text(v.text, v_event.text, p_text, p_values) as text, j.method
      from memdb.belief b
      join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = b.subject_id and m.status = 'stale'
      join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
      join memdb.justification j
        on j.tenant_id = p_tenant and j.memory_id = m.memory_id and j.version = m.version and j.supports
       and j.method in ('verbatim', 'template')
     where b.tenant_id = p_tenant and b.from_at = p_now and b.subject = 'memory' and b.depth = 1
       and (select count(*) from memdb.premise p where p.tenant_id = p_tenant and p.justification_id = j.justification_id) = 1
     order by m.memory_id
  loop
    if v_copy.text is not null then
      perform memdb._supersede(p_tenant, v_copy.memory, jsonb_build_object('text', v_copy.text, 'method', v_copy.method,
        'sources', jsonb_build_array(jsonb_build_object('event_id', p_new))), p_new, null, p_now);
    end if;
  end loop;
end $$;
comment on function memdb._put_right (integer, bigint, bigint, text, jsonb, text, timestamptz) is 'Let a correction take the place of an event, and of what was copied from it.';

-- correct_event: put right what an event said, and let the correction fall through all that rested on it.
--
-- p_text is what the event should have said: it is stored as a new event of kind correction, whose
-- parent is the old one. What rested on the old event becomes stale, as with retract_event. By
-- rule, without a model, memories copied or templated from it get a new version that rests on the
-- correction: a verbatim copy takes p_text; in other texts the phrases that p_values names
-- ({"3 May": "5 May"}) are replaced. Returns rows as retract_event; a memory with a new version
-- comes back as active with that version. restore_event lets the old event count again and lifts
-- what fell with it; versions that were made stay.
-- Raises MD001, MD104, MD201, MD301.
create or replace function memdb.correct_event (
  p_tenant  integer,
  p_event   bigint,
  p_text    text,
  p_values  jsonb   default '{}',
  p_reason  text    default null,
  p_dry_run boolean default false
)
  returns setof memdb._truth_change
  language plpgsql volatile security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
  -- Every look-up is by key; a table not analyzed yet looks small enough to read whole.
  set enable_seqscan = off
as $$
begin
  if coalesce(btrim(p_text), '') = '' or jsonb_typeof(p_values) is distinct from 'object' then
    perform memdb._raise('MD001', 'a correction has a text, and values that map old phrases to new ones',
      jsonb_build_object('field', case when coalesce(btrim(p_text), '') = '' then 'text' else 'values' end),
      'To take an event back without a replacement use retract_event.');
  end if;
  return query select * from memdb._correct(p_tenant, 'correct_event', p_event, p_reason, p_dry_run,
    jsonb_build_object('text', p_text, 'values', p_values));
end $$;
comment on function memdb.correct_event (integer, bigint, text, jsonb, text, boolean) is 'Put right what an event said, and let the correction fall through all that rested on it.';

-- add_premises: make a justification rest on more: it then holds only while these hold too.
--
-- p_sources: array of sources as in record_memories. Sources it has already are passed over.
-- Where the memory stands on this justification and a new premise is out, or itself rests on the
-- memory, the memory falls as with retract_event, unless another justification holds. Returns
-- rows as retract_event. Raises MD001, MD103 (justification, memory), MD104, MD301, MD302.
create or replace function memdb.add_premises (
  p_tenant        integer,
  p_justification bigint,
  p_sources       jsonb
)
  returns setof memdb._truth_change
  language plpgsql volatile security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
  -- Every look-up is by key; a table not analyzed yet looks small enough to read whole.
  set enable_seqscan = off
as $$
declare
  v_now    timestamptz := memdb._begin_correction(p_tenant);
  v_reason memdb.justification;
begin
  select j.* into v_reason from memdb.justification j where j.tenant_id = p_tenant and j.justification_id = p_justification;
  if not found then
    perform memdb._raise('MD103', 'no such justification', jsonb_build_object('justification_id', p_justification),
      'explain_memory lists the justifications of a memory.');
  end if;
  perform memdb._find_memory(p_tenant, v_reason.memory_id);
  perform memdb._check_items(p_sources, array['event_id', 'memory_id', 'version', 'quote', 'span'], '{}');
  insert into memdb.premise (tenant_id, justification_id, ordinal, namespace_id, conclusion_id, event_id, span_from, span_to,
                             memory_id, memory_version, supports, added_at)
    select p_tenant, p_justification, s.place + (select max(p.ordinal) from memdb.premise p
             where p.tenant_id = p_tenant and p.justification_id = p_justification),
           v_reason.namespace_id, v_reason.memory_id, s.event_id, s.span_from, s.span_to, s.memory_id, s.memory_version,
           v_reason.supports, v_now
      from memdb._memory_sources(p_tenant, jsonb_build_array(jsonb_build_object('sources', p_sources)),
                                 memdb._readable(p_tenant, null, null)) s
     where not exists (select from memdb.premise p
            where p.tenant_id = p_tenant and p.justification_id = p_justification
              and (p.event_id = s.event_id or (p.memory_id = s.memory_id and p.memory_version = s.memory_version)));
  if v_reason.supports then
    -- Let it fall and look whether it gets up again: that also finds support that now runs in a circle.
    perform memdb._fall(p_tenant, array[v_reason.memory_id], 'premise_out', null, null, null, v_now);
    perform memdb._rise(p_tenant, array[p_justification], v_now);
    perform memdb._queue_fallen(p_tenant, v_now);
  end if;
  return query select c.* from memdb._truth_changes(p_tenant, v_now) c;
end $$;
comment on function memdb.add_premises (integer, bigint, jsonb) is 'Make a justification rest on more: it then holds only while these hold too.';
