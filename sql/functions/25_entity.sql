-- Entities: the people, places, products and things that memories speak of.
--
-- An entity lives in one namespace and is found by any of its spellings, case-folded and in one
-- Unicode form. Resolution beyond equal spelling is a step of the pipeline; merge_entities undoes
-- what it got wrong.

-- _alias: the form in which spellings of a name are compared, at most 500 characters: one may become many.
create or replace function memdb._alias (p_name text)
  returns text
  language sql immutable parallel safe
begin atomic
  select left(lower(regexp_replace(btrim(normalize(p_name, nfkc)) collate pg_catalog.pg_c_utf8, '\s+', ' ', 'g')), 500);
end;
comment on function memdb._alias (text) is 'The form in which spellings of a name are compared, at most 500 characters: one may become many.';

-- _check_entities: refuse entities of a batch of memories that are none. Raises MD001 with the item's index.
create or replace function memdb._check_entities (p_items memdb._memory_item[])
  returns void
  language plpgsql volatile
as $$
declare
  v_index integer;
begin
  select i.ordinal into v_index
    from unnest(p_items) i
    cross join jsonb_array_elements(i.entities) e (entity)
   where case
     when jsonb_typeof(e.entity) <> 'object' or jsonb_typeof(e.entity -> 'name') is distinct from 'string' then true
     when e.entity - array['name', 'type', 'aliases'] <> '{}' or memdb._alias(e.entity ->> 'name') = ''
       or char_length(e.entity ->> 'name') > 500 or char_length(e.entity ->> 'type') > 200
       or jsonb_typeof(e.entity -> 'type') not in ('string', 'null') then true
     when jsonb_typeof(e.entity -> 'aliases') = 'array' then exists (
       select from jsonb_array_elements(e.entity -> 'aliases') a (alias)
        where jsonb_typeof(a.alias) <> 'string' or char_length(a.alias #>> '{}') > 500)
     else jsonb_typeof(e.entity -> 'aliases') <> 'null' end
   limit 1;
  if found then
    perform memdb._raise('MD001', 'an entity is {name, type, aliases}', jsonb_build_object('index', v_index, 'field', 'entities'),
      'A name is not blank; it and each of the aliases have at most 500 characters, a type 200.');
  end if;
end $$;
comment on function memdb._check_entities (memdb._memory_item[]) is 'Refuse entities of a batch of memories that are none. Raises MD001 with the item''s index.';

-- _record_mentions: tie memories to the entities they speak of, making those that are new.
--
-- p_mentions: array of {memory_id, namespace_id, name, type, aliases}, checked. A name or alias that
-- is known wins; all spellings of an item then lead to that entity. Writers that bring new spellings
-- to one namespace go one at a time until commit: otherwise two of them would make two entities of
-- one, or wait for each other's spellings in a circle.
create or replace function memdb._record_mentions (
  p_tenant   integer,
  p_mentions jsonb
)
  returns void
  language plpgsql volatile
as $$
declare
  v_item   record;
  v_entity bigint;
begin
  -- 1835363433 ("meli"). All namespaces at once, in order, before anything is written.
  perform pg_advisory_xact_lock(1835363433, n.namespace_id)
     from (select distinct r.namespace_id
             from jsonb_to_recordset(p_mentions) r (namespace_id integer, name text, aliases text[])
             cross join unnest(r.name || coalesce(r.aliases, '{}')) a (alias)
            where memdb._alias(a.alias) <> ''
              and not exists (select from memdb.entity_alias k
                               where k.tenant_id = p_tenant and k.namespace_id = r.namespace_id
                                 and k.alias = memdb._alias(a.alias))
            order by 1) n;
  for v_item in
    select r.namespace_id, min(r.name) as name, max(r.type) as type, array_agg(distinct r.memory_id) as memory_ids,
           array_agg(distinct memdb._alias(a.alias)) as aliases
      from jsonb_to_recordset(p_mentions) r (memory_id bigint, namespace_id integer, name text, type text, aliases text[])
      cross join unnest(r.name || coalesce(r.aliases, '{}')) a (alias)
     where memdb._alias(a.alias) <> ''
     group by r.namespace_id, memdb._alias(r.name)
     order by r.namespace_id, memdb._alias(r.name)
  loop
    v_entity := memdb._find_entity(p_tenant, v_item.namespace_id, v_item.aliases);
    if v_entity is null then
      insert into memdb.entity as e (tenant_id, namespace_id, name, type)
        values (p_tenant, v_item.namespace_id, left(v_item.name, 500), coalesce(v_item.type, 'thing'))
        returning e.entity_id into v_entity;
    end if;
    insert into memdb.entity_alias (tenant_id, namespace_id, alias, entity_id)
      select p_tenant, v_item.namespace_id, a.alias, v_entity from unnest(v_item.aliases) a (alias)
      order by 3
      on conflict do nothing;
    insert into memdb.mention (tenant_id, memory_id, entity_id, namespace_id)
      select p_tenant, m.memory_id, v_entity, v_item.namespace_id from unnest(v_item.memory_ids) m (memory_id)
      order by 2
      on conflict do nothing;
  end loop;
end $$;
comment on function memdb._record_mentions (integer, jsonb) is 'Tie memories to the entities they speak of, making those that are new.';

-- _find_entity: the entity one of these spellings leads to, through merges; null if none does.
create or replace function memdb._find_entity (p_tenant integer, p_namespace integer, p_aliases text[])
  returns bigint
  language sql volatile
as $$
  select coalesce(e.merged_into, e.entity_id)
    from memdb.entity_alias a
    join memdb.entity e on e.tenant_id = p_tenant and e.entity_id = a.entity_id
   where a.tenant_id = p_tenant and a.namespace_id = p_namespace and a.alias = any (p_aliases)
   order by array_position(p_aliases, a.alias)
   limit 1;
$$;
comment on function memdb._find_entity (integer, integer, text[]) is 'The entity one of these spellings leads to, through merges; null if none does.';

-- merge_entities: make one entity of two.
--
-- p_from's spellings and mentions go to p_into; p_from stays as a pointer, so old ids still lead
-- somewhere. Both must be of one namespace the caller may write. Returns the mentions moved.
-- Raises MD001 (same or of two namespaces, unknown entity), MD301, MD302.
create or replace function memdb.merge_entities (
  p_tenant integer,
  p_from   bigint,
  p_into   bigint
)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_path  text;
  v_moved integer;
begin
  perform memdb._authorize(p_tenant, true);
  perform from memdb.entity e where e.tenant_id = p_tenant and e.entity_id in (p_from, p_into)
    order by e.entity_id for no key update;
  select n.path into v_path
    from memdb.entity f
    join memdb.entity t on t.tenant_id = p_tenant and t.entity_id = p_into and t.namespace_id = f.namespace_id
    join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = f.namespace_id
   where f.tenant_id = p_tenant and f.entity_id = p_from and p_from <> p_into
     and f.merged_into is null and t.merged_into is null
     and not (memdb._is_erasing() and (memdb._is_hidden(p_tenant, 'entity', p_from) or memdb._is_hidden(p_tenant, 'entity', p_into)));
  if v_path is null then
    perform memdb._raise('MD001', 'merging takes two entities of one namespace, neither merged before',
      jsonb_build_object('from', p_from, 'into', p_into));
  end if;
  perform memdb._writable(p_tenant, v_path, null);
  update memdb.entity e set merged_into = p_into
   where e.tenant_id = p_tenant and (e.entity_id = p_from or e.merged_into = p_from);
  update memdb.entity_alias a set entity_id = p_into where a.tenant_id = p_tenant and a.entity_id = p_from;
  insert into memdb.mention (tenant_id, memory_id, entity_id, namespace_id)
    select m.tenant_id, m.memory_id, p_into, m.namespace_id
      from memdb.mention m where m.tenant_id = p_tenant and m.entity_id = p_from
    on conflict do nothing;
  delete from memdb.mention m where m.tenant_id = p_tenant and m.entity_id = p_from;
  get diagnostics v_moved = row_count;
  return v_moved;
end $$;
comment on function memdb.merge_entities (integer, bigint, bigint) is 'Make one entity of two.';
