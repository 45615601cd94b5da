-- Diversity: what says the same again does not take a second place among the hits.

-- _same_claims: whether two texts state the same numbers and negations.
--
-- "I have two cats" and "I have three cats" are near to each other in every other way.
create or replace function memdb._same_claims (p_one text, p_other text)
  returns boolean
  language sql immutable parallel safe
begin atomic
  select count(distinct c.claims) = 1
    from (select array_to_string(array(
                   select lower(m.part[1]) from regexp_matches(t.text collate "C",
                     '([0-9]+(?:[.,:][0-9]+)*|[一二三四五六七八九十百千万两]+|\m(?:one|two|three|four|five|six|seven|eight|nine|ten|twice|not?|never|none|nobody|nothing|without|neither|nor)\M|n[''’]t\M|[不没沒无無未非别勿])',
                     'gi') m (part)), ' ')
            from (values (p_one), (p_other)) t (text)) c (claims);
end;
comment on function memdb._same_claims (text, text) is 'Whether two texts state the same numbers and negations.';

-- _word_overlap: what share of the words of two texts they have in common, 0 to 1.
create or replace function memdb._word_overlap (p_one text, p_one_language text, p_other text, p_other_language text)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select count(*) filter (where w.texts = 2)::double precision / greatest(count(*), 1)
    from (select u.lexeme, count(*) as texts
            from (select l.lexeme from unnest(memdb.keyword_text_v2(left(p_one, 4000), null, p_one_language, '{}')) l
                  union all
                  select l.lexeme from unnest(memdb.keyword_text_v2(left(p_other, 4000), null, p_other_language, '{}')) l) u
           group by u.lexeme) w;
end;
comment on function memdb._word_overlap (text, text, text, text) is 'What share of the words of two texts they have in common, 0 to 1.';

-- _near_duplicates: pairs among some memories of which one says what the other says; first comes before other in p_memory_ids.
--
-- Of the same user and namespace, with the same numbers and negations, and 0.9 of their words in common or
-- vectors of p_model with a cosine of 0.97 and more. Texts are compared only where they begin or
-- end with the same sixteen letters, or their vectors are as near. Cost: one look-up for each memory, and its vector.
create or replace function memdb._near_duplicates (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_versions   integer[],
  p_model      integer
)
  returns table (first_place bigint, other_place bigint)
  language plpgsql stable rows 2
