-- Items: memories under names of their client's own, as a store of keys and values sees them.
--
-- An item is a memory with an external id. It is read by its name, listed by the namespace it is in
-- or below and by conditions on its metadata, and may have a time to live. What has been retracted
-- or has expired is none: a deleted item is a retracted memory, whose history stays.

-- _filter_flaw: what is wrong with conditions on metadata; null where they are sound.
create or replace function memdb._filter_flaw (p_filter jsonb)
  returns text
  language sql immutable parallel safe
begin atomic
  select case
    when jsonb_typeof(p_filter) <> 'array' then 'conditions are an array of {path, op, value}'
    when jsonb_array_length(p_filter) > 100 then 'at most 100 conditions'
    else (select case when jsonb_typeof(f.item) <> 'object' then 'a condition is an object'
                      when jsonb_typeof(f.item -> 'path') is distinct from 'array' then 'a path is an array of keys'
                      when f.item ->> 'op' is null or f.item ->> 'op' not in (
                        'eq', 'ne', 'gt', 'gte', 'lt', 'lte', 'in', 'nin', 'exists', 'contains', 'starts', 'ends')
                        then 'op is eq, ne, gt, gte, lt, lte, in, nin, exists, contains, starts or ends'
                      when f.item ->> 'op' in ('in', 'nin') and jsonb_typeof(f.item -> 'value') is distinct from 'array'
                        then 'in and nin take an array' end
            from jsonb_array_elements(p_filter) with ordinality f (item, place)
           where jsonb_typeof(f.item) <> 'object' or jsonb_typeof(f.item -> 'path') is distinct from 'array'
              or f.item ->> 'op' is null
              or f.item ->> 'op' not in ('eq', 'ne', 'gt', 'gte', 'lt', 'lte', 'in', 'nin', 'exists', 'contains', 'starts', 'ends')
              or (f.item ->> 'op' in ('in', 'nin') and jsonb_typeof(f.item -> 'value') is distinct from 'array')
           order by f.place limit 1) end;
end;
comment on function memdb._filter_flaw (jsonb) is 'What is wrong with conditions on metadata; null where they are sound.';

-- _meets: whether metadata meets all of some conditions.
--
-- What is missing equals null. The order of gt, gte, lt and lte is that of numbers among numbers and
-- of texts (by code point) among texts; values of two kinds are in no order. contains looks for a
-- part of a text or for an element of an array; starts and ends for the two ends of a text.
create or replace function memdb._meets (p_metadata jsonb, p_filter jsonb)
  returns boolean
  language sql immutable parallel safe
begin atomic
  select not exists (
    select from jsonb_array_elements(p_filter) f (item)
      cross join lateral (
        select p_metadata #> array(select p.key from jsonb_array_elements_text(f.item -> 'path') with ordinality p (key, place)
                                    order by p.place) as found, coalesce(f.item -> 'value', 'null') as value) v
      cross join lateral (
        select v.found #>> '{}' as text, v.value #>> '{}' as wanted,
               jsonb_typeof(v.found) = jsonb_typeof(v.value) and jsonb_typeof(v.found) in ('number', 'string') as is_ordered,
               jsonb_typeof(v.found) = 'number' as is_number) t
     where case f.item ->> 'op'
       when 'eq' then coalesce(v.found, 'null') = v.value
       when 'ne' then coalesce(v.found, 'null') <> v.value
       when 'gt' then t.is_ordered and case when t.is_number then v.found > v.value else t.text collate "C" > t.wanted end
       when 'gte' then t.is_ordered and case when t.is_number then v.found >= v.value else t.text collate "C" >= t.wanted end
       when 'lt' then t.is_ordered and case when t.is_number then v.found < v.value else t.text collate "C" < t.wanted end
       when 'lte' then t.is_ordered and case when t.is_number then v.found <= v.value else t.text collate "C" <= t.wanted end
       when 'in' then v.value @> jsonb_build_array(coalesce(v.found, 'null'))
         and coalesce(v.found, 'null') in (select e.value from jsonb_array_elements(v.value) e (value))
       when 'nin' then coalesce(v.found, 'null') not in (select e.value from jsonb_array_elements(v.value) e (value))
       when 'exists' then v.found is not null
       when 'contains' then case jsonb_typeof(v.found) when 'string' then position(t.wanted in t.text) > 0
                                                       when 'array' then v.found @> jsonb_build_array(v.value) end
       when 'starts' then jsonb_typeof(v.found) = 'string' and starts_with(t.text, t.wanted)
       when 'ends' then jsonb_typeof(v.found) = 'string' and right(t.text, char_length(t.wanted)) = t.wanted end
       is not true);
