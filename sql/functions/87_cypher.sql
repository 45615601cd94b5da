-- Asking the lens in Cypher, and where it differs from the tables.
--
-- A question is text that becomes part of a statement, so it passes three gates: its words (only
-- what reads), the rights it runs with (memdb_operator, which may read the graph and write nothing
-- in it), and row security (one tenant). What comes back is ids; what they stand for is read by
-- the caller itself, and a row that holds something the caller may not see is left out.

-- _require_graph: stop unless the graph can be asked.
create or replace function memdb._require_graph ()
  returns void
  language plpgsql stable
as $$
begin
  if not exists (select from pg_extension e where e.extname = 'age') then
    perform memdb._raise('MD401', 'this database has no extension age', null,
      'Call memdb.switch_graph(true) as an administrator, where the server has Apache AGE.');
  end if;
  if not memdb._graph_is_on() then
    perform memdb._raise('MD405', 'the graph is switched off', null, 'Switch it on: select memdb.switch_graph(true);');
  end if;
  if not memdb._graph_is_alive() then
    perform memdb._raise('MD405', 'the graph is not the one memdb built: the database was restored, or the graph dropped', null,
      'Build it anew: select memdb.rebuild_graph();');
  end if;
end $$;
comment on function memdb._require_graph () is 'Stop unless the graph can be asked.';

-- _check_cypher: refuse a question that does more than read, or whose end could be mistaken.
--
-- Strings are taken out first, as AGE reads them: single or double quotes, a backslash before a
-- character. What is refused then are words that write, calls of database functions by their schema
-- (they would run with an operator's rights), comments, names in backticks, and, strings included,
-- dollar tags: AGE wants the text between two of them.
create or replace function memdb._check_cypher (p_query text, p_params jsonb)
  returns void
  language plpgsql stable
as $$
declare
  v_code    text := regexp_replace(p_query, $re$'([^'\\]|\\.)*'|"([^"\\]|\\.)*"$re$, '0', 'g');
  v_word    text := substring(lower(v_code) from '\m(create|merge|set|delete|detach|remove|drop|load|call|foreach|copy)\M');
  v_problem text := case
    when coalesce(btrim(p_query), '') = '' then 'a question is a text'
    when jsonb_typeof(p_params) is distinct from 'object' then 'parameters are an object'
    when v_word is not null then format('a question reads only; "%s" is refused', v_word)
    when p_query ~ '\$\w*\$' then 'dollar tags are refused'
    when v_code ~ '[''"]' then 'a string is not closed'
    when v_code ~ '`|/\*|//' then 'comments and names in backticks are refused'
    when v_code ~ '[[:alpha:]_]\w*\s*\.\s*[[:alpha:]_]\w*\s*\(' then 'functions are called without a schema' end;
begin
  if v_problem is not null then
    perform memdb._raise('MD001', v_problem,
      jsonb_build_object('field', case when jsonb_typeof(p_params) is distinct from 'object' then 'params' else 'query' end),
      'Ask with match, where, with, unwind, return, union, order by, skip and limit; hand values in as parameters: $name.');
  end if;
end $$;
comment on function memdb._check_cypher (text, jsonb) is 'Refuse a question that does more than read, or whose end could be mistaken.';

-- _run_cypher: the rows of a checked question, each an array of its columns, as AGE gives them.
--
-- Runs as memdb_operator whoever calls, also for a superuser, whom row security would not bind. AGE
-- must be told the number of columns: it is found by trying, which costs a parse each. AGE 1.5 asks
-- for no right to set and to delete: what a question changed is counted, and undone by an error.
create or replace function memdb._run_cypher (p_tenant integer, p_query text, p_params jsonb)
  returns setof jsonb
  language plpgsql stable rows 100
  set search_path = pg_catalog, memdb, pg_temp
  set role = none
as $$
declare
  c_strings constant text := '("(?:[^"\\]|\\.)*")|::(?:vertex|edge|path|numeric)';
  v_columns integer := 0;
  v_tables  oid[] := array(select c.oid from pg_class c where c.relnamespace = to_regnamespace('memdb_graph') and c.relkind = 'r');
  v_before  bigint;
