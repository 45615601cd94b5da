-- Policy: half-lives, thresholds, boundaries and budgets, by tenant and namespace.
--
-- A key that nobody set has the value memdb ships with; a tenant's value wins over that, and the
-- value of a namespace (or of the nearest path above it) wins over the tenant's.

-- _policy_defaults: every policy key with the value memdb ships with and what it means.
create or replace function memdb._policy_defaults ()
  returns table (key text, value jsonb, meaning text)
  language sql immutable parallel safe rows 20
begin atomic
  values
    ('event_kinds', 'null'::jsonb,
     'Kinds of events that are stored; null stores all of them.'),
    ('memory_kinds',
     '["user_message", "assistant_message", "answer", "observation", "reflection", "correction", "document"]'::jsonb,
     'Kinds of events that are queued to become memories.'),
    ('extraction_attempts', '5'::jsonb, 'How often an event is given to the pipeline before it counts as dead.'),
    ('extraction_backoff_seconds', '10'::jsonb, 'Wait after the first failure; it doubles with each further one, up to an hour.'),
    ('when_stale', '"keep"'::jsonb,
     'What becomes of a memory that lost its support: keep (it is only marked), review (a person is asked), derive (a model thinks again).'),
    ('importance_weights', '{"density": 5, "emotion": 0.5, "task": 1, "novelty": 1}',
     'What each component (0 to 1) of importance counts; the weighted mean times 10 is the importance.'),
    ('importance_thresholds', '{"keep": 5.6, "long_term": 6.5}',
     'Importance below keep is dropped, below long_term goes to the short-term tier.'),
    ('importance_of_kinds', '{"assistant_message": 0.85}',
     'What the importance of facts from events of a kind is multiplied by; 1 where a kind is not named.'),
    ('duplicate_similarity', '0.97',
     'Cosine from which a fact of the same words, numbers and negations counts as told before.'),
    ('supersede_confidence', '0.8', 'Confidence in a changed value from which the old memory is superseded; below it a person is asked.'),
    ('relations_per_memory', '5', 'How many relations a new memory gets at most.'),
    ('candidates_per_fact', '10', 'How many known memories a new fact is compared with.'),
    ('condense_characters', '2000', 'Texts longer than this get a condensed memory beside what is taken from them word by word.'),
    ('model_budget_tokens_per_day', 'null'::jsonb,
     'Tokens that models may take in a day (UTC), in the namespace this is set for and all below it; null is no limit.'),
    ('model_calls_per_batch', '64'::jsonb,
     'Calls of a model that one batch of events may take at most; words left over then are listed as dropped.'),
    ('model_keep_text', 'true'::jsonb,
     'Whether requests to models and their answers are kept; without them no call can be looked into or used again.'),
    ('model_prices', '{}'::jsonb,
     'What a million tokens cost, in and out, by model: {"some-model": [0.15, 0.6]}; in a currency of your choice.'),
    ('model_reuse_days', '1'::jsonb,
     'For how many days a good answer is used again for the same request to the same model; 0 is never.'),
    ('model_window_tokens', '3000'::jsonb, 'Tokens of content given to a model at a time; what is longer is split.'),
    ('summary_after_facts', '5'::jsonb,
     'New memories after which the running summary of their session or user is due again; null is never.'),
    ('summary_after_task', 'true'::jsonb,
     'Whether a finished task (an event of kind answer, or with metadata {"task": "done"}) makes summaries due.'),
    ('summary_tokens', '400'::jsonb, 'Tokens of memories that a running summary is made of.'),
    ('half_life_days', '{"working": 1, "short_term": 14, "long_term": 90}'::jsonb,
     'Days after which the strength of an unused memory is half of what it was, by tier.'),
    ('half_life_of_types',
     '{"constraint": 20, "preference": 8, "decision": 4, "fact": 4, "reasoning": 0.5, "action": 0.5, "result": 0.5}'::jsonb,
     'What the half-life of memories of a type is multiplied by; 1 where a type is not named.'),
    ('isolation_factor', '2'::jsonb,
     'How many times as fast a memory fades that nothing live is tied to; 1 makes no difference.'),
    ('use_weight', '0.3'::jsonb, 'What uses add to strength: it is multiplied by 1 + this x ln(1 + uses).'),
    ('fade_below', '{"working": 0.1, "short_term": 0.1, "long_term": 0.05}'::jsonb,
     'Strength below which a memory leaves its tier, by tier, or by type where that is named too; 0 is never.'),
    ('fade_to', '{"working": "archive", "short_term": "archive", "long_term": "archive"}'::jsonb,
     'Where memories go that leave a tier: archive, or a tier below theirs.'),
    ('expire_after_days', '{"working": 3, "short_term": 30, "long_term": 0}'::jsonb,
     'Days without a use after which a memory leaves its tier whatever its strength; 0 is never.'),
    ('promote_uses', '{"working": 2, "short_term": 3}'::jsonb,
     'Uses from which a memory goes up a tier: working to short_term, short_term to long_term; 0 is never.'),
    ('reliability_of_kinds', '{}'::jsonb,
     'Trust of new events of a kind that come without one, 0 to 1; 1 where a kind is not named.'),
    ('reliability_of_agents', '{}'::jsonb,
     'Trust of new events of an agent that come without one, 0 to 1; that of their kind is multiplied by it.'),
    ('retention_days', '{}'::jsonb,
     'Days that events and memories are kept before they are forgotten, by kind or type: {"event.tool_result": 30, "memory": 365}; 0 keeps them for ever.'),
    ('recall_factors',
     '{"importance": 1, "reliability": 1, "status": 1, "tier": 1, "namespace": 1, "freshness": 0, "centrality": 0, "strength": 0,
       "tiers": {"working": 1, "short_term": 1, "long_term": 1, "archive": 0.5}, "freshness_half_life_days": null}'::jsonb,
     'Exponents, 0 to 4, of the factors that a recall multiplies the odds of a memory by; what a tier counts, 0.1 to 10; half-life of freshness, null: that of the memory.'),
    ('keep_recalls_days', '90'::jsonb, 'Days the log of recalls is kept; 0 keeps it for ever.'),
    ('keep_runs_days', '30'::jsonb, 'Days the log of the runs of jobs is kept; 0 keeps it for ever.'),
    ('notify', 'false'::jsonb,
     'Whether append_events wakes listeners of channel memdb_events; NOTIFY takes a lock on the whole database at commit.');
