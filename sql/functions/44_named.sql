-- The entities a query names: by any of their spellings, or one letter beside it.

-- _one_edit: whether one word becomes the other by at most one letter more, less, other, or two swapped.
create or replace function memdb._one_edit (p_one text, p_other text)
  returns boolean
  language plpgsql immutable parallel safe
as $$
declare
  v_at integer := 1;
begin
  if abs(char_length(p_one) - char_length(p_other)) > 1 then
    return false;
  end if;
  while v_at <= least(char_length(p_one), char_length(p_other)) and substr(p_one, v_at, 1) = substr(p_other, v_at, 1) loop
    v_at := v_at + 1;
  end loop;
  return substr(p_one, v_at + 1) = substr(p_other, v_at + 1)
      or substr(p_one, v_at + 1) = substr(p_other, v_at)
      or substr(p_one, v_at) = substr(p_other, v_at + 1)
      or (substr(p_one, v_at, 1) = substr(p_other, v_at + 1, 1) and substr(p_one, v_at + 1, 1) = substr(p_other, v_at, 1)
          and substr(p_one, v_at + 2) = substr(p_other, v_at + 2));
end $$;
comment on function memdb._one_edit (text, text) is 'Whether one word becomes the other by at most one letter more, less, other, or two swapped.';

-- _query_grams: the runs of one to four words of a query, and of two to eight characters of scripts without spaces, as _alias spells them.
--
-- Of the first 2,000 characters; at most 2,000 of them, short ones first.
create or replace function memdb._query_grams (p_query text)
  returns text[]
  language sql immutable parallel safe
begin atomic
  with word as materialized (
    select array_agg(m.part[1]) as words
      from regexp_matches(memdb._alias(left(p_query, 480)) || ' ' || memdb._alias(substr(p_query, 481, 480)) || ' '
                          || memdb._alias(substr(p_query, 961, 480)) || ' ' || memdb._alias(substr(p_query, 1441, 480)),
             '([^\s,;:!?()"“”‘’。，；：！？（）、]+)', 'g') m (part)),
  gram as (
    select array_to_string(w.words[s.place:s.place + n.length - 1], ' ') as gram, n.length
      from word w
      cross join generate_series(1, cardinality(w.words)) s (place)
      cross join generate_series(1, 4) n (length)
    union
    select substr(r.run[1], s.place, n.length), n.length
      from regexp_matches(left(p_query, 300), '([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,})', 'g') r (run)
      cross join generate_series(1, char_length(r.run[1])) s (place)
      cross join generate_series(2, 8) n (length))
  select coalesce(array_agg(l.gram), '{}')
    from (select distinct g.gram, g.length
            from (select g.length, unnest(array[g.gram, btrim(g.gram, '.''-'), regexp_replace(g.gram, '(''s|’s)$', '')]) as gram from gram g) g
           where char_length(g.gram) >= 2
           order by 2, 1
           limit 2000) l;
end;
comment on function memdb._query_grams (text) is 'The runs of one to four words of a query, and of two to eight characters of scripts without spaces, as _alias spells them.';

-- _named_entities: the entities of some namespaces a query names, and the spelling met.
--
-- p_fuzzy: also a word of four letters and more, met by no spelling itself, that is one edit from a spelling
-- with the same two first letters. Cost: a look-up for each gram; of each such word, the
-- spellings with its first letters, up to 1,000.
create or replace function memdb._named_entities (p_tenant integer, p_namespaces integer[], p_query text, p_fuzzy boolean)
  returns table (entity_id bigint, namespace_id integer, alias text, is_exact boolean)
  language plpgsql stable rows 5
as $$
declare
  v_grams text[];
  v_exact text[];
begin
  if not exists (select from memdb.entity_alias a where a.tenant_id = p_tenant) then
    return;
  end if;
  v_grams := memdb._query_grams(p_query);
  return query
    select distinct on (coalesce(e.merged_into, e.entity_id)) coalesce(e.merged_into, e.entity_id), a.namespace_id, a.alias, true
      from (select a.* from memdb.entity_alias a
             where a.tenant_id = p_tenant and a.alias = any (v_grams) offset 0) a
      join memdb.entity e on e.tenant_id = p_tenant and e.entity_id = a.entity_id
     where p_namespaces is null or a.namespace_id = any (p_namespaces)
     order by 1, char_length(a.alias) desc;
  if not p_fuzzy then
    return;
  end if;
  select array_agg(distinct w.word) into v_exact
    from memdb.entity_alias a
    cross join lateral unnest(string_to_array(a.alias, ' ')) w (word)
   where a.tenant_id = p_tenant and a.alias = any (v_grams) and (p_namespaces is null or a.namespace_id = any (p_namespaces));
  return query
    select distinct on (coalesce(e.merged_into, e.entity_id)) coalesce(e.merged_into, e.entity_id), a.namespace_id, a.alias, false
      from (select g.gram from unnest(v_grams) g (gram)
             where g.gram collate pg_catalog.pg_c_utf8 ~ '^[[:alpha:]]{4,}$' and g.gram <> all (coalesce(v_exact, '{}')) limit 200) g
      cross join lateral (
        select a.* from memdb.entity_alias a
         where a.tenant_id = p_tenant and a.alias like left(g.gram, 2) || '%' limit 1000) a
      join memdb.entity e on e.tenant_id = p_tenant and e.entity_id = a.entity_id
     where (p_namespaces is null or a.namespace_id = any (p_namespaces))
       and char_length(a.alias) >= 5 and memdb._one_edit(g.gram, a.alias)
       and not g.gram in (a.alias || 's', a.alias || 'es')
       and not exists (select from unnest(v_grams) x (gram) where x.gram = a.alias)
     order by 1;
