-- Placing: which memory each item of a batch speaks of, and what is to be done to it.
--
-- The first step of record_memories (22): a new memory, a further reason for a known one, or a new
-- version. Locks are taken in the order of keys and ids, so that overlapping batches wait for each
-- other but never in a circle.

-- _first_statistics: analyze table memory once, as soon as it has grown and if nobody has yet.
--
-- Without statistics every index that begins with tenant and namespace looks as good as the one with
-- the content hash, and a look-up reads the whole namespace: 5 ms in place of 0.05 at 3,000
-- memories. Autovacuum would see to it within a minute or so, in which a first import runs. Only one
-- transaction does it; the others go on as they are.
create or replace function memdb._first_statistics ()
  returns void
  language plpgsql volatile
as $$
begin
  -- 1835364211 ("meos"). A table that was never analyzed has a reltuples of -1.
  if (select c.reltuples < 0 and pg_relation_size(c.oid) > 65536
        from pg_class c where c.oid = 'memdb.memory'::regclass)
     and pg_try_advisory_xact_lock(1835364211) then
    analyze memdb.memory;
  end if;
end $$;
comment on function memdb._first_statistics () is 'Analyze table memory once, as soon as it has grown and if nobody has yet.';

-- _create_memories: insert the memories of a batch that are not known yet; returns their places.
--
-- Two writers of one fact at once: the unique index makes the second wait and skip, and it then
-- finds the row of the first. Rows go in in the order of their unique keys, so overlapping
-- batches cannot deadlock; ids are drawn in the order of the batch, and of items that state the
-- same the first makes the memory. p_out are the items of which a source is out: they are born stale.
create or replace function memdb._create_memories (
  p_tenant integer,
  p_items  memdb._memory_item[],
  p_out    integer[],
  p_now    timestamptz
)
  returns memdb._memory_place[]
  language sql volatile
begin atomic
  with fresh as materialized (
    select i.ordinal, i.namespace_id, i.session_id, i.sequence, i.user_id, i.agent_id, i.type, i.external_id, i.content_hash,
           i.tier, i.is_pinned, i.importance, i.confidence, i.trust, i.occurred_at,
           nextval('memdb.memory_memory_id_seq') as new_id
      from unnest(p_items) i
     where case when i.external_id is not null then not exists (
                  select from memdb.memory m
                   where m.tenant_id = p_tenant and m.namespace_id = i.namespace_id and m.external_id = i.external_id)
                else not exists (
                  select from memdb.memory m
                   where m.tenant_id = p_tenant and m.namespace_id = i.namespace_id and m.external_id is null
                     and m.content_hash = i.content_hash and m.user_id is not distinct from i.user_id) end
  ), life as materialized (
    select n.namespace_id, memdb._life(p_tenant, n.namespace_id) as life from (select distinct f.namespace_id from fresh f) n
  ), fading as materialized (
    -- Once for all that are alike, which in most batches is nearly all.
    select d.*, memdb._fades_at(l.life, d.type, d.tier, d.is_pinned, true, d.importance, d.reliability, 0, p_now) as fades_at
      from (select distinct f.namespace_id, f.type, f.tier, f.is_pinned, f.importance, least(f.confidence, f.trust) as reliability
              from fresh f) d
      join life l on l.namespace_id = d.namespace_id
  ), inserted as (
    insert into memdb.memory as m (
      tenant_id, memory_id, namespace_id, session_id, sequence, user_id, agent_id, type, external_id, content_hash,
      status, tier, is_pinned, importance, confidence, trust, occurred_at, recorded_at, fades_at)
    overriding system value
    select p_tenant, f.new_id, f.namespace_id, f.session_id, f.sequence, f.user_id, f.agent_id, f.type, f.external_id,
           f.content_hash, case when f.ordinal = any (p_out) then 'stale' else 'active' end, f.tier, f.is_pinned, f.importance,
           f.confidence, f.trust, f.occurred_at, p_now, d.fades_at
      from fresh f
      join fading d
        on d.namespace_id = f.namespace_id and d.type = f.type and d.tier = f.tier and d.is_pinned = f.is_pinned
       and d.importance = f.importance and d.reliability = least(f.confidence, f.trust)
     order by f.namespace_id, f.external_id nulls first, f.content_hash, f.user_id nulls first, f.ordinal
    on conflict do nothing
    returning m.memory_id, m.version
  )
  select coalesce(array_agg((f.ordinal, i.memory_id, i.version, 'created')::memdb._memory_place order by f.ordinal), '{}')
    from inserted i
    join fresh f on f.new_id = i.memory_id;