end;
comment on function memdb._policy_defaults () is 'Every policy key with the value memdb ships with and what it means.';

-- _life_keys: the policy keys that say how memories fade.
create or replace function memdb._life_keys ()
  returns text[]
  language sql immutable parallel safe
begin atomic
  select array['half_life_days', 'half_life_of_types', 'isolation_factor', 'use_weight', 'fade_below', 'fade_to',
               'expire_after_days', 'promote_uses'];
end;
comment on function memdb._life_keys () is 'The policy keys that say how memories fade.';

-- _factor_fault: which key of the factors of a recall is not known or out of range; null where all are right, empty where it is no object.
--
-- Asked of the policy recall_factors and of the argument of a call. Keys and ranges: _factor_hint.
create or replace function memdb._factor_fault (p_factors jsonb)
  returns text
  language sql immutable parallel safe
begin atomic
  select case when jsonb_typeof(p_factors) <> 'object' then '' else (
    select case when f.tier is null then f.key else f.key || '.' || f.tier end
      from (select o.key, null as tier, o.value from jsonb_each(case jsonb_typeof(p_factors) when 'object' then p_factors else '{}' end) o
            union all
            select 'tiers', t.key, t.value
              from jsonb_each(case jsonb_typeof(p_factors -> 'tiers') when 'object' then p_factors -> 'tiers' else '{}' end) t) f
     where case
       when f.tier is not null then f.tier <> all (array['working', 'short_term', 'long_term', 'archive'])
         or case jsonb_typeof(f.value) when 'number' then f.value::numeric not between 0.1 and 10 else true end
       when f.key = 'tiers' then jsonb_typeof(f.value) <> 'object'
       when f.key = 'freshness_half_life_days' then
         case jsonb_typeof(f.value) when 'number' then f.value::numeric not between 0.001 and 1000000 when 'null' then false else true end
       else f.key <> all (array['importance', 'reliability', 'status', 'tier', 'namespace', 'freshness', 'centrality', 'strength'])
         or case jsonb_typeof(f.value) when 'number' then f.value::numeric not between 0 and 4 else true end end
     order by 1
     limit 1) end;
end;
comment on function memdb._factor_fault (jsonb) is 'Which key of the factors of a recall is not known or out of range; null where all are right, empty where it is no object.';

-- _factor_hint: what the factors of a recall may be, in words.
create or replace function memdb._factor_hint ()
  returns text
  language sql immutable parallel safe
begin atomic
  select 'importance, reliability, status, tier, namespace, freshness, centrality and strength are exponents, 0 (off) to 4; '
    'tiers is an object of working, short_term, long_term and archive, 0.1 to 10 each; freshness_half_life_days is 0.001 to 1,000,000 or null.';
end;
comment on function memdb._factor_hint () is 'What the factors of a recall may be, in words.';

-- _merged_factors: factors of a recall, those of the second object in front of those of the first, key by key and tier by tier.
create or replace function memdb._merged_factors (p_below jsonb, p_above jsonb)
  returns jsonb
  language sql immutable parallel safe