begin
  select sum(pg_stat_get_xact_tuples_inserted(t) + pg_stat_get_xact_tuples_updated(t) + pg_stat_get_xact_tuples_deleted(t))
    into v_before from unnest(v_tables) t;
  -- Set here and not in the header, which only a member of memdb_operator could install; the
  -- header's setting brings the caller's role back at the end.
  perform set_config('role', 'memdb_operator', true);
  -- Loads the library: until then the parser does not know cypher().
  perform ag_catalog._graphid(1, 1);
  -- AGE looks its operators up on the search path.
  perform set_config('search_path', 'pg_catalog, ag_catalog, memdb, pg_temp', true),
          set_config('memdb.graph_tenant', p_tenant::text, true);
  loop
    v_columns := v_columns + 1;
    begin
      return query execute format(
        E'select jsonb_build_array(%s) from ag_catalog.cypher(''memdb_graph'', $memdb_question$%s\n$memdb_question$, $1) as r (%s)',
        (select string_agg(format('regexp_replace(ag_catalog.agtype_out(r.c%s)::text, $2, ''\1'', ''g'')::jsonb', c), ', ')
           from generate_series(1, v_columns) c),
        p_query,
        (select string_agg(format('c%s ag_catalog.agtype', c), ', ') from generate_series(1, v_columns) c))
        using p_params::text::ag_catalog.agtype, c_strings;
      if v_before is distinct from (
           select sum(pg_stat_get_xact_tuples_inserted(t) + pg_stat_get_xact_tuples_updated(t) + pg_stat_get_xact_tuples_deleted(t))
             from unnest(v_tables) t) then
        raise insufficient_privilege using message = 'permission denied: the question changes the graph';
      end if;
      return;
    exception
      when datatype_mismatch then
        if v_columns = 16 then
          perform memdb._raise('MD001', sqlerrm, '{"field": "query"}', 'Return at most 16 columns, or one map: return {name: value}.');
        end if;
      when data_exception or syntax_error_or_access_rule_violation or feature_not_supported or internal_error then
        perform memdb._raise('MD001', sqlerrm, '{"field": "query"}', 'The answer is as AGE gave it; see the manual of its Cypher.');
    end;
  end loop;
end $$;
comment on function memdb._run_cypher (integer, text, jsonb) is 'The rows of a checked question, each an array of its columns, as AGE gives them.';

-- _graph_hides: whether an answer holds a vertex or an edge that is not of the tenant or not visible to the caller.
create or replace function memdb._graph_hides (p_tenant integer, p_answer jsonb)
  returns boolean
  language sql stable
begin atomic
  select exists (
    select from jsonb_path_query(p_answer, 'strict $.** ? (@.label.type() == "string" && @.properties.type() == "object")') n (node)
     where (n.node -> 'properties' -> 'tenant_id') is distinct from to_jsonb(p_tenant)
        or not case n.node ->> 'label'
             when 'Event' then exists (select from memdb.shown_event e
               where e.tenant_id = p_tenant and e.event_id = (n.node -> 'properties' -> 'id')::bigint)
             when 'Memory' then exists (select from memdb.shown_memory m
               where m.tenant_id = p_tenant and m.memory_id = (n.node -> 'properties' -> 'id')::bigint)
             when 'Entity' then exists (select from memdb.entity e
               where e.tenant_id = p_tenant and e.entity_id = (n.node -> 'properties' -> 'id')::bigint)
             else true end);
end;
comment on function memdb._graph_hides (integer, jsonb) is 'Whether an answer holds a vertex or an edge that is not of the tenant or not visible to the caller.';

-- _graph_shown: an answer with what its ids stand for, read with the caller's rights.
--
-- p_labels: number of a vertex label -> its name, to tell the ends of an edge.
create or replace function memdb._graph_shown (p_tenant integer, p_answer jsonb, p_labels jsonb)
  returns jsonb
  language plpgsql stable
as $$
declare
  v_id bigint;
begin
  if jsonb_typeof(p_answer) = 'array' then
    return (select coalesce(jsonb_agg(memdb._graph_shown(p_tenant, e.item, p_labels) order by e.place), '[]')
              from jsonb_array_elements(p_answer) with ordinality e (item, place));
  elsif jsonb_typeof(p_answer) <> 'object' then
    return p_answer;
  elsif jsonb_typeof(p_answer -> 'label') is distinct from 'string' or jsonb_typeof(p_answer -> 'properties') is distinct from 'object' then
    return (select coalesce(jsonb_object_agg(e.key, memdb._graph_shown(p_tenant, e.item, p_labels)), '{}')
              from jsonb_each(p_answer) e (key, item));
  elsif p_answer ? 'start_id' then
    return jsonb_build_object('label', p_answer -> 'label',
      'from', memdb._graph_end((p_answer -> 'start_id')::bigint, p_labels), 'to', memdb._graph_end((p_answer -> 'end_id')::bigint, p_labels))
      || (p_answer -> 'properties') - 'tenant_id';
  end if;
  v_id := p_answer -> 'properties' -> 'id';
  return jsonb_build_object('label', p_answer -> 'label', 'id', v_id) || coalesce(case p_answer ->> 'label'
    when 'Event' then (
      select jsonb_build_object('kind', e.kind, 'speaker', e.speaker, 'occurred_at', e.occurred_at, 'text', left(e.text, 1000))
        from memdb.shown_event e where e.tenant_id = p_tenant and e.event_id = v_id)
    when 'Memory' then (
      select jsonb_build_object('type', m.type, 'status', m.status, 'version', m.version, 'text', left(v.text, 1000))
        from memdb.shown_memory m
        join memdb.shown_memory_version v on v.tenant_id = p_tenant and v.memory_id = m.memory_id and v.version = m.version
       where m.tenant_id = p_tenant and m.memory_id = v_id)
    else (
      select jsonb_build_object('type', e.type, 'name', e.name)
        from memdb.entity e where e.tenant_id = p_tenant and e.entity_id = v_id) end, '{}');
