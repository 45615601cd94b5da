-- Proof: the truth recomputed from scratch, against what is stored; and mended where asked.
--
-- Nothing here should ever find anything. It does after a bug, a hand-written UPDATE or a broken
-- disk. Each _audit_ function looks at one kind of thing and returns findings; check_consistency
-- (82) gathers them.

-- _finding: one line of the report: what is wrong, with how many, the first ten of them, and whether it was mended.
create or replace function memdb._finding (p_problem text, p_ids bigint[], p_is_repaired boolean, p_remedy text)
  returns table (problem text, found bigint, repaired bigint, examples bigint[], remedy text)
  language sql immutable rows 1
begin atomic
  select p_problem, cardinality(p_ids)::bigint, case when p_is_repaired then cardinality(p_ids)::bigint else 0 end, p_ids[1:10], p_remedy;
end;
comment on function memdb._finding (text, bigint[], boolean, text) is 'One line of the report: what is wrong, with how many, the first ten of them, and whether it was mended.';

-- _prove: find from scratch which memories hold, into pg_temp.memdb_proof.
--
-- The least set that is closed under justifications that hold; with p_supports only under those
-- that memories are said to stand on, which finds support that runs in a circle. In waves: each
-- memory that holds is met once, with what rests on it. Not the functions of 35: a check must not
-- trust what it checks.
create or replace function memdb._prove (p_tenant integer, p_supports boolean)
  returns void
  language plpgsql volatile
as $$
declare
  v_wave bigint[];
begin
  truncate pg_temp.memdb_proof;
  with first as (
    insert into pg_temp.memdb_proof (memory_id)
      select distinct j.memory_id
        from memdb.justification j
        join memdb.memory c
          on c.tenant_id = p_tenant and c.memory_id = j.memory_id and c.version = j.version and c.status in ('active', 'stale')
       where j.tenant_id = p_tenant and (j.supports or not p_supports)
         and not exists (
           select from memdb.premise p
             left join memdb.belief b
               on b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = p.event_id and b.to_at is null
            where p.tenant_id = p_tenant and p.justification_id = j.justification_id
              and (p.memory_id is not null or b.subject_id is not null))
    returning memory_id)
  select array_agg(f.memory_id) into v_wave from first f;
  while v_wave is not null loop
    with next as (
      insert into pg_temp.memdb_proof (memory_id)
        select distinct j.memory_id
          from (select distinct p.justification_id from memdb.premise p
                 where p.tenant_id = p_tenant and p.memory_id = any (v_wave)) fed
          join memdb.justification j on j.tenant_id = p_tenant and j.justification_id = fed.justification_id
          join memdb.memory c
            on c.tenant_id = p_tenant and c.memory_id = j.memory_id and c.version = j.version and c.status in ('active', 'stale')
         where (j.supports or not p_supports)
           and not exists (select from pg_temp.memdb_proof k where k.memory_id = j.memory_id)
           and not exists (
             select from memdb.premise p
               left join memdb.belief b
                 on b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = p.event_id and b.to_at is null
               left join pg_temp.memdb_proof k on k.memory_id = p.memory_id
               left join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = p.memory_id
              where p.tenant_id = p_tenant and p.justification_id = j.justification_id
                and (b.subject_id is not null
                     or (p.memory_id is not null
                         and (k.memory_id is null
                              or (m.version <> p.memory_version
                                  and not memdb._ended_before(p_tenant, p.justification_id, p.memory_id, p.memory_version))))))
      returning memory_id)
    select array_agg(n.memory_id) into v_wave from next n;
  end loop;
end $$;
comment on function memdb._prove (integer, boolean) is 'Find from scratch which memories hold, into pg_temp.memdb_proof.';

-- _audit_supports: marks that say which justification a memory stands on: exactly one, and alike on its premises.
create or replace function memdb._audit_supports (p_tenant integer, p_repair boolean)
  returns table (problem text, found bigint, repaired bigint, examples bigint[], remedy text)
  language plpgsql volatile rows 2
as $$
declare
  v_memories bigint[];
  v_premises bigint[];
