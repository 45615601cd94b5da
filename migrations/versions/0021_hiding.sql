-- 0021_hiding: what is to be forgotten is hidden by the list, before a row of it is touched.
--
-- The first call of an erasure makes the list and commits; statuses and identity follow in bounded
-- batches. So whoever reads memories asks the list too, while an erasure is under way. A memory that
-- stays is on the list with `stays` until it is parted from what goes, and hidden for so long.

-- Functions that have other arguments now, or are gone: left there, the new ones would not be told from them.
drop function if exists memdb._forget(integer, jsonb, text, boolean);
drop function if exists memdb._hide_erasure(integer, bigint, jsonb, timestamptz);
drop function if exists memdb._is_list_late(integer, bigint, timestamptz);
drop function if exists memdb._last_reason(integer);
drop function if exists memdb._loosen_survivors(integer, bigint, timestamptz);
drop function if exists memdb._take_items(integer, bigint, text, integer, bigint);

alter type memdb._recall_filter add attribute hides boolean;

alter table memdb.erasure_receipt alter column phase set default 'part';

-- _is_hidden: whether an event, a memory or an entity is on the list of an erasure; for row-security policies, while there is one.
--
-- An entity is hidden while only memories mention it that are, for its name came with them.
create or replace function memdb._is_hidden (p_tenant integer, p_subject text, p_subject_id bigint)
  returns boolean
  language sql stable parallel safe security definer
  set search_path = pg_catalog, memdb, pg_temp
as $$
  select exists (select from memdb.erasure_item i
                  where i.tenant_id = p_tenant and i.subject = p_subject and i.subject_id = p_subject_id)
     and (p_subject <> 'entity' or not exists (
           select from memdb.mention n
            where n.tenant_id = p_tenant and n.entity_id = p_subject_id
              and not exists (select from memdb.erasure_item i
                               where i.tenant_id = p_tenant and i.subject = 'memory' and i.subject_id = n.memory_id)))
     and (memdb._is_operator() or exists (select from memdb._grants() g where g.tenant_id = p_tenant));
$$;
comment on function memdb._is_hidden (integer, text, bigint) is 'Whether an event, a memory or an entity is on the list of an erasure; for row-security policies, while there is one.';

alter policy memory_app on memdb.memory
  using ((tenant_id = any ((select memdb.bound_tenants())::integer[])
       or namespace_id = any ((select memdb.bound_namespaces())::integer[]))
     and erasure_id is null and (not (select memdb._is_erasing()) or not memdb._is_hidden(tenant_id, 'memory', memory_id)));
alter policy memory_operator on memdb.memory
  using (erasure_id is null and (not (select memdb._is_erasing()) or not memdb._is_hidden(tenant_id, 'memory', memory_id)));
alter policy entity_app on memdb.entity
  using ((tenant_id = any ((select memdb.bound_tenants())::integer[])
       or namespace_id = any ((select memdb.bound_namespaces())::integer[]))
     and (not (select memdb._is_erasing()) or not memdb._is_hidden(tenant_id, 'entity', entity_id)));
alter policy entity_operator on memdb.entity
  using (not (select memdb._is_erasing()) or not memdb._is_hidden(tenant_id, 'entity', entity_id));