end;
comment on function memdb._create_memories (integer, memdb._memory_item[], integer[], timestamptz) is 'Insert the memories of a batch that are not known yet; returns their places.';

-- _changes_truth: whether a batch gives a known memory other content, or a reason to one that has fallen.
--
-- Such a batch takes the truth lock exclusively, since others may rest on what it changes. Asked
-- once before the lock and once after: a batch that found out too late starts again. p_new are
-- memories the batch itself has just made.
create or replace function memdb._changes_truth (p_tenant integer, p_items memdb._memory_item[], p_new bigint[])
  returns boolean
  language sql volatile
begin atomic
  select exists (
    select from unnest(p_items) i
      cross join lateral (
        select from memdb.memory m
         where m.tenant_id = p_tenant and m.namespace_id = i.namespace_id and m.external_id = i.external_id
           and (m.content_hash <> i.content_hash or m.status <> 'active') and m.memory_id <> all (p_new)
        union all
        select from memdb.memory m
         where i.external_id is null and m.tenant_id = p_tenant and m.namespace_id = i.namespace_id
           and m.external_id is null and m.content_hash = i.content_hash and m.user_id is not distinct from i.user_id
           and m.status <> 'active' and m.memory_id <> all (p_new)
        offset 0) m);
end;
comment on function memdb._changes_truth (integer, memdb._memory_item[], bigint[]) is 'Whether a batch gives a known memory other content, or a reason to one that has fallen.';

-- _make_way: see to it that a batch neither rests on what is being forgotten nor becomes a part of it.
--
-- Under the truth lock, for the sources were looked up before it: an erasure may have listed one since.
-- What is to go and says the same, or goes by the same name, gives that up here, as it would when
-- its turn comes, so that the item makes a memory of its own. What stays but is to lose the very version
-- the item would confirm raises 40001; sources raise MD103 and MD104.
create or replace function memdb._make_way (
  p_tenant  integer,
  p_items   memdb._memory_item[],
  p_sources memdb._memory_source[]
)
  returns void
  language plpgsql volatile
as $$
declare
  v_source memdb._memory_source;
  v_known  bigint[];
begin
  if not exists (select from memdb.erasure_receipt r where r.tenant_id = p_tenant and r.state = 'erasing') then
    return;
  end if;
  select s.* into v_source from unnest(p_sources) s
   where memdb._is_listed(p_tenant, 'event', s.event_id) or memdb._is_listed(p_tenant, 'memory', s.memory_id)
   limit 1;
  if found then
    perform memdb._raise(case when v_source.event_id is null then 'MD103' else 'MD104' end,
      case when v_source.event_id is null then 'no such memory or version' else 'no such event' end,
      jsonb_strip_nulls(jsonb_build_object('index', v_source.ordinal, 'event_id', v_source.event_id, 'memory_id', v_source.memory_id)),
      'It is being forgotten.');
  end if;
  v_known := array(
    select k.memory_id
      from unnest(p_items) i
      cross join lateral (
        select m.memory_id from memdb.memory m
         where m.tenant_id = p_tenant and m.namespace_id = i.namespace_id and m.external_id = i.external_id
        union all
        select m.memory_id from memdb.memory m
         where i.external_id is null and m.tenant_id = p_tenant and m.namespace_id = i.namespace_id
           and m.external_id is null and m.content_hash = i.content_hash and m.user_id is not distinct from i.user_id
        offset 0) k
      join memdb.erasure_item l on l.tenant_id = p_tenant and l.subject = 'memory' and l.subject_id = k.memory_id
     order by 1);
  update memdb.memory m
     set external_id = null, content_hash = int8send(m.memory_id)
    from memdb.erasure_item l
   where m.tenant_id = p_tenant and m.memory_id = any (v_known)
     and l.tenant_id = p_tenant and l.subject = 'memory' and l.subject_id = m.memory_id and not l.stays;
  if exists (select from memdb.memory m
               join memdb.erasure_item l on l.tenant_id = p_tenant and l.subject = 'memory' and l.subject_id = m.memory_id
               join memdb.erasure_item v
                 on v.tenant_id = p_tenant and v.subject = 'version' and v.subject_id = m.memory_id and v.version = m.version
              where m.tenant_id = p_tenant and m.memory_id = any (v_known) and l.stays and not v.stays) then
    perform memdb._raise('40001', 'what this batch speaks of is being parted from what is forgotten', null, 'Try again.');
  end if;
