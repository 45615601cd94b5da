-- 0016_named: entities found by the words of a query.

-- A query knows its words, not the namespace; and words that are nearly a spelling begin as it does.
create index entity_alias_alias_idx on memdb.entity_alias (tenant_id, alias text_pattern_ops);
