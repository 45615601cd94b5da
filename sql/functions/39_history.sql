-- History: what was believed at some time, and what a memory said, version by version.
--
-- Two axes. Belief: a version is known from recorded_at on, and belief rows say when the memory
-- was out. World: valid_from and valid_to say of which time a version speaks; null is open.
-- Asked about day W on day T, a memory answers with the latest version known by T that had begun
-- by W: when the office moved to Lyon in July, the version that says Paris still answers for May.
-- A successor without valid_from speaks of all times: then the old version was wrong, not over.

-- _held: whether every premise of a justification was in at a time ('infinity': is in now).
--
-- One step only: a premise that is a memory counts as in while that memory was not out. A premise
-- that was added later was none yet.
create or replace function memdb._held (p_tenant integer, p_justification bigint, p_at timestamptz)
  returns boolean
  language sql stable
begin atomic
  select not exists (
    select from memdb.premise p
      join memdb.belief b
        on b.tenant_id = p_tenant and b.subject = case when p.event_id is null then 'memory' else 'event' end
       and b.subject_id = coalesce(p.event_id, p.memory_id)
       and b.from_at <= p_at and (b.to_at is null or b.to_at > p_at)
     where p.tenant_id = p_tenant and p.justification_id = p_justification and coalesce(p.added_at <= p_at, true));
end;
comment on function memdb._held (integer, bigint, timestamptz) is 'Whether every premise of a justification was in at a time (''infinity'': is in now).';

-- _states_at: which version of each memory answers about a day of the world, asked on a day, and its status then.
--
-- p_belief_at null asks now, p_world_at null about no time in particular (the version current at
-- p_belief_at). A memory not known yet, or with nothing to say about that day, is left out.
-- status is active, stale, contradicted or retracted as of p_belief_at. A version that was
-- replaced by then is active while one of its own justifications held, whatever became of its
-- successor; a retracted memory answers for no time. Checks no rights: for definer functions.
-- Cost per memory: its versions and one belief row, by key.
create or replace function memdb._states_at (
  p_tenant     integer,
  p_belief_at  timestamptz,
  p_world_at   timestamptz,
  p_memory_ids bigint[]
)
  returns table (memory_id bigint, version integer, status text)
  language sql stable rows 100
begin atomic
  select c.memory_id, c.version,
         case when b.status is not null and (c.is_current or b.status <> 'stale') then b.status
              when c.is_current then 'active'
              when exists (select from memdb.justification j
                            where j.tenant_id = p_tenant and j.memory_id = c.memory_id and j.version = c.version
                              and j.recorded_at <= coalesce(p_belief_at, 'infinity')
                              and memdb._held(p_tenant, j.justification_id, coalesce(p_belief_at, 'infinity'))) then 'active'
              else 'stale' end
    from (select distinct on (v.memory_id) v.memory_id, v.version, v.valid_to, v.version = v.latest as is_current
            from (select v.memory_id, v.version, v.valid_from, v.valid_to,
                         max(v.version) over (partition by v.memory_id) as latest
                    from memdb.memory_version v
                   where v.tenant_id = p_tenant and v.memory_id = any (p_memory_ids)
                     and v.recorded_at <= coalesce(p_belief_at, 'infinity')) v
           where p_world_at is null or v.valid_from is null or v.valid_from <= p_world_at
           order by v.memory_id, v.version desc) c
    left join memdb.belief b
      on b.tenant_id = p_tenant and b.subject = 'memory' and b.subject_id = c.memory_id
     and b.from_at <= coalesce(p_belief_at, 'infinity') and (b.to_at is null or b.to_at > coalesce(p_belief_at, 'infinity'))
   where p_world_at is null or c.valid_to is null or p_world_at < c.valid_to;
end;
comment on function memdb._states_at (integer, timestamptz, timestamptz, bigint[]) is 'Which version of each memory answers about a day of the world, asked on a day, and its status then.';

-- _believed: of some memories, those believed at a time about a time, each with the version that says so.
--
-- The as-of predicate of every read: as _states_at, active ones only. Candidates of a leg are
-- (memory_id, version) pairs of memory_version; join them to this on both columns.
create or replace function memdb._believed (
  p_tenant     integer,
  p_belief_at  timestamptz,
  p_world_at   timestamptz,
  p_memory_ids bigint[]
)
  returns table (memory_id bigint, version integer)
  language sql stable rows 100
