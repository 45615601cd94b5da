-- Presets: policies that go together, by name: how much a tenant, a namespace or an agent's own namespace keeps.

-- policy_presets: the presets there are, and what each sets.
create or replace function memdb.policy_presets ()
  returns table (preset text, meaning text, key text, value jsonb)
  language sql immutable parallel safe rows 20
begin atomic
  select p.preset, p.meaning, v.key, v.value
    from (values
      ('meticulous', 'Keeps detail: more becomes a memory, with more relations, fades slowly, and a person is asked in doubt.', jsonb_build_object(
        'importance_thresholds', '{"keep": 4.5, "long_term": 5.5}'::jsonb,
        'relations_per_memory', 10,
        'candidates_per_fact', 20,
        'duplicate_similarity', 0.985,
        'supersede_confidence', 0.9,
        'when_stale', '"review"'::jsonb,
        'condense_characters', 4000,
        'summary_tokens', 800,
        'half_life_days', '{"working": 2, "short_term": 30, "long_term": 180}'::jsonb,
        'expire_after_days', '{"working": 7, "short_term": 90}'::jsonb,
        'fade_below', '{"working": 0.05, "short_term": 0.05, "long_term": 0.02}'::jsonb,
        'isolation_factor', 1.2)),
      ('goal_oriented', 'Keeps what serves the task: decisions, constraints and results; talk fades within weeks.', jsonb_build_object(
        'importance_weights', '{"density": 4, "emotion": 0.2, "task": 3, "novelty": 1}'::jsonb,
        'importance_thresholds', '{"keep": 6, "long_term": 7}'::jsonb,
        'importance_of_kinds', '{"assistant_message": 0.7}'::jsonb,
        'relations_per_memory', 4,
        'candidates_per_fact', 8,
        'when_stale', '"derive"'::jsonb,
        'summary_after_task', true,
        'summary_tokens', 300,
        'half_life_days', '{"working": 1, "short_term": 7, "long_term": 45}'::jsonb,
        'half_life_of_types', '{"constraint": 40, "decision": 12, "result": 3, "action": 1, "preference": 8, "fact": 4, "observation": 0.5}'::jsonb,
        'isolation_factor', 3)))
      p (preset, meaning, policies)
    cross join lateral jsonb_each(p.policies) v (key, value);
end;
comment on function memdb.policy_presets () is 'The presets there are, and what each sets.';

-- apply_preset: set the policies of a preset for a tenant or one of its namespaces.
--
-- Each is an ordinary policy afterwards: effective_policy shows where it comes from, set_policy changes it. p_preset null takes
-- back every policy that some preset sets, also where it was set by hand. An agent gets a temperament of its own
-- through the namespace it writes to. Returns how many policies were set or taken back. Operators only (MD303).
-- Raises MD001, MD302.
create or replace function memdb.apply_preset (p_tenant integer, p_preset text, p_namespace text default null)
  returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_policy record;
  v_count  integer := 0;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  if p_preset is not null and not exists (select from memdb.policy_presets() p where p.preset = p_preset) then
    perform memdb._raise('MD001', 'no such preset', jsonb_build_object('field', 'preset', 'preset', left(p_preset, 200)),
      'Presets are ' || (select string_agg(distinct p.preset, ', ') from memdb.policy_presets() p) || '; null takes them back.');
  end if;
  for v_policy in
    select distinct on (p.key) p.key, case when p.preset = p_preset then p.value end as value
      from memdb.policy_presets() p
     where p_preset is null or p.preset = p_preset
     order by p.key
  loop
    perform memdb.set_policy(p_tenant, v_policy.key, v_policy.value, p_namespace);
    v_count := v_count + 1;
  end loop;
  return v_count;
end $$;
comment on function memdb.apply_preset (integer, text, text) is 'Set the policies of a preset for a tenant or one of its namespaces.';