end $$;
comment on function memdb._make_way (integer, memdb._memory_item[], memdb._memory_source[]) is 'See to it that a batch neither rests on what is being forgotten nor becomes a part of it.';

-- _sources_out: the items of a batch of which at least one source does not hold.
--
-- Read under the truth lock, so it stays right until commit.
create or replace function memdb._sources_out (p_tenant integer, p_sources memdb._memory_source[])
  returns integer[]
  language sql volatile
begin atomic
  select coalesce(array_agg(distinct s.ordinal), '{}')
    from unnest(p_sources) s
   where (s.event_id is not null and exists (
            select from memdb.belief b
             where b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = s.event_id and b.to_at is null))
      or (s.memory_id is not null and not exists (
            select from memdb.memory m
             where m.tenant_id = p_tenant and m.memory_id = s.memory_id and m.version = s.memory_version and m.status = 'active'));
end;
comment on function memdb._sources_out (integer, memdb._memory_source[]) is 'The items of a batch of which at least one source does not hold.';

-- _lock_known: lock the memories a batch speaks of, in id order, until commit.
--
-- A statement of its own: what is read after it is what the last writer of these rows committed.
-- Looked up item by item and locked by id: as a join, a plan made while the table was empty would
-- go through all of it for each item.
create or replace function memdb._lock_known (p_tenant integer, p_items memdb._memory_item[])
  returns void
  language sql volatile
begin atomic
  select from memdb.memory m
   where m.tenant_id = p_tenant
     and m.memory_id = any (array(
       select k.memory_id
         from unnest(p_items) i
         cross join lateral (
           select f.memory_id from memdb.memory f
            where f.tenant_id = p_tenant and f.namespace_id = i.namespace_id and f.external_id = i.external_id
           union all
           select f.memory_id from memdb.memory f
            where i.external_id is null and f.tenant_id = p_tenant and f.namespace_id = i.namespace_id
              and f.external_id is null and f.content_hash = i.content_hash and f.user_id is not distinct from i.user_id
           offset 0) k))
   order by m.memory_id
     for no key update;
end;
comment on function memdb._lock_known (integer, memdb._memory_item[]) is 'Lock the memories a batch speaks of, in id order, until commit.';

-- _has_justification: whether a version already rests on exactly these premises.
--
-- p_premises: event ids, and memory ids negated, in ascending order, then in that order the versions
-- of the memories, 0 for an event: the same words on a later version are a further reason. Cost: the
-- justifications of one memory.
create or replace function memdb._has_justification (
  p_tenant   integer,
  p_memory   bigint,
  p_version  integer,
  p_premises bigint[]
)
  returns boolean
  language sql stable