begin atomic
  select s.memory_id, s.version
    from memdb._states_at(p_tenant, p_belief_at, p_world_at, p_memory_ids) s
   where s.status = 'active';
end;
comment on function memdb._believed (integer, timestamptz, timestamptz, bigint[]) is 'Of some memories, those believed at a time about a time, each with the version that says so.';

-- _read_states: _states_at for functions that run as the caller: only memories it may read.
create or replace function memdb._read_states (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_belief_at  timestamptz,
  p_world_at   timestamptz
)
  returns table (memory_id bigint, version integer, status text)
  language plpgsql stable security definer rows 10
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
begin
  perform memdb._authorize(p_tenant, false);
  v_namespaces := memdb._readable(p_tenant, null, null);
  return query
    select s.memory_id, s.version, s.status
      from memdb._states_at(p_tenant, p_belief_at, p_world_at, p_memory_ids) s
      join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = s.memory_id
     where v_namespaces is null or m.namespace_id = any (v_namespaces);
end $$;
comment on function memdb._read_states (integer, bigint[], timestamptz, timestamptz) is '_states_at for functions that run as the caller: only memories it may read.';

-- memory_history: everything that became of a memory: what it said and whether it held, spell by spell.
--
-- One row for each span of the belief axis in which neither version nor status changed, oldest
-- first; to_at null = until now. valid_from and valid_to are the world axis. A row that is out
-- tells cause, root cause and depth, and who changed it and why; event_id is the event that caused
-- the version. Runs as the caller. Raises MD103, MD301. Cost: the versions and spells of one memory.
create or replace function memdb.memory_history (
  p_tenant integer,
  p_memory bigint
)
  returns table (
    from_at timestamptz, to_at timestamptz, version integer, status text, text text, summary text, type text, importance real,
    confidence real, valid_from timestamptz, valid_to timestamptz, event_id bigint, metadata jsonb, cause text, root text,
    root_id bigint, depth integer, actor text, reason text)
  language plpgsql stable rows 10
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, false);
  return query
    with mark as (
      select v.recorded_at as at from memdb.shown_memory_version v where v.tenant_id = p_tenant and v.memory_id = p_memory
      union
      select b.from_at from memdb.belief b where b.tenant_id = p_tenant and b.subject = 'memory' and b.subject_id = p_memory
      union
      select b.to_at from memdb.belief b
       where b.tenant_id = p_tenant and b.subject = 'memory' and b.subject_id = p_memory and b.to_at is not null
    ), spell as (
      select k.at, lead(k.at) over (order by k.at) as until from mark k)
    select s.at, s.until, v.version, coalesce(b.status, 'active'), v.text, v.summary,
           coalesce(v.replaced ->> 'type', m.type), coalesce((v.replaced ->> 'importance')::real, m.importance),
           coalesce((v.replaced ->> 'confidence')::real, m.confidence), v.valid_from, v.valid_to, v.event_id, v.metadata,
           b.cause, b.root, b.root_id, b.depth, b.actor, b.reason
      from spell s
      join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = p_memory
      cross join lateral (
        select v.* from memdb.shown_memory_version v
         where v.tenant_id = p_tenant and v.memory_id = p_memory and v.recorded_at <= s.at
         order by v.version desc limit 1) v
      left join memdb.belief b
        on b.tenant_id = p_tenant and b.subject = 'memory' and b.subject_id = p_memory
       and b.from_at <= s.at and (b.to_at is null or b.to_at > s.at)
     order by s.at;
  if not found then
    perform memdb._raise('MD103', 'no such memory', jsonb_build_object('memory_id', p_memory),
      'Check the id and the tenant; a forgotten memory is gone.');
  end if;
end $$;
comment on function memdb.memory_history (integer, bigint) is 'Everything that became of a memory: what it said and whether it held, spell by spell.';

-- _version_fields: what can differ between versions of a memory, as one object; null where there is no such version.
--
-- sources are those of all justifications, hidden ones as {"hidden": true}.
create or replace function memdb._version_fields (p_tenant integer, p_memory bigint, p_version integer)
  returns jsonb
  language sql stable
  set search_path = pg_catalog, memdb, pg_temp
