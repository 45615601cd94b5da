-- Profiles: what is known of a user, line by line, each with what it rests on.
--
-- Lines are memories of the user that hold: preferences, constraints, habits, knowledge, style. They
-- are found by type and by rules on the words, in English and Chinese; nothing is invented. A profile as
-- one text is a memory of type summary that rests on its lines, so it falls and is forgotten with
-- them. refresh_profiles writes it from the lines; a model may word it instead (due_profiles).

-- _profile_section: the part of a profile a memory belongs to; null where it belongs to none.
--
-- What says how to speak to the user is style, whatever its type; what is done again and again a habit;
-- what the user knows, does for a living or learns is knowledge.
create or replace function memdb._profile_section (p_type text, p_text text)
  returns text
  language sql immutable parallel safe
begin atomic
  select case
    when p_type not in ('preference', 'constraint', 'fact', 'decision', 'observation', 'action') then null
    when p_text collate "C" ~* '\m(answers?|repl(y|ies)|responses?|explanations?|tone|wording|concise|brief|bullet points?|formal|informal|emojis?|jokes?)\M'
      or p_text ~ '(回答|回复|语气|措辞|简短|简洁|详细说明|表情|口吻|称呼)' then 'style'
    when p_type = 'preference' then 'preference'
    when p_type = 'constraint' then 'constraint'
    when p_text collate "C" ~* '\m(always|usually|often|never|every (day|morning|evening|night|week|month|year)|on (mon|tues|wednes|thurs|fri|satur|sun)days|daily|weekly|habit|tends? to|regularly)\M'
      or p_text ~ '(总是|经常|通常|每天|每周|每月|每年|习惯|从不|一直|平时)' then 'habit'
    when p_text collate "C" ~* '\m(knows?|speaks?|stud(y|ies|ied)|learn(s|ed|ing)?|expert|experienced|fluent|graduated|degree|works? (as|at|for|in|on)|profession|teach(es)?|trained)\M'
      or p_text ~ '(会说|懂得|懂|学过|学习|擅长|精通|毕业|专业|从事|工作|教授|熟悉)' then 'knowledge' end;
end;
comment on function memdb._profile_section (text, text) is 'The part of a profile a memory belongs to; null where it belongs to none.';

-- _profile_lines: the lines of a user's profile in some namespaces (null: all), strongest first, at most p_limit a section.
--
-- Of the 2,000 most important memories of the user. strength as of now (19_strength).
create or replace function memdb._profile_lines (p_tenant integer, p_namespaces integer[], p_user text, p_limit integer, p_now timestamptz)
  returns table (section text, place integer, memory_id bigint, version integer, namespace_id integer, strength double precision, text text)
  language sql stable rows 20
as $$
  with life as materialized (
    select n.namespace_id, memdb._life(p_tenant, n.namespace_id) as life
      from memdb.namespace n where n.tenant_id = p_tenant and (p_namespaces is null or n.namespace_id = any (p_namespaces))
  ), known as (
    select m.*, l.life
      from life l
      cross join lateral (
        select m.* from memdb.shown_memory m
         where m.tenant_id = p_tenant and m.namespace_id = l.namespace_id and m.user_id = p_user
           and m.status = 'active' and m.type <> 'summary'
         order by m.importance desc limit 2000) m
  ), line as (
    select k.*, v.text, memdb._profile_section(k.type, v.text) as section,
           memdb._strength(k.importance, least(k.confidence, k.trust), k.use_count,
             extract(epoch from p_now - coalesce(k.last_used_at, k.recorded_at)) / 86400,
             memdb._half_life_days(k.life, k.type, k.tier, k.is_isolated), (k.life ->> 'use_weight')::double precision) as strength
      from known k
      join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = k.memory_id and v.version = k.version
  ), ranked as (
    select l.*, row_number() over (partition by l.section order by l.is_pinned desc, l.strength desc, l.memory_id desc) as place
      from line l where l.section is not null)
  select r.section, r.place::integer, r.memory_id, r.version, r.namespace_id, r.strength, r.text
    from ranked r
   where r.place <= p_limit
   order by array_position(array['constraint', 'preference', 'habit', 'knowledge', 'style'], r.section), r.place;
