-- Reading memories by id and by list, under the caller's own row security.

-- _then: a row of the view memories with another version and status in the place of today's.
create or replace function memdb._then (p_memory memdb.memories, p_version memdb.memory_version, p_status text)
  returns memdb.memories
  language sql stable
begin atomic
  select jsonb_populate_record(p_memory, coalesce(p_version.replaced, '{}') || jsonb_build_object(
    'version', p_version.version, 'text', p_version.text, 'summary', p_version.summary, 'heading', p_version.heading,
    'language', p_version.language, 'metadata', p_version.metadata, 'valid_from', p_version.valid_from,
    'valid_to', p_version.valid_to, 'recorded_at', p_version.recorded_at, 'status', p_status));
end;
comment on function memdb._then (memdb.memories, memdb.memory_version, text) is 'A row of the view memories with another version and status in the place of today''s.';

-- _list_states: a page of memories as they were at a time: ids, versions and statuses, newest first.
--
-- Candidates for list_memories, which checks the arguments and reads the words as the caller.
create or replace function memdb._list_states (
  p_tenant     integer,
  p_namespaces text[],
  p_user       text,
  p_types      text[],
  p_statuses   text[],
  p_after      bigint,
  p_after_at   timestamptz,
  p_limit      integer,
  p_belief_at  timestamptz,
  p_world_at   timestamptz
)
  returns table (memory_id bigint, version integer, status text)
  language plpgsql stable security definer rows 50
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_ids integer[];
begin
  perform memdb._authorize(p_tenant, false);
  v_ids := memdb._readable(p_tenant, p_namespaces, null);
  return query
    select s.memory_id, s.version, s.status
      from memdb.shown_memory m
      cross join lateral memdb._states_at(p_tenant, p_belief_at, p_world_at, array[m.memory_id]) s
      join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = s.memory_id and v.version = s.version
     where m.tenant_id = p_tenant
       and (v_ids is null or m.namespace_id = any (v_ids))
       and (p_user is null or m.user_id = p_user)
       and (p_types is null or coalesce(v.replaced ->> 'type', m.type) = any (p_types))
       and (p_statuses is null or s.status = any (p_statuses))
       and (p_after is null or (m.occurred_at, m.memory_id) < (p_after_at, p_after))
     order by m.occurred_at desc, m.memory_id desc
     limit p_limit;
end $$;
comment on function memdb._list_states (integer, text[], text, text[], text[], bigint, timestamptz, integer, timestamptz, timestamptz) is 'A page of memories as they were at a time: ids, versions and statuses, newest first.';

-- get_memory: one memory as it stands now.
--
-- Returns its current version with its state, as a row of the view memories. Raises MD103 where
-- it does not exist or the caller may not see it. Cost: three look-ups by key.
create or replace function memdb.get_memory (
  p_tenant integer,
  p_memory bigint
)
  returns setof memdb.memories
  language plpgsql stable rows 1
as $$
begin
  return query select m.* from memdb.memories m where m.tenant_id = p_tenant and m.memory_id = p_memory;
  if not found then
    perform memdb._raise('MD103', 'no such memory', jsonb_build_object('memory_id', p_memory),
      'Check the id and the tenant; a forgotten memory is gone.');
  end if;
end $$;
comment on function memdb.get_memory (integer, bigint) is 'One memory as it stands now.';

-- memory_as_of: one memory as it was believed on a day, about a day.
--
-- p_as_of_belief: with what was known then (default now); p_as_of_world: the version that spoke of
-- that day (default: the current one). Version, text, status, type, importance, confidence, trust
-- and times are those of then; use, tier and pin those of today. Returns a row of the view
-- memories. Raises MD103 where it was not known yet, had nothing to say about that day, or may
-- not be seen, MD301.
create or replace function memdb.memory_as_of (
  p_tenant       integer,
  p_memory       bigint,
  p_as_of_belief timestamptz default null,
  p_as_of_world  timestamptz default null
)
  returns setof memdb.memories
  language plpgsql stable rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  return query
    select (memdb._then(m, v, s.status)).*
      from memdb._read_states(p_tenant, array[p_memory], p_as_of_belief, p_as_of_world) s
      join memdb.memories m on m.tenant_id = p_tenant and m.memory_id = s.memory_id
      join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = s.memory_id and v.version = s.version;
  if not found then
    perform memdb._raise('MD103', 'no such memory at that time', jsonb_build_object('memory_id', p_memory),
      'memory_history tells when it was known, and what of.');
  end if;
