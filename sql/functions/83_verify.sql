-- Verification: is what memdb promises true on this server, now?
--
-- Checks that ship with the product. Each runs through the public functions with the caller's own
-- rights, in tenants of its own that are rolled back, and returns what it found wrong, one line
-- each; nothing is all well.

-- _scratch_tenant: a tenant for one check; the check is rolled back.
create or replace function memdb._scratch_tenant ()
  returns integer
  language sql volatile
as $$
  select t.tenant_id from memdb.create_tenant('memdb verify ' || gen_random_uuid()) t;
$$;
comment on function memdb._scratch_tenant () is 'A tenant for one check; the check is rolled back.';

-- _say: store a sentence as an event, and return its id.
create or replace function memdb._say (p_tenant integer, p_text text)
  returns bigint
  language sql volatile
as $$
  select e.event_id
    from memdb.append_events(p_tenant, jsonb_build_array(jsonb_build_object(
      'kind', 'observation', 'text', p_text, 'extract', false))) e;
$$;
comment on function memdb._say (integer, text) is 'Store a sentence as an event, and return its id.';

-- _keep: store a memory on some sources, and return its id.
create or replace function memdb._keep (p_tenant integer, p_text text, p_sources jsonb)
  returns bigint
  language sql volatile
as $$
  select m.memory_id
    from memdb.record_memories(p_tenant, jsonb_build_array(jsonb_build_object('text', p_text, 'sources', p_sources))) m;
$$;
comment on function memdb._keep (integer, text, jsonb) is 'Store a memory on some sources, and return its id.';

-- _refused: what is wrong if a statement that must fail with a given error does not: one line, or none.
create or replace function memdb._refused (p_what text, p_code text, p_statement text)
  returns text[]
  language plpgsql volatile
as $$
begin
  execute p_statement;
  return array[p_what || ' was not refused'];
exception when others then
  return case when sqlstate = p_code then '{}' else array[format('%s failed with %s instead of %s', p_what, sqlstate, p_code)] end;
end $$;
comment on function memdb._refused (text, text, text) is 'What is wrong if a statement that must fail with a given error does not: one line, or none.';

-- _verify_consistency: whether everything derived agrees with what it is derived from.
create or replace function memdb._verify_consistency (p_tenant integer)
  returns text[]
  language sql volatile
as $$
  select coalesce(array_agg(format('%s %s, such as %s. %s', c.found, c.problem, c.examples[1:3], c.remedy)), '{}')
    from memdb.check_consistency(p_tenant) c
   where c.found > 0;
$$;
comment on function memdb._verify_consistency (integer) is 'Whether everything derived agrees with what it is derived from.';

-- _verify_cascade: whether what is taken back falls through all that rests on it, and comes back as it was.
create or replace function memdb._verify_cascade (p_tenant integer)
  returns text[]
  language plpgsql volatile
as $$
declare
  v_tenant   integer := memdb._scratch_tenant();
  v_first    bigint := memdb._say(v_tenant, 'heard once');
  v_second   bigint := memdb._say(v_tenant, 'heard again');
  v_both     bigint;
  v_one      bigint;
  v_rest     bigint;
  v_found    text[];
  v_problems text[] := '{}';
begin
  v_both := memdb._keep(v_tenant, 'heard twice', jsonb_build_array(jsonb_build_object('event_id', v_first)));
  if memdb._keep(v_tenant, 'heard twice', jsonb_build_array(jsonb_build_object('event_id', v_second))) <> v_both then
    v_problems := v_problems || 'one fact said twice became two memories'::text;
  end if;
  v_one := memdb._keep(v_tenant, 'heard once', jsonb_build_array(jsonb_build_object('event_id', v_first)));
  v_rest := memdb._keep(v_tenant, 'follows', jsonb_build_array(jsonb_build_object('memory_id', v_both), jsonb_build_object('memory_id', v_one)));
  perform memdb.retract_event(v_tenant, v_first);
  v_found := array(select m.status from memdb.list_memories(v_tenant, p_statuses => null) m order by m.memory_id);
  if v_found <> '{active,stale,stale}' then
    v_problems := v_problems || format('after a retraction memories are %s', v_found);
  end if;
  perform memdb.restore_event(v_tenant, v_first);
  v_found := array(select m.status from memdb.list_memories(v_tenant, p_statuses => null) m order by m.memory_id);
  if v_found <> '{active,active,active}' then
    v_problems := v_problems || format('after its restoration memories are %s', v_found);
  end if;
  return v_problems;
end $$;
comment on function memdb._verify_cascade (integer) is 'Whether what is taken back falls through all that rests on it, and comes back as it was.';

-- _verify_past: whether what was believed before a correction can still be read, with its sources.
create or replace function memdb._verify_past (p_tenant integer)
  returns text[]
  language plpgsql volatile
as $$
declare
  v_tenant integer := memdb._scratch_tenant();
  v_event  bigint := memdb._say(v_tenant, 'it is on Monday');
  v_memory bigint;
  v_before timestamptz;
