-- Rights: the last file, and the whole list of who may touch what.
--
-- Everything is taken away first and given by name after, so what is forgotten here cannot be
-- used at all. memdb_operator is a member of memdb_writer, and that of memdb_reader: each holds
-- what the one before it holds. Rights on tables are rights to read; rows are cut by row security.

do $$
declare
  v_role name;
begin
  revoke all on all routines in schema memdb from public;
  revoke all on all tables in schema memdb from public;
  revoke all on schema memdb from public;
  foreach v_role in array array['memdb_reader', 'memdb_writer', 'memdb_operator', 'memdb_service'] loop
    execute format('revoke all on all routines in schema memdb from %I', v_role);
    execute format('revoke all on all tables in schema memdb from %I', v_role);
  end loop;
end $$;

grant usage on schema memdb to memdb_reader, memdb_service;

-- Content, and the views over it. Not premise, edge, mention, entity_alias, embedding, queues and
-- statistics: they hold ids and words of namespaces the reader may not see; functions read them.
grant select on
  memdb.schema_info, memdb.tenant, memdb.namespace, memdb.session, memdb.event, memdb.memory, memdb.memory_version,
  memdb.belief, memdb.entity, memdb.topic, memdb.embedding_model, memdb.assertion, memdb.assessment, memdb.review_item,
  memdb.expiry, memdb.shown_memory, memdb.shown_memory_version, memdb.shown_event, memdb.shown_entity, memdb.memories, memdb.memory_versions, memdb.events, memdb.entities, memdb.open_conflicts
  to memdb_reader;

-- What an administrator needs beside that to look into a tenant.
grant select on
  memdb.role_tenant, memdb.agent_grant, memdb.policy, memdb.extraction, memdb.justification, memdb.premise, memdb.edge,
  memdb.entity_alias, memdb.mention, memdb.memory_topic, memdb.recall, memdb.model_call, memdb.model_usage, memdb.summary, memdb.summary_queue,
  memdb.memory_use, memdb.job, memdb.job_run, memdb.golden_query, memdb.rederivation, memdb.audit, memdb.erasure_receipt, memdb.legal_hold, memdb.cold_file
  to memdb_operator;

-- Functions. A name without a function yet is skipped: files are added one by one, the list is whole.
do $$
declare
  v_grant record;