as $$
  select jsonb_build_object(
           'text', v.text, 'summary', v.summary, 'heading', v.heading, 'language', v.language, 'metadata', v.metadata,
           'valid_from', v.valid_from, 'valid_to', v.valid_to, 'event_id', v.event_id,
           'sources', (select jsonb_agg(distinct jsonb_strip_nulls(jsonb_build_object('event_id', p.event_id, 'memory_id', p.memory_id,
                                'version', p.memory_version, 'hidden', case when p.is_hidden then true end)))
                         from memdb._premise_rows(p_tenant, array[p_memory], array[p_version], 1) p))
         || coalesce(v.replaced, jsonb_build_object('type', m.type, 'importance', m.importance, 'confidence', m.confidence,
                                                    'trust', m.trust, 'occurred_at', m.occurred_at))
    from memdb.shown_memory m
    join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = p_version
   where m.tenant_id = p_tenant and m.memory_id = p_memory;
$$;
comment on function memdb._version_fields (integer, bigint, integer) is 'What can differ between versions of a memory, as one object; null where there is no such version.';

-- diff_versions: what changed from one version of a memory to another, field by field.
--
-- p_to null means the current version, p_from null the one before p_to. Fields that are equal are
-- left out. Runs as the caller. Raises MD103 for an unknown memory or version, MD301.
create or replace function memdb.diff_versions (
  p_tenant integer,
  p_memory bigint,
  p_from   integer default null,
  p_to     integer default null
)
  returns table (field text, old_value jsonb, new_value jsonb)
  language plpgsql stable rows 5
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_to  integer;
  v_old jsonb;
  v_new jsonb;
begin
  perform memdb._authorize(p_tenant, false);
  select coalesce(p_to, m.version) into v_to from memdb.shown_memory m where m.tenant_id = p_tenant and m.memory_id = p_memory;
  v_old := memdb._version_fields(p_tenant, p_memory, coalesce(p_from, v_to - 1));
  v_new := memdb._version_fields(p_tenant, p_memory, v_to);
  if v_old is null or v_new is null then
    perform memdb._raise('MD103', 'no such memory or version',
      jsonb_build_object('memory_id', p_memory, 'from', coalesce(p_from, v_to - 1), 'to', v_to),
      'memory_history lists the versions.');
  end if;
  return query
    select o.key, nullif(o.value, 'null'), nullif(n.value, 'null')
      from jsonb_each(v_old) o
      join jsonb_each(v_new) n on n.key = o.key and n.value <> o.value
     order by o.key <> 'text', o.key;
end $$;
comment on function memdb.diff_versions (integer, bigint, integer, integer) is 'What changed from one version of a memory to another, field by field.';

-- _item_of: a version of a memory as an item of record_memories, with the sources of its first justification.
create or replace function memdb._item_of (p_tenant integer, p_memory bigint, p_version integer)
  returns jsonb
  language sql stable
begin atomic
  select jsonb_strip_nulls(jsonb_build_object('text', v.text, 'summary', v.summary, 'heading', v.heading, 'language', v.language,
           'valid_from', v.valid_from, 'valid_to', v.valid_to, 'method', j.method, 'model', j.model,
           'type', v.replaced -> 'type', 'importance', v.replaced -> 'importance', 'confidence', v.replaced -> 'confidence',
           'occurred_at', v.replaced -> 'occurred_at'))
         || jsonb_build_object('metadata', v.metadata, 'sources', (
              select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('event_id', p.event_id, 'memory_id', p.memory_id,
                       'version', p.memory_version,
                       'span', case when p.span_from is not null then jsonb_build_array(p.span_from, p.span_to) end)) order by p.ordinal)
                from memdb.premise p where p.tenant_id = p_tenant and p.justification_id = j.justification_id))
    from memdb.memory_version v
    cross join lateral (
      select j.* from memdb.justification j
       where j.tenant_id = p_tenant and j.memory_id = v.memory_id and j.version = v.version
       order by j.justification_id limit 1) j
   where v.tenant_id = p_tenant and v.memory_id = p_memory and v.version = p_version;
end;
comment on function memdb._item_of (integer, bigint, integer) is 'A version of a memory as an item of record_memories, with the sources of its first justification.';

-- _copy_justifications: give a version the other justifications of an earlier one, and let it stand on one that holds.
create or replace function memdb._copy_justifications (
  p_tenant integer,
  p_memory bigint,
  p_from   integer,
  p_to     integer,
  p_now    timestamptz
)
  returns void
  language plpgsql volatile
