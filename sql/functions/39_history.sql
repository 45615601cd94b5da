-- History: what was believed at some time, and what a memory said, version by version.
--
-- Two axes. Belief: a version is known from recorded_at on, and belief rows say when the memory
-- was out. World: valid_from and valid_to say of which time a version speaks; null is open.
-- Asked about day W on day T, a memory answers with the latest version known by T that had begun
-- by W: when the office moved to Lyon in July, the version that says Paris still answers for May.
-- A successor without valid_from speaks of all times: then the old version was wrong, not over.

-- _held: whether every premise of a justification was in at a time ('infinity': is in now).
--
-- One step only: a premise that is a memory counts as in while that memory was not out.
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
     where p.tenant_id = p_tenant and p.justification_id = p_justification);
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
