-- Candidates: what is known already that may say the same as a new fact, or the contrary.
--
-- Asked before a fact is recorded. Candidates by definer, as ids and numbers; the words come
-- through the caller's own row security.

-- _telling_terms: the terms of a text that are rarest in a namespace, at most p_limit.
--
-- Terms as a memory of that language has them. Rare as of the last fold; terms it has not seen come
-- first, then longer ones. A search by these meets few memories where one by all terms would read
-- most of the scope.
create or replace function memdb._telling_terms (
  p_tenant integer, p_namespace integer, p_text text, p_language text, p_limit integer
)
  returns text[]
  language plpgsql stable
as $$
begin
  return coalesce((
    select array_agg(r.term)
      from (select t.term
              from unnest(memdb._query_terms(p_text)) t (term)
              left join memdb.lexeme_stat l
                on l.tenant_id = p_tenant and l.namespace_id = p_namespace and l.lexeme = t.term
             where t.term = any (tsvector_to_array(memdb.keyword_text_v2(left(p_text, 8000), null, p_language, '{}')))
             order by coalesce(l.documents, 0), char_length(t.term) desc, t.term
             limit p_limit) r), '{}');
end $$;
comment on function memdb._telling_terms (integer, integer, text, text, integer) is 'The terms of a text that are rarest in a namespace, at most p_limit.';

-- _candidates_of: the memories of one scope that are like one text, the likeliest first.
--
-- Found by content hash, by subject and attribute of its assertions, by words and by vector. Only
-- what holds and is of the same user (null: of no user); a text known letter by letter also where it
-- has fallen. Not summaries: they tell what other memories say, and rest on those. overlap is the share of the text's ten rarest terms a memory has, weighed by idf.
create or replace function memdb._candidates_of (
  p_tenant     integer,
  p_namespace  integer,
  p_user       text,
  p_text       text,
  p_language   text,
  p_assertions jsonb,
  p_model      integer,
  p_vector     halfvec,
  p_limit      integer
)
  returns table (memory_id bigint, version integer, is_same boolean, similarity real, overlap real)
  language plpgsql stable rows 10
as $$
declare
  v_hash  bytea := memdb._content_hash(p_text);
  v_words record;
  v_near  record;
