-- Export: events and memories as they stand, page by page, for another memdb or none.

-- list_events: events of some namespaces, in the order they were stored, page by page.
--
-- p_namespaces null means all the caller may read (MD102 for an unknown one); p_after is the last
-- event_id of the page before; p_limit 1 to 10,000. Returns rows of the view events, also of those
-- taken back (status). Runs as the caller. Raises MD001, MD102, MD301. Cost: one index range.
create or replace function memdb.list_events (
  p_tenant     integer,
  p_namespaces text[]  default null,
  p_after      bigint  default 0,
  p_limit      integer default 1000
)
  returns setof memdb.events
  language plpgsql stable rows 1000
as $$
declare
  v_ids integer[];
begin
  perform memdb._authorize(p_tenant, false);
  if p_limit is null or p_limit not between 1 and 10000 then
    perform memdb._raise('MD001', 'a page holds 1 to 10,000 events', jsonb_build_object('field', 'limit'));
  end if;
  v_ids := memdb._readable(p_tenant, p_namespaces, null);
  return query
    select v.*
      from (select e.event_id
              from memdb.shown_event e
             where e.tenant_id = p_tenant and e.event_id > coalesce(p_after, 0)
               and (v_ids is null or e.namespace_id = any (v_ids))
             order by e.event_id
             limit p_limit) page
      join memdb.events v on v.tenant_id = p_tenant and v.event_id = page.event_id
     order by page.event_id;
end $$;
comment on function memdb.list_events (integer, text[], bigint, integer) is 'Events of some namespaces, in the order they were stored, page by page.';

-- export_memories: active memories of some namespaces with what they rest on, oldest id first, page by page.
--
-- Arguments as list_events, p_limit 1 to 1,000. item: the row of the view memories as an object,
-- without the number of its session, which may be a hidden one; and sources: an array of {event_id, quote, ...} and {memory_id, version, ...} as recall shows them, of
-- hidden ones that there is one. Runs as the caller. Raises MD001, MD102, MD301.
create or replace function memdb.export_memories (
  p_tenant     integer,
  p_namespaces text[]  default null,
  p_after      bigint  default 0,
  p_limit      integer default 500
)
  returns table (memory_id bigint, item jsonb)
  language plpgsql stable rows 500
as $$
declare
  v_ids  integer[];
  v_page bigint[];
begin
  perform memdb._authorize(p_tenant, false);
  if p_limit is null or p_limit not between 1 and 1000 then
    perform memdb._raise('MD001', 'a page holds 1 to 1,000 memories', jsonb_build_object('field', 'limit'));
  end if;
  v_ids := memdb._readable(p_tenant, p_namespaces, null);
  v_page := array(select m.memory_id
                    from memdb.shown_memory m
                   where m.tenant_id = p_tenant and m.memory_id > coalesce(p_after, 0) and m.status = 'active'
                     and (v_ids is null or m.namespace_id = any (v_ids))
                   order by m.memory_id
                   limit p_limit);
  return query
    with page as (
      select v.* from memdb.memories v where v.tenant_id = p_tenant and v.memory_id = any (v_page)),
    source as (
      select s.memory_id, s.sources
        from memdb._recall_sources(p_tenant, array(select p.memory_id from page p order by p.memory_id),
                                   array(select p.version from page p order by p.memory_id)) s)
    select p.memory_id, to_jsonb(p) - '{tenant_id, session_id, sequence}'::text[] || jsonb_build_object('sources', coalesce(s.sources, '[]'))
      from page p
      left join source s on s.memory_id = p.memory_id
     order by p.memory_id;
end $$;
comment on function memdb.export_memories (integer, text[], bigint, integer) is 'Active memories of some namespaces with what they rest on, oldest id first, page by page.';