as $$
begin
  return query
    with hit as materialized (
      select a.place, v.namespace_id, v.user_id, v.text, v.language, char_length(v.text) as size, e.vector,
             left(w.letters, 16) as beginning, right(w.letters, 16) as ending
        from unnest(p_memory_ids, p_versions) with ordinality a (memory_id, version, place)
        join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = a.memory_id and v.version = a.version
        -- A version that was replaced since, or archived, has its vector with the cold ones.
        left join lateral (
          select e.vector from memdb.embedding e
           where e.tenant_id = p_tenant and e.model_id = p_model and e.memory_id = a.memory_id and e.version = a.version
          union all
          select e.vector from memdb.embedding_cold e
           where e.tenant_id = p_tenant and e.model_id = p_model and e.memory_id = a.memory_id and e.version = a.version
           limit 1) e on true
        cross join lateral (
          -- Each match of a pattern costs as much as a look at the whole text: what is common goes first, without one.
          select lower(case when l.letters ~ '[^[:alnum:]]' then regexp_replace(l.letters, '[^[:alnum:]]+', '', 'g') else l.letters end) as letters
            from (select translate(left(v.text, 30) || right(v.text, 30), ' .,;:!?''"-()', '') collate pg_catalog.pg_c_utf8 as letters offset 0) l) w),
    likely as materialized (
      select h.place as first_place, o.place as other_place
        from hit h
        join hit o
          on o.place > h.place and o.namespace_id = h.namespace_id and o.user_id is not distinct from h.user_id
         and h.size between 0.75 * o.size - 8 and 1.33 * o.size + 8
         and (o.beginning = h.beginning or o.ending = h.ending or (h.vector <#> o.vector) <= -0.97))
    select l.first_place, l.other_place
      from likely l
      join hit h on h.place = l.first_place
      join hit o on o.place = l.other_place
     where memdb._same_claims(h.text, o.text)
       and ((h.vector <#> o.vector) <= -0.97 or memdb._word_overlap(h.text, h.language, o.text, o.language) >= 0.9);
end $$;
comment on function memdb._near_duplicates (integer, bigint[], integer[], integer) is 'Pairs among some memories of which one says what the other says; first comes before other in p_memory_ids.';

-- _backing: how well some memory versions are sourced: the events they rest on, whichever derivation, then trust and confidence.
--
-- p_belief_at: counted as of then; null for now.
create or replace function memdb._backing (p_tenant integer, p_memory_ids bigint[], p_versions integer[], p_belief_at timestamptz)
  returns table (memory_id bigint, events bigint, trust real, confidence real)
  language sql stable rows 2
begin atomic
  select m.memory_id,
         (select count(distinct p.event_id)
            from memdb.justification j
            join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = j.justification_id
           where j.tenant_id = p_tenant and j.memory_id = m.memory_id and j.version = a.version
             and (p_belief_at is null or j.recorded_at <= p_belief_at)),
         m.trust, m.confidence
    from unnest(p_memory_ids, p_versions) a (memory_id, version)
    join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = a.memory_id;
end;
comment on function memdb._backing (integer, bigint[], integer[], timestamptz) is 'How well some memory versions are sourced: the events they rest on, whichever derivation, then trust and confidence.';

-- _collapse: the p_k best hits, of near-duplicates among the first 30 only the one that is sourced best.
--
-- p_hits come best first; the one that stays takes place and score of the best of its group, and names the others in legs: "collapsed": {"memory_ids": [...]}. p_hits should hold some
-- more than p_k. Always the same 30 are compared, so pages of one recall fit together.
create or replace function memdb._collapse (
  p_tenant    integer,
  p_model     integer,
  p_hits      memdb._recall_hit[],
  p_k         integer,
  p_belief_at timestamptz
)
  returns setof memdb._recall_hit
  language plpgsql stable rows 10
as $$
declare
  v_first  bigint[];
  v_other  bigint[];
  v_groups bigint[];
begin
  select array_agg(d.first_place order by d.first_place, d.other_place), array_agg(d.other_place order by d.first_place, d.other_place)
    into v_first, v_other
    from memdb._near_duplicates(p_tenant, array(select h.memory_id from unnest(p_hits[1:30]) h),
           array(select h.version from unnest(p_hits[1:30]) h), p_model) d;
  if v_first is null then
    return query select h.* from unnest(p_hits[1:p_k]) h;
    return;
  end if;
  -- The place each one's group begins at. Pairs come in order, so a first one knows its own group already.
  v_groups := array(select generate_series(1, 30));
  for v_pair in 1 .. cardinality(v_first) loop
    if v_groups[v_other[v_pair]] = v_other[v_pair] then
      v_groups[v_other[v_pair]] := v_groups[v_first[v_pair]];
    end if;
  end loop;
  return query
    with hit as materialized (
      select (h.h).*, h.place, coalesce(v_groups[h.place], h.place) as group_place
        from (select h, row_number() over () as place from unnest(p_hits) h) h),
    ranked as (
      select h.*, row_number() over (partition by h.group_place order by b.events desc nulls last, b.trust desc nulls last,
                                                                          b.confidence desc nulls last, h.place) as preference,
             max(h.score) over (partition by h.group_place) as best_score,
             array_agg(h.memory_id) over (partition by h.group_place) as members
        from hit h
        left join memdb._backing(p_tenant,
               array(select d.memory_id from hit d where d.place in (select unnest(v_first || v_other)) order by d.place),
               array(select d.version from hit d where d.place in (select unnest(v_first || v_other)) order by d.place),
               p_belief_at) b
          on b.memory_id = h.memory_id)
    select r.memory_id, r.version, r.event_id, r.best_score,
           r.legs || case when cardinality(r.members) = 1 then '{}'
                          else jsonb_build_object('collapsed', jsonb_build_object('memory_ids', array_remove(r.members, r.memory_id))) end
      from ranked r
     where r.preference = 1
     order by r.group_place
     limit p_k;
end $$;
comment on function memdb._collapse (integer, integer, memdb._recall_hit[], integer, timestamptz) is 'The p_k best hits, of near-duplicates among the first 30 only the one that is sourced best.';