end $$;
comment on function memdb._graph_shown (integer, jsonb, jsonb) is 'An answer with what its ids stand for, read with the caller''s rights.';

-- _graph_end: one end of an edge: AGE keeps the label in the upper 16 bits of an id, ours in the lower 48.
create or replace function memdb._graph_end (p_id bigint, p_labels jsonb)
  returns jsonb
  language sql immutable parallel safe
begin atomic
  select jsonb_build_object('label', p_labels -> ((p_id >> 48)::text), 'id', p_id & 281474976710655);
end;
comment on function memdb._graph_end (bigint, jsonb) is 'One end of an edge: AGE keeps the label in the upper 16 bits of an id, ours in the lower 48.';

-- cypher: ask the graph of a tenant in Cypher; reads only.
--
-- Labels: vertices Event, Memory, Entity; edges PREMISE (from what a memory rests on to the memory),
-- CAUSE, REFINES, OPPOSES, PARALLEL, NEXT, SOFT_PREMISE, and MENTIONS (memory to entity). Properties
-- are id (event_id, memory_id, entity_id; of an edge its justification or edge) and tenant_id.
-- p_params: an object; its values are $name in the question and never part of its text.
-- Returns one JSON value a row: the column where there is one, else an array of the columns; return
-- a map to name them. A vertex comes with what it stands for (text: its first 1,000 characters), an
-- edge with its two ends, a path as an array of both in turn. A row with something the caller may
-- not see is left out. Operators only (MD303). Raises MD001 for what is not a question or what AGE
-- does not understand, MD401, MD405 (the graph is off or must be rebuilt), MD101. Cost: AGE's; it
-- reads whole labels, and a path of variable length first loads the graph into the session's
-- memory. Set statement_timeout.
create or replace function memdb.cypher (
  p_tenant integer,
  p_query  text,
  p_params jsonb default '{}'
)
  returns table (result jsonb)
  language plpgsql stable rows 100
as $$
declare
  v_labels jsonb;
begin
  perform memdb._authorize(p_tenant, false);
  perform memdb._require_operator();
  perform memdb._require_graph();
  perform memdb._check_cypher(p_query, p_params);
  v_labels := memdb._graph_label_ids();
  return query
    select memdb._graph_shown(p_tenant, case when jsonb_array_length(a.answer) = 1 then a.answer -> 0 else a.answer end, v_labels)
      from memdb._run_cypher(p_tenant, p_query, p_params) a (answer)
     where not memdb._graph_hides(p_tenant, a.answer);
end $$;
comment on function memdb.cypher (integer, text, jsonb) is 'Ask the graph of a tenant in Cypher; reads only.';

-- _graph_label_ids: the vertex labels by the number AGE gave them.
create or replace function memdb._graph_label_ids ()
  returns jsonb
  language plpgsql stable security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
begin
  return (select jsonb_object_agg(ag_catalog._label_id('memdb_graph', l.label::name)::integer, l.label)
            from memdb._graph_labels() l where l.kind = 'vertex');
end $$;
comment on function memdb._graph_label_ids () is 'The vertex labels by the number AGE gave them.';

-- _graph_wanted: what the tables say a label of the graph must hold for a tenant.
--
-- entry is its number under the label (of a mention 0), ends are as AGE writes them, own is the
-- property id.
create or replace function memdb._graph_wanted (p_tenant integer, p_label text)
  returns table (entry bigint, from_end bigint, to_end bigint, own bigint)
  language plpgsql stable rows 1000
as $$
declare
  v_event  bigint := ag_catalog._label_id('memdb_graph', 'Event')::integer;
  v_memory bigint := ag_catalog._label_id('memdb_graph', 'Memory')::integer;
  v_entity bigint := ag_catalog._label_id('memdb_graph', 'Entity')::integer;
begin
  return query
    select v.id, null::bigint, null::bigint, v.id from memdb._graph_vertices(p_tenant) v where v.label = p_label
    union all
    select coalesce(e.entry, 0), (case e.from_label when 'Event' then v_event else v_memory end << 48) | e.from_id,
           (case e.to_label when 'Entity' then v_entity else v_memory end << 48) | e.to_id, e.id
      from memdb._graph_edges(p_tenant) e where e.label = p_label;