begin atomic
  select p_below || p_above || jsonb_build_object('tiers', (p_below -> 'tiers') || coalesce(p_above -> 'tiers', '{}'));
end;
comment on function memdb._merged_factors (jsonb, jsonb) is 'Factors of a recall, those of the second object in front of those of the first, key by key and tier by tier.';

-- _policy: the value of one key that applies in a namespace (null: tenant wide).
--
-- Of an object that says how memories fade or rank, what the setting does not name keeps memdb's value: who
-- gives one type another half-life does not mean to take away those of the others.
create or replace function memdb._policy (p_tenant integer, p_key text, p_namespace integer default null)
  returns jsonb
  language sql stable
as $$
  select coalesce(
    (select case when p.key = 'recall_factors'
                 then memdb._merged_factors((select d.value from memdb._policy_defaults() d where d.key = p.key), p.value)
                 when p.key = any (memdb._life_keys()) and jsonb_typeof(p.value) = 'object'
                 then (select d.value from memdb._policy_defaults() d where d.key = p.key) || p.value else p.value end
       from memdb.policy p
       left join memdb.namespace at on at.tenant_id = p_tenant and at.namespace_id = p_namespace
       left join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = p.namespace_id
      where p.tenant_id = p_tenant and p.key = p_key
        and (p.namespace_id is null or n.path = at.path or starts_with(at.path, n.path || '/'))
      order by char_length(n.path) desc nulls last
      limit 1),
    (select d.value from memdb._policy_defaults() d where d.key = p_key));
$$;
comment on function memdb._policy (integer, text, integer) is 'The value of one key that applies in a namespace (null: tenant wide).';

-- _reliability: the policies reliability_of_kinds and reliability_of_agents of a namespace; null where none is set.
create or replace function memdb._reliability (p_tenant integer, p_namespace integer)
  returns jsonb
  language plpgsql stable
as $$
begin
  -- Asked with every batch of events, and hardly anybody sets one: the common case is one look-up.
  if not exists (select from memdb.policy p
                  where p.tenant_id = p_tenant and p.key in ('reliability_of_kinds', 'reliability_of_agents')) then
    return null;
  end if;
  return jsonb_build_object('reliability_of_kinds', memdb._policy(p_tenant, 'reliability_of_kinds', p_namespace),
                            'reliability_of_agents', memdb._policy(p_tenant, 'reliability_of_agents', p_namespace));
end $$;
comment on function memdb._reliability (integer, integer) is 'The policies reliability_of_kinds and reliability_of_agents of a namespace; null where none is set.';

-- _suits_policy: whether a value is one that a key can have.
--
-- Of the kind of its default; a number is not negative. What reads a policy does so in the middle of
-- other people's work: a value it cannot read would stop that.
create or replace function memdb._suits_policy (p_key text, p_value jsonb)
  returns boolean
  language sql immutable parallel safe
begin atomic
  select case
    when p_key = 'recall_factors' then memdb._factor_fault(p_value) is null
    when p_key = 'when_stale' then p_value in ('"keep"', '"review"', '"derive"')
    when p_value = 'null' then p_key in ('event_kinds', 'model_budget_tokens_per_day', 'summary_after_facts')
    when p_key = 'isolation_factor' then case when jsonb_typeof(p_value) = 'number' then p_value::numeric between 1 and 1000 else false end
    when p_key = 'use_weight' then
      case when jsonb_typeof(p_value) = 'number' then p_value::numeric = 0 or p_value::numeric between 0.000001 and 1000 else false end
    else case coalesce(nullif((select jsonb_typeof(d.value) from memdb._policy_defaults() d where d.key = p_key), 'null'),
                       case p_key when 'event_kinds' then 'array' else 'number' end)
      when 'number' then case when jsonb_typeof(p_value) = 'number' then p_value::numeric between 0 and 1000000000000 else false end
      when 'boolean' then jsonb_typeof(p_value) = 'boolean'
      when 'array' then jsonb_typeof(p_value) = 'array' and not p_value @? '$[*] ? (@.type() != "string")'
      when 'object' then jsonb_typeof(p_value) = 'object' and case p_key
        when 'fade_to' then not p_value @? 'strict $.* ? (@.type() != "string" || @ != "archive" && @ != "short_term" && @ != "working")'
          and not p_value @? '$.working ? (@ != "archive")' and not p_value @? '$.short_term ? (@ == "short_term")'
        when 'half_life_days' then not p_value @? 'strict $.* ? (@.type() != "number" || @ < 0.001 || @ > 1000000)'
        when 'half_life_of_types' then not p_value @? 'strict $.* ? (@.type() != "number" || @ < 0.001 || @ > 1000000)'
        when 'fade_below' then not p_value @? 'strict $.* ? (@.type() != "number" || @ < 0 || (@ > 0 && @ < 0.000001) || @ > 1000000)'
        when 'expire_after_days' then not p_value @? 'strict $.* ? (@.type() != "number" || @ < 0 || (@ > 0 && @ < 0.000001) || @ > 1000000)'
        when 'promote_uses' then not p_value @? 'strict $.* ? (@.type() != "number" || @ < 0 || (@ > 0 && @ < 1) || @ > 1000000)'
        when 'reliability_of_kinds' then not p_value @? 'strict $.* ? (@.type() != "number" || @ < 0 || @ > 1)'
        when 'reliability_of_agents' then not p_value @? 'strict $.* ? (@.type() != "number" || @ < 0 || @ > 1)'
        when 'model_prices' then not p_value @? 'strict $.* ? (@.type() != "array" || @.size() != 2 || exists (@[*] ? (@.type() != "number" || @ < 0)))'
        else not p_value @? 'strict $.* ? (@.type() != "number" || @ < 0)' end end end;
