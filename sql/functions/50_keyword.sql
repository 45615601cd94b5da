-- The keyword leg: exact BM25 within a scope.
--
-- The scope is a lexeme of every keyword vector, so one GIN look-up meets only its own rows,
-- however large the table. In a small scope every match is scored and words are counted on the
-- way. In a large one the folded statistics say which words are rare: the matches of the rarest
-- give a threshold, and a second query fetches only rows that could still beat it.

-- _query_terms: the lexemes a query is searched by.
--
-- A memory's language decides how it was indexed, so the query is read both ways: with English
-- stems and stop words, and as it stands. Of scripts without spaces, pairs with a Chinese function
-- character say little and are dropped, as are single characters but those that stand alone, between
-- other words or function characters (茶 tea, 我的猫呢); unless nothing else is left.
-- At most 256, first come first; text beyond 8,000 characters is not read.
create or replace function memdb._query_terms (p_query text)
  returns text[]
  language plpgsql immutable parallel safe
as $$
declare
  c_spaceless constant text :=
    '\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff';
  c_function  constant text := '[的了着过吗呢吧啊么什哪怎谁是在和与及或而但也都就把被从向这那其之著過嗎麼誰與從這]';
  v_terms text[];
  v_alone text[];
  v_kept  text[];
begin
  select array_agg(t.lexeme order by t.place, t.lexeme)
    into v_terms
    from (select l.lexeme, min(coalesce(l.positions[1], 0)) as place
            from (values (null), ('und')) w (language)
            cross join lateral unnest(memdb.keyword_text_v2(left(p_query, 8000), null, w.language, '{}')) l
           group by l.lexeme
           order by 2, 1
           limit 256) t;
  v_alone := array(
    select m.part[1]
      from regexp_matches(regexp_replace(memdb.folded_text_v1(left(p_query, 8000)), c_function, ' ', 'g'),
             '(?<![0-9' || c_spaceless || '])([' || c_spaceless || '])(?![0-9' || c_spaceless || '])', 'g') m (part));
  select array_agg(t.term order by t.place)
    into v_kept
    from unnest(v_terms) with ordinality t (term, place)
   where case when t.term ~ ('^[' || c_spaceless || ']$') then t.term = any (v_alone)
              else not (t.term ~ ('^[' || c_spaceless || ']{2}$') and t.term ~ c_function) end;
  return coalesce(v_kept, v_terms, '{}');
end $$;
comment on function memdb._query_terms (text) is 'The lexemes a query is searched by.';

-- _any_term: the tsquery text "one of these lexemes".
create or replace function memdb._any_term (p_terms text[])
  returns text
  language sql immutable parallel safe
begin atomic
  select '(' || string_agg('''' || replace(replace(t.term, '\', '\\'), '''', '''''') || '''', '|') || ')'
    from unnest(p_terms) t (term);
end;
comment on function memdb._any_term (text[]) is 'The tsquery text "one of these lexemes".';

-- _scope_query: the tsquery text that every keyword vector of a scope satisfies.
--
-- With a user: that user's rows and those without one, as far as scope_lexemes_v1 marks the latter;
-- the look-up of each row decides in the end.
create or replace function memdb._scope_query (p_tenant integer, p_namespaces integer[], p_user text)
  returns text
  language sql immutable parallel safe
begin atomic
  select case when p_namespaces is null then memdb._any_term((memdb.scope_lexemes_v1(p_tenant, 0, null))[1:1])
              else memdb._any_term(array(select (memdb.scope_lexemes_v1(p_tenant, n.id, null))[2] from unnest(p_namespaces) n (id))) end
      || case when p_user is null or cardinality(memdb.scope_lexemes_v1(p_tenant, 0, null)) < 3 then ''
              else '&' || memdb._any_term(array[(memdb.scope_lexemes_v1(p_tenant, 0, p_user))[3],
                                                (memdb.scope_lexemes_v1(p_tenant, 0, null))[3]]) end;
end;
comment on function memdb._scope_query (integer, integer[], text) is 'The tsquery text that every keyword vector of a scope satisfies.';