begin
  select array_agg(m.memory_id order by m.memory_id) into v_memories
    from memdb.memory m
   where m.tenant_id = p_tenant
     and ((select count(*) from memdb.justification j
            where j.tenant_id = p_tenant and j.memory_id = m.memory_id and j.version = m.version and j.supports) <> 1
          or exists (select from memdb.justification j
                      where j.tenant_id = p_tenant and j.memory_id = m.memory_id and j.version <> m.version and j.supports))
     and exists (select from memdb.justification j
                  where j.tenant_id = p_tenant and j.memory_id = m.memory_id and j.version = m.version);
  if p_repair and v_memories is not null then
    update memdb.justification j
       set supports = j.justification_id = (
             select k.justification_id from memdb.justification k
              where k.tenant_id = p_tenant and k.memory_id = j.memory_id and k.version = m.version
              order by k.supports desc, k.justification_id limit 1)
      from memdb.memory m
     where j.tenant_id = p_tenant and j.memory_id = any (v_memories) and m.tenant_id = p_tenant and m.memory_id = j.memory_id;
  end if;
  select array_agg(distinct p.conclusion_id order by p.conclusion_id) into v_premises
    from memdb.premise p
    join memdb.justification j on j.tenant_id = p_tenant and j.justification_id = p.justification_id
   where p.tenant_id = p_tenant and (p.supports <> j.supports or p.conclusion_id <> j.memory_id);
  if p_repair and (v_memories is not null or v_premises is not null) then
    update memdb.premise p set supports = j.supports, conclusion_id = j.memory_id
      from memdb.justification j
     where p.tenant_id = p_tenant and j.tenant_id = p_tenant and j.justification_id = p.justification_id
       and (p.supports <> j.supports or p.conclusion_id <> j.memory_id);
  end if;
  return query
    select * from memdb._finding('memories without exactly one supporting justification', coalesce(v_memories, '{}'), p_repair,
      'Repair marks one of them.')
    union all
    select * from memdb._finding('memories whose premises disagree with their justification', coalesce(v_premises, '{}'), p_repair,
      'Repair copies the mark of the justification.');
end $$;
comment on function memdb._audit_supports (integer, boolean) is 'Marks that say which justification a memory stands on: exactly one, and alike on its premises.';

-- _audit_labels: whether exactly those memories are active that hold, and stand on firm ground.
create or replace function memdb._audit_labels (p_tenant integer, p_repair boolean, p_now timestamptz)
  returns table (problem text, found bigint, repaired bigint, examples bigint[], remedy text)
  language plpgsql volatile rows 3
as $$
declare
  v_active bigint[];
  v_stale  bigint[];
  v_ring   bigint[];
begin
  create temp table memdb_proof (memory_id bigint primary key) on commit drop;
  perform memdb._prove(p_tenant, false);
  select array_agg(m.memory_id order by m.memory_id) filter (where m.status = 'active' and k.memory_id is null),
         array_agg(m.memory_id order by m.memory_id) filter (where m.status = 'stale' and k.memory_id is not null)
    into v_active, v_stale
    from memdb.memory m
    left join pg_temp.memdb_proof k on k.memory_id = m.memory_id
   where m.tenant_id = p_tenant;
  perform memdb._prove(p_tenant, true);
  select array_agg(m.memory_id order by m.memory_id) into v_ring
    from memdb.memory m
   where m.tenant_id = p_tenant and m.status = 'active' and m.memory_id <> all (coalesce(v_active, '{}'))
     and not exists (select from pg_temp.memdb_proof k where k.memory_id = m.memory_id);
  drop table pg_temp.memdb_proof;
  v_active := coalesce(v_active, '{}'); v_stale := coalesce(v_stale, '{}'); v_ring := coalesce(v_ring, '{}');
  if p_repair and v_active || v_stale || v_ring <> '{}' then
    -- What stands on nothing firm is let go without a trace and looked at anew, from the ground up.
    update memdb.memory m set status = 'stale' where m.tenant_id = p_tenant and m.memory_id = any (v_active || v_ring);
    perform memdb._rise(p_tenant, array(
      select j.justification_id from memdb.justification j
       where j.tenant_id = p_tenant and j.memory_id = any (v_stale || v_ring)), p_now);
    perform memdb._name_causes(p_tenant, v_active, p_now);
  end if;
  return query
    select * from memdb._finding('memories active without a reason that holds', v_active, p_repair, 'Repair makes them stale.')
    union all
    select * from memdb._finding('memories stale although a reason holds', v_stale, p_repair, 'Repair makes them active.')
    union all
    select * from memdb._finding('memories that support themselves in a circle', v_ring, p_repair,
      'Repair finds the reason on firm ground that they have beside it.');
end $$;
comment on function memdb._audit_labels (integer, boolean, timestamptz) is 'Whether exactly those memories are active that hold, and stand on firm ground.';

-- _audit_beliefs: whether the status of memories and the spells of being out agree, and no two spells overlap.
create or replace function memdb._audit_beliefs (p_tenant integer, p_repair boolean, p_now timestamptz)
  returns table (problem text, found bigint, repaired bigint, examples bigint[], remedy text)
  language plpgsql volatile rows 3
as $$
declare
  v_orphans  bigint[];
  v_overlaps bigint[];
  v_wrong    bigint[];