end $$;
comment on function memdb._graph_wanted (integer, text) is 'What the tables say a label of the graph must hold for a tenant.';

-- _graph_found: what a label of the graph holds for a tenant, in the same form.
create or replace function memdb._graph_found (p_tenant integer, p_label text)
  returns table (entry bigint, from_end bigint, to_end bigint, own bigint)
  language plpgsql stable rows 1000
as $$
declare
  v_is_edge boolean := (select l.kind = 'edge' from memdb._graph_labels() l where l.label = p_label);
begin
  return query execute format(
    'select case when %L then 0 else ag_catalog.graphid_to_agtype(g.id)::bigint & 281474976710655 end, %s,
            ag_catalog.agtype_access_operator(g.properties, ''"id"''::ag_catalog.agtype)::bigint
       from memdb_graph.%I g
      where ag_catalog.agtype_access_operator(g.properties, ''"tenant_id"''::ag_catalog.agtype)::bigint = $1',
    p_label = 'MENTIONS',
    case when v_is_edge then 'ag_catalog.graphid_to_agtype(g.start_id)::bigint, ag_catalog.graphid_to_agtype(g.end_id)::bigint'
         else 'null::bigint, null::bigint' end, p_label) using p_tenant;
end $$;
comment on function memdb._graph_found (integer, text) is 'What a label of the graph holds for a tenant, in the same form.';

-- _lens_drift: where the graph differs from the tables, for one tenant.
--
-- One row per vertex or edge: its label as kind, the id of its row (of a mention the memory), and
-- what is wrong. Nothing where the graph is off. Cost: reads the tenant's rows, and the graph whole.
create or replace function memdb._lens_drift (p_tenant integer)
  returns table (kind text, id bigint, problem text)
  language plpgsql stable security definer rows 100
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_label text;
begin
  perform memdb._authorize(p_tenant, false);
  if not memdb._graph_is_on() then
    return;
  elsif not memdb._graph_is_alive() then
    return query select 'graph', null::bigint, 'it is not the graph memdb built';
    return;
  end if;
  for v_label in select l.label from memdb._graph_labels() l loop
    return query
      with wanted as materialized (select * from memdb._graph_wanted(p_tenant, v_label)),
           found as materialized (select * from memdb._graph_found(p_tenant, v_label)),
           missing as (select * from wanted except all select * from found),
           surplus as (select * from found except all select * from wanted)
      select v_label, coalesce(m.own, m.from_end & 281474976710655), 'missing in the graph' from missing m
      union all
      select v_label, coalesce(s.own, s.from_end & 281474976710655, s.entry), 'not in the tables' from surplus s;
  end loop;
end $$;
comment on function memdb._lens_drift (integer) is 'Where the graph differs from the tables, for one tenant.';

-- _lens_repair: build a tenant's part of the graph anew; the whole graph where it is not ours.
create or replace function memdb._lens_repair (p_tenant integer)
  returns void
  language plpgsql volatile security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_label text;
begin
  perform memdb._authorize(p_tenant, true);
  perform memdb._require_operator();
  if not memdb._graph_is_alive() then
    perform memdb._build_graph();
    return;
  end if;
  perform memdb._lock_graph();
  -- A vertex whose tenant is wrong is in the way of the right one: it goes by its id.
  for v_label in select l.label from memdb._graph_labels() l loop
    execute format(
      'delete from memdb_graph.%1$I g
        where ag_catalog.agtype_access_operator(g.properties, ''"tenant_id"''::ag_catalog.agtype)::bigint = $1
           or g.id operator(ag_catalog.=) any (array(
                select ag_catalog._graphid(ag_catalog._label_id(''memdb_graph'', %1$L)::integer, v.id)
                  from memdb._graph_vertices($1) v where v.label = %1$L))', v_label) using p_tenant;
    perform memdb._fill_label(p_tenant, v_label);
  end loop;
end $$;
comment on function memdb._lens_repair (integer) is 'Build a tenant''s part of the graph anew; the whole graph where it is not ours.';

-- _audit_graph: whether the graph shows what the tables hold, for check_consistency.
create or replace function memdb._audit_graph (p_tenant integer, p_repair boolean)
  returns table (problem text, found bigint, repaired bigint, examples bigint[], remedy text)
  language plpgsql volatile rows 1
as $$
declare
  v_ids bigint[] := array(select d.id from memdb._lens_drift(p_tenant) d order by d.kind, d.id);
begin
  if p_repair and v_ids <> '{}' then
    perform memdb._lens_repair(p_tenant);
  end if;
  return query select * from memdb._finding('vertices and edges of the graph that differ from the tables', v_ids, p_repair,
    'Repair builds this tenant''s part anew; rebuild_graph all of it.');
end $$;
comment on function memdb._audit_graph (integer, boolean) is 'Whether the graph shows what the tables hold, for check_consistency.';