end;
comment on function memdb._meets (jsonb, jsonb) is 'Whether metadata meets all of some conditions.';

-- _lies_below: whether a namespace is that of a prefix or below it; a prefix that ends in a slash leaves out its own.
create or replace function memdb._lies_below (p_path text, p_prefix text)
  returns boolean
  language sql immutable parallel safe
begin atomic
  select p_prefix is null or p_path = p_prefix or starts_with(p_path, rtrim(p_prefix, '/') || '/');
end;
comment on function memdb._lies_below (text, text) is 'Whether a namespace is that of a prefix or below it; a prefix that ends in a slash leaves out its own.';

-- find_items: items by namespace and external id.
--
-- p_namespaces and p_external_ids go in pairs, at most 10,000. Returns one row for each pair that
-- names an item: the 0-based place of the pair, the memory, what it says, its metadata, when it was
-- made and last changed, and until when it lives (null: for good). An unknown name or namespace has
-- no row. Runs as the caller. Raises MD001, MD003, MD301. Cost: four look-ups by key a pair.
create or replace function memdb.find_items (
  p_tenant       integer,
  p_namespaces   text[],
  p_external_ids text[]
)
  returns table (
    ordinal integer, memory_id bigint, version integer, namespace text, external_id text, text text, metadata jsonb,
    created_at timestamptz, updated_at timestamptz, expires_at timestamptz)
  language plpgsql stable rows 10
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now timestamptz := memdb.current_time();
begin
  perform memdb._authorize(p_tenant, false);
  if array_ndims(p_namespaces) > 1 or array_ndims(p_external_ids) > 1
     or coalesce(cardinality(p_namespaces), 0) <> coalesce(cardinality(p_external_ids), 0) then
    perform memdb._raise('MD001', 'each item has a namespace and an external id', jsonb_build_object('field', 'external_ids'),
      'Give two lists of the same length.');
  end if;
  if cardinality(p_external_ids) > 10000 then
    perform memdb._raise('MD003', 'at most 10,000 items at once', null, 'Ask in several steps.');
  end if;
  return query
    select (a.place - 1)::integer, m.memory_id, v.version, n.path, m.external_id, v.text, v.metadata, m.recorded_at,
           v.recorded_at, x.expires_at
      from unnest(p_namespaces, p_external_ids) with ordinality a (path, external_id, place)
      join memdb.namespace n on n.tenant_id = p_tenant and n.path = a.path
      join memdb.shown_memory m
        on m.tenant_id = p_tenant and m.namespace_id = n.namespace_id and m.external_id = a.external_id and m.status = 'active'
      join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
      left join memdb.expiry x on x.tenant_id = p_tenant and x.memory_id = m.memory_id
     where x.expires_at is null or x.expires_at > v_now
     order by a.place;
end $$;
comment on function memdb.find_items (integer, text[], text[]) is 'Items by namespace and external id.';

-- list_items: the items of a namespace and those below it, last changed first.
--
-- p_prefix: a namespace; with a slash at its end only those below; null: all the caller may read.
-- p_filter: conditions [{path: [keys into metadata], op, value}], all of which must hold; op is eq, ne,
-- gt, gte, lt, lte, in, nin, exists, contains, starts or ends. p_memory_ids: only these. p_limit 1 to
-- 1,000 after p_offset. Columns as of find_items. Runs as the caller. Raises MD001, MD301. Cost: all
-- items under the prefix are looked at.
create or replace function memdb.list_items (
  p_tenant     integer,
  p_prefix     text     default null,
  p_filter     jsonb    default '[]',
  p_memory_ids bigint[] default null,
  p_limit      integer  default 50,
  p_offset     integer  default 0
)
  returns table (
    memory_id bigint, version integer, namespace text, external_id text, text text, metadata jsonb,
    created_at timestamptz, updated_at timestamptz, expires_at timestamptz)
  language plpgsql stable rows 50
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now  timestamptz := memdb.current_time();
  v_flaw text := memdb._filter_flaw(coalesce(p_filter, '[]'));