$$;
comment on function memdb._profile_lines (integer, integer[], text, integer, timestamptz) is 'The lines of a user''s profile in some namespaces (null: all), strongest first, at most p_limit a section.';

-- _profile_ids: _profile_lines for functions that run as the caller: only memories it may read.
create or replace function memdb._profile_ids (p_tenant integer, p_namespaces text[], p_user text, p_limit integer)
  returns table (section text, place integer, memory_id bigint, version integer, strength double precision)
  language plpgsql stable security definer rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, false);
  if p_user is null or p_limit between 1 and 1000 is not true then
    perform memdb._raise('MD001', 'a profile is of a user, with 1 to 1,000 lines a section', jsonb_build_object('field', 'user or limit'));
  end if;
  return query
    select l.section, l.place, l.memory_id, l.version, l.strength
      from memdb._profile_lines(p_tenant, memdb._readable(p_tenant, p_namespaces, null), p_user, p_limit, memdb.current_time()) l;
end $$;
comment on function memdb._profile_ids (integer, text[], text, integer) is '_profile_lines for functions that run as the caller: only memories it may read.';

-- user_profile: what is known of a user, line by line, strongest first within each section.
--
-- section is constraint, preference, habit, knowledge or style (how the user wants to be spoken to); each
-- line is a memory that holds, in its own words, with its strength now (0 to about 2, 19_strength) and
-- sources as recall gives them. p_namespaces null: all the caller may read. p_limit: lines a section, 1
-- to 1,000. Runs as the caller. Raises MD001, MD102, MD301. Cost: the 2,000 most important memories of
-- the user in each namespace.
create or replace function memdb.user_profile (
  p_tenant     integer,
  p_user       text,
  p_namespaces text[]  default null,
  p_limit      integer default 10
)
  returns table (
    section text, memory_id bigint, version integer, namespace text, type text, text text, importance real, strength double precision,
    is_pinned boolean, occurred_at timestamptz, sources jsonb)
  language plpgsql stable rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  return query
    with line as materialized (
      select i.*, row_number() over () as ordinal from memdb._profile_ids(p_tenant, p_namespaces, p_user, p_limit) i),
    source as (
      select s.* from memdb._recall_sources(p_tenant, array(select l.memory_id from line l order by l.ordinal),
                                            array(select l.version from line l order by l.ordinal)) s)
    select l.section, m.memory_id, m.version, m.namespace, m.type, m.text, m.importance, l.strength, m.is_pinned, m.occurred_at,
           coalesce(s.sources, '[]')
      from line l
      join memdb.memories m on m.tenant_id = p_tenant and m.memory_id = l.memory_id and m.version = l.version
      left join source s on s.memory_id = l.memory_id
     order by l.ordinal;
end $$;
comment on function memdb.user_profile (integer, text, text[], integer) is 'What is known of a user, line by line, strongest first within each section.';

-- _mark_profiles: see whose memories changed since it was last looked, and make their profiles due.
--
-- By reasons recorded since, at most p_limit of them, and corrections. Returns whether there are more.
create or replace function memdb._mark_profiles (p_tenant integer, p_limit integer, p_now timestamptz)
  returns boolean
  language plpgsql volatile
as $$
declare
  v_last bigint := (memdb._last_recorded(p_tenant)).reason;
  v_mark memdb.profile_mark;
  v_to   bigint;
  v_at   timestamptz := (select t.truth_at from memdb.tenant t where t.tenant_id = p_tenant);