end $$;
comment on function memdb._named_entities (integer, integer[], text, boolean) is 'The entities of some namespaces a query names, and the spelling met.';

-- query_entities: the entities a query names, by any of their spellings or one letter beside it.
--
-- For recall(p_entities => ...): only what mentions one of them comes back, and nothing where none is
-- named. p_namespaces, p_agent as in recall. Returns entity_id, its name and namespace, the spelling
-- that was met, and whether it was met letter by letter; otherwise by one letter more, less or other, or
-- two swapped, behind the first two. Raises MD001, MD102, MD301, MD302. Cost: some hundred look-ups.
create or replace function memdb.query_entities (
  p_tenant     integer,
  p_query      text,
  p_namespaces text[]  default null,
  p_agent      text    default null,
  p_fuzzy      boolean default true
)
  returns table (entity_id bigint, name text, namespace text, alias text, is_exact boolean)
  language plpgsql stable security definer rows 5
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
begin
  perform memdb._authorize(p_tenant, false);
  v_namespaces := memdb._readable(p_tenant, p_namespaces, p_agent);
  if p_query is null or p_fuzzy is null then
    perform memdb._raise('MD001', 'a query is a text', jsonb_build_object('field', 'query'));
  end if;
  return query
    select n.entity_id, e.name, s.path, n.alias, n.is_exact
      from memdb._named_entities(p_tenant, v_namespaces, p_query, p_fuzzy) n
      join memdb.shown_entity e on e.tenant_id = p_tenant and e.entity_id = n.entity_id
      join memdb.namespace s on s.tenant_id = p_tenant and s.namespace_id = n.namespace_id
     order by n.is_exact desc, char_length(n.alias) desc, n.entity_id;
end $$;
comment on function memdb.query_entities (integer, text, text[], text, boolean) is 'The entities a query names, by any of their spellings or one letter beside it.';

-- _anchored: what the graph leg found, and behind it memories tied to the query by the entities it names.
--
-- As one hop of _graph_leg: a fifth of p_best, divided by how common the entity is: of each the 20 newest memories, of an
-- entity that more than 200 mention none; times its own factors, as there. A memory that several of them lead to keeps the best. p_found
-- and what the graph leg found are left out. Without a query the graph leg's hits come back as they are.
create or replace function memdb._anchored (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_also       memdb._recall_filter,
  p_query      text,
  p_best       double precision,
  p_found      bigint[],
  p_memory_ids bigint[],
  p_versions   integer[],
  p_scores     double precision[],
  p_agent      text,
  out memory_ids bigint[],
  out versions   integer[],
  out scores     double precision[]
)
  language plpgsql stable
as $$
begin
  memory_ids := p_memory_ids;
  versions := p_versions;
  scores := p_scores;
  if p_query is null then
    return;
  end if;
  select p_memory_ids || array_agg(r.memory_id order by r.score desc, r.memory_id),
         p_versions || array_agg(r.version order by r.score desc, r.memory_id),
         p_scores || array_agg(r.score order by r.score desc, r.memory_id)
    into memory_ids, versions, scores
    from (select m.memory_id, m.version, max(coalesce(p_best, 0) + ln(0.2 / sqrt(c.memories)) + m.factor + coalesce(ln(g.weight::double precision), 0)) as score
            from memdb._named_entities(p_tenant, p_namespaces, p_query, false) n
            cross join lateral (
              select array_agg(w.memory_id) as ids, count(*) as memories
                from (select k.memory_id from memdb.mention k
                       where k.tenant_id = p_tenant and k.entity_id = n.entity_id order by k.memory_id desc limit 201) w) c
            join lateral (
              select m.memory_id, m.version, m.namespace_id,
                     ln(memdb._memory_factor(m.importance, m.confidence, m.trust, m.status, m.tier)) as factor
                from memdb.memory m
               where m.tenant_id = p_tenant and m.memory_id = any (c.ids[1:20])
                 and memdb._is_recallable(m, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also)) m on true
            left join memdb.agent_grant g
              on g.tenant_id = p_tenant and g.agent_id = p_agent and g.namespace_id = m.namespace_id
           where c.memories <= 200 and m.memory_id <> all (p_found || p_memory_ids)
           group by m.memory_id, m.version
           order by 3 desc, 1
           limit 40) r;
end $$;
comment on function memdb._anchored (integer, integer[], text, bigint[], text[], text[], memdb._recall_filter, text, double precision, bigint[], bigint[], integer[], double precision[], text) is 'What the graph leg found, and behind it memories tied to the query by the entities it names.';