-- _scope_statistics: size, mean length and word counts of a scope, as of the last fold.
--
-- holding goes beside p_terms: how many documents hold each. queued counts the versions not folded
-- yet, up to 10,001. Scopes of more than 16 namespaces are judged by their 16 largest, scaled up.
create or replace function memdb._scope_statistics (
  p_tenant     integer,
  p_namespaces integer[],
  p_terms      text[],
  out documents   double precision,
  out mean_length double precision,
  out queued      integer,
  out holding     double precision[]
)
  language plpgsql stable
as $$
declare
  v_sample integer[];
  v_sampled double precision;
begin
  -- An array in any case: "null or any of" would walk through all namespaces of the tenant.
  p_namespaces := coalesce(p_namespaces, array(select n.namespace_id from memdb.namespace n where n.tenant_id = p_tenant));
  -- Where nothing holds a word the mean is 1, not 0: lengths are divided by it.
  select sum(s.documents), greatest(sum(s.tokens) / nullif(sum(s.documents), 0)::double precision, 1),
         array_agg(s.namespace_id) filter (where s.place <= 16), sum(s.documents) filter (where s.place <= 16)
    into documents, mean_length, v_sample, v_sampled
    from (select s.*, row_number() over (order by s.documents desc, s.namespace_id) as place
            from memdb.namespace_stat s
           where s.tenant_id = p_tenant and s.namespace_id = any (p_namespaces)) s;
  -- One by one: "any of" would walk through the queues of all of them, if it was planned while they were empty.
  select count(*) into queued
    from (select from unnest(p_namespaces) n (id)
           cross join lateral (
             select from memdb.keyword_queue q where q.tenant_id = p_tenant and q.namespace_id = n.id offset 0) q
           limit 10001) w;
  if coalesce(documents, 0) = 0 then
    return;
  end if;
  select array_agg(coalesce(l.holding, 0) * documents / v_sampled order by t.place)
    into holding
    from unnest(p_terms) with ordinality t (term, place)
    cross join lateral (
      select sum(l.documents) as holding
        from memdb.lexeme_stat l
       where l.tenant_id = p_tenant and l.namespace_id = any (v_sample) and l.lexeme = t.term) l;
end $$;
comment on function memdb._scope_statistics (integer, integer[], text[]) is 'Size, mean length and word counts of a scope, as of the last fold.';

-- _best_matches: the best matches of a tsquery by BM25, with the weights given, whatever their state.
--
-- setweight marks the query's lexemes in a keyword vector and ts_filter keeps the marked ones:
-- which terms a row holds, read in one pass and without unpacking the rest. A keyword vector
-- holds three lexemes of the scope, which do not count as length. `offset 0`
-- leaves the search to the keyword index alone: the planner likes to intersect it with all rows
-- of the tenant, found by the primary key (22 ms for 200,000 of them).
create or replace function memdb._best_matches (
  p_tenant integer,
  p_user   text,
  p_query  tsquery,
  p_terms  text[],
  p_idf    double precision[],
  p_mean   double precision,
  p_limit  integer,
  p_also   memdb._recall_filter default null
)
  returns table (memory_id bigint, version integer, score double precision)
  language plpgsql stable rows 50
as $$
begin
  return query
    select x.memory_id, x.version, memdb._saturate(memdb._presence(x.length, p_mean)) * sum(t.idf)
      from (select v.memory_id, v.version, length(w.keyword) - 3 as length,
                   unnest(tsvector_to_array(ts_filter(w.keyword, '{a}'))) as term
              from (select v.* from memdb.memory_version v where v.keyword @@ p_query and v.retired_at is null offset 0) v
              cross join lateral (select setweight(v.keyword, 'A', p_terms) as keyword offset 0) w
             where v.tenant_id = p_tenant and (p_user is null or v.user_id is null or v.user_id = p_user)
                and ((p_also).members is null or (p_also).members @> v.memory_id)
                and ((p_also).metadata is null or v.metadata @> (p_also).metadata)) x
      join unnest(p_terms, p_idf) t (term, idf) on t.term = x.term
     group by x.memory_id, x.version, x.length
     order by 3 desc, 1
     limit p_limit;