begin
  insert into memdb.profile_mark (tenant_id) values (p_tenant) on conflict do nothing;
  select k.* into v_mark from memdb.profile_mark k where k.tenant_id = p_tenant for update;
  select coalesce(max(w.justification_id), v_last) into v_to
    from (select j.justification_id from memdb.justification j
           where j.tenant_id = p_tenant and j.justification_id > v_mark.reason_id and j.justification_id <= v_last
           order by j.justification_id limit p_limit) w;
  insert into memdb.profile as p (tenant_id, namespace_id, user_id, due_at)
    select distinct p_tenant, m.namespace_id, m.user_id, p_now
      from (select j.memory_id from memdb.justification j
             where j.tenant_id = p_tenant and j.justification_id > v_mark.reason_id and j.justification_id <= v_to
            union
            select b.subject_id from memdb.belief b
             where b.from_at > v_mark.belief_at and b.from_at <= v_at and b.tenant_id = p_tenant and b.subject = 'memory'
            union
            select b.subject_id from memdb.belief b
             where b.to_at > v_mark.belief_at and b.to_at <= v_at and b.tenant_id = p_tenant and b.subject = 'memory') c
      join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = c.memory_id
     where m.user_id is not null and m.type <> 'summary'
    on conflict on constraint profile_user_key do update set due_at = coalesce(p.due_at, excluded.due_at);
  update memdb.profile_mark k set reason_id = greatest(v_to, k.reason_id), belief_at = greatest(v_at, k.belief_at)
   where k.tenant_id = p_tenant;
  return v_to < v_last;
end $$;
comment on function memdb._mark_profiles (integer, integer, timestamptz) is 'See whose memories changed since it was last looked, and make their profiles due.';

-- due_profiles: hand out profiles that are to be written anew, for a limited time.
--
-- p_limit 1 to 1,000, longest waiting first; one that record_profile does not answer within
-- p_lease_seconds (1 to 86,400) is handed out again. Only namespaces the caller may write. Commit at
-- once. Raises MD001, MD301. Cost: up to 10,000 reasons recorded since the last call, the rows returned.
create or replace function memdb.due_profiles (p_tenant integer, p_limit integer default 20, p_lease_seconds integer default 300)
  returns table (namespace text, user_id text, attempts integer)
  language plpgsql volatile security definer rows 20
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now   timestamptz := memdb.current_time();
  v_scope integer[];
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._check_limit(p_limit, 1000);
  if p_lease_seconds between 1 and 86400 is not true then
    perform memdb._raise('MD001', 'a lease lasts 1 to 86,400 seconds', jsonb_build_object('field', 'lease_seconds'));
  end if;
  v_scope := memdb._namespaces_granted(p_tenant, true);
  perform memdb._mark_profiles(p_tenant, 10000, v_now);
  return query
    with due as materialized (
      select p.profile_id from memdb.profile p
       where p.tenant_id = p_tenant and p.due_at <= v_now and (v_scope is null or p.namespace_id = any (v_scope))
       order by p.due_at, p.profile_id
       limit p_limit
         for no key update skip locked
    ), leased as (
      update memdb.profile p
         set attempts = least(p.attempts + 1, 1000), due_at = v_now + make_interval(secs => p_lease_seconds)
        from due
       where p.tenant_id = p_tenant and p.profile_id = due.profile_id
      returning p.*)
    select n.path, l.user_id, l.attempts::integer
      from leased l
      join memdb.namespace n on n.tenant_id = p_tenant and n.namespace_id = l.namespace_id
     order by l.profile_id;
end $$;
comment on function memdb.due_profiles (integer, integer, integer) is 'Hand out profiles that are to be written anew, for a limited time.';

-- record_profile: write the profile of a user in a namespace, as a new version of its memory.
--
-- p_text null writes the lines as they stand, section by section, ten of each; otherwise p_text is their
-- wording by p_model and p_sources the lines it was made of, [{memory_id, version}]. The memory (type
-- summary, external_id profile: and the user) rests on all of them together. Returns it, its version and
-- outcome: created, versioned, confirmed, unchanged, or empty: nothing is known, nothing was written.
-- Raises MD001 to MD003, MD102, MD103, MD301, MD302. Cost: as user_profile; a new version takes the truth lock.
create or replace function memdb.record_profile (
  p_tenant    integer,
  p_namespace text,
  p_user      text,
  p_text      text  default null,
  p_sources   jsonb default null,
  p_model     text  default null
)
  returns table (memory_id bigint, version integer, outcome text)
  language plpgsql volatile security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now       timestamptz := memdb.current_time();
  v_namespace integer;
  v_text      text := p_text;
  v_sources   jsonb := p_sources;
