-- Why something is out: the label of a stale memory, told from what it stood on.
--
-- A fall labels what it fells as it goes. Where causes differ, or the cause that was named is gone
-- while another keeps the memory out, the label is looked for here.

-- _unlabelled: of some memories, those that are stale and have no label that says why.
create or replace function memdb._unlabelled (p_tenant integer, p_memory_ids bigint[])
  returns table (memory_id bigint, version integer, namespace_id integer)
  language sql stable rows 100
begin atomic
  select m.memory_id, m.version, m.namespace_id
    from unnest(p_memory_ids) w (memory_id)
    cross join lateral (
      select m.memory_id, m.version, m.namespace_id from memdb.memory m
       where m.tenant_id = p_tenant and m.memory_id = w.memory_id and m.status = 'stale'
      offset 0) m
   where (select b.from_at from memdb.belief b
           where b.tenant_id = p_tenant and b.subject = 'memory' and b.subject_id = m.memory_id
             and coalesce(b.to_at, 'infinity') = 'infinity') is null;
end;
comment on function memdb._unlabelled (integer, bigint[]) is 'Of some memories, those that are stale and have no label that says why.';

-- _cause_of: why stale memories without a label are out, told from the premises they stood on.
--
-- Of several causes the nearest is named, the words of its reason only within its namespace. Premises
-- that have no label yet themselves tell nothing: a memory that has only such ones out is left out.
create or replace function memdb._cause_of (p_tenant integer, p_memory_ids bigint[])
  returns table (memory_id bigint, namespace_id integer, cause text, root text, root_id bigint, depth integer, reason text)
  language sql stable rows 100
begin atomic
  select distinct on (m.memory_id) m.memory_id, m.namespace_id, c.cause, c.root, c.root_id, c.depth, c.reason
    from memdb._unlabelled(p_tenant, p_memory_ids) m
    cross join lateral (
      select p.* from memdb.justification j
        join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id
       where j.tenant_id = p_tenant and j.memory_id = m.memory_id and j.version = m.version and j.supports
      offset 0) p
    left join lateral (
      select s.version from memdb.memory s where s.tenant_id = p_tenant and s.memory_id = p.memory_id offset 0) s on true
    left join lateral (
      select b.* from memdb.belief b
       where b.tenant_id = p_tenant and b.subject = case when p.event_id is null then 'memory' else 'event' end
         and b.subject_id = coalesce(p.event_id, p.memory_id) and coalesce(b.to_at, 'infinity') = 'infinity'
      offset 0) b on true
    cross join lateral (
      select b.status as cause, 'event' as root, p.event_id as root_id, 1 as depth,
             case when b.namespace_id = m.namespace_id then b.reason end as reason
       where p.event_id is not null and b.status is not null
      union all
      select 'premise_superseded', 'memory', p.memory_id, 1, null
       where s.version <> p.memory_version
         and not memdb._ended_before(p_tenant, p.justification_id, p.memory_id, p.memory_version)
      union all
      select 'premise_out', coalesce(b.root, 'memory'), coalesce(b.root_id, p.memory_id), b.depth + 1,
             case when b.namespace_id = m.namespace_id then b.reason end
       where s.version = p.memory_version and b.status is not null) c
   order by m.memory_id, c.depth, c.root, c.root_id;
end;
comment on function memdb._cause_of (integer, bigint[]) is 'Why stale memories without a label are out, told from the premises they stood on.';

-- _ring_member: of memories without a label that rest on each other alone, one that rests on itself; null if there are none.
--
-- Walks from the oldest up to what it stood on until a memory comes again. Where the walk ends
-- before (the memory was let fall to see whether it gets up again) the last one met.
create or replace function memdb._ring_member (p_tenant integer, p_memory_ids bigint[])
  returns bigint
  language sql stable