begin
  perform memdb._authorize(p_tenant, false);
  if v_flaw is not null then
    perform memdb._raise('MD001', v_flaw, jsonb_build_object('field', 'filter'), 'Such as [{"path": ["color"], "op": "eq", "value": "red"}].');
  end if;
  if p_limit between 1 and 1000 is not true or p_offset >= 0 is not true then
    perform memdb._raise('MD001', 'a page holds 1 to 1,000 items', jsonb_build_object('field', 'limit'));
  end if;
  return query
    select m.memory_id, v.version, n.path, m.external_id, v.text, v.metadata, m.recorded_at, v.recorded_at, x.expires_at
      from memdb.namespace n
      join memdb.shown_memory m
        on m.tenant_id = p_tenant and m.namespace_id = n.namespace_id and m.external_id is not null and m.status = 'active'
       and (p_memory_ids is null or m.memory_id = any (p_memory_ids))
      join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
      left join memdb.expiry x on x.tenant_id = p_tenant and x.memory_id = m.memory_id
     where n.tenant_id = p_tenant and memdb._lies_below(n.path, p_prefix)
       and (x.expires_at is null or x.expires_at > v_now)
       and memdb._meets(v.metadata, coalesce(p_filter, '[]'))
     order by v.recorded_at desc, m.memory_id desc
     limit p_limit offset p_offset;
end $$;
comment on function memdb.list_items (integer, text, jsonb, bigint[], integer, integer) is 'The items of a namespace and those below it, last changed first.';

-- list_item_namespaces: the namespaces of a prefix that hold items, by their names.
--
-- p_prefix: as in list_items. Paths come without it, its own as an empty one. p_match: conditions [{type: prefix | suffix, path: [labels]}] on the
-- labels after the prefix, where * stands for any one label. p_filter: only items that meet it count
-- (as in list_items). p_depth: paths are cut after so many labels, and each then told once. Runs as
-- the caller. Raises MD001, MD301. Cost: one look at the items of each namespace.
create or replace function memdb.list_item_namespaces (
  p_tenant integer,
  p_prefix text    default null,
  p_match  jsonb   default '[]',
  p_filter jsonb   default '[]',
  p_depth  integer default null,
  p_limit  integer default 100,
  p_offset integer default 0
)
  returns table (path text)
  language plpgsql stable rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now    timestamptz := memdb.current_time();
  v_prefix text := rtrim(p_prefix, '/') || '/';
  v_flaw   text := coalesce(memdb._filter_flaw(coalesce(p_filter, '[]')), memdb._match_flaw(coalesce(p_match, '[]')));
begin
  perform memdb._authorize(p_tenant, false);
  if v_flaw is not null or p_limit between 1 and 10000 is not true or p_offset >= 0 is not true or p_depth < 1 then
    perform memdb._raise('MD001', coalesce(v_flaw, 'limit is 1 to 10,000, offset 0 or more, depth 1 or more'), null,
      'Conditions are such as [{"type": "prefix", "path": ["users", "*"]}].');
  end if;
  return query
    select array_to_string(d.labels, '/')
      from (select distinct l.labels[:coalesce(p_depth, cardinality(l.labels))] as labels
              from memdb.namespace n
              cross join lateral (
                select string_to_array(substr(n.path, coalesce(char_length(v_prefix), 0) + 1), '/') as labels) l
             where n.tenant_id = p_tenant and (p_prefix is null or n.path = p_prefix or starts_with(n.path, v_prefix))
               and memdb._labels_match(l.labels, coalesce(p_match, '[]'))
               and exists (
                 select from memdb.shown_memory m
                   join memdb.shown_memory_version v
                     on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
                   left join memdb.expiry x on x.tenant_id = p_tenant and x.memory_id = m.memory_id
                  where m.tenant_id = p_tenant and m.namespace_id = n.namespace_id and m.external_id is not null
                    and m.status = 'active' and (x.expires_at is null or x.expires_at > v_now)
                    and memdb._meets(v.metadata, coalesce(p_filter, '[]')))) d
     order by d.labels collate "C"
     limit p_limit offset p_offset;
end $$;
comment on function memdb.list_item_namespaces (integer, text, jsonb, jsonb, integer, integer, integer) is 'The namespaces of a prefix that hold items, by their names.';

-- _match_flaw: what is wrong with conditions on labels; null where they are sound.
create or replace function memdb._match_flaw (p_match jsonb)
  returns text
  language sql immutable parallel safe