end $$;
comment on function memdb._best_matches (integer, text, tsquery, text[], double precision[], double precision, integer, memdb._recall_filter) is 'The best matches of a tsquery by BM25, with the weights given, whatever their state.';

-- _keyword_matches: the best matches of a tsquery by BM25, with the weights given.
--
-- What the version row does not say (status, type, session, ...) is looked up for the best rows only; where
-- too few of them pass, for every match before it is scored.
create or replace function memdb._keyword_matches (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_query      tsquery,
  p_terms      text[],
  p_idf        double precision[],
  p_mean       double precision,
  p_limit      integer,
  p_also       memdb._recall_filter default null,
  out memory_ids bigint[],
  out scores     double precision[]
)
  language plpgsql stable
as $$
declare
  v_seen integer;
begin
  with best as materialized (
    select b.* from memdb._best_matches(p_tenant, p_user, p_query, p_terms, p_idf, p_mean, p_limit + 20, p_also) b),
  -- An ordered subquery under a lateral join keeps its order: no more are looked up than are needed.
  hit as (
    select b.memory_id, b.score
      from (select b.* from best b order by b.score desc, b.memory_id offset 0) b
      cross join lateral (
        select from memdb.memory m
         where m.tenant_id = p_tenant and m.memory_id = b.memory_id and m.version = b.version
           and memdb._is_recallable(m, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also)
        offset 0) m
     limit p_limit)
  select array_agg(h.memory_id order by h.score desc, h.memory_id), array_agg(h.score order by h.score desc, h.memory_id),
         (select count(*) from best)
    into memory_ids, scores, v_seen
    from hit h;
  if v_seen >= p_limit + 20 and coalesce(cardinality(memory_ids), 0) < p_limit then
    select f.memory_ids, f.scores into memory_ids, scores
      from memdb._sieved_matches(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_query, p_terms, p_idf, p_mean,
             p_limit, p_also) f;
  end if;
end $$;
comment on function memdb._keyword_matches (integer, integer[], text, bigint[], text[], text[], tsquery, text[], double precision[], double precision, integer, memdb._recall_filter) is 'The best matches of a tsquery by BM25, with the weights given.';

-- _count_matches: the best matches in a small scope by BM25, words counted on the way.
--
-- For scopes whose statistics are missing, stale or not worth trusting: reads every match once.
-- A document that holds none of the terms still counts in the size of the scope.
create or replace function memdb._count_matches (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_terms      text[],
  p_limit      integer,
  p_also       memdb._recall_filter default null,
  out memory_ids  bigint[],
  out scores      double precision[],
  out idf         double precision[],
  out documents   double precision,
  out mean_length double precision
)
  language plpgsql stable
as $$
declare
  v_query tsquery := (memdb._scope_query(p_tenant, p_namespaces, p_user) || '&' || memdb._any_term(p_terms))::tsquery;
begin
  -- An array in any case: "null or any of" would use no index.
  select count(*) into documents
    from memdb.memory m
   where m.tenant_id = p_tenant
     and m.namespace_id = any (coalesce(p_namespaces,
           array(select n.namespace_id from memdb.namespace n where n.tenant_id = p_tenant)));
  with hit as materialized (
    select v.memory_id, m.is_wanted, tsvector_to_array(ts_filter(w.keyword, '{a}')) as terms,
           length(w.keyword) - 3 as length
      from (select v.* from memdb.memory_version v where v.keyword @@ v_query and v.retired_at is null offset 0) v
      cross join lateral (
        select memdb._is_recallable(m, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also) as is_wanted
          from memdb.memory m
         where m.tenant_id = p_tenant and m.memory_id = v.memory_id and m.version = v.version
        offset 0) m
      cross join lateral (select setweight(v.keyword, 'A', p_terms) as keyword offset 0) w
     where v.tenant_id = p_tenant),
  counted as (
    select x.term, count(*) as holding from hit h cross join lateral unnest(h.terms) x (term) group by x.term),
  term as materialized (
    select t.term, t.place, memdb._idf(documents, coalesce(c.holding, 0)) as idf
      from unnest(p_terms) with ordinality t (term, place)
      left join counted c on c.term = t.term),
  mean as materialized (
    select avg(h.length)::double precision as length from hit h),
  best as (
    select h.memory_id, memdb._saturate(memdb._presence(h.length, (select a.length from mean a))) * sum(t.idf) as score
      from hit h
      cross join lateral unnest(h.terms) x (term)
      join term t on t.term = x.term
     where h.is_wanted
     group by h.memory_id, h.length
     order by 2 desc, 1
     limit p_limit)
  select (select array_agg(b.memory_id order by b.score desc, b.memory_id) from best b),
         (select array_agg(b.score order by b.score desc, b.memory_id) from best b),
         (select array_agg(t.idf order by t.place) from term t),
         (select a.length from mean a)
    into memory_ids, scores, idf, mean_length;