begin atomic
  select exists (
    select from memdb.justification j
     where j.tenant_id = p_tenant and j.memory_id = p_memory and j.version = p_version
       and p_premises = (select array_agg(coalesce(p.event_id, -p.memory_id) order by coalesce(p.event_id, -p.memory_id), p.memory_version)
                             || array_agg(coalesce(p.memory_version, 0)::bigint
                                          order by coalesce(p.event_id, -p.memory_id), p.memory_version)
                           from memdb.premise p
                          where p.tenant_id = p_tenant and p.justification_id = j.justification_id));
end;
comment on function memdb._has_justification (integer, bigint, integer, bigint[]) is 'Whether a version already rests on exactly these premises.';

-- _place_memories: which memory each item of a batch speaks of, and what is to be done to it.
--
-- created: the memory is in p_new. versioned: known external_id, other content. confirmed: known
-- fact, further justification. unchanged: the same fact with the same sources, or the same
-- external_id with the same content, whether the memory has it already or an item before it brings it. Raises MD201 where one batch gives one external_id two
-- contents, MD205 where a less trusted source would replace a more trusted one.
create or replace function memdb._place_memories (
  p_tenant  integer,
  p_items   memdb._memory_item[],
  p_sources memdb._memory_source[],
  p_new     bigint[]
)
  returns setof memdb._memory_place
  language sql volatile rows 1000
begin atomic
  with known as materialized (
    select i.ordinal, i.content_hash, i.trust, i.external_id, m.memory_id, m.version, m.status,
           m.content_hash as known_hash, m.trust as known_trust
      from unnest(p_items) i
      cross join lateral (
        select m.* from memdb.memory m
         where m.tenant_id = p_tenant and m.namespace_id = i.namespace_id and m.external_id = i.external_id
        union all
        select m.* from memdb.memory m
         where i.external_id is null and m.tenant_id = p_tenant and m.namespace_id = i.namespace_id
           and m.external_id is null and m.content_hash = i.content_hash and m.user_id is not distinct from i.user_id) m
  ), placed as (
    select k.*, row_number() over same = 1 as is_first, first_value(k.content_hash) over same as first_hash,
           (select array_agg(coalesce(s.event_id, -s.memory_id) order by coalesce(s.event_id, -s.memory_id), s.memory_version)
                   || array_agg(coalesce(s.memory_version, 0)::bigint
                                order by coalesce(s.event_id, -s.memory_id), s.memory_version)
              from unnest(p_sources) s where s.ordinal = k.ordinal) as premises
      from known k
    window same as (partition by k.memory_id order by k.ordinal)
  ), told as (
    select p.*, row_number() over (partition by p.memory_id, p.premises order by p.ordinal) > 1 as is_repeated from placed p
  ), judged as (
    select p.*, case
             when p.memory_id = any (p_new) and p.is_first then 'created'
             when p.known_hash <> p.content_hash and p.is_first then 'versioned'
             when p.external_id is not null and (p.status = 'active' or p.known_hash <> p.content_hash) then 'unchanged'
             when p.is_repeated then 'unchanged'
             when p.memory_id <> all (p_new) and memdb._has_justification(p_tenant, p.memory_id, p.version, p.premises) then 'unchanged'
             else 'confirmed' end as outcome
      from told p
  )
  select (j.ordinal, j.memory_id, j.version + (j.known_hash <> j.content_hash)::integer, j.outcome)::memdb._memory_place
    from judged j
   where case
     when j.first_hash <> j.content_hash then
       memdb._raise('MD201', 'one batch gives one external_id two contents',
         jsonb_build_object('index', j.ordinal, 'external_id', j.external_id), 'Send the later one in a batch of its own.')
     when j.outcome = 'versioned' and j.trust < j.known_trust then
       memdb._raise('MD205', 'a less trusted source may not replace a more trusted one',
         jsonb_build_object('index', j.ordinal, 'memory_id', j.memory_id, 'trust', j.known_trust),
         'Record it under another external_id; both then stand side by side until somebody decides.')
     else true end;
end;
comment on function memdb._place_memories (integer, memdb._memory_item[], memdb._memory_source[], bigint[]) is 'Which memory each item of a batch speaks of, and what is to be done to it.';