begin atomic
  select case
    when jsonb_typeof(p_match) <> 'array' then 'conditions are an array of {type, path}'
    when exists (select from jsonb_array_elements(p_match) c (item)
                  where jsonb_typeof(c.item) <> 'object' or jsonb_typeof(c.item -> 'path') is distinct from 'array'
                     or (c.item ->> 'type' in ('prefix', 'suffix')) is not true)
      then 'a condition is {type: prefix or suffix, path: [labels]}' end;
end;
comment on function memdb._match_flaw (jsonb) is 'What is wrong with conditions on labels; null where they are sound.';

-- _labels_match: whether the labels of a namespace meet all of some conditions.
create or replace function memdb._labels_match (p_labels text[], p_match jsonb)
  returns boolean
  language sql immutable parallel safe
begin atomic
  select not exists (
    select from jsonb_array_elements(p_match) c (item)
     where jsonb_array_length(c.item -> 'path') > cardinality(p_labels)
        or exists (
          select from jsonb_array_elements_text(c.item -> 'path') with ordinality w (label, place)
           where w.label <> '*'
             and w.label <> p_labels[w.place + case c.item ->> 'type' when 'suffix'
                   then cardinality(p_labels) - jsonb_array_length(c.item -> 'path') else 0 end]));
end;
comment on function memdb._labels_match (text[], jsonb) is 'Whether the labels of a namespace meet all of some conditions.';

-- set_expiry: say how long memories live from now on.
--
-- p_minutes goes in pairs with p_memory_ids; null: for good. What has expired is no item any more,
-- and sweep_expired retracts it. Memories the caller may not write are passed over. Returns how many
-- were set. Raises MD001, MD301. Cost: two look-ups by key each.
create or replace function memdb.set_expiry (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_minutes    double precision[]
)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now    timestamptz := memdb.current_time();
  v_scope  integer[];
  v_set    integer;
begin
  perform memdb._authorize(p_tenant, true);
  if array_ndims(p_memory_ids) > 1 or array_ndims(p_minutes) > 1
     or coalesce(cardinality(p_memory_ids), 0) <> coalesce(cardinality(p_minutes), 0)
     or exists (select from unnest(p_minutes) t (minutes) where (t.minutes > 0 and t.minutes < 1e9) is false) then
    perform memdb._raise('MD001', 'a memory lives for more than 0 and less than a billion minutes', jsonb_build_object('field', 'minutes'),
      'Give two lists of the same length; null means for good.');
  end if;
  v_scope := memdb._namespaces_granted(p_tenant, true);
  with given as materialized (
    select m.memory_id, m.namespace_id, min(g.minutes) as minutes
      from unnest(p_memory_ids, p_minutes) g (memory_id, minutes)
      join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = g.memory_id
     where v_scope is null or m.namespace_id = any (v_scope)
     group by m.memory_id, m.namespace_id
  ), dropped as (
    delete from memdb.expiry x using given g
     where x.tenant_id = p_tenant and x.memory_id = g.memory_id and g.minutes is null
  ), written as (
    insert into memdb.expiry as x (tenant_id, memory_id, namespace_id, minutes, expires_at)
    select p_tenant, g.memory_id, g.namespace_id, g.minutes, v_now + make_interval(secs => 60 * g.minutes)
      from given g
     where g.minutes is not null
     order by g.memory_id
    on conflict on constraint expiry_pkey do update set minutes = excluded.minutes, expires_at = excluded.expires_at)
  select count(*) into v_set from given g;
  return v_set;
end $$;
comment on function memdb.set_expiry (integer, bigint[], double precision[]) is 'Say how long memories live from now on.';

-- renew_expiry: let memories that have a time to live begin it anew, as they were read.
--
-- What has expired, has none, or may not be written by the caller is passed over. Returns how many
-- were renewed. Raises MD301. Cost: one look-up by key each.
create or replace function memdb.renew_expiry (p_tenant integer, p_memory_ids bigint[])
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now     timestamptz := memdb.current_time();
  v_scope   integer[];
  v_renewed integer;
begin
  perform memdb._authorize(p_tenant, true);
  v_scope := memdb._namespaces_granted(p_tenant, true);
  -- Two readers of the same items at once: whoever is second passes over what the first holds.
  update memdb.expiry x set expires_at = v_now + make_interval(secs => 60 * x.minutes)
    from (select e.memory_id from memdb.expiry e
           where e.tenant_id = p_tenant and e.memory_id = any (p_memory_ids) and e.expires_at > v_now
             and (v_scope is null or e.namespace_id = any (v_scope))
           for update skip locked) l
   where x.tenant_id = p_tenant and x.memory_id = l.memory_id;
  get diagnostics v_renewed = row_count;
  return v_renewed;
