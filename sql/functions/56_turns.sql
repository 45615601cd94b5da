-- What a reranker reads: the words of hits and of the turns around them.

-- read_turns: what memories and the turns around them say, and who said it.
--
-- p_memory_ids: at most 1,000. p_width: how many turns before and after in the same session (0 to
-- 50). Returns each of the memories, and of those beside them the active ones, once each: version
-- and text of today, the first p_characters (1 to 100,000) of it; speaker of the event it was drawn
-- from, or null; session_id and sequence, which differ by d between turns d apart, or nulls. What
-- the caller may not see is left out. Raises MD001, MD301. Cost: three look-ups by key a row.
create or replace function memdb.read_turns (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_width      integer default 2,
  p_characters integer default 4000
)
  returns table (memory_id bigint, version integer, text text, speaker text, session_id bigint, sequence integer)
  language plpgsql stable rows 100
as $$
declare
  v_field text := case
    when p_memory_ids is null or cardinality(p_memory_ids) > 1000 then 'memory_ids'
    when p_width between 0 and 50 is not true then 'width'
    when p_characters between 1 and 100000 is not true then 'characters' end;
begin
  perform memdb._authorize(p_tenant, false);
  if v_field is not null then
    perform memdb._raise('MD001', format('argument "%s" is out of range', v_field), jsonb_build_object('field', v_field),
      'At most 1,000 memory_ids; width 0 to 50 turns; characters 1 to 100,000.');
  end if;
  return query
    with here as materialized (
      select m.memory_id, m.session_id, m.sequence
        from memdb.shown_memory m
       where m.tenant_id = p_tenant and m.memory_id = any (p_memory_ids)),
    turn as (
      select h.memory_id from here h
      union
      select n.memory_id
        from here h
        cross join lateral (
          select m.memory_id from memdb.shown_memory m
           where m.tenant_id = p_tenant and m.session_id = h.session_id
             and m.sequence between h.sequence - p_width and h.sequence + p_width
             and m.status = 'active' and m.tier <> 'archive'
          offset 0) n
       where p_width > 0)
    select m.memory_id, m.version, left(v.text, p_characters), e.speaker, m.session_id, m.sequence
      from turn t
      join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = t.memory_id
      join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
      left join memdb.shown_event e on e.tenant_id = p_tenant and e.event_id = v.event_id
     order by m.memory_id;
end $$;
comment on function memdb.read_turns (integer, bigint[], integer, integer) is 'What memories and the turns around them say, and who said it.';