begin
  select coalesce(array_agg(distinct b.subject_id), '{}') into v_orphans
    from memdb.belief b
   where b.tenant_id = p_tenant
     and case b.subject
           when 'event' then not exists (select from memdb.event e where e.tenant_id = p_tenant and e.event_id = b.subject_id)
           else not exists (select from memdb.memory m where m.tenant_id = p_tenant and m.memory_id = b.subject_id) end;
  if p_repair and v_orphans <> '{}' then
    delete from memdb.belief b
     where b.tenant_id = p_tenant
       and case b.subject
             when 'event' then not exists (select from memdb.event e where e.tenant_id = p_tenant and e.event_id = b.subject_id)
             else not exists (select from memdb.memory m where m.tenant_id = p_tenant and m.memory_id = b.subject_id) end;
  end if;
  with spell as (
    select b.subject, b.subject_id, b.from_at, b.to_at,
           lead(b.from_at) over (partition by b.subject, b.subject_id order by b.from_at) as next_at
      from memdb.belief b where b.tenant_id = p_tenant
  ), late as (
    select s.* from spell s where s.next_at is not null and (s.to_at is null or s.to_at > s.next_at)
  ), mended as (
    update memdb.belief b set to_at = l.next_at
      from late l
     where p_repair and b.tenant_id = p_tenant and b.subject = l.subject and b.subject_id = l.subject_id and b.from_at = l.from_at)
  select coalesce(array_agg(distinct l.subject_id), '{}') into v_overlaps from late l;
  select coalesce(array_agg(distinct m.memory_id), '{}') into v_wrong
    from memdb.memory m
    left join memdb.belief b
      on b.tenant_id = p_tenant and b.subject = 'memory' and b.subject_id = m.memory_id and b.to_at is null
   where m.tenant_id = p_tenant and coalesce(b.status, 'active') <> m.status;
  if p_repair and v_wrong <> '{}' then
    perform memdb._name_causes(p_tenant, v_wrong, p_now);
    insert into memdb.belief (tenant_id, namespace_id, subject, subject_id, status, from_at, cause, root, root_id, actor, reason)
      select p_tenant, m.namespace_id, 'memory', m.memory_id, m.status, p_now, m.status, 'memory', m.memory_id, memdb._caller(),
             'found by check_consistency'
        from memdb.memory m
       where m.tenant_id = p_tenant and m.memory_id = any (v_wrong) and m.status not in ('active', 'stale');
  end if;
  return query
    select * from memdb._finding('spells of being out of what does not exist', v_orphans, p_repair, 'Repair deletes them.')
    union all
    select * from memdb._finding('events or memories with two spells of being out at once', v_overlaps, p_repair,
      'Repair ends the older where the newer begins.')
    union all
    select * from memdb._finding('memories whose status and history disagree', v_wrong, p_repair,
      'Repair lets the history say from now on what the status says.');
end $$;
comment on function memdb._audit_beliefs (integer, boolean, timestamptz) is 'Whether the status of memories and the spells of being out agree, and no two spells overlap.';

-- _audit_versions: whether every memory has its current version, only that is not retired, and it has a source.
create or replace function memdb._audit_versions (p_tenant integer, p_repair boolean, p_now timestamptz)
  returns table (problem text, found bigint, repaired bigint, examples bigint[], remedy text)
  language plpgsql volatile rows 3
as $$
declare
  v_missing bigint[];
  v_retired bigint[];
  v_bare    bigint[];
begin
  select coalesce(array_agg(m.memory_id order by m.memory_id), '{}') into v_missing
    from memdb.memory m
   where m.tenant_id = p_tenant
     and m.version is distinct from (select max(v.version) from memdb.memory_version v
                                      where v.tenant_id = p_tenant and v.memory_id = m.memory_id);
  if p_repair and v_missing <> '{}' then
    update memdb.memory m set version = v.latest
      from (select w.memory_id, max(w.version) as latest from memdb.memory_version w
             where w.tenant_id = p_tenant and w.memory_id = any (v_missing) group by w.memory_id) v
     where m.tenant_id = p_tenant and m.memory_id = v.memory_id;
  end if;
  select coalesce(array_agg(distinct v.memory_id), '{}') into v_retired
    from memdb.memory_version v
    join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = v.memory_id
   where v.tenant_id = p_tenant and (v.version = m.version) = (v.retired_at is not null);
  if p_repair and v_retired <> '{}' then
    update memdb.memory_version v
       set retired_at = case when v.version = m.version then null
                             else (select n.recorded_at from memdb.memory_version n
                                    where n.tenant_id = p_tenant and n.memory_id = v.memory_id and n.version = v.version + 1) end
      from memdb.memory m
     where v.tenant_id = p_tenant and v.memory_id = any (v_retired) and m.tenant_id = p_tenant and m.memory_id = v.memory_id
       and (v.version = m.version) = (v.retired_at is not null);
  end if;
  select coalesce(array_agg(m.memory_id order by m.memory_id), '{}') into v_bare
    from memdb.memory m
   where m.tenant_id = p_tenant
     and not exists (select from memdb.justification j
                       join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id
                      where j.tenant_id = p_tenant and j.memory_id = m.memory_id and j.version = m.version);
  return query
    select * from memdb._finding('memories that are not at their latest version', v_missing, p_repair, 'Repair puts them there.')
    union all
    select * from memdb._finding('memories of which a wrong version is retired', v_retired, p_repair, 'Repair retires all but the current one.')
    union all
    select * from memdb._finding('memories without a source', v_bare, false, 'Retract them, or record them again with what they rest on.');
end $$;
comment on function memdb._audit_versions (integer, boolean, timestamptz) is 'Whether every memory has its current version, only that is not retired, and it has a source.';
