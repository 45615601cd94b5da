-- The fresh leg: what was said a moment ago and is not a memory yet.
--
-- A writer reads its own writes: events whose extraction is still open are matched as they stand.

-- _fresh_leg: the newest unextracted events of a scope that hold terms of the query, with their BM25.
--
-- Looks at the newest 200 with open work (of more than five namespaces, at 1,000 in all); an event
-- that a memory already rests on, or that was retracted, is left out. Turning a text into lexemes
-- costs most, so first a plain look whether the letters of any term occur: a stem is the beginning
-- of its words, but for a final y become i. With a time given: what was said, and not yet a memory,
-- then (_waiting_then).
create or replace function memdb._fresh_leg (
  p_tenant     integer,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_terms      text[],
  p_idf        double precision[],
  p_mean       double precision,
  p_limit      integer,
  p_belief_at  timestamptz default null,
  p_also       memdb._recall_filter default null,
  out event_ids bigint[],
  out scores    double precision[]
)
  language plpgsql stable
as $$
begin
  with scope as materialized (
    select n.namespace_id, least(200, greatest(5, 1000 / count(*) over ())) as share
      from unnest(coalesce(p_namespaces,
             array(select n.namespace_id from memdb.namespace n where n.tenant_id = p_tenant))) n (namespace_id)),
  open as (
    select e.*
      from scope s
      cross join lateral (
        (select x.event_id from memdb.extraction x
         where x.tenant_id = p_tenant and x.namespace_id = s.namespace_id
           and x.state in ('pending', 'leased', 'failed', 'dead') and p_belief_at is null
           and ((p_also).hides is null or not memdb._is_listed(p_tenant, 'event', x.event_id))
         order by x.event_id desc
         limit s.share)
        union all
        select w.event_id from memdb._waiting_then(p_tenant, s.namespace_id, p_belief_at, s.share::integer) w
         where p_belief_at is not null) x
      cross join lateral (select e.* from memdb.event e where e.tenant_id = p_tenant and e.event_id = x.event_id offset 0) e),
  word as materialized (
    select array_agg('%' || replace(replace(regexp_replace(t.term, '(?<=...)i$', ''), '\', '\\'), '_', '\_') || '%') as patterns
      from unnest(p_terms) t (term)
     where t.term not like '%\%%'),
  -- Once: every row joined below would turn its text into lexemes anew.
  matched as materialized (
    select o.event_id, memdb.keyword_text_v2(o.text, memdb._heading(o.language, o.occurred_at at time zone o.time_zone, o.speaker),
                         o.language, '{}') as keyword
      from open o
     where (p_user is null or o.user_id is null or o.user_id = p_user)
       and (p_sessions is null or o.session_id = any (p_sessions))
       and ((p_also).from_at is null or o.occurred_at >= (p_also).from_at)
       and ((p_also).to_at is null or o.occurred_at < (p_also).to_at)
       and memdb.folded_text_v1(concat_ws(' ', o.speaker, o.text)) like any ((select w.patterns from word w)::text[])
       and not exists (select from memdb.premise p
                        where p.tenant_id = p_tenant and p.event_id = o.event_id
                          and (p_belief_at is null or coalesce(p.added_at, (
                                select j.recorded_at from memdb.justification j
                                 where j.tenant_id = p_tenant and j.justification_id = p.justification_id)) <= p_belief_at))
       and not exists (select from memdb.belief b
                        where b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = o.event_id
                          and b.from_at <= coalesce(p_belief_at, 'infinity')
                          and (b.to_at is null or b.to_at > p_belief_at))),
  scored as (
    select m.event_id, memdb._saturate(memdb._presence(length(m.keyword), p_mean)) * sum(t.idf) as score
      from matched m
      cross join lateral unnest(tsvector_to_array(m.keyword)) x (term)
      join unnest(p_terms, p_idf) t (term, idf) on t.term = x.term
     group by m.event_id, length(m.keyword)
     order by 2 desc, 1 desc
     limit p_limit)
  select array_agg(s.event_id order by s.score desc, s.event_id desc), array_agg(s.score order by s.score desc, s.event_id desc)
    into event_ids, scores
    from scored s;
end $$;
comment on function memdb._fresh_leg (integer, integer[], text, bigint[], text[], double precision[], double precision, integer, timestamptz, memdb._recall_filter) is 'The newest unextracted events of a scope that hold terms of the query, with their BM25.';
