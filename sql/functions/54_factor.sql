-- The factors of a recall other than the usual: exponents, tiers and a half-life, by call or by policy.
--
-- The formulas are in 40_score. The usual exponents are built into the ranking (_memory_factor); what is here runs only
-- where a call or a policy sets something. Log odds are added, so the order the usual factors gave is corrected by the
-- difference, and which candidates there are does not change.

-- _resolve_weights: what applies to a recall: the call's factors over the policy recall_factors over memdb's own; null where none are set.
--
-- The policy is that of the namespace, where exactly one is named, else that of the tenant. Raises MD001.
create or replace function memdb._resolve_weights (p_tenant integer, p_namespaces text[], p_factors jsonb)
  returns memdb._recall_weights
  language plpgsql stable
as $$
declare
  v_fault  text;
  v_weight memdb._recall_weights;
begin
  if p_factors is null and not exists (select from memdb.policy p where p.tenant_id = p_tenant and p.key = 'recall_factors') then
    return null;
  end if;
  v_fault := memdb._factor_fault(p_factors);
  if v_fault is not null then
    perform memdb._raise('MD001', 'argument "factors" '
        || case when v_fault = '' then 'is no object, or names nothing' else 'is unknown or out of range: ' || left(v_fault, 100) end,
      jsonb_strip_nulls(jsonb_build_object('field', 'factors', 'factor', nullif(left(v_fault, 100), ''))), memdb._factor_hint());
  end if;
  p_factors := memdb._merged_factors(
    memdb._policy(p_tenant, 'recall_factors', case when cardinality(p_namespaces) = 1 then (
      select n.namespace_id from memdb.namespace n where n.tenant_id = p_tenant and n.path = p_namespaces[1]) end),
    coalesce(p_factors, '{}'));
  -- Rounded: a number of jsonb may be too small for a double.
  select round(f.importance, 6), round(f.reliability, 6), round(f.status, 6), round(f.tier, 6), round(f.namespace, 6),
         round(f.freshness, 6), round(f.centrality, 6), round(f.strength, 6),
         t.working, t.short_term, t.long_term, t.archive, f.freshness_half_life_days
    into v_weight
    from jsonb_to_record(p_factors) f (importance numeric, reliability numeric, status numeric, tier numeric, namespace numeric,
                                       freshness numeric, centrality numeric, strength numeric, freshness_half_life_days numeric),
         jsonb_to_record(p_factors -> 'tiers') t (working numeric, short_term numeric, long_term numeric, archive numeric);
  return v_weight;
end $$;
comment on function memdb._resolve_weights (integer, text[], jsonb) is 'What applies to a recall: the call''s factors over the policy recall_factors over memdb''s own; null where none are set.';

-- _factor_logs: what the factors of some memories add to their log odds, factor by factor; usual: what the usual exponents add.
--
-- p_weights null: the usual. About the past, memories are as they were then: freshness is that on the day asked about, ties
-- are those of then, and strength is left out, since uses have no history. Ties are counted in p_namespaces, as the graph leg
-- follows them; those to what is being forgotten are not. A pinned memory is always new, and strong as if just used. What
-- an exponent of 0 leaves out is not looked up.
create or replace function memdb._factor_logs (
  p_tenant     integer,
  p_namespaces integer[],
  p_agent      text,
  p_memory_ids bigint[],
  p_weights    memdb._recall_weights,
  p_belief_at  timestamptz,
  p_world_at   timestamptz
)
  returns table (memory_id bigint, usual double precision, importance double precision, reliability double precision,
                 status double precision, tier double precision, namespace double precision, freshness double precision,
                 centrality double precision, strength double precision)
  language plpgsql stable rows 100
as $$
declare
  v_is_now boolean := p_belief_at is null and p_world_at is null;
  v_now    timestamptz := memdb.current_time();
  v_at     timestamptz := least(coalesce(p_world_at, p_belief_at), v_now);
  v_hides  boolean := exists (select from memdb.erasure_receipt r where r.tenant_id = p_tenant and r.state = 'erasing');
  v_by     memdb._recall_weights := coalesce(p_weights, row(1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0.5, null)::memdb._recall_weights);
