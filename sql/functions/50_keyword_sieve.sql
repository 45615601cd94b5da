-- The keyword leg under filters that let little pass: what passes is looked up before it is scored.

-- _sieved_matches: the best of those matches of a tsquery that pass all filters, every match looked up.
create or replace function memdb._sieved_matches (
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
  p_also       memdb._recall_filter,
  out memory_ids bigint[],
  out scores     double precision[]
)
  language plpgsql stable
as $$
declare
  v_metadata jsonb := (p_also).metadata;
begin
  -- Asked of the version at hand, not once more of each memory.
  p_also.metadata := null;
  select array_agg(b.memory_id order by b.score desc, b.memory_id), array_agg(b.score order by b.score desc, b.memory_id)
    into memory_ids, scores
    from (select x.memory_id, memdb._saturate(memdb._presence(x.length, p_mean)) * sum(t.idf) as score
            from (select v.memory_id, length(w.keyword) - 3 as length, unnest(tsvector_to_array(ts_filter(w.keyword, '{a}'))) as term
                    from (select v.* from memdb.memory_version v where v.keyword @@ p_query and v.retired_at is null offset 0) v
                    cross join lateral (
                      select from memdb.memory m
                       where m.tenant_id = p_tenant and m.memory_id = v.memory_id and m.version = v.version
                         and memdb._is_recallable(m, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also)
                      offset 0) m
                    cross join lateral (select setweight(v.keyword, 'A', p_terms) as keyword offset 0) w
                   where v.tenant_id = p_tenant and (p_user is null or v.user_id is null or v.user_id = p_user)
                     and (v_metadata is null or v.metadata @> v_metadata)) x
            join unnest(p_terms, p_idf) t (term, idf) on t.term = x.term
           group by x.memory_id, x.length
           order by 2 desc, 1
           limit p_limit) b;
end $$;
comment on function memdb._sieved_matches (integer, integer[], text, bigint[], text[], text[], tsquery, text[], double precision[], double precision, integer, memdb._recall_filter) is 'The best of those matches of a tsquery that pass all filters, every match looked up.';

-- _chosen_matches: the best matches among the few memories that can pass the filters, with the weights given.
create or replace function memdb._chosen_matches (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_terms      text[],
  p_idf        double precision[],
  p_mean       double precision,
  p_limit      integer,
  p_also       memdb._recall_filter,
  out memory_ids bigint[],
  out scores     double precision[]
)
  language plpgsql stable
as $$
begin
  select array_agg(b.memory_id order by b.score desc, b.memory_id), array_agg(b.score order by b.score desc, b.memory_id)
    into memory_ids, scores
    from (select x.memory_id, memdb._saturate(memdb._presence(x.length, p_mean)) * sum(t.idf) as score
            from (select m.memory_id, length(v.keyword) - 3 as length, unnest(tsvector_to_array(ts_filter(v.keyword, '{a}'))) as term
                    from unnest((p_also).chosen) c (id)
                    cross join lateral (
                      select m.memory_id, m.version
                        from memdb.memory m
                       where m.tenant_id = p_tenant and m.memory_id = c.id
                         and memdb._is_recallable(m, p_namespaces, p_user, p_sessions, p_types, p_statuses, p_also)
                      offset 0) m
                    cross join lateral (
                      select setweight(v.keyword, 'A', p_terms) as keyword
                        from memdb.memory_version v
                       where v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
                      offset 0) v) x
            join unnest(p_terms, p_idf) t (term, idf) on t.term = x.term
           group by x.memory_id, x.length
           order by 2 desc, 1
           limit p_limit) b;
end $$;
comment on function memdb._chosen_matches (integer, integer[], text, bigint[], text[], text[], text[], double precision[], double precision, integer, memdb._recall_filter) is 'The best matches among the few memories that can pass the filters, with the weights given.';
