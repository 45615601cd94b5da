-- Reading memories by id and by list, under the caller's own row security.

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

-- list_memories: memories of some namespaces, newest first, page by page.
--
-- p_namespaces null means all the caller may read (MD102 for an unknown one); p_user, p_types and
-- p_statuses filter (null = no filter; default only active ones). p_after is the last memory_id
-- of the page before; p_limit 1 to 1,000. Returns rows of the view memories, ordered by
-- occurred_at and id, both descending. Raises MD001, MD102, MD301. Cost: one index range per
-- namespace.
create or replace function memdb.list_memories (
  p_tenant     integer,
  p_namespaces text[]  default null,
  p_user       text    default null,
  p_types      text[]  default null,
  p_statuses   text[]  default '{active}',
  p_after      bigint  default null,
  p_limit      integer default 50
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
  select m.occurred_at into v_after from memdb.memory m where m.tenant_id = p_tenant and m.memory_id = p_after;
  if p_after is not null and v_after is null then
    perform memdb._raise('MD103', 'the page to follow ends with a memory that is gone', jsonb_build_object('memory_id', p_after),
      'Start again from the first page.');
  end if;
  return query
    select v.*
      from (select m.memory_id, m.occurred_at
              from memdb.memory m
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
comment on function memdb.list_memories (integer, text[], text, text[], text[], bigint, integer) is 'Memories of some namespaces, newest first, page by page.';