begin
  v_memory := memdb._keep(v_tenant, 'it is on Monday', jsonb_build_array(jsonb_build_object('event_id', v_event)));
  v_before := memdb.current_time();
  perform memdb.correct_event(v_tenant, v_event, 'it is on Tuesday');
  return array(
    select format('asked at %s, a memory says %s because of %s', coalesce(w.at::text, 'now'), m.text, e.texts)
      from (values (null::timestamptz, 'it is on Tuesday'), (v_before, 'it is on Monday')) w (at, text)
      cross join lateral memdb.memory_as_of(v_tenant, v_memory, w.at) m
      cross join lateral (
        select array_agg(e.text) as texts from memdb.explain_memory(v_tenant, v_memory, p_as_of_belief => w.at) e) e
     where (m.text, m.status, e.texts) is distinct from (w.text, 'active', array[w.text]));
end $$;
comment on function memdb._verify_past (integer) is 'Whether what was believed before a correction can still be read, with its sources.';

-- _verify_walls: whether one tenant can see, recall, change or build on what belongs to another.
create or replace function memdb._verify_walls (p_tenant integer)
  returns text[]
  language plpgsql volatile
as $$
declare
  v_theirs   integer := memdb._scratch_tenant();
  v_mine     integer := memdb._scratch_tenant();
  v_event    bigint := memdb._say(v_theirs, 'the word is xyzzyplugh');
  v_memory   bigint;
  v_problems text[] := '{}';
  v_try      record;
begin
  v_memory := memdb._keep(v_theirs, 'the word is xyzzyplugh', jsonb_build_array(jsonb_build_object('event_id', v_event)));
  if exists (select from memdb.recall(v_mine, 'xyzzyplugh', p_log => false))
     or exists (select from memdb.list_memories(v_mine, p_statuses => null))
     or exists (select from memdb.expand_related(v_mine, array[v_memory])) then
    v_problems := v_problems || 'a memory of another tenant was recalled, listed or reached'::text;
  end if;
  for v_try in
    select *
      from (values ('reading', 'MD103', 'select memdb.get_memory(%1$s, %2$s)'),
                   ('reading the past of', 'MD103', 'select memdb.memory_as_of(%1$s, %2$s)'),
                   ('explaining', 'MD103', 'select memdb.explain_memory(%1$s, %2$s)'),
                   ('tracing', 'MD103', 'select memdb.trace_memory(%1$s, %2$s)'),
                   ('exporting', 'MD103', 'select memdb.export_prov(%1$s, %2$s)'),
                   ('retracting', 'MD103', 'select memdb.retract_memory(%1$s, %2$s)'),
                   ('building on', 'MD103', 'select memdb._keep(%1$s, ''x'', ''[{"memory_id": %2$s}]'')'),
                   ('building on the event of', 'MD104', 'select memdb._keep(%1$s, ''x'', ''[{"event_id": %3$s}]'')'),
                   ('retracting the event of', 'MD104', 'select memdb.retract_event(%1$s, %3$s)')) t (what, code, statement)
  loop
    v_problems := v_problems || memdb._refused(v_try.what || ' a memory of another tenant', v_try.code,
      format(v_try.statement, v_mine, v_memory, v_event));
  end loop;
  return v_problems;
end $$;
comment on function memdb._verify_walls (integer) is 'Whether one tenant can see, recall, change or build on what belongs to another.';

-- verify_tenant: check that what memdb promises is true on this server, for one tenant.
--
-- p_checks null runs all: consistency (of this tenant's data, see check_consistency), and in tenants
-- made for it cascade, past and walls. Everything is rolled back. Returns each check with what it
-- looks at, whether it passed, and what was wrong. Operators only. Raises MD001 for an unknown
-- check, MD101, MD303. Cost: that of check_consistency.
create or replace function memdb.verify_tenant (
  p_tenant integer,
  p_checks text[] default null
)
  returns table (check_name text, meaning text, passed boolean, problems text[])
  language plpgsql volatile rows 4
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  if not p_checks <@ array['consistency', 'cascade', 'past', 'walls'] then
    perform memdb._raise('MD001', 'no such check', jsonb_build_object('field', 'checks'),
      'Checks are consistency, cascade, past and walls.');
  end if;
  for check_name, meaning in
    values ('consistency', 'Everything derived agrees with what it is derived from.'),
           ('cascade', 'What is taken back falls through all that rests on it, and comes back as it was.'),
           ('past', 'What was believed before a correction can still be read, with its sources.'),
           ('walls', 'No tenant sees, recalls, changes or builds on what belongs to another.')
  loop
    continue when check_name <> all (p_checks);
    begin
      problems := case check_name
        when 'consistency' then memdb._verify_consistency(p_tenant)
        when 'cascade' then memdb._verify_cascade(p_tenant)
        when 'past' then memdb._verify_past(p_tenant)
        else memdb._verify_walls(p_tenant) end;
      raise exception using errcode = 'MDDRY', message = 'undo';
    exception
      when sqlstate 'MDDRY' then
        null;
      when others then
        problems := array[format('the check failed with %s: %s', sqlstate, sqlerrm)];
    end;
    passed := problems = '{}';
    return next;
  end loop;
end $$;
comment on function memdb.verify_tenant (integer, text[]) is 'Check that what memdb promises is true on this server, for one tenant.';
