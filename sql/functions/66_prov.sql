-- Provenance for others: memories, what they rest on and who took part, as W3C PROV-JSON.
--
-- An event and a version of a memory are entities; observing, deriving and correcting are
-- activities; users, agents, models and database roles are agents. Words the caller may not read
-- stand as entities of type memdb:Hidden. What is out at the moment is invalidated; a spell of
-- being out that ended is history and not provenance, since PROV lets nothing come back.
-- Format: https://www.w3.org/submissions/prov-json/

-- _prov_id: a qualified name of PROV for something with an id.
create or replace function memdb._prov_id (p_kind text, p_id text)
  returns text
  language sql immutable parallel safe
begin atomic
  select 'memdb:' || p_kind || '-' || p_id;
end;
comment on function memdb._prov_id (text, text) is 'A qualified name of PROV for something with an id.';

-- _prov_time: a time as xsd:dateTime in UTC.
create or replace function memdb._prov_time (p_at timestamptz)
  returns text
  language sql immutable parallel safe
begin atomic
  select to_char(p_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
end;
comment on function memdb._prov_time (timestamptz) is 'A time as xsd:dateTime in UTC.';

-- _prov_type: a qualified name as a value of prov:type.
create or replace function memdb._prov_type (p_name text)
  returns jsonb
  language sql immutable parallel safe
begin atomic
  select jsonb_build_object('$', p_name, 'type', 'prov:QUALIFIED_NAME');
end;
comment on function memdb._prov_type (text) is 'A qualified name as a value of prov:type.';

-- _prov_agent: the qualified name of whoever has a name: any text, so its hash stands for it.
create or replace function memdb._prov_agent (p_kind text, p_name text)
  returns text
  language sql immutable parallel safe
begin atomic
  select memdb._prov_id(p_kind, left(md5(p_name), 16));
end;
comment on function memdb._prov_agent (text, text) is 'The qualified name of whoever has a name: any text, so its hash stands for it.';

-- _prov_events: the statements about some events: what they say, how they were observed, by whom.
--
-- Rows of (section, id, body), as export_prov gathers them. Runs as the caller.
create or replace function memdb._prov_events (p_tenant integer, p_event_ids bigint[])
  returns table (section text, id text, body jsonb)
  language sql stable rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
  with said as (
    select e.*, memdb._prov_id('event', e.event_id::text) as name, memdb._prov_id('observation', e.event_id::text) as act,
           memdb._prov_time(e.recorded_at) as at, s.external_id as session
      from memdb.shown_event e
      left join memdb.session s on s.tenant_id = p_tenant and s.session_id = e.session_id
     where e.tenant_id = p_tenant and e.event_id = any (p_event_ids)
  ), took_part as (
    select s.event_id, s.act, a.kind, a.name, a.type
      from said s
      cross join lateral (values ('user', s.user_id, 'prov:Person'), ('agent', s.agent_id, 'prov:SoftwareAgent'),
                                 ('speaker', s.speaker, 'prov:Person')) a (kind, name, type)
     where a.name is not null
  )
  select 'entity', s.name, jsonb_strip_nulls(jsonb_build_object('prov:type', memdb._prov_type('memdb:Event'), 'memdb:kind', s.kind,
           'prov:value', coalesce(nullif(s.text, ''), s.output::text, s.input::text), 'memdb:session', s.session,
           'memdb:sequence', s.sequence, 'memdb:occurredAt', memdb._prov_time(s.occurred_at), 'memdb:trust', s.trust))
    from said s
  union all
  select 'activity', s.act, jsonb_build_object('prov:startTime', s.at, 'prov:endTime', s.at, 'prov:type', memdb._prov_type('memdb:Observation'))
    from said s
  union all
  select 'wasGeneratedBy', '_:' || s.act, jsonb_build_object('prov:entity', s.name, 'prov:activity', s.act, 'prov:time', s.at)
    from said s
  union all
  select 'agent', memdb._prov_agent(t.kind, t.name), jsonb_build_object('prov:type', memdb._prov_type(t.type), 'prov:label', t.name)
    from took_part t
  union all
  select 'wasAssociatedWith', format('_:%s/%s', t.act, t.kind),
         jsonb_build_object('prov:activity', t.act, 'prov:agent', memdb._prov_agent(t.kind, t.name),
                            'prov:role', jsonb_build_object('$', 'memdb:' || t.kind, 'type', 'prov:QUALIFIED_NAME'))
    from took_part t
  union all
  select case when s.kind = 'correction' then 'wasDerivedFrom' else 'wasInformedBy' end, format('_:%s/parent', s.act),
         case when s.kind = 'correction'
              then jsonb_build_object('prov:generatedEntity', s.name, 'prov:usedEntity', p.name, 'prov:type', memdb._prov_type('prov:Revision'))
              else jsonb_build_object('prov:informed', s.act, 'prov:informant', p.act) end
    from said s
    join said p on p.event_id = s.parent_event_id;
$$;
comment on function memdb._prov_events (integer, bigint[]) is 'The statements about some events: what they say, how they were observed, by whom.';

-- _prov_versions: the statements about some versions of memories: what they say, and that they are versions of one thing.
create or replace function memdb._prov_versions (p_tenant integer, p_memory_ids bigint[], p_versions integer[])
  returns table (section text, id text, body jsonb)
  language sql stable rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
  with said as (
    select distinct v.*, m.type, m.external_id, memdb._prov_id('memory', v.memory_id::text) as thing,
           memdb._prov_id('memory', v.memory_id || '-v' || v.version) as name
      from unnest(p_memory_ids, p_versions) w (memory_id, version)
      join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = w.memory_id
      join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = w.memory_id and v.version = w.version
  )
  select 'entity', s.name, jsonb_strip_nulls(jsonb_build_object('prov:type', memdb._prov_type('memdb:Memory'),
           'memdb:type', coalesce(s.replaced ->> 'type', s.type), 'memdb:version', s.version, 'prov:value', s.text,
           'memdb:validFrom', memdb._prov_time(s.valid_from), 'memdb:validTo', memdb._prov_time(s.valid_to),
           'memdb:status', memdb._version_status(p_tenant, s.memory_id, s.version, 'infinity')))
    from said s
  union all
  select 'entity', s.thing, jsonb_strip_nulls(jsonb_build_object('prov:type', memdb._prov_type('memdb:MemoryIdentity'),
           'memdb:externalId', s.external_id))
    from said s
  union all
  select 'specializationOf', '_:' || s.name, jsonb_build_object('prov:specificEntity', s.name, 'prov:generalEntity', s.thing)
    from said s
  union all
  select 'wasDerivedFrom', format('_:%s/revision', s.name),
         jsonb_build_object('prov:generatedEntity', s.name, 'prov:usedEntity', o.name, 'prov:type', memdb._prov_type('prov:Revision'))
    from said s
    join said o on o.memory_id = s.memory_id and o.version = s.version - 1;
$$;
comment on function memdb._prov_versions (integer, bigint[], integer[]) is 'The statements about some versions of memories: what they say, and that they are versions of one thing.';

-- _prov_derivations: the statements about how versions came from what they rest on.
--
-- p_rows are rows of _premise_rows as jsonb. PROV lets an entity be generated once, and derived
-- only from what was there before: the first justification generated a version, others are
-- derivations beside it, and a source that came later only influenced it.
create or replace function memdb._prov_derivations (p_tenant integer, p_rows jsonb)
  returns table (section text, id text, body jsonb)
  language sql stable rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
  with rest as (
    select r.*, memdb._prov_id('derivation', r.justification_id::text) as act,
           memdb._prov_id('memory', r.conclusion_id || '-v' || r.conclusion_version) as conclusion,
           case when r.is_hidden then memdb._prov_id('hidden', r.justification_id || '-' || r.ordinal)
                when r.event_id is not null then memdb._prov_id('event', r.event_id::text)
                else memdb._prov_id('memory', r.memory_id || '-v' || r.memory_version) end as source,
           memdb._prov_time(v.recorded_at) as at,
           coalesce(e.recorded_at, o.recorded_at) > v.recorded_at as is_later,
           min(r.justification_id) over (partition by r.conclusion_id, r.conclusion_version) = r.justification_id as is_first
      from jsonb_to_recordset(p_rows) r (
             conclusion_id bigint, conclusion_version integer, justification_id bigint, ordinal integer, method text,
             supports boolean, is_hidden boolean, event_id bigint, memory_id bigint, memory_version integer)
      join memdb.shown_memory_version v
        on v.tenant_id = p_tenant and v.memory_id = r.conclusion_id and v.version = r.conclusion_version
      left join memdb.shown_event e on e.tenant_id = p_tenant and e.event_id = r.event_id
      left join memdb.shown_memory_version o
        on o.tenant_id = p_tenant and o.memory_id = r.memory_id and o.version = r.memory_version
  ), act as (
    select distinct r.act, r.conclusion, r.method, r.supports, r.at, r.is_first from rest r
  )
  select 'activity', a.act, jsonb_build_object('prov:type', memdb._prov_type('memdb:Derivation'), 'memdb:method', a.method,
           'memdb:supports', a.supports) || case when a.is_first then jsonb_build_object('prov:startTime', a.at, 'prov:endTime', a.at)
                                                 else '{}' end
    from act a
  union all
  select 'wasGeneratedBy', '_:' || a.act, jsonb_build_object('prov:entity', a.conclusion, 'prov:activity', a.act, 'prov:time', a.at)
    from act a where a.is_first
  union all
  select 'used', format('_:%s/%s', r.act, r.ordinal), jsonb_build_object('prov:activity', r.act, 'prov:entity', r.source)
    from rest r where r.is_later is not true
  union all
  select 'wasDerivedFrom', format('_:%s/%s/source', r.act, r.ordinal),
         jsonb_build_object('prov:generatedEntity', r.conclusion, 'prov:usedEntity', r.source)
         || case when r.is_first then jsonb_build_object('prov:activity', r.act) else '{}' end
    from rest r where r.is_later is not true
  union all
  select 'wasInfluencedBy', format('_:%s/%s/later', r.act, r.ordinal),
         jsonb_build_object('prov:influencee', r.conclusion, 'prov:influencer', r.source)
    from rest r where r.is_later
  union all
  select 'entity', r.source, jsonb_build_object('prov:type', memdb._prov_type('memdb:Hidden')) from rest r where r.is_hidden;
$$;
comment on function memdb._prov_derivations (integer, jsonb) is 'The statements about how versions came from what they rest on.';

-- _prov_invalidations: the statements about what of some events and memory versions is out or replaced now, and who did it.
create or replace function memdb._prov_invalidations (p_tenant integer, p_event_ids bigint[], p_memory_ids bigint[], p_versions integer[])
  returns table (section text, id text, body jsonb)
  language sql stable rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
  with ended as (
    select distinct memdb._prov_id('event', b.subject_id::text) as name, b.from_at as at, b.cause, b.actor
      from memdb.belief b
     where b.tenant_id = p_tenant and b.subject = 'event' and b.subject_id = any (p_event_ids) and b.to_at is null
    union all
    select distinct memdb._prov_id('memory', v.memory_id || '-v' || v.version), coalesce(v.retired_at, b.from_at),
           case when v.retired_at is not null then 'superseded' else b.cause end, case when v.retired_at is null then b.actor end
      from unnest(p_memory_ids, p_versions) w (memory_id, version)
      join memdb.memory_version v on v.tenant_id = p_tenant and v.memory_id = w.memory_id and v.version = w.version
      left join memdb.belief b
        on b.tenant_id = p_tenant and b.subject = 'memory' and b.subject_id = v.memory_id and b.to_at is null
     where v.retired_at is not null or b.status is not null
  ), act as (
    select e.*, memdb._prov_id('correction', to_char(e.at at time zone 'UTC', 'YYYYMMDDHH24MISSUS')) as act, memdb._prov_time(e.at) as time
      from ended e
  )
  select distinct 'activity', a.act, jsonb_build_object('prov:type', memdb._prov_type('memdb:Correction'), 'prov:startTime', a.time, 'prov:endTime', a.time)
    from act a
  union all
  select 'wasInvalidatedBy', '_:' || a.name || '/invalidation',
         jsonb_build_object('prov:entity', a.name, 'prov:activity', a.act, 'prov:time', a.time, 'memdb:cause', a.cause)
    from act a
  union all
  select distinct 'agent', memdb._prov_agent('role', a.actor), jsonb_build_object('prov:type', memdb._prov_type('memdb:Role'), 'prov:label', a.actor)
    from act a where a.actor is not null
  union all
  select distinct 'wasAssociatedWith', format('_:%s/%s', a.act, left(md5(a.actor), 16)),
         jsonb_build_object('prov:activity', a.act, 'prov:agent', memdb._prov_agent('role', a.actor))
    from act a where a.actor is not null;
$$;
comment on function memdb._prov_invalidations (integer, bigint[], bigint[], integer[]) is 'The statements about what of some events and memory versions is out or replaced now, and who did it.';

-- export_prov: the provenance of one memory, or of a session and all that was made of it, as W3C PROV-JSON.
--
-- Give p_memory, or p_session (and its namespace). A memory comes with all its versions and what
-- they rest on, down to p_max_depth (1 to 100); a session with its events, the memories that rest
-- on them at any distance, and all else those rest on. Runs as the caller; hidden sources stay
-- nameless. Raises MD001, MD103, MD106, MD301. Cost: as explain_memory of every memory exported.
create or replace function memdb.export_prov (
  p_tenant    integer,
  p_memory    bigint  default null,
  p_session   text    default null,
  p_namespace text    default 'default',
  p_max_depth integer default 20
)
  returns jsonb
  language plpgsql stable
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_ids      bigint[];
  v_versions integer[];
  v_events   bigint[] := '{}';
  v_rows     jsonb;
begin
  perform memdb._authorize(p_tenant, false);
  if (p_memory is null) = (p_session is null) or p_max_depth between 1 and 100 is not true then
    perform memdb._raise('MD001', 'give a memory or a session, and a depth of 1 to 100', jsonb_build_object('field',
      case when p_max_depth between 1 and 100 then 'memory' else 'max_depth' end));
  end if;
  if p_memory is not null then
    select array_agg(v.memory_id), array_agg(v.version) into v_ids, v_versions
      from memdb.shown_memory_version v where v.tenant_id = p_tenant and v.memory_id = p_memory;
  else
    v_events := array(select r.event_id from memdb.shown_event r
                       where r.tenant_id = p_tenant and r.session_id = memdb._session_named(p_tenant, p_session, p_namespace));
    select array_agg(w.memory_id), array_agg(w.version) into v_ids, v_versions
      from memdb._made_below(p_tenant, v_events, p_max_depth) w;
  end if;
  if v_ids is null and p_memory is not null then
    perform memdb._raise('MD103', 'no such memory', jsonb_build_object('memory_id', p_memory),
      'Check the id and the tenant; a forgotten memory is gone.');
  end if;
  v_rows := coalesce((select jsonb_agg(to_jsonb(r)) from memdb._premise_rows(p_tenant, v_ids, v_versions, p_max_depth) r), '[]');
  return memdb._prov_document(p_tenant, v_rows, v_events, v_ids, v_versions);
end $$;
comment on function memdb.export_prov (integer, bigint, text, text, integer) is 'The provenance of one memory, or of a session and all that was made of it, as W3C PROV-JSON.';

-- _made_below: the memory versions that rest on some events at any distance, as ids.
create or replace function memdb._made_below (p_tenant integer, p_event_ids bigint[], p_max_depth integer)
  returns table (memory_id bigint, version integer)
  language plpgsql stable security definer rows 50
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
  v_wave       bigint[];
  v_met        bigint[] := '{}';
begin
  perform memdb._authorize(p_tenant, false);
  v_namespaces := memdb._readable(p_tenant, null, null);
  v_wave := array(select distinct m.memory_id from memdb._made_of_events(p_tenant, p_event_ids) m);
  for v_depth in 1 .. p_max_depth loop
    exit when v_wave = '{}';
    v_met := v_met || v_wave;
    v_wave := array(
      select distinct d.memory_id
        from memdb._steps_down(p_tenant, v_wave, '{derived_from}', 'infinity') d
        join memdb.shown_memory m on m.tenant_id = p_tenant and m.memory_id = d.memory_id
       where d.memory_id <> all (v_met) and (v_namespaces is null or m.namespace_id = any (v_namespaces)));
  end loop;
  return query select m.memory_id, m.version from memdb.shown_memory m where m.tenant_id = p_tenant and m.memory_id = any (v_met);
end $$;
comment on function memdb._made_below (integer, bigint[], integer) is 'The memory versions that rest on some events at any distance, as ids.';

-- _prov_document: gather the statements about some premises, and the events and versions around them.
create or replace function memdb._prov_document (
  p_tenant   integer,
  p_rows     jsonb,
  p_events   bigint[],
  p_ids      bigint[],
  p_versions integer[]
)
  returns jsonb
  language plpgsql stable
as $$
declare
  v_events   bigint[];
  v_ids      bigint[];
  v_versions integer[];
begin
  select array_agg(distinct s.event_id) filter (where s.event_id is not null) into v_events
    from (select unnest(p_events) as event_id
          union all select r.event_id from jsonb_to_recordset(p_rows) r (event_id bigint)) s;
  select array_agg(s.memory_id), array_agg(s.version) into v_ids, v_versions
    from (select w.memory_id, w.version from unnest(p_ids, p_versions) w (memory_id, version)
          union select r.conclusion_id, r.conclusion_version from jsonb_to_recordset(p_rows) r (conclusion_id bigint, conclusion_version integer)
          union select r.memory_id, r.memory_version from jsonb_to_recordset(p_rows) r (memory_id bigint, memory_version integer)
                 where r.memory_id is not null) s;
  return jsonb_build_object('prefix', jsonb_build_object('memdb', 'urn:memdb:')) || coalesce((
    select jsonb_object_agg(d.section, d.bodies)
      from (select s.section, jsonb_object_agg(s.id, s.body) as bodies
              from (select * from memdb._prov_events(p_tenant, v_events)
                    union all select * from memdb._prov_versions(p_tenant, v_ids, v_versions)
                    union all select * from memdb._prov_derivations(p_tenant, p_rows)
                    union all select * from memdb._prov_invalidations(p_tenant, v_events, v_ids, v_versions)) s
             group by s.section) d), '{}');
end $$;
comment on function memdb._prov_document (integer, jsonb, bigint[], bigint[], integer[]) is 'Gather the statements about some premises, and the events and versions around them.';