begin
  v_words := memdb._keyword_leg(p_tenant, array[p_namespace], p_user, null, null, array['active'],
    memdb._telling_terms(p_tenant, p_namespace, p_text, p_language, 10), p_limit);
  v_near := memdb._vector_leg(p_tenant, array[p_namespace], p_user, null, null, array['active'], p_model, p_vector,
    case when p_vector is null then 0 else p_limit end);
  return query
    with asked as (
      select memdb._alias(r.subject) as subject, r.attribute, memdb._alias(r.value) as value
        from jsonb_to_recordset(p_assertions) r (subject text, attribute text, value text)
    ), asserted as materialized (
      select a.memory_id
        from asked s
        join memdb.assertion a
          on a.tenant_id = p_tenant and a.namespace_id = p_namespace and a.subject = s.subject and a.attribute = s.attribute
         and (a.is_single or a.value = s.value)
        join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = a.memory_id and m.version = a.version
       where m.status = 'active' and m.user_id is not distinct from p_user
       order by a.memory_id desc
       limit p_limit
    ), found as (
      select m.memory_id from memdb.shown_memory m
       where m.tenant_id = p_tenant and m.namespace_id = p_namespace and m.content_hash = v_hash and m.external_id is null
         and m.user_id is not distinct from p_user
      union select a.memory_id from asserted a
      union select w.id from unnest(v_words.memory_ids) w (id)
      union select n.id from unnest(v_near.memory_ids) n (id)
    ), measured as (
      select m.memory_id, m.version, m.content_hash = v_hash as is_same, -(e.vector <#> p_vector)::real as similarity,
             (select coalesce(sum(t.idf) / nullif((select sum(i) from unnest(v_words.idf) i), 0), 0)::real
                from unnest(v_words.terms, v_words.idf) t (term, idf)
               where t.term = any (tsvector_to_array(v.keyword))) as overlap,
             exists (select from asserted a where a.memory_id = m.memory_id) as is_asserted
        from found f
        join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = f.memory_id
        join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
        left join memdb.embedding e
          on e.tenant_id = p_tenant and e.model_id = p_model and e.memory_id = m.memory_id and e.version = m.version
       where m.user_id is not distinct from p_user
         and (m.status = 'active' and m.type <> 'summary' or m.content_hash = v_hash))
    select d.memory_id, d.version, d.is_same, d.similarity, d.overlap
      from measured d
     order by d.is_same desc, d.is_asserted desc, greatest(d.similarity, d.overlap) desc nulls last, d.memory_id desc
     limit p_limit;
end $$;
comment on function memdb._candidates_of (integer, integer, text, text, text, jsonb, integer, halfvec, integer) is 'The memories of one scope that are like one text, the likeliest first.';

-- _candidates: what find_candidates would return, as ids and numbers.
create or replace function memdb._candidates (p_tenant integer, p_items jsonb, p_limit integer)
  returns table (ordinal integer, memory_id bigint, version integer, is_same boolean, similarity real, overlap real)
  language plpgsql stable security definer rows 50
  set search_path = pg_catalog, memdb, public, pg_temp
  -- Planned once per session: planning anew would cost more than running.
  set plan_cache_mode = force_generic_plan
as $$
declare
  v_readable integer[];
  v_item     record;
  v_model    integer;
  v_vector   halfvec;
begin
  perform memdb._authorize(p_tenant, false);
  perform memdb._check_items(p_items, array['text', 'namespace', 'user', 'language', 'vector', 'assertions'], array['text']);
  perform memdb._check_limit(p_limit, 100);
  v_readable := memdb._readable(p_tenant, null, null);
  for v_item in
    select i.place::integer - 1 as ordinal, n.namespace_id, i.item ->> 'user' as user_id, i.item ->> 'text' as text,
           lower(i.item ->> 'language') as language,
           coalesce(nullif(i.item -> 'assertions', 'null'), '[]') as assertions, i.item ->> 'vector' as vector
      from jsonb_array_elements(p_items) with ordinality i (item, place)
      join memdb.namespace n
        on n.tenant_id = p_tenant and n.path = coalesce(i.item ->> 'namespace', 'default')
       and (v_readable is null or n.namespace_id = any (v_readable))
     order by i.place
  loop
    v_model := null;
    v_vector := null;
    if v_item.vector is not null then
      select q.model_id, q.vector into v_model, v_vector
        from memdb._query_vector(p_tenant, v_item.vector::vector::real[]) q;
    end if;
    return query
      select v_item.ordinal, c.memory_id, c.version, c.is_same, c.similarity, c.overlap
        from memdb._candidates_of(p_tenant, v_item.namespace_id, v_item.user_id, v_item.text, v_item.language, v_item.assertions,
               v_model, v_vector, p_limit) c;
  end loop;
exception when invalid_text_representation or data_exception then
  perform memdb._raise('MD004', sqlerrm, jsonb_build_object('field', 'vector'), 'A vector is an array of numbers.');
end $$;
comment on function memdb._candidates (integer, jsonb, integer) is 'What find_candidates would return, as ids and numbers.';

-- find_candidates: memories that may say the same as new facts, or the contrary.
--
-- p_items: array of {text, namespace (default `default`), user, language (ISO 639-1: how its words
-- are read), vector (of the active embedding model), assertions: [{subject, attribute, value}]}.
-- p_limit 1 to 100 candidates for each item, likeliest first: the same text (is_same), then
-- memories that assert another value of the same subject and single-valued attribute, then by
-- similarity (cosine of the vectors; null without) or overlap (0 to 1: the share of the item's ten
-- rarest words it has, weighed by rarity). Only memories of the same namespace and the same user.
-- A namespace that does not exist or may not be read has none. Raises MD001, MD004 and MD105
-- (vector), MD301. Cost: a keyword and an exact vector search for each item, 1 to 10 ms in a scope
-- of 10,000.
create or replace function memdb.find_candidates (
  p_tenant integer,
  p_items  jsonb,
  p_limit  integer default 10
)
  returns table (
    ordinal integer, memory_id bigint, version integer, is_same boolean, similarity real, overlap real, text text,
    type text, status text, user_id text, language text, importance real, confidence real, trust real,
    occurred_at timestamptz, recorded_at timestamptz, assertions jsonb)
  language sql stable rows 50
as $$
  select c.ordinal, c.memory_id, c.version, c.is_same, c.similarity, c.overlap, v.text, m.type, m.status, m.user_id, v.language,
         m.importance, m.confidence, m.trust, m.occurred_at, v.recorded_at,
         coalesce((select jsonb_agg(jsonb_build_object('subject', a.subject, 'attribute', a.attribute, 'value', a.value,
                                                       'is_single', a.is_single, 'is_negated', a.is_negated) order by a.ordinal)
                     from memdb.assertion a
                    where a.tenant_id = p_tenant and a.memory_id = c.memory_id and a.version = c.version), '[]')
    from memdb._candidates(p_tenant, p_items, p_limit) with ordinality
           c (ordinal, memory_id, version, is_same, similarity, overlap, place)
    join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = c.memory_id
    join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = c.memory_id and v.version = c.version
   order by c.place;
$$;
comment on function memdb.find_candidates (integer, jsonb, integer) is 'Memories that may say the same as new facts, or the contrary.';
