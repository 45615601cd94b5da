-- uninstall: drop schema memdb and everything in it, and nothing outside it but its own graph.
--
-- `cascade` would also drop a customer's view or foreign key that rests on memdb, so
-- that is looked for first and refused. Roles stay: they belong to the whole cluster and
-- other databases may use them. The extension stays too.
do $$
declare
  v_outside text[];
begin
  if to_regnamespace('memdb') is null then
    return;
  end if;
  with inside as (
    select 'pg_class'::regclass as classid, c.oid as objid from pg_class c where c.relnamespace = 'memdb'::regnamespace
    union all
    select 'pg_proc'::regclass, p.oid from pg_proc p where p.pronamespace = 'memdb'::regnamespace
    union all
    select 'pg_type'::regclass, t.oid from pg_type t where t.typnamespace = 'memdb'::regnamespace
  ),
  dependent as (
    select d.classid, d.objid, d.objsubid,
           coalesce(c.relnamespace, vc.relnamespace, p.pronamespace, k.connamespace, gc.relnamespace,
                    ac.relnamespace, pc.relnamespace, t.typnamespace) as schema_oid
      from pg_depend d
      join inside i on i.classid = d.refclassid and i.objid = d.refobjid
      left join pg_class c      on d.classid = 'pg_class'::regclass      and c.oid = d.objid
      left join pg_rewrite v    on d.classid = 'pg_rewrite'::regclass    and v.oid = d.objid
      left join pg_class vc     on vc.oid = v.ev_class
      left join pg_proc p       on d.classid = 'pg_proc'::regclass       and p.oid = d.objid
      left join pg_constraint k on d.classid = 'pg_constraint'::regclass and k.oid = d.objid
      left join pg_trigger g    on d.classid = 'pg_trigger'::regclass    and g.oid = d.objid
      left join pg_class gc     on gc.oid = g.tgrelid
      left join pg_attrdef a    on d.classid = 'pg_attrdef'::regclass    and a.oid = d.objid
      left join pg_class ac     on ac.oid = a.adrelid
      left join pg_policy o     on d.classid = 'pg_policy'::regclass     and o.oid = d.objid
      left join pg_class pc     on pc.oid = o.polrelid
      left join pg_type t       on d.classid = 'pg_type'::regclass       and t.oid = d.objid
     where d.deptype in ('n', 'a')
  )
  select array_agg(distinct pg_describe_object(d.classid, d.objid, d.objsubid))
    into v_outside
    from dependent d
   where d.schema_oid not in ('memdb'::regnamespace, 'pg_toast'::regnamespace);
  if v_outside is not null then
    raise exception 'objects outside schema memdb rest on it'
      using errcode = 'MD206',
            detail  = jsonb_build_object('objects', v_outside)::text,
            hint    = 'Drop them first, or change them so that they no longer use memdb.';
  end if;
  set local role memdb_owner;
  if to_regprocedure('memdb._graph_is_alive()') is not null then
    if memdb._graph_is_alive() then
      perform memdb._drop_graph();
    end if;
  end if;
  drop schema memdb cascade;
exception
  when insufficient_privilege then
    raise exception 'only a member of memdb_owner may uninstall memdb'
      using errcode = 'MD402',
            hint    = format('As an administrator: grant memdb_owner to %I;', session_user);
end $$;

select r.rolname as role_kept
  from pg_roles r
 where r.rolname in ('memdb_owner', 'memdb_reader', 'memdb_writer', 'memdb_operator', 'memdb_service')
 order by r.rolname;
