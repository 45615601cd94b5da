-- The largest weight of a lexeme was kept and never used: recall finds its threshold in two passes.
alter table memdb.lexeme_stat drop column max_weight;
comment on table memdb.lexeme_stat is 'How many current versions of a namespace hold a lexeme.';