end $$;
comment on function memdb.memory_as_of (integer, bigint, timestamptz, timestamptz) is 'One memory as it was believed on a day, about a day.';

-- list_memories: memories of some namespaces, newest first, page by page.
--
-- p_namespaces null means all the caller may read (MD102 for an unknown one); p_user, p_types and
-- p_statuses filter (null = no filter; default only active ones). p_after is the last memory_id
-- of the page before; p_limit 1 to 1,000. Returns rows of the view memories, ordered by
-- occurred_at and id, both descending. p_as_of_belief and p_as_of_world: as memory_as_of, the order
-- being that of today. Raises MD001, MD102, MD301. Cost: one index range per
-- namespace.
create or replace function memdb.list_memories (
  p_tenant       integer,
  p_namespaces   text[]      default null,
  p_user         text        default null,
  p_types        text[]      default null,
  p_statuses     text[]      default '{active}',
  p_after        bigint      default null,
  p_limit        integer     default 50,
  p_as_of_belief timestamptz default null,
  p_as_of_world  timestamptz default null
)
  returns setof memdb.memories
  language plpgsql stable rows 50
as $$
declare
  v_ids   integer[];
  v_after timestamptz;
begin
  perform memdb._authorize(p_tenant, false);
  if p_limit is null or p_limit not between 1 and 1000 then
    perform memdb._raise('MD001', 'a page holds 1 to 1,000 memories', jsonb_build_object('field', 'limit'));
  end if;
  v_ids := memdb._readable(p_tenant, p_namespaces, null);
  select m.occurred_at into v_after from memdb.shown_memory m where m.tenant_id = p_tenant and m.memory_id = p_after;
  if p_after is not null and v_after is null then
    perform memdb._raise('MD103', 'the page to follow ends with a memory that is gone', jsonb_build_object('memory_id', p_after),
      'Start again from the first page.');
  end if;
  if p_as_of_belief is not null or p_as_of_world is not null then
    return query
      select (memdb._then(m, v, s.status)).*
        from memdb._list_states(p_tenant, p_namespaces, p_user, p_types, p_statuses, p_after, v_after, p_limit,
                                p_as_of_belief, p_as_of_world) s
        join memdb.memories m on m.tenant_id = p_tenant and m.memory_id = s.memory_id
        join memdb.shown_memory w on w.tenant_id = p_tenant and w.memory_id = s.memory_id
        join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = s.memory_id and v.version = s.version
       order by w.occurred_at desc, w.memory_id desc;
    return;
  end if;
  return query
    select v.*
      from (select m.memory_id, m.occurred_at
              from memdb.shown_memory m
             where m.tenant_id = p_tenant
               and (v_ids is null or m.namespace_id = any (v_ids))
               and (p_user is null or m.user_id = p_user)
               and (p_types is null or m.type = any (p_types))
               and (p_statuses is null or m.status = any (p_statuses))
               and (p_after is null or (m.occurred_at, m.memory_id) < (v_after, p_after))
             order by m.occurred_at desc, m.memory_id desc
             limit p_limit) page
      join memdb.memories v on v.tenant_id = p_tenant and v.memory_id = page.memory_id
     order by page.occurred_at desc, page.memory_id desc;
end $$;
comment on function memdb.list_memories (integer, text[], text, text[], text[], bigint, integer, timestamptz, timestamptz) is 'Memories of some namespaces, newest first, page by page.';
