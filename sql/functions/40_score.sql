-- Scoring: the arithmetic of recall, in functions small enough to be inlined.
--
-- Every constant was chosen on conversations in English and on a year of phone traces in
-- Chinese, one set for both (docs/decisions/0002); none depends on a question.

-- _idf: how much a term says that p_holding of p_documents documents hold.
--
-- ln(1 + (N - n + 0.5) / (n + 0.5)), the Robertson/Sparck Jones weight kept above 0. Statistics
-- lag, so N is taken as at least n.
create or replace function memdb._idf (p_documents double precision, p_holding double precision)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select ln(1 + (greatest(p_documents, p_holding) - p_holding + 0.5) / (p_holding + 0.5));
end;
comment on function memdb._idf (double precision, double precision) is 'How much a term says that p_holding of p_documents documents hold.';

-- _presence: the weight of a term's presence in a document of p_length lexemes: 1 at mean length, more in shorter ones.
--
-- BM25 with b = 0.4, and presence in place of frequency: within a turn of speech a repeated word
-- says no more than one (recall@10 -0.1 in English, +1.1 in Chinese), and presence needs no counting.
create or replace function memdb._presence (p_length double precision, p_mean double precision)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select 1 / (0.6 + 0.4 * p_length / p_mean);
end;
comment on function memdb._presence (double precision, double precision) is 'The weight of a term''s presence in a document of p_length lexemes: 1 at mean length, more in shorter ones.';

-- _saturate: BM25's law of diminishing returns, (k1 + 1) x / (k1 + x) with k1 = 0.9.
create or replace function memdb._saturate (p_weight double precision)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select 1.9 * p_weight / (0.9 + p_weight);
end;
comment on function memdb._saturate (double precision) is 'BM25''s law of diminishing returns, (k1 + 1) x / (k1 + x) with k1 = 0.9.';

-- _has_metadata: whether what a version was written with contains something. Found by key.
create or replace function memdb._has_metadata (p_tenant integer, p_memory bigint, p_version integer, p_metadata jsonb)
  returns boolean
  language sql stable parallel safe
begin atomic
  select exists (select from memdb.memory_version v
                  where v.tenant_id = p_tenant and v.memory_id = p_memory and v.version = p_version and v.metadata @> p_metadata);
end;
comment on function memdb._has_metadata (integer, bigint, integer, jsonb) is 'Whether what a version was written with contains something. Found by key.';

-- _is_recallable: whether a memory lies in the scope of a recall and passes its filters.
--
-- Null means no restriction. p_user sees its own memories and those without a user. p_statuses
-- holds the wanted statuses; archived memories come only where it also holds 'archive'; what is
-- being forgotten never. p_also:
-- tiers, time, members (of entities or a topic), metadata, and whether anything is being forgotten. Every leg asks this of every row it may
-- return, so a further filter is added here and nowhere else. Plain, so that the planner inlines it.
create or replace function memdb._is_recallable (
  p_memory     memdb.memory,
  p_namespaces integer[],
  p_user       text,
  p_sessions   bigint[],
  p_types      text[],
  p_statuses   text[],
  p_also       memdb._recall_filter default null
)
  returns boolean
  language sql stable parallel safe
begin atomic
  select (p_namespaces is null or (p_memory).namespace_id = any (p_namespaces))
     and (p_user is null or (p_memory).user_id is null or (p_memory).user_id = p_user)
     and (p_sessions is null or (p_memory).session_id = any (p_sessions))
     and (p_types is null or (p_memory).type = any (p_types))
     and (p_memory).status = any (p_statuses)
     and ((p_memory).tier <> 'archive' or 'archive' = any (p_statuses))
     and (p_memory).erasure_id is null
     and ((p_also).hides is null or not memdb._is_listed((p_memory).tenant_id, 'memory', (p_memory).memory_id))
     and ((p_also).tiers is null or (p_memory).tier = any ((p_also).tiers))
     and ((p_also).from_at is null or (p_memory).occurred_at >= (p_also).from_at)
     and ((p_also).to_at is null or (p_memory).occurred_at < (p_also).to_at)
     and ((p_also).members is null or (p_also).members @> (p_memory).memory_id)
     and ((p_also).metadata is null
          or memdb._has_metadata((p_memory).tenant_id, (p_memory).memory_id, (p_memory).version, (p_also).metadata));