as $$
declare
  v_new bigint[];
begin
  with old as (
    select j.*, nextval('memdb.justification_justification_id_seq') as new_id
      from memdb.justification j
     where j.tenant_id = p_tenant and j.memory_id = p_memory and j.version = p_from
     order by j.justification_id
    offset 1
  ), justified as (
    insert into memdb.justification (tenant_id, justification_id, namespace_id, memory_id, version, method, confidence, model,
                                     supports, recorded_at)
    overriding system value
    select p_tenant, o.new_id, o.namespace_id, p_memory, p_to, o.method, o.confidence, o.model, false, p_now from old o
  ), premised as (
    insert into memdb.premise (tenant_id, justification_id, ordinal, namespace_id, conclusion_id, event_id, span_from, span_to,
                               memory_id, memory_version, supports)
    select p_tenant, o.new_id, p.ordinal, p.namespace_id, p_memory, p.event_id, p.span_from, p.span_to, p.memory_id,
           p.memory_version, false
      from old o
      join memdb.premise p on p.tenant_id = p_tenant and p.justification_id = o.justification_id)
  select coalesce(array_agg(o.new_id), '{}') into v_new from old o;
  perform memdb._rise(p_tenant, v_new, p_now);
end $$;
comment on function memdb._copy_justifications (integer, bigint, integer, integer, timestamptz) is 'Give a version the other justifications of an earlier one, and let it stand on one that holds.';

-- _note: store an event that tells of a decision about a memory, in its namespace; returns its id.
--
-- It belongs to no session, so a decision never waits for whoever is writing one.
create or replace function memdb._note (p_tenant integer, p_memory memdb.memory, p_kind text, p_text text)
  returns bigint
  language sql volatile
as $$
  select a.event_id
    from memdb.append_events(p_tenant, jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
      'kind', p_kind, 'text', p_text, 'user', p_memory.user_id, 'speaker', memdb._caller(), 'extract', false,
      'trust', p_memory.trust, 'metadata', jsonb_build_object('memory_id', p_memory.memory_id),
      'namespace', (select n.path from memdb.namespace n
                     where n.tenant_id = p_tenant and n.namespace_id = p_memory.namespace_id))))) a;
$$;
comment on function memdb._note (integer, memdb.memory, text, text) is 'Store an event that tells of a decision about a memory, in its namespace; returns its id.';

-- rollback_memory: let a memory say again what an earlier version said, as a new version with the sources of that one.
--
-- p_expected_version is the version the caller has seen (MD201 otherwise). An event of kind
-- correction with p_reason as its text is stored as the cause; the justifications are those of the
-- earlier version, so the new one is stale from the start where what they rest on is out by now.
-- Returns as supersede_memory; unchanged where the current version says the same already.
-- Raises MD103 (memory or version), MD201, MD205, MD301.
create or replace function memdb.rollback_memory (
  p_tenant           integer,
  p_memory           bigint,
  p_expected_version integer,
  p_to_version       integer,
  p_reason           text default null
)
  returns table (memory_id bigint, version integer, outcome text, fallen bigint)
  language plpgsql volatile security definer rows 1
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_now     timestamptz := memdb._begin_correction(p_tenant);
  v_memory  memdb.memory := memdb._find_memory(p_tenant, p_memory);
  v_item    jsonb;
  v_version integer;
begin
  v_item := memdb._item_of(p_tenant, p_memory, p_to_version);
  if v_item is null then
    perform memdb._raise('MD103', 'no such version', jsonb_build_object('memory_id', p_memory, 'version', p_to_version),
      'memory_history lists the versions.');
  end if;
  perform memdb._expect_version(v_memory, p_expected_version);
  v_version := memdb._supersede(p_tenant, v_memory, v_item, memdb._note(p_tenant, v_memory, 'correction',
    coalesce(nullif(btrim(p_reason), ''), format('rolled back to version %s', p_to_version))), null, v_now);
  if v_version > v_memory.version then
    perform memdb._copy_justifications(p_tenant, p_memory, p_to_version, v_version, v_now);
  end if;
  perform memdb._queue_fallen(p_tenant, v_now);
  return query select * from memdb._superseded(p_tenant, v_memory, v_version, v_now);
end $$;
comment on function memdb.rollback_memory (integer, bigint, integer, integer, text) is 'Let a memory say again what an earlier version said, as a new version with the sources of that one.';