begin
  for v_grant in
    select p.oid::regprocedure as routine, g.role
      from (values
        -- named by row-security policies, which run them as the reader
        ('_grants', 'memdb_reader'), ('bound_tenants', 'memdb_reader'), ('bound_namespaces', 'memdb_reader'),
        -- called as the reader or writer by functions that run with the caller's rights
        ('_authorize', 'memdb_reader'), ('_caller', 'memdb_reader'), ('_claim_embeddings', 'memdb_writer'),
        ('_conflicting', 'memdb_reader'), ('_group_lines', 'memdb_reader'), ('_topics_of', 'memdb_reader'), ('_context_line', 'memdb_reader'), ('_count_context', 'memdb_reader'),
        ('_cut_line', 'memdb_reader'), ('_quoted', 'memdb_reader'),
        ('_cut_tokens', 'memdb_reader'), ('_estimate_tokens', 'memdb_reader'), ('_facts_before', 'memdb_reader'),
        ('_named_session', 'memdb_reader'), ('_first_turn', 'memdb_reader'), ('_last_turns', 'memdb_reader'),
        ('_shown_text', 'memdb_reader'), ('_summary_before', 'memdb_reader'), ('_summary_key', 'memdb_reader'),
        ('_summary_material', 'memdb_reader'), ('_summary_subject', 'memdb_reader'),
        ('_explain_sources', 'memdb_reader'), ('_explained_version', 'memdb_reader'), ('_list_states', 'memdb_reader'),
        ('_made_below', 'memdb_reader'), ('_made_of_events', 'memdb_reader'), ('_prov_agent', 'memdb_reader'),
        ('_prov_derivations', 'memdb_reader'), ('_prov_document', 'memdb_reader'), ('_prov_events', 'memdb_reader'),
        ('_prov_id', 'memdb_reader'), ('_prov_invalidations', 'memdb_reader'), ('_prov_time', 'memdb_reader'),
        ('_prov_type', 'memdb_reader'), ('_prov_versions', 'memdb_reader'),
        ('_read_states', 'memdb_reader'),
        ('_session_named', 'memdb_reader'), ('_trace_rows', 'memdb_reader'), ('_then', 'memdb_reader'), ('_version_fields', 'memdb_reader'),
        ('_version_status', 'memdb_reader'),
        ('_health_rules', 'memdb_reader'), ('_database_figures', 'memdb_reader'), ('_health_values', 'memdb_reader'),
        ('_is_erasing', 'memdb_reader'), ('_is_hidden', 'memdb_reader'), ('_is_operator', 'memdb_reader'), ('_log_recall', 'memdb_reader'), ('_premise_rows', 'memdb_reader'),
        ('_raise', 'memdb_reader'), ('_profile_ids', 'memdb_reader'), ('user_profile', 'memdb_reader'), ('_readable', 'memdb_reader'), ('_cached_candidates', 'memdb_reader'), ('_recall_candidates', 'memdb_reader'),
        ('_recall_factors', 'memdb_reader'), ('_recall_fate', 'memdb_reader'), ('_recall_sources', 'memdb_reader'),
        ('_reason_clusters', 'memdb_reader'), ('_support_rows', 'memdb_reader'), ('_kept_expansion', 'memdb_reader'),
        -- reading
        ('build_context', 'memdb_reader'), ('mark_used', 'memdb_reader'), ('explain_recall', 'memdb_reader'),
        ('current_time', 'memdb_reader'), ('diff_versions', 'memdb_reader'), ('earlier_events', 'memdb_reader'), ('effective_policy', 'memdb_reader'), ('expand_related', 'memdb_reader'),
        ('explain_memory', 'memdb_reader'), ('explain_memory_json', 'memdb_reader'), ('explain_writing', 'memdb_reader'), ('review_items', 'memdb_reader'), ('export_prov', 'memdb_reader'), ('find_tenant', 'memdb_reader'),
        ('fold_query', 'memdb_reader'), ('keyword_text_v2', 'memdb_reader'), ('folded_text_v1', 'memdb_reader'), ('spaceless_pairs_v1', 'memdb_reader'), ('_own_words', 'memdb_reader'), ('_points_back', 'memdb_reader'), ('get_memory', 'memdb_reader'), ('list_events', 'memdb_reader'), ('export_memories', 'memdb_reader'), ('health', 'memdb_reader'),
        ('known_events', 'memdb_reader'), ('memory_life', 'memdb_reader'), ('policy_presets', 'memdb_reader'), ('list_embedding_models', 'memdb_reader'),
        ('list_memories', 'memdb_reader'), ('list_topics', 'memdb_reader'), ('memory_as_of', 'memdb_reader'), ('memory_history', 'memdb_reader'),
        ('neighbours', 'memdb_reader'), ('open_conflicts', 'memdb_reader'), ('read_turns', 'memdb_reader'),
        ('replay_session', 'memdb_reader'),
        ('trace_memory', 'memdb_reader'), ('recall', 'memdb_reader'), ('query_entities', 'memdb_reader'),
        ('model_budgets', 'memdb_reader'), ('model_spend', 'memdb_reader'), ('session_context', 'memdb_reader'),
        ('summary_material', 'memdb_reader'),
        ('nearest_memories', 'memdb_reader'), ('list_golden_queries', 'memdb_reader'), ('check_chains', 'memdb_reader'),
        ('measure_use', 'memdb_reader'),
        ('find_items', 'memdb_reader'), ('list_items', 'memdb_reader'), ('list_item_namespaces', 'memdb_reader'),
        ('list_session_events', 'memdb_reader'), ('_filter_flaw', 'memdb_reader'), ('_match_flaw', 'memdb_reader'),
        ('_meets', 'memdb_reader'), ('_lies_below', 'memdb_reader'), ('_labels_match', 'memdb_reader'),
        -- writing
        ('add_premises', 'memdb_writer'), ('append_events', 'memdb_writer'), ('claim_events', 'memdb_writer'),
        ('claim_rederivations', 'memdb_writer'), ('complete_rederivations', 'memdb_writer'),
        ('fail_rederivation', 'memdb_writer'), ('ask_rederivations', 'memdb_writer'), ('rederivation_material', 'memdb_writer'), ('rollback_memory', 'memdb_writer'),
        ('decide_review', 'memdb_writer'), ('reopen_review', 'memdb_writer'), ('resolve_conflict', 'memdb_writer'),
        ('find_candidates', 'memdb_writer'), ('hold_truth', 'memdb_writer'), ('_candidates', 'memdb_writer'), ('record_assertions', 'memdb_writer'),
        ('record_assessments', 'memdb_writer'), ('request_reviews', 'memdb_writer'),
        ('complete_events', 'memdb_writer'), ('compose_passages', 'memdb_writer'), ('correct_event', 'memdb_writer'),
        ('due_summaries', 'memdb_writer'), ('open_model_call', 'memdb_writer'), ('record_model_call', 'memdb_writer'),
        ('record_summary', 'memdb_writer'),
        ('extend_lease', 'memdb_writer'), ('fail_event', 'memdb_writer'), ('failed_events', 'memdb_writer'),
        ('retry_events', 'memdb_writer'), ('enqueue_embeddings', 'memdb_writer'),
        ('fail_embedding', 'memdb_writer'), ('fold_keyword_stats', 'memdb_writer'),
        ('merge_entities', 'memdb_writer'), ('pending_embeddings', 'memdb_writer'),
        ('record_embeddings', 'memdb_writer'), ('refresh_topics', 'memdb_writer'), ('trim_recall_cache', 'memdb_writer'), ('record_memories', 'memdb_writer'),
        ('activate_embedding_model', 'memdb_writer'), ('register_embedding_model', 'memdb_writer'), ('relate_memories', 'memdb_writer'),
        ('restore_archived', 'memdb_writer'), ('due_profiles', 'memdb_writer'), ('record_profile', 'memdb_writer'),
        ('refresh_profiles', 'memdb_writer'), ('restore_event', 'memdb_writer'), ('restore_memory', 'memdb_writer'), ('retract_event', 'memdb_writer'),
        ('retract_memory', 'memdb_writer'), ('supersede_memory', 'memdb_writer'),
        ('set_expiry', 'memdb_writer'), ('renew_expiry', 'memdb_writer'), ('sweep_expired', 'memdb_writer'),
        ('archive_memories', 'memdb_writer'), ('fade_due', 'memdb_writer'), ('fold_uses', 'memdb_writer'),
        ('pin_memory', 'memdb_writer'), ('promote_memories', 'memdb_writer'), ('claim_job', 'memdb_writer'), ('finish_job', 'memdb_writer'),
        ('run_due_jobs', 'memdb_writer'), ('set_golden_query', 'memdb_writer'),
        -- called as the operator by functions that run with its rights
        ('_check_cypher', 'memdb_operator'), ('_graph_end', 'memdb_operator'),
        ('_graph_hides', 'memdb_operator'), ('_graph_is_alive', 'memdb_operator'), ('_graph_is_on', 'memdb_operator'), ('_graph_label_ids', 'memdb_operator'),
        ('_graph_oids', 'memdb_operator'), ('_graph_shown', 'memdb_operator'), ('_has_age_rights', 'memdb_operator'),
        ('_prepare_age', 'memdb_operator'), ('_rebuild_graph', 'memdb_operator'), ('_require_graph', 'memdb_operator'), ('_require_operator', 'memdb_operator'),
        ('_run_cypher', 'memdb_operator'), ('_unbuild_graph', 'memdb_operator'),
        -- the HTTP service, of itself; its requests run as reader, writer or operator
        ('find_api_key', 'memdb_service'), ('service_state', 'memdb_service'), ('touch_api_keys', 'memdb_service'),
        ('close_request', 'memdb_writer'), ('find_request', 'memdb_writer'), ('keep_answer', 'memdb_writer'),
        -- administering
        ('sample_queries', 'memdb_operator'), ('create_api_key', 'memdb_operator'), ('list_api_keys', 'memdb_operator'), ('list_audit', 'memdb_operator'),
        ('revoke_api_key', 'memdb_operator'), ('rotate_api_key', 'memdb_operator'),
        ('drop_embedding_model', 'memdb_operator'), ('vector_index_plan', 'memdb_operator'), ('vector_index_progress', 'memdb_operator'),
        ('cypher', 'memdb_operator'), ('rebuild_graph', 'memdb_operator'), ('switch_graph', 'memdb_operator'),
        ('_keep', 'memdb_operator'), ('_refused', 'memdb_operator'), ('_require_operator', 'memdb_operator'),
        ('_say', 'memdb_operator'), ('_scratch_tenant', 'memdb_operator'), ('_verify_cascade', 'memdb_operator'),
        ('_verify_consistency', 'memdb_operator'), ('_verify_past', 'memdb_operator'), ('_verify_walls', 'memdb_operator'),
        ('export_cold', 'memdb_operator'), ('register_cold_file', 'memdb_operator'), ('cold_files', 'memdb_operator'),
        ('restore_cold', 'memdb_operator'), ('replace_cold_file', 'memdb_operator'), ('cold_versions', 'memdb_reader'),
        ('apply_retention', 'memdb_operator'), ('retention_report', 'memdb_operator'), ('continue_erasures', 'memdb_operator'), ('erasure_receipts', 'memdb_operator'), ('forget', 'memdb_operator'),
        ('set_legal_hold', 'memdb_operator'), ('verify_erasure', 'memdb_operator'),
        ('check_consistency', 'memdb_operator'), ('table_fingerprints', 'memdb_operator'), ('verify_tenant', 'memdb_operator'), ('create_tenant', 'memdb_operator'), ('grant_agent', 'memdb_operator'), ('grant_role', 'memdb_operator'),
        ('admit_role', 'memdb_operator'), ('list_roles', 'memdb_operator'), ('revoke_role', 'memdb_operator'),
        ('list_jobs', 'memdb_operator'), ('vacuum_plan', 'memdb_operator'), ('apply_preset', 'memdb_operator'), ('schedule_job', 'memdb_operator'), ('schedule_cron', 'memdb_operator'),
        ('unschedule_cron', 'memdb_operator'), ('work_off_jobs', 'memdb_operator'), ('switch_recall_cache', 'memdb_operator'), ('set_namespace', 'memdb_operator'), ('set_policy', 'memdb_operator')) g (name, role)
      join pg_proc p on p.pronamespace = 'memdb'::regnamespace and p.proname = g.name
  loop
    execute format('grant execute on routine %s to %I', v_grant.routine, v_grant.role);
  end loop;
end $$;