end;
comment on function memdb._suits_policy (text, jsonb) is 'Whether a value is one that a key can have.';

-- set_policy: set a policy key for a tenant or one of its namespaces.
--
-- p_value null takes the setting back. Keys and meanings: effective_policy. A policy of fading
-- (19_strength) applies at once to what is written, and to what is there as soon as the job fade
-- has gone through it in bounded batches. Operators only (MD303). Raises MD001 for an unknown key or a value that is none for it, MD302.
create or replace function memdb.set_policy (
  p_tenant    integer,
  p_key       text,
  p_value     jsonb,
  p_namespace text default null
)
  returns void
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespace integer;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  if not exists (select from memdb._policy_defaults() d where d.key = p_key) then
    perform memdb._raise('MD001', 'no such policy key', jsonb_build_object('field', 'key', 'key', left(p_key, 200)),
      'Known keys: ' || (select string_agg(d.key, ', ' order by d.key) from memdb._policy_defaults() d) || '.');
  end if;
  if p_value is not null and not memdb._suits_policy(p_key, p_value) then
    perform memdb._raise('MD001', 'this is no value for this policy',
      jsonb_strip_nulls(jsonb_build_object('field', 'value', 'key', p_key,
        'factor', case when p_key = 'recall_factors' then nullif(left(memdb._factor_fault(p_value), 100), '') end)),
      case when p_key = 'recall_factors' then memdb._factor_hint() else
        (select d.meaning || ' Default: ' || d.value::text || '.' from memdb._policy_defaults() d where d.key = p_key) end);
  end if;
  if p_namespace is not null then
    v_namespace := memdb._writable(p_tenant, p_namespace, null);
  end if;
  if p_key = any (memdb._life_keys()) then
    -- Whoever wrote or moved memories by the old policy is done before the new one is there, so
    -- that the job which looks at all of them again misses none.
    perform memdb._lock_truth(p_tenant, true);
    insert into memdb.refade (tenant_id, memory_id) values (p_tenant, 0)
      on conflict on constraint refade_pkey do update set memory_id = 0;
  end if;
  if p_value is null then
    delete from memdb.policy p
     where p.tenant_id = p_tenant and p.key = p_key and p.namespace_id is not distinct from v_namespace;
  else
    insert into memdb.policy as p (tenant_id, namespace_id, key, value) values (p_tenant, v_namespace, p_key, p_value)
      on conflict on constraint policy_key_key do update set value = excluded.value, updated_at = memdb.current_time();
  end if;
end $$;
comment on function memdb.set_policy (integer, text, jsonb, text) is 'Set a policy key for a tenant or one of its namespaces.';

-- effective_policy: what applies in a tenant or a namespace, and where each value comes from.
--
-- source is default, tenant, or the path of the namespace that set it. Raises MD102, MD301.
create or replace function memdb.effective_policy (
  p_tenant    integer,
  p_namespace text default null
)
  returns table (key text, value jsonb, source text, meaning text)
  language plpgsql stable security definer rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespace integer;
begin
  perform memdb._authorize(p_tenant, false);
  if p_namespace is not null then
    v_namespace := (memdb._readable(p_tenant, array[p_namespace], null))[1];
  end if;
  return query
    select d.key, memdb._policy(p_tenant, d.key, v_namespace),
           coalesce((select coalesce(n.path, 'tenant')
                       from memdb.policy p
                       left join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = p.namespace_id
                      where p.tenant_id = p_tenant and p.key = d.key
                        and (n.path is null or n.path = p_namespace or starts_with(p_namespace, n.path || '/'))
                      order by char_length(n.path) desc nulls last limit 1), 'default'),
           d.meaning
      from memdb._policy_defaults() d
     order by d.key;
end $$;
comment on function memdb.effective_policy (integer, text) is 'What applies in a tenant or a namespace, and where each value comes from.';
