-- The cluster of a hit: the premises that support it, down to the events.
--
-- Candidates by definer, content through security: _support_rows walks premises the caller cannot
-- read itself and gives back ids, those of hidden sources left out; _reason_clusters joins the
-- words under the caller's own row security.

-- _support_rows: the premises that support some memory versions, as ids, each derivation once.
--
-- Only the justification a conclusion stands on is followed; with p_belief_at those that held
-- then. p_versions goes beside p_memory_ids; null (the array or an entry) means the current one.
-- All hits are walked at once, a wave a depth, and what was met is not walked again: a conclusion
-- belongs to the hit nearest to it (hit_id), of equally near ones to the first given. So loops
-- end, and a chain that hits share is read once. Nothing is followed below a hidden source, and
-- no wave begins once p_most conclusions were met: is_cut marks premises whose own reasons were
-- left out for that. Given memories the caller may not read vanish. Cost: look-ups by key for
-- each conclusion met.
create or replace function memdb._support_rows (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_versions   integer[]   default null,
  p_agent      text        default null,
  p_belief_at  timestamptz default null,
  p_most       integer     default 2000
)
  returns table (
    hit_id bigint, depth integer, conclusion_id bigint, conclusion_version integer, justification_id bigint,
    ordinal smallint, method text, is_hidden boolean, is_cut boolean, event_id bigint, span_from integer,
    span_to integer, memory_id bigint, memory_version integer)
  language plpgsql stable security definer rows 50
  set search_path = pg_catalog, memdb, pg_temp
as $$
declare
  v_namespaces integer[];
  v_met        record;
  v_from       integer := 1;
  v_next       record;
begin
  perform memdb._authorize(p_tenant, false);
  v_namespaces := memdb._readable(p_tenant, null, p_agent);
  select array_agg(g.memory_id order by g.place) as ids, array_agg(g.version order by g.place) as versions,
         array_agg(g.memory_id order by g.place) as hits, array_agg(1 order by g.place) as depths
    into v_met
    from (select distinct on (m.memory_id) m.memory_id, coalesce(a.version, m.version) as version, a.place
            from unnest(p_memory_ids, p_versions) with ordinality a (memory_id, version, place)
            join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = a.memory_id
           where v_namespaces is null or m.namespace_id = any (v_namespaces)
           order by m.memory_id, a.place) g;
  while v_from <= cardinality(v_met.ids) and cardinality(v_met.ids) < p_most loop
    select array_agg(n.memory_id order by n.place, n.memory_id) as ids,
           array_agg(n.memory_version order by n.place, n.memory_id) as versions,
           array_agg(n.hit order by n.place, n.memory_id) as hits,
           array_agg(n.depth order by n.place, n.memory_id) as depths
      into v_next
      from (select distinct on (p.memory_id, p.memory_version) p.memory_id, p.memory_version, f.hit, f.depth + 1 as depth, f.place
              from unnest(v_met.ids[v_from:], v_met.versions[v_from:], v_met.hits[v_from:], v_met.depths[v_from:])
                   with ordinality f (memory_id, version, hit, depth, place)
              cross join lateral memdb._support_of(p_tenant, f.memory_id, f.version, p_belief_at) p
              join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = p.memory_id
             where (v_namespaces is null or m.namespace_id = any (v_namespaces))
               and not exists (select from unnest(v_met.ids, v_met.versions) s (id, version)
                                where s.id = p.memory_id and s.version = p.memory_version)
             order by p.memory_id, p.memory_version, f.place) n;
    v_from := cardinality(v_met.ids) + 1;
    v_met.ids := v_met.ids || v_next.ids;
    v_met.versions := v_met.versions || v_next.versions;
    v_met.hits := v_met.hits || v_next.hits;
    v_met.depths := v_met.depths || v_next.depths;
  end loop;
  return query
    select c.hit, c.depth, c.memory_id, c.version, p.justification_id, p.ordinal, p.method, h.is_hidden,
           not h.is_hidden and c.place >= v_from and p.memory_id is not null,
           case when not h.is_hidden then p.event_id end, case when not h.is_hidden then p.span_from end,
           case when not h.is_hidden then p.span_to end, case when not h.is_hidden then p.memory_id end,
           case when not h.is_hidden then p.memory_version end
      from unnest(v_met.ids, v_met.versions, v_met.hits, v_met.depths) with ordinality c (memory_id, version, hit, depth, place)
      cross join lateral memdb._support_of(p_tenant, c.memory_id, c.version, p_belief_at) p
      left join memdb.event e on e.tenant_id = p_tenant and e.event_id = p.event_id
      left join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = p.memory_id
      cross join lateral (
        select not coalesce(coalesce(e.namespace_id, m.namespace_id) = any (v_namespaces), v_namespaces is null)) h (is_hidden)
     order by c.place, p.justification_id, p.ordinal;
end $$;
comment on function memdb._support_rows (integer, bigint[], integer[], text, timestamptz, integer) is 'The premises that support some memory versions, as ids, each derivation once.';

-- _support_of: the premises of the justification one memory version stands on, or of those that held at a time.
create or replace function memdb._support_of (p_tenant integer, p_memory bigint, p_version integer, p_belief_at timestamptz)
  returns table (
    justification_id bigint, method text, ordinal smallint, event_id bigint, span_from integer, span_to integer,
    memory_id bigint, memory_version integer)
  language sql stable rows 4