end $$;
comment on function memdb._count_matches (integer, integer[], text, bigint[], text[], text[], text[], integer, memdb._recall_filter) is 'The best matches in a small scope by BM25, words counted on the way.';

-- _beating_query: the tsquery text of what could still reach a score without the terms already used.
--
-- Terms come in order of falling idf; the first p_used have been searched. A document whose
-- rarest other term is i, and whose next is j, holds at most idf[i] plus all idf from j on; each
-- i gives one clause, with the j that suffice. Null where nothing can reach p_least, a sum of idf.
create or replace function memdb._beating_query (
  p_terms text[],
  p_idf   double precision[],
  p_used  integer,
  p_least double precision
)
  returns text
  language plpgsql immutable parallel safe
as $$
declare
  v_count   integer := cardinality(p_terms);
  v_after   double precision[] := array_fill(0::double precision, array[v_count + 1]);
  v_clauses text[] := '{}';
  v_next    integer;
begin
  for i in reverse v_count .. p_used + 1 loop
    v_after[i] := v_after[i + 1] + p_idf[i];
  end loop;
  for i in p_used + 1 .. v_count loop
    exit when v_after[i] < p_least;
    if p_idf[i] >= p_least then
      v_clauses := v_clauses || memdb._any_term(p_terms[i:i]);
    else
      v_next := i;
      while v_next < v_count and p_idf[i] + v_after[v_next + 1] >= p_least loop
        v_next := v_next + 1;
      end loop;
      v_clauses := v_clauses || (memdb._any_term(p_terms[i:i]) || '&' || memdb._any_term(p_terms[i + 1:v_next]));
    end if;
  end loop;
  return nullif(array_to_string(v_clauses, '|'), '');
end $$;
comment on function memdb._beating_query (text[], double precision[], integer, double precision) is 'The tsquery text of what could still reach a score without the terms already used.';

-- _search_matches: the best matches in a large scope by BM25, with the word counts given.
--
-- Terms come in order of falling idf. The rarest are searched first, about 300 documents at a
-- time and then more, until p_limit are found; then only what can still beat the 20th of them is
-- fetched. So the first 20 are exact for the counts given, the rest nearly.
create or replace function memdb._search_matches (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_terms      text[],
  p_idf        double precision[],
  p_holding    double precision[],
  p_mean       double precision,
  p_limit      integer,
  p_also       memdb._recall_filter default null,
  out memory_ids bigint[],
  out scores     double precision[]
)
  language plpgsql stable
as $$
declare
  v_scope   text := memdb._scope_query(p_tenant, p_namespaces, p_user);
  v_budget  double precision := 300;
  v_used    integer := 0;
  v_before  integer;
  v_sum     double precision;
  v_query   text;
  v_found   record;