begin
  return query
    with state as materialized (
      select m.* from unnest(p_memory_ids) i (id)
        cross join lateral (select m.* from memdb.memory m where m.tenant_id = p_tenant and m.memory_id = i.id offset 0) m
       where v_is_now
      union all
      select t.* from memdb._memories_then(p_tenant, p_memory_ids, null, null, null, null,
               array['active', 'stale', 'superseded', 'contradicted', 'retracted', 'archive'], p_belief_at, p_world_at) t
       where not v_is_now),
    life as materialized (
      select n.namespace_id, memdb._life(p_tenant, n.namespace_id) as life
        from (select distinct s.namespace_id from state s) n
       where v_by.strength > 0 or (v_by.freshness > 0 and v_by.half_life_days is null))
    select s.memory_id,
           ln(memdb._memory_factor(s.importance, s.confidence, s.trust, s.status, s.tier)) + coalesce(ln(g.weight::double precision), 0),
           v_by.importance * ln(memdb._importance_factor(s.importance)),
           v_by.reliability * ln(memdb._reliability_factor(s.confidence, s.trust)),
           v_by.status * ln(memdb._status_factor(s.status)),
           v_by.tier * ln(case s.tier when 'working' then v_by.working when 'short_term' then v_by.short_term when 'archive' then v_by.archive
                                   else v_by.long_term end),
           v_by.namespace * coalesce(ln(g.weight::double precision), 0),
           case when v_by.freshness > 0 and not s.is_pinned then v_by.freshness * ln(memdb._freshness_factor(
             extract(epoch from v_at - s.occurred_at)::double precision / 86400,
             coalesce(v_by.half_life_days, memdb._half_life_days(l.life, s.type, t.tier, false)))) else 0 end,
           case when v_by.centrality > 0 then v_by.centrality * ln(memdb._centrality_factor((
             select count(*)
               from (select n.memory_id from memdb._adjacent(p_tenant, s.memory_id, p_namespaces, null, 16) n where v_is_now
                     union all
                     select n.memory_id from memdb._adjacent_then(p_tenant, s.memory_id, p_namespaces, p_belief_at, p_world_at, 16) n
                      where not v_is_now) a
              where not v_hides or not memdb._is_listed(p_tenant, 'memory', a.memory_id)))) else 0 end,
           case when v_by.strength > 0 and v_is_now then v_by.strength * ln(memdb._strength_factor(memdb._strength(
             s.importance, least(s.confidence, s.trust), s.use_count,
             case when s.is_pinned then 0
                  else extract(epoch from v_now - greatest(s.recorded_at, s.last_used_at))::double precision / 86400 end,
             memdb._half_life_days(l.life, s.type, t.tier, s.is_isolated), (l.life ->> 'use_weight')::double precision))) else 0 end
      from state s
      -- An archived memory goes on fading as a long-term one.
      cross join lateral (select case when s.tier = 'archive' then 'long_term' else s.tier end) t (tier)
      left join life l on l.namespace_id = s.namespace_id
      left join memdb.agent_grant g on g.tenant_id = p_tenant and g.agent_id = p_agent and g.namespace_id = s.namespace_id;
end $$;
comment on function memdb._factor_logs (integer, integer[], text, bigint[], memdb._recall_weights, timestamptz, timestamptz) is 'What the factors of some memories add to their log odds, factor by factor; usual: what the usual exponents add.';

-- _weighed: what a leg or the pool holds, its scores by other factors than the usual, best first.
--
-- What is no memory yet has none of these factors.
create or replace function memdb._weighed (
  p_tenant     integer,
  p_namespaces integer[],
  p_agent      text,
  p_weights    memdb._recall_weights,
  p_belief_at  timestamptz,
  p_world_at   timestamptz,
  p_memory_ids bigint[],
  p_versions   integer[],
  p_event_ids  bigint[],
  p_scores     double precision[],
  p_keywords   double precision[],
  out memory_ids bigint[],
  out versions   integer[],
  out event_ids  bigint[],
  out scores     double precision[],
  out keywords   double precision[]
)
  language plpgsql stable
as $$
begin
  select array_agg(r.memory_id), array_agg(r.version), array_agg(r.event_id), array_agg(r.score), array_agg(r.keyword)
    into memory_ids, versions, event_ids, scores, keywords
    from (select s.memory_id, s.version, s.event_id, s.keyword,
                 s.score + coalesce(f.importance + f.reliability + f.status + f.tier + f.namespace + f.freshness + f.centrality
                                    + f.strength - f.usual, 0) as score
            from unnest(p_memory_ids, p_versions, p_event_ids, p_scores, p_keywords) s (memory_id, version, event_id, score, keyword)
            left join memdb._factor_logs(p_tenant, p_namespaces, p_agent, array_remove(p_memory_ids, null), p_weights,
                                         p_belief_at, p_world_at) f on f.memory_id = s.memory_id
           order by 5 desc, 1, 3) r;
end $$;
comment on function memdb._weighed (integer, integer[], text, memdb._recall_weights, timestamptz, timestamptz, bigint[], integer[], bigint[], double precision[], double precision[]) is 'What a leg or the pool holds, its scores by other factors than the usual, best first.';