begin atomic
  select j.justification_id, j.method, p.ordinal, p.event_id, p.span_from, p.span_to, p.memory_id, p.memory_version
    from memdb.justification j
    join memdb.premise p
      on p.tenant_id = p_tenant and p.justification_id = j.justification_id
     and (p_belief_at is null or p.added_at is null or p.added_at <= p_belief_at)
   where j.tenant_id = p_tenant and j.memory_id = p_memory and j.version = p_version
     and case when p_belief_at is null then j.supports
              else j.recorded_at <= p_belief_at and memdb._held(p_tenant, j.justification_id, p_belief_at) end;
end;
comment on function memdb._support_of (integer, bigint, integer, timestamptz) is 'The premises of the justification one memory version stands on, or of those that held at a time.';

-- _reason_clusters: for each of some memories, the complete chain of premises that supports it, told once.
--
-- What recall puts into reasons for p_expand => 'reasons'. One JSON array a memory, nearest premises first:
-- {depth, of, justification_id, method} and what was used: {event_id, kind, speaker, session,
-- occurred_at, quote}, {memory_id, version, type, status, text}, or {hidden: true} for a source the
-- caller (or p_agent) may not read. depth 1 is what the memory itself rests on; of names the
-- memory the premise supports. A chain that several of the memories share is given under the one nearest to
-- it; elsewhere the premise says told_under that one. At most p_most premises a memory: the last
-- entry {more: n} counts the rest, and cut: true marks a premise whose own reasons were not read.
-- Texts are cut at 1,000 characters. p_versions and p_belief_at as in _support_rows. Runs as the
-- caller. Cost: that of _support_rows, and a look-up by key for each premise told.
create or replace function memdb._reason_clusters (
  p_tenant     integer,
  p_memory_ids bigint[],
  p_versions   integer[]   default null,
  p_agent      text        default null,
  p_belief_at  timestamptz default null,
  p_most       integer     default 100
)
  returns table (memory_id bigint, reasons jsonb)
  language plpgsql volatile rows 10
as $$
declare
  v_kept jsonb := memdb._kept_expansion(p_tenant, 'reasons',
    jsonb_build_array(p_memory_ids, p_versions, p_belief_at), p_agent);
begin
  return query
  with premise as materialized (
    select s.*, row_number() over (partition by s.hit_id order by s.place) as number
      from (select s.*
              from memdb._support_rows(p_tenant, p_memory_ids, p_versions, p_agent, p_belief_at)
                   with ordinality s (hit_id, depth, conclusion_id, conclusion_version, justification_id, ordinal, method,
                                      is_hidden, is_cut, event_id, span_from, span_to, memory_id, memory_version, place)
             where v_kept is null
            union all
            select k.*
              from jsonb_to_recordset(v_kept) k (hit_id bigint, depth integer, conclusion_id bigint, conclusion_version integer,
                     justification_id bigint, ordinal smallint, method text, is_hidden boolean, is_cut boolean, event_id bigint,
                     span_from integer, span_to integer, memory_id bigint, memory_version integer, place bigint)) s),
  conclusion as (
    select distinct p.conclusion_id, p.conclusion_version, p.hit_id from premise p),
  told as (
    select p.hit_id, p.number, jsonb_strip_nulls(
             jsonb_build_object('depth', p.depth, 'of', p.conclusion_id, 'justification_id', p.justification_id, 'method', p.method)
             || case when e.event_id is not null then jsonb_build_object(
                       'event_id', e.event_id, 'kind', e.kind, 'speaker', e.speaker, 'session', s.external_id,
                       'occurred_at', e.occurred_at,
                       'quote', case when p.span_from is not null then substring(e.text from p.span_from + 1 for p.span_to - p.span_from)
                                     else left(coalesce(nullif(e.text, ''), e.output::text, e.input::text), 1000) end)
                     when v.memory_id is not null then jsonb_build_object(
                       'memory_id', v.memory_id, 'version', v.version, 'type', coalesce(v.replaced ->> 'type', m.type),
                       'status', case when p_belief_at is null and v.version = m.version then m.status
                                      else memdb._version_status(p_tenant, v.memory_id, v.version, coalesce(p_belief_at, 'infinity')) end,
                       'text', left(v.text, 1000), 'told_under', nullif(c.hit_id, p.hit_id),
                       'cut', case when p.is_cut then true end)
                     else jsonb_build_object('hidden', true) end) as item
      from premise p
      left join memdb.event e on e.tenant_id = p_tenant and e.event_id = p.event_id
      left join memdb.session s on s.tenant_id = p_tenant and s.session_id = e.session_id
      left join memdb.memory m on m.tenant_id = p_tenant and m.memory_id = p.memory_id
      left join memdb.memory_version v
        on v.tenant_id = p_tenant and v.memory_id = p.memory_id and v.version = p.memory_version
      left join conclusion c on c.conclusion_id = p.memory_id and c.conclusion_version = p.memory_version
     where p.number <= p_most)
  select t.hit_id, jsonb_agg(t.item order by t.number)
         || coalesce((select jsonb_build_array(jsonb_build_object('more', count(*) - p_most))
                        from premise p where p.hit_id = t.hit_id having count(*) > p_most), '[]')
    from told t
   group by t.hit_id;
end $$;
comment on function memdb._reason_clusters (integer, bigint[], integer[], text, timestamptz, integer) is 'For each of some memories, the complete chain of premises that supports it, told once.';