end;
comment on function memdb._is_recallable (memdb.memory, integer[], text, bigint[], text[], text[], memdb._recall_filter) is 'Whether a memory lies in the scope of a recall and passes its filters.';

-- The factors of recall: what the odds of a memory are multiplied by, each to the power of its exponent.
--
--   name         factor                                                   from     to  exponent unless set
--   importance   0.75 + importance / 20                                   0.75   1.25  1
--   reliability  0.5 + 0.5 x the lower of confidence and trust             0.5      1  1
--   status       active 1, retracted 0.02, any other 0.1                  0.02      1  1
--   tier         archive 0.5, any other 1, unless set                      0.1     10  1
--   namespace    the weight granted to the agent asking, else 1         over 0     10  1
--   freshness    0.5 + 0.5 x 2 ^ -(age / half-life)                        0.5      1  0
--   centrality   1 + 0.5 x ln(1 + ties) / ln 17, 16 ties at most             1    1.5  0
--   strength     0.5 + 0.5 x strength (19_strength), 1 at most             0.5      1  0
--
-- An exponent is 0 to 4; 0 leaves a factor out. What was measured is in docs/decisions/0017; 54_factor
-- reads them from policy and call.

-- _importance_factor: importance 0 to 10 gives 0.75 to 1.25, neutral at 5.
create or replace function memdb._importance_factor (p_importance real)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select 0.75 + 0.05 * p_importance;
end;
comment on function memdb._importance_factor (real) is 'Importance 0 to 10 gives 0.75 to 1.25, neutral at 5.';

-- _reliability_factor: the lower of confidence and trust, 0 to 1, gives 0.5 to 1.
create or replace function memdb._reliability_factor (p_confidence real, p_trust real)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select 0.5 + 0.5 * least(p_confidence, p_trust);
end;
comment on function memdb._reliability_factor (real, real) is 'The lower of confidence and trust, 0 to 1, gives 0.5 to 1.';

-- _status_factor: what was asked for although it does not hold is put behind what does.
create or replace function memdb._status_factor (p_status text)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select case p_status when 'active' then 1::double precision when 'retracted' then 0.02 else 0.1 end;
end;
comment on function memdb._status_factor (text) is 'What was asked for although it does not hold is put behind what does.';

-- _freshness_factor: how new a memory is: 1 at age 0, half way down to 0.5 after a half-life; both in days.
create or replace function memdb._freshness_factor (p_age double precision, p_half_life double precision)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select 0.5 + 0.5 * power(0.5::double precision, least(greatest(p_age, 0) / p_half_life, 500));
end;
comment on function memdb._freshness_factor (double precision, double precision) is 'How new a memory is: 1 at age 0, half way down to 0.5 after a half-life; both in days.';

-- _centrality_factor: how much hangs together with a memory: 1 without a tie, 1.5 with 16 and more.
create or replace function memdb._centrality_factor (p_ties bigint)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select 1 + 0.5 * ln(1 + least(p_ties, 16)::double precision) / ln(17::double precision);
end;
comment on function memdb._centrality_factor (bigint) is 'How much hangs together with a memory: 1 without a tie, 1.5 with 16 and more.';

-- _strength_factor: how strong a memory is: strength 0 gives 0.5, 1 and more gives 1.
create or replace function memdb._strength_factor (p_strength double precision)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select 0.5 + 0.5 * least(p_strength, 1);
end;
comment on function memdb._strength_factor (double precision) is 'How strong a memory is: strength 0 gives 0.5, 1 and more gives 1.';

-- _memory_factor: what a memory's own qualities multiply its odds by, unless exponents or tiers are set.
create or replace function memdb._memory_factor (
  p_importance real,
  p_confidence real,
  p_trust      real,
  p_status     text,
  p_tier       text
)
  returns double precision
  language sql immutable parallel safe
begin atomic
  select memdb._importance_factor(p_importance) * memdb._reliability_factor(p_confidence, p_trust) * memdb._status_factor(p_status)
       * case p_tier when 'archive' then 0.5::double precision else 1 end;
end;
comment on function memdb._memory_factor (real, real, real, text, text) is 'What a memory''s own qualities multiply its odds by, unless exponents or tiers are set.';