begin
  perform memdb._authorize(p_tenant, true);
  v_namespace := memdb._writable(p_tenant, p_namespace, null);
  if p_user is null then
    perform memdb._raise('MD001', 'a profile is of a user', jsonb_build_object('field', 'user'));
  end if;
  if p_text is null then
    select string_agg(l.section || ': ' || l.text, E'\n' order by l.ordinal),
           jsonb_agg(jsonb_build_object('memory_id', l.memory_id, 'version', l.version) order by l.ordinal)
      into v_text, v_sources
      from memdb._profile_lines(p_tenant, array[v_namespace], p_user, 10, v_now)
           with ordinality l (section, place, memory_id, version, namespace_id, strength, text, ordinal);
  end if;
  outcome := 'empty';
  if v_text is not null then
    perform memdb._check_items(v_sources, array['memory_id', 'version'], array['memory_id', 'version']);
    -- As trusted as the best it rests on now: it is derived anew, nobody's word against another's (61 summary).
    update memdb.memory m set trust = least(m.trust, (
        select max(s.trust) from memdb.memory s
         where s.tenant_id = p_tenant and s.memory_id in (select r.memory_id from jsonb_to_recordset(v_sources) r (memory_id bigint))))
     where m.tenant_id = p_tenant and m.namespace_id = v_namespace and m.external_id = 'profile:' || p_user;
    select r.memory_id, r.version, r.outcome into memory_id, version, outcome
      from memdb.record_memories(p_tenant, jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
             'text', left(v_text, 60000), 'type', 'summary', 'namespace', p_namespace, 'user', p_user, 'method', 'summary', 'model', p_model,
             'external_id', 'profile:' || p_user, 'heading', 'profile', 'sources', v_sources)))) r;
  end if;
  -- Of whom nothing is known, no row begins to name them: they may just have been forgotten.
  insert into memdb.profile as p (tenant_id, namespace_id, user_id, memory_id, refreshed_at)
    select p_tenant, v_namespace, p_user, memory_id, v_now
     where memory_id is not null
        or exists (select from memdb.profile k where k.tenant_id = p_tenant and k.namespace_id = v_namespace and k.user_id = p_user)
    on conflict on constraint profile_user_key
    do update set memory_id = coalesce(excluded.memory_id, p.memory_id), due_at = null, attempts = 0, refreshed_at = v_now;
  return next;
end $$;
comment on function memdb.record_profile (integer, text, text, text, jsonb, text) is 'Write the profile of a user in a namespace, as a new version of its memory.';

-- refresh_profiles: write the profiles anew of users whose memories changed, one bounded step.
--
-- From their lines, without a model. p_limit: at most so many profiles, 1 to 1,000. Returns how many are
-- due still, 1 where there is more to look at: call again until 0. Raises MD001, MD301, MD302. Cost: as record_profile, each.
create or replace function memdb.refresh_profiles (p_tenant integer, p_limit integer default 100)
  returns bigint
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_due record;
begin
  perform memdb._authorize(p_tenant, true);
  for v_due in select d.* from memdb.due_profiles(p_tenant, p_limit, 60) d loop
    -- Alone from the first on: a shared lock that is to become an exclusive one waits for others that do the same.
    perform memdb._lock_truth(p_tenant, true);
    perform from memdb.record_profile(p_tenant, v_due.namespace, v_due.user_id);
  end loop;
  return (select count(*) from memdb.profile p where p.tenant_id = p_tenant and p.due_at <= memdb.current_time())
       + (select count(*) from memdb.profile_mark k
           where k.tenant_id = p_tenant and exists (
             select from memdb.justification j
               join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = j.memory_id and m.type <> 'summary'
              where j.tenant_id = p_tenant and j.justification_id > k.reason_id));
end $$;
comment on function memdb.refresh_profiles (integer, integer) is 'Write the profiles anew of users whose memories changed, one bounded step.';