begin
  memory_ids := '{}';
  scores := '{}';
  loop
    v_before := v_used;
    v_sum := 0;
    while v_used < cardinality(p_terms) and (v_used = v_before or v_sum + p_holding[v_used + 1] <= v_budget) loop
      v_used := v_used + 1;
      v_sum := v_sum + p_holding[v_used];
    end loop;
    v_query := memdb._any_term(p_terms[v_before + 1:v_used]);
    if cardinality(memory_ids) >= p_limit then
      v_query := memdb._beating_query(p_terms, p_idf, v_before, scores[least(20, p_limit)] / memdb._saturate(memdb._presence(0, 1)));
      v_used := cardinality(p_terms);
      exit when v_query is null;
    end if;
    v_found := memdb._keyword_matches(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses,
      (v_scope || '&(' || v_query || ')' || coalesce('&!' || memdb._any_term(p_terms[1:v_before]), ''))::tsquery,
      p_terms, p_idf, p_mean, p_limit, p_also);
    select array_agg(b.memory_id order by b.score desc, b.memory_id), array_agg(b.score order by b.score desc, b.memory_id)
      into memory_ids, scores
      from (select u.memory_id, u.score
              from unnest(memory_ids || v_found.memory_ids, scores || v_found.scores) u (memory_id, score)
             order by 2 desc, 1
             limit p_limit) b;
    memory_ids := coalesce(memory_ids, '{}');
    exit when v_used >= cardinality(p_terms);
    -- A user's share of a namespace is not known beforehand: the fewer were found, the wider the next step.
    v_budget := v_budget * least(16, greatest(4, 2.0 * p_limit / greatest(cardinality(memory_ids), 1)));
  end loop;
end $$;
comment on function memdb._search_matches (integer, integer[], text, bigint[], text[], text[], text[], double precision[], double precision[], double precision, integer, memdb._recall_filter) is 'The best matches in a large scope by BM25, with the word counts given.';

-- _keyword_leg: the best matches of a query by BM25, and the statistics they were judged by.
--
-- Returns the memories with their scores, best first, and beside them the terms that count (of
-- more than 64 the rarest), their idf, the size of the scope and its mean length in lexemes.
-- Folded statistics are used from 500 documents on and while at most a fifth is missing from them.
create or replace function memdb._keyword_leg (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_terms      text[],
  p_limit      integer,
  p_also       memdb._recall_filter default null,
  out memory_ids  bigint[],
  out scores      double precision[],
  out terms       text[],
  out idf         double precision[],
  out documents   double precision,
  out mean_length double precision
)
  language plpgsql stable
  -- A small table looks cheap to read in sequence, but that unpacks every keyword vector.
  set enable_seqscan = off
as $$
declare
  v_known   record;
  v_holding double precision[];
  v_found   record;
begin
  if cardinality(p_terms) = 0 then
    terms := '{}';
    idf := '{}';
    return;
  end if;
  v_known := memdb._scope_statistics(p_tenant, p_namespaces, p_terms);
  if coalesce(v_known.documents, 0) < 500 or v_known.queued > v_known.documents / 4 then
    terms := p_terms[1:64];
    v_found := memdb._count_matches(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, terms, p_limit, p_also);
    memory_ids := v_found.memory_ids;
    scores := v_found.scores;
    idf := v_found.idf;
    documents := v_found.documents;
    -- Nothing matched: the mean of nothing would leave the fresh leg without a score.
    mean_length := coalesce(v_found.mean_length, 20);
    return;
  end if;
  documents := v_known.documents + v_known.queued;
  mean_length := v_known.mean_length;
  select array_agg(r.term order by r.place), array_agg(memdb._idf(documents, r.holding) order by r.place),
         array_agg(r.holding order by r.place)
    into terms, idf, v_holding
    from (select t.term, t.holding, row_number() over (order by t.holding, t.term) as place
            from unnest(p_terms, v_known.holding) t (term, holding)) r
   where r.place <= 64;
  if (p_also).chosen is not null then
    v_found := memdb._chosen_matches(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, terms, idf, mean_length,
      p_limit, p_also);
  else
    v_found := memdb._search_matches(p_tenant, p_namespaces, p_user, p_sessions, p_types, p_statuses, terms, idf, v_holding,
      mean_length, p_limit, p_also);
  end if;
  memory_ids := v_found.memory_ids;
  scores := v_found.scores;
end $$;
comment on function memdb._keyword_leg (integer, integer[], text, bigint[], text[], text[], text[], integer, memdb._recall_filter) is 'The best matches of a query by BM25, and the statistics they were judged by.';