end $$;
comment on function memdb.renew_expiry (integer, bigint[]) is 'Let memories that have a time to live begin it anew, as they were read.';

-- sweep_expired: retract the memories whose time to live is over.
--
-- At most p_limit (1 to 10,000), those that expired first; one correction for all of them, with reason
-- expired. restore_memory brings one back, without a time to live. Returns how many were retracted:
-- call it again while that is p_limit. Raises MD001, MD301. Cost: as retract_memory each.
create or replace function memdb.sweep_expired (p_tenant integer, p_limit integer default 1000)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
  -- Every look-up is by key; a table not analyzed yet looks small enough to read whole.
  set enable_seqscan = off
as $$
declare
  v_now   timestamptz := memdb.current_time();
  v_scope integer[];
  v_ids   bigint[];
  v_id    bigint;
  v_out   integer := 0;
begin
  perform memdb._authorize(p_tenant, true);
  if p_limit between 1 and 10000 is not true then
    perform memdb._raise('MD001', 'a sweep takes 1 to 10,000 memories', jsonb_build_object('field', 'limit'));
  end if;
  v_scope := memdb._namespaces_granted(p_tenant, true);
  -- Nothing to do is the ordinary case, and takes no lock.
  if not exists (select from memdb.expiry x
                  where x.tenant_id = p_tenant and x.expires_at <= v_now and (v_scope is null or x.namespace_id = any (v_scope))) then
    return 0;
  end if;
  v_now := memdb._begin_correction(p_tenant);
  v_ids := array(
    select x.memory_id from memdb.expiry x
     where x.tenant_id = p_tenant and x.expires_at <= v_now and (v_scope is null or x.namespace_id = any (v_scope))
     order by x.expires_at, x.memory_id limit p_limit for update);
  for v_id in
    select m.memory_id from memdb.memory m
     where m.tenant_id = p_tenant and m.memory_id = any (v_ids) and m.status <> 'retracted' order by 1
  loop
    perform memdb._put_memory_out(p_tenant, v_id, 'retracted', 'expired', v_now);
    v_out := v_out + 1;
  end loop;
  delete from memdb.expiry x where x.tenant_id = p_tenant and x.memory_id = any (v_ids);
  perform memdb._queue_fallen(p_tenant, v_now);
  return v_out;
end $$;
comment on function memdb.sweep_expired (integer, integer) is 'Retract the memories whose time to live is over.';

-- list_session_events: the last events of a session that count, the last one first.
--
-- Events that were retracted or corrected are left out. p_before: only those with a lower sequence
-- number, for the next page; p_limit 1 to 10,000. A session that does not exist has none. Runs as the
-- caller. Raises MD001, MD301. Cost: one index range.
create or replace function memdb.list_session_events (
  p_tenant    integer,
  p_session   text,
  p_namespace text    default 'default',
  p_limit     integer default 1000,
  p_before    integer default null
)
  returns table (
    event_id bigint, sequence integer, kind text, text text, input jsonb, output jsonb, speaker text, metadata jsonb,
    occurred_at timestamptz)
  language plpgsql stable rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, false);
  if p_limit between 1 and 10000 is not true then
    perform memdb._raise('MD001', 'a page holds 1 to 10,000 events', jsonb_build_object('field', 'limit'));
  end if;
  return query
    select e.event_id, e.sequence, e.kind, e.text, e.input, e.output, e.speaker, e.metadata, e.occurred_at
      from memdb.namespace n
      join memdb.session s on s.tenant_id = p_tenant and s.namespace_id = n.namespace_id and s.external_id = p_session
      join memdb.shown_event e on e.tenant_id = p_tenant and e.session_id = s.session_id
     where n.tenant_id = p_tenant and n.path = p_namespace and (p_before is null or e.sequence < p_before)
       and not exists (select from memdb.belief b
                        where b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = e.event_id and b.to_at is null)
     order by e.sequence desc
     limit p_limit;
end $$;
comment on function memdb.list_session_events (integer, text, text, integer, integer) is 'The last events of a session that count, the last one first.';
