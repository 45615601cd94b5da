-- Strength: how much a memory counts now, and when it will count too little.
--
--   strength = importance / 10 x reliability x (1 + w ln(1 + uses)) x 2 ^ -(idle / half-life)
--
-- importance 0 to 10; reliability = the lower of confidence and trust, 0 to 1; idle = days since the
-- last use, or since it was written. Exponential forgetting with a half-life is Ebbinghaus's curve as
-- used for memories of agents (Zhong et al. 2023, MemoryBank); that uses count by their logarithm is
-- base-level activation in ACT-R (Anderson and Schooler 1991). Between uses nothing but time changes
-- it, so the moment it falls below the threshold of its tier is known when it is written: fades_at.

-- _strength: how much a memory counts, 0 to 1 + w ln(1 + uses).
--
-- p_reliability 0 to 1, p_idle_days since the last use, p_half_life_days above 0, p_use_weight is w. Falls with time,
-- never below what 500 half-lives leave; rises with uses.
create or replace function memdb._strength (
  p_importance     double precision,
  p_reliability    double precision,
  p_uses           double precision,
  p_idle_days      double precision,
  p_half_life_days double precision,
  p_use_weight     double precision
)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select p_importance / 10 * p_reliability * (1 + p_use_weight * ln(1 + greatest(p_uses, 0)))
       * power(0.5::double precision, least(greatest(p_idle_days, 0) / p_half_life_days, 500));
end;
comment on function memdb._strength (double precision, double precision, double precision, double precision, double precision, double precision) is 'How much a memory counts, 0 to 1 + w ln(1 + uses).';

-- _days_above: for how many days after its last use a memory stays at or above a threshold.
--
-- p_fresh is its strength at the moment of use: half-life x log2(fresh / threshold). Infinity where
-- the threshold is 0; 0 where it is below from the start.
create or replace function memdb._days_above (
  p_fresh          double precision,
  p_threshold      double precision,
  p_half_life_days double precision
)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select case when p_threshold <= 0 then 'Infinity'
              when p_fresh <= p_threshold then 0
              else p_half_life_days * least((ln(p_fresh) - ln(p_threshold)) / ln(2::double precision), 500) end;
end;
comment on function memdb._days_above (double precision, double precision, double precision) is 'For how many days after its last use a memory stays at or above a threshold.';

-- _life: the policies of fading that apply in a namespace, as one object by key.
--
-- The same values as _policy gives, read at once: this is asked in every write. plpgsql, because the
-- plan of a query in it is kept.
create or replace function memdb._life (p_tenant integer, p_namespace integer)
  returns jsonb
  language plpgsql stable
as $$
begin
  return (
    with given as (
      select distinct on (p.key) p.key, p.value
        from memdb.policy p
        left join memdb.namespace at on at.tenant_id = p_tenant and at.namespace_id = p_namespace
        left join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = p.namespace_id
       where p.tenant_id = p_tenant and p.key = any (memdb._life_keys())
         and (p.namespace_id is null or n.path = at.path or starts_with(at.path, n.path || '/'))
       order by p.key, char_length(n.path) desc nulls last)
    select jsonb_object_agg(d.key, case when jsonb_typeof(d.value) = 'object' then d.value || coalesce(g.value, '{}')
                                        else coalesce(g.value, d.value) end)
      from memdb._policy_defaults() d
      left join given g on g.key = d.key
     where d.key = any (memdb._life_keys()));
end $$;
comment on function memdb._life (integer, integer) is 'The policies of fading that apply in a namespace, as one object by key.';

-- _half_life_days: the half-life of a memory of a type and tier; of an isolated one that by the factor of the policy.
create or replace function memdb._half_life_days (p_life jsonb, p_type text, p_tier text, p_is_isolated boolean)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select (p_life -> 'half_life_days' ->> p_tier)::double precision
       * coalesce((p_life -> 'half_life_of_types' ->> p_type)::double precision, 1)
       / case when p_is_isolated then (p_life ->> 'isolation_factor')::double precision else 1 end;
end;
comment on function memdb._half_life_days (jsonb, text, text, boolean) is 'The half-life of a memory of a type and tier; of an isolated one that by the factor of the policy.';

-- _fades_at: the moment a memory leaves its tier if nobody uses it, in whole seconds, rounded down; null = never.
--
-- The first of two: its strength falls below the threshold of its tier (or type, where that has one), or it has been
-- idle for as long as its tier keeps anything. p_since is its last use, or when it was written.
create or replace function memdb._fades_at (
  p_life        jsonb,
  p_type        text,
  p_tier        text,
  p_is_pinned   boolean,
  p_is_isolated boolean,
  p_importance  double precision,
  p_reliability double precision,
  p_uses        double precision,
  p_since       timestamptz
)
  returns timestamptz
  language plpgsql immutable parallel safe
as $$
declare
  v_fresh     double precision;
  v_threshold double precision;
  v_half_life double precision;
  v_expiry    double precision;
  v_days      double precision;
begin
  if p_is_pinned or p_tier = 'archive' then
    return null;
  end if;
  v_fresh := memdb._strength(p_importance, p_reliability, p_uses, 0, 1, (p_life ->> 'use_weight')::double precision);
  v_threshold := coalesce(p_life -> 'fade_below' ->> p_type, p_life -> 'fade_below' ->> p_tier);
  v_half_life := memdb._half_life_days(p_life, p_type, p_tier, p_is_isolated);
  v_expiry := coalesce(nullif((p_life -> 'expire_after_days' ->> p_tier)::double precision, 0), 'Infinity');
  v_days := least(memdb._days_above(v_fresh, v_threshold, v_half_life), v_expiry);
  if v_days > 365000 then
    return null;
  end if;
  return to_timestamp(floor(extract(epoch from p_since)::double precision + v_days * 86400));
end $$;
comment on function memdb._fades_at (jsonb, text, text, boolean, boolean, double precision, double precision, double precision, timestamptz) is 'The moment a memory leaves its tier if nobody uses it, in whole seconds, rounded down; null = never.';

-- _memory_fades_at: _fades_at of a row of table memory with further uses and another tier.
--
-- p_uses are uses not yet folded into the row, p_used_at the last of them (null: none).
create or replace function memdb._memory_fades_at (
  p_life        jsonb,
  p_memory      memdb.memory,
  p_tier        text,
  p_is_isolated boolean,
  p_uses        bigint,
  p_used_at     timestamptz
)
  returns timestamptz
  language plpgsql immutable parallel safe
as $$
begin
  return memdb._fades_at(p_life, (p_memory).type, p_tier, (p_memory).is_pinned, p_is_isolated, (p_memory).importance,
    least((p_memory).confidence, (p_memory).trust), (p_memory).use_count + p_uses,
    greatest((p_memory).recorded_at, (p_memory).last_used_at, p_used_at));
end $$;
comment on function memdb._memory_fades_at (jsonb, memdb.memory, text, boolean, bigint, timestamptz) is '_fades_at of a row of table memory with further uses and another tier.';

-- _promoted_tier: the tier a memory has earned by its uses, one above its own or its own.
create or replace function memdb._promoted_tier (p_life jsonb, p_tier text, p_uses bigint)
  returns text
  language sql immutable parallel safe
begin atomic
  select case when p_uses >= nullif((p_life -> 'promote_uses' ->> p_tier)::double precision, 0)
              then case p_tier when 'working' then 'short_term' when 'short_term' then 'long_term' else p_tier end
              else p_tier end;
end;
comment on function memdb._promoted_tier (jsonb, text, bigint) is 'The tier a memory has earned by its uses, one above its own or its own.';