begin atomic
  with recursive up (memory_id, met) as (
    select u.memory_id, '{}'::bigint[]
      from (select u.memory_id from memdb._unlabelled(p_tenant, p_memory_ids) u order by u.memory_id limit 1) u
    union all
    select n.memory_id, u.met || u.memory_id
      from up u
      cross join lateral (
        select w.memory_id
          from memdb._unlabelled(p_tenant, array(
                 select p.memory_id
                   from memdb.memory m
                   join memdb.justification j
                     on j.tenant_id = p_tenant and j.memory_id = m.memory_id and j.version = m.version and j.supports
                   join memdb.premise p
                     on p.tenant_id = p_tenant and p.justification_id = j.justification_id and p.memory_id is not null
                  where m.tenant_id = p_tenant and m.memory_id = u.memory_id)) w
         order by w.memory_id limit 1) n
     where u.memory_id <> all (u.met)
  )
  select u.memory_id from up u order by cardinality(u.met) desc limit 1;
end;
comment on function memdb._ring_member (integer, bigint[]) is 'Of memories without a label that rest on each other alone, one that rests on itself; null if there are none.';

-- _name_causes: give stale memories a label that tells why they are out now.
--
-- A spell that began at this very moment is renamed, an older one ends and another begins. From
-- the roots outwards, wave by wave, since a cause may be one of the memories itself; a ring that
-- has nothing but itself to stand on is the root of itself and of what rests on it.
create or replace function memdb._name_causes (p_tenant integer, p_memory_ids bigint[], p_now timestamptz)
  returns void
  language plpgsql volatile
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_wave  bigint[] := p_memory_ids;
  v_named bigint[];
begin
  perform memdb._close_beliefs(p_tenant, 'memory', p_memory_ids, p_now);
  loop
    with named as (
      insert into memdb.belief as n (tenant_id, namespace_id, subject, subject_id, status, from_at, cause, root, root_id, depth,
                                     actor, reason)
        select p_tenant, c.namespace_id, 'memory', c.memory_id, 'stale', p_now, c.cause, c.root, c.root_id, c.depth,
               memdb._caller(), c.reason
          from memdb._cause_of(p_tenant, v_wave) c
      returning n.subject_id)
    select array_agg(n.subject_id) into v_named from named n;
    if v_named is null then
      insert into memdb.belief as n (tenant_id, namespace_id, subject, subject_id, status, from_at, cause, root, root_id, depth, actor)
        select p_tenant, m.namespace_id, 'memory', m.memory_id, 'stale', p_now, 'premise_out', 'memory', m.memory_id, 1,
               memdb._caller()
          from memdb.memory m
         where m.tenant_id = p_tenant and m.memory_id = memdb._ring_member(p_tenant, p_memory_ids)
      returning array[n.subject_id] into v_named;
    end if;
    exit when v_named is null;
    v_wave := array(select distinct p.conclusion_id from memdb.premise p
                     where p.tenant_id = p_tenant and p.memory_id = any (v_named) and p.supports);
  end loop;
end $$;
comment on function memdb._name_causes (integer, bigint[], timestamptz) is 'Give stale memories a label that tells why they are out now.';

-- _rename_causes: name anew the causes of what some events or memories felled that count again.
--
-- Two corrections may have felled one memory; its label names the first. When that one is undone
-- the memory stays stale, for the reason of the other.
create or replace function memdb._rename_causes (p_tenant integer, p_root text, p_root_ids bigint[], p_now timestamptz)
  returns void
  language plpgsql volatile
as $$
declare
  v_ids bigint[] := array(
    select b.subject_id from memdb.belief b
     where b.tenant_id = p_tenant and b.root = p_root and b.root_id = any (p_root_ids) and b.to_at is null
       and b.subject = 'memory' and b.status = 'stale' and b.cause <> 'premise_superseded');
begin
  if v_ids <> '{}' then
    perform memdb._name_causes(p_tenant, v_ids, p_now);
  end if;
end $$;
comment on function memdb._rename_causes (integer, text, bigint[], timestamptz) is 'Name anew the causes of what some events or memories felled that count again.';
