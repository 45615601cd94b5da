-- A fresh install, as pg_dump 18 writes it; functions by signature only.
-- Rewritten by `make golden`, compared by a test: read its diff in review, never edit it.

CREATE SCHEMA memdb;

COMMENT ON SCHEMA memdb IS 'Long-term memory for agents. Its functions and views are the interface; its tables are private.';

CREATE TYPE memdb._memory_item AS (
	ordinal integer,
	text text,
	type text,
	namespace_id integer,
	user_id text,
	agent_id text,
	external_id text,
	summary text,
	heading text,
	language text,
	importance real,
	confidence real,
	tier text,
	is_pinned boolean,
	valid_from timestamp with time zone,
	valid_to timestamp with time zone,
	occurred_at timestamp with time zone,
	metadata jsonb,
	method text,
	model text,
	vector text,
	entities jsonb,
	edges jsonb,
	content_hash bytea,
	session_id bigint,
	sequence integer,
	event_id bigint,
	trust real
);

COMMENT ON TYPE memdb._memory_item IS 'One checked and completed item of a batch of memories.';

CREATE TYPE memdb._memory_place AS (
	ordinal integer,
	memory_id bigint,
	version integer,
	outcome text
);

COMMENT ON TYPE memdb._memory_place IS 'Which memory and version an item of a batch ended on, and how.';

CREATE TYPE memdb._memory_source AS (
	ordinal integer,
	place smallint,
	event_id bigint,
	span_from integer,
	span_to integer,
	memory_id bigint,
	memory_version integer,
	namespace_id integer,
	session_id bigint,
	sequence integer,
	occurred_at timestamp with time zone,
	time_zone text,
	user_id text,
	agent_id text,
	speaker text,
	language text,
	trust real
);

COMMENT ON TYPE memdb._memory_source IS 'One checked source of one item of a batch of memories.';

CREATE TYPE memdb._recall_filter AS (
	tiers text[],
	from_at timestamp with time zone,
	to_at timestamp with time zone,
	members int8multirange,
	metadata jsonb,
	chosen bigint[],
	hides boolean
);

COMMENT ON TYPE memdb._recall_filter IS 'Further filters of a recall, beside its scope: what a memory must also be to be returned.';

CREATE TYPE memdb._recall_hit AS (
	memory_id bigint,
	version integer,
	event_id bigint,
	score real,
	legs jsonb
);

COMMENT ON TYPE memdb._recall_hit IS 'A hit of recall on its way through the ranking, as ids and numbers.';

CREATE TYPE memdb._recall_weights AS (
	importance double precision,
	reliability double precision,
	status double precision,
	tier double precision,
	namespace double precision,
	freshness double precision,
	centrality double precision,
	strength double precision,
	working double precision,
	short_term double precision,
	long_term double precision,
	archive double precision,
	half_life_days double precision
);

COMMENT ON TYPE memdb._recall_weights IS 'By how much each factor of a recall counts, where not as usual: exponents, what each tier is worth, a half-life.';

CREATE TYPE memdb._truth_change AS (
	subject text,
	subject_id bigint,
	version integer,
	depth integer,
	old_status text,
	new_status text,
	cause text,
	root text,
	root_id bigint
);

COMMENT ON TYPE memdb._truth_change IS 'One event or memory that a correction let fall, lifted or gave a new version.';

CREATE TABLE memdb.edge (
    tenant_id integer NOT NULL,
    edge_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    from_memory_id bigint NOT NULL,
    to_memory_id bigint NOT NULL,
    relation text NOT NULL,
    weight real DEFAULT 1 NOT NULL,
    confidence real DEFAULT 1 NOT NULL,
    origin text DEFAULT 'caller'::text NOT NULL,
    event_id bigint,
    recorded_at timestamp with time zone NOT NULL,
    retired_at timestamp with time zone,
    CONSTRAINT edge_confidence_check CHECK (((confidence >= (0)::double precision) AND (confidence <= (1)::double precision))),
    CONSTRAINT edge_loop_check CHECK ((from_memory_id <> to_memory_id)),
    CONSTRAINT edge_origin_check CHECK ((origin = ANY (ARRAY['caller'::text, 'rule'::text, 'model'::text]))),
    CONSTRAINT edge_recorded_check CHECK ((recorded_at < retired_at)),
    CONSTRAINT edge_relation_check CHECK ((relation = ANY (ARRAY['premise'::text, 'cause'::text, 'refines'::text, 'opposes'::text, 'parallel'::text, 'next'::text]))),
    CONSTRAINT edge_weight_check CHECK (((weight > (0)::double precision) AND (weight <= (1)::double precision)))
);

COMMENT ON TABLE memdb.edge IS 'A soft relation between two memories; fells nothing. Hard premises are in premise, turns of a session in (session, sequence).';

CREATE TABLE memdb.justification (
    tenant_id integer NOT NULL,
    justification_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    memory_id bigint NOT NULL,
    version integer NOT NULL,
    method text NOT NULL,
    confidence real DEFAULT 1 NOT NULL,
    model text,
    supports boolean NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT justification_confidence_check CHECK (((confidence >= (0)::double precision) AND (confidence <= (1)::double precision))),
    CONSTRAINT justification_method_check CHECK ((method = ANY (ARRAY['verbatim'::text, 'template'::text, 'rule'::text, 'model'::text, 'merge'::text, 'summary'::text, 'manual'::text])))
);

COMMENT ON TABLE memdb.justification IS 'One derivation of a memory version: it holds while all of its premises hold; any one justification is enough.';

COMMENT ON COLUMN memdb.justification.supports IS 'Whether this is the one well-founded justification the memory stands on now.';

CREATE TABLE memdb.memory (
    tenant_id integer NOT NULL,
    memory_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    session_id bigint,
    sequence integer,
    version integer DEFAULT 1 NOT NULL,
    user_id text,
    agent_id text,
    type text NOT NULL,
    external_id text,
    content_hash bytea NOT NULL,
    status text DEFAULT 'active'::text NOT NULL,
    tier text DEFAULT 'long_term'::text NOT NULL,
    is_pinned boolean DEFAULT false NOT NULL,
    importance real DEFAULT 5 NOT NULL,
    confidence real DEFAULT 1 NOT NULL,
    trust real DEFAULT 1 NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    fades_at timestamp with time zone,
    use_count integer DEFAULT 0 NOT NULL,
    last_used_at timestamp with time zone,
    is_isolated boolean DEFAULT true NOT NULL,
    erasure_id bigint,
    CONSTRAINT memory_confidence_check CHECK (((confidence >= (0)::double precision) AND (confidence <= (1)::double precision))),
    CONSTRAINT memory_external_check CHECK (((external_id <> ''::text) AND (char_length(external_id) <= 512))),
    CONSTRAINT memory_importance_check CHECK (((importance >= (0)::double precision) AND (importance <= (10)::double precision))),
    CONSTRAINT memory_status_check CHECK ((status = ANY (ARRAY['active'::text, 'stale'::text, 'superseded'::text, 'contradicted'::text, 'retracted'::text]))),
    CONSTRAINT memory_tier_check CHECK ((tier = ANY (ARRAY['working'::text, 'short_term'::text, 'long_term'::text, 'archive'::text]))),
    CONSTRAINT memory_trust_check CHECK (((trust >= (0)::double precision) AND (trust <= (1)::double precision))),
    CONSTRAINT memory_type_check CHECK ((type = ANY (ARRAY['observation'::text, 'reasoning'::text, 'action'::text, 'result'::text, 'fact'::text, 'preference'::text, 'constraint'::text, 'decision'::text, 'summary'::text])))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02');

COMMENT ON TABLE memdb.memory IS 'One memory: the id that stays for life, and its state of today (status, tier, use); what it says is in memory_version.';

COMMENT ON COLUMN memdb.memory.session_id IS 'With sequence: where its first source event stands, so that neighbouring turns are one index range.';

COMMENT ON COLUMN memdb.memory.status IS 'active, stale (a support fell), superseded, contradicted, retracted; unindexed on purpose: a cascade stays a HOT update.';

COMMENT ON COLUMN memdb.memory.trust IS 'Reliability of its best source, 0 to 1; a less trusted source never supersedes a more trusted one.';

COMMENT ON COLUMN memdb.memory.fades_at IS 'Lower bound of the moment its strength crosses the threshold of its tier; null while pinned.';

COMMENT ON COLUMN memdb.memory.is_isolated IS 'Whether nothing live is tied to it, as of the last fold; it then fades faster. A new memory counts as isolated until its ties are folded.';

COMMENT ON COLUMN memdb.memory.erasure_id IS 'The erasure that is about to delete it: no read shows it any more.';

CREATE TABLE memdb.premise (
    tenant_id integer NOT NULL,
    justification_id bigint NOT NULL,
    ordinal smallint NOT NULL,
    namespace_id integer NOT NULL,
    conclusion_id bigint NOT NULL,
    event_id bigint,
    span_from integer,
    span_to integer,
    memory_id bigint,
    memory_version integer,
    supports boolean NOT NULL,
    added_at timestamp with time zone,
    CONSTRAINT premise_source_check CHECK (((event_id IS NULL) <> (memory_id IS NULL))),
    CONSTRAINT premise_span_check CHECK ((((span_from IS NULL) = (span_to IS NULL)) AND ((span_from IS NULL) OR (event_id IS NOT NULL)) AND (span_from >= 0) AND (span_from < span_to))),
    CONSTRAINT premise_version_check CHECK (((memory_id IS NULL) = (memory_version IS NULL)))
);

COMMENT ON TABLE memdb.premise IS 'What a justification rests on: an event, with the quoted span of its text, or one version of a memory.';

COMMENT ON COLUMN memdb.premise.conclusion_id IS 'The memory that rests on it, repeated from the justification so that a cascade reads one index.';

COMMENT ON COLUMN memdb.premise.supports IS 'Repeated from the justification, for the same reason.';

COMMENT ON COLUMN memdb.premise.added_at IS 'When add_premises added it; null = with its justification.';

CREATE TABLE memdb.erasure_receipt (
    tenant_id integer NOT NULL,
    receipt_id bigint NOT NULL,
    state text DEFAULT 'erasing'::text NOT NULL,
    phase text DEFAULT 'part'::text NOT NULL,
    place bigint DEFAULT 0 NOT NULL,
    target jsonb NOT NULL,
    reason text,
    actor text NOT NULL,
    salt bytea NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    counts jsonb DEFAULT '{}'::jsonb NOT NULL,
    kept jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT erasure_receipt_finished_check CHECK (((state = 'done'::text) = (finished_at IS NOT NULL))),
    CONSTRAINT erasure_receipt_state_check CHECK ((state = ANY (ARRAY['erasing'::text, 'done'::text])))
);

COMMENT ON TABLE memdb.erasure_receipt IS 'One request to forget: what was asked by whom and why, what it deleted, and how far it is.';

COMMENT ON COLUMN memdb.erasure_receipt.target IS 'While it runs as asked, afterwards with users, agents and ids as salted hashes.';

COMMENT ON COLUMN memdb.erasure_receipt.counts IS 'Rows deleted (of model_call: emptied) by table.';

COMMENT ON COLUMN memdb.erasure_receipt.kept IS 'What was found and stays: memories with other support, events of others.';

CREATE TABLE memdb.belief (
    tenant_id integer NOT NULL,
    namespace_id integer NOT NULL,
    subject text NOT NULL,
    subject_id bigint NOT NULL,
    status text NOT NULL,
    from_at timestamp with time zone NOT NULL,
    to_at timestamp with time zone,
    cause text NOT NULL,
    root text,
    root_id bigint,
    depth integer DEFAULT 0 NOT NULL,
    actor text,
    reason text,
    CONSTRAINT belief_depth_check CHECK ((depth >= 0)),
    CONSTRAINT belief_root_check CHECK (((root = ANY (ARRAY['event'::text, 'memory'::text])) AND ((root IS NULL) = (root_id IS NULL)))),
    CONSTRAINT belief_span_check CHECK ((from_at < to_at)),
    CONSTRAINT belief_status_check CHECK ((status = ANY (ARRAY['stale'::text, 'superseded'::text, 'contradicted'::text, 'retracted'::text, 'corrected'::text]))),
    CONSTRAINT belief_subject_check CHECK ((subject = ANY (ARRAY['event'::text, 'memory'::text])))
)
WITH (fillfactor='90');

COMMENT ON TABLE memdb.belief IS 'Spans of time in which an event or a memory was not plainly active, with cause and root cause; no row means active.';

CREATE TABLE memdb.embedding (
    tenant_id integer NOT NULL,
    model_id integer NOT NULL,
    memory_id bigint NOT NULL,
    version integer NOT NULL,
    namespace_id integer NOT NULL,
    user_id text,
    type text NOT NULL,
    vector public.halfvec NOT NULL
);
ALTER TABLE ONLY memdb.embedding ALTER COLUMN vector SET STORAGE PLAIN;

COMMENT ON TABLE memdb.embedding IS 'Unit vectors of memory versions that recall searches; rows come and go but are never updated.';

CREATE TABLE memdb.embedding_model (
    tenant_id integer NOT NULL,
    model_id integer NOT NULL,
    name text NOT NULL,
    dimensions integer NOT NULL,
    state text DEFAULT 'active'::text NOT NULL,
    fingerprint text,
    registered_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL,
    CONSTRAINT embedding_model_dimensions_check CHECK (((dimensions >= 1) AND (dimensions <= 3800))),
    CONSTRAINT embedding_model_name_check CHECK (((name <> ''::text) AND (char_length(name) <= 200))),
    CONSTRAINT embedding_model_state_check CHECK ((state = ANY (ARRAY['filling'::text, 'active'::text, 'retired'::text])))
);

COMMENT ON TABLE memdb.embedding_model IS 'Encoders whose vectors a tenant keeps; one is active, another may be filling beside it.';

CREATE TABLE memdb.audit (
    tenant_id integer NOT NULL,
    audit_id bigint NOT NULL,
    recorded_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL,
    key_id bigint,
    role_name name NOT NULL,
    action text NOT NULL,
    request_id text,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT audit_action_check CHECK (((action <> ''::text) AND (char_length(action) <= 200)))
)
PARTITION BY RANGE (recorded_at);

COMMENT ON TABLE memdb.audit IS 'Who changed what through the service, and what became of its keys; ids and names, no contents.';

COMMENT ON COLUMN memdb.audit.role_name IS 'The database role that spoke: of the service, or of whoever made or revoked a key.';

CREATE TABLE memdb.embedding_cold (
    tenant_id integer CONSTRAINT embedding_tenant_id_not_null NOT NULL,
    model_id integer CONSTRAINT embedding_model_id_not_null NOT NULL,
    memory_id bigint CONSTRAINT embedding_memory_id_not_null NOT NULL,
    version integer CONSTRAINT embedding_version_not_null NOT NULL,
    namespace_id integer CONSTRAINT embedding_namespace_id_not_null NOT NULL,
    user_id text,
    type text CONSTRAINT embedding_type_not_null NOT NULL,
    vector public.halfvec CONSTRAINT embedding_vector_not_null NOT NULL
);

COMMENT ON TABLE memdb.embedding_cold IS 'Vectors that left the hot table (archived memories); no nearest-neighbour index, scanned exactly when asked for.';

CREATE TABLE memdb.embedding_queue (
    tenant_id integer NOT NULL,
    model_id integer NOT NULL,
    memory_id bigint NOT NULL,
    version integer NOT NULL,
    namespace_id integer NOT NULL,
    attempts smallint DEFAULT 0 NOT NULL,
    leased_until timestamp with time zone,
    error text
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02');

COMMENT ON TABLE memdb.embedding_queue IS 'Memory versions still without a vector of a model; a version has either a vector or a row here.';

CREATE TABLE memdb.job (
    tenant_id integer NOT NULL,
    name text NOT NULL,
    every_seconds integer,
    daily_at text,
    time_zone text DEFAULT 'UTC'::text NOT NULL,
    timeout_seconds integer DEFAULT 300 NOT NULL,
    is_enabled boolean DEFAULT true NOT NULL,
    next_at timestamp with time zone NOT NULL,
    leased_until timestamp with time zone,
    worker text,
    run_id bigint,
    failures smallint DEFAULT 0 NOT NULL,
    CONSTRAINT job_daily_check CHECK ((daily_at ~ '^([01][0-9]|2[0-3]):[0-5][0-9]$'::text)),
    CONSTRAINT job_every_check CHECK (((every_seconds >= 1) AND (every_seconds <= 31536000))),
    CONSTRAINT job_name_check CHECK ((name ~ '^[a-z][a-z0-9_]{0,62}$'::text)),
    CONSTRAINT job_schedule_check CHECK (((every_seconds IS NULL) <> (daily_at IS NULL))),
    CONSTRAINT job_timeout_check CHECK (((timeout_seconds >= 1) AND (timeout_seconds <= 86400)))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02');

COMMENT ON TABLE memdb.job IS 'What is done regularly for a tenant: every so many seconds or daily at a time, and when next. The functions behind the names are fixed.';

COMMENT ON COLUMN memdb.job.leased_until IS 'While a worker is at work outside of a transaction: until when nobody else may be.';

COMMENT ON COLUMN memdb.job.run_id IS 'The run that is not finished yet; the next call goes on with it.';

COMMENT ON COLUMN memdb.job.failures IS 'Failures since the last success; the pause after each is twice the one before.';

CREATE TABLE memdb.memory_version (
    tenant_id integer NOT NULL,
    memory_id bigint NOT NULL,
    version integer NOT NULL,
    namespace_id integer NOT NULL,
    user_id text,
    text text NOT NULL,
    summary text,
    heading text,
    language text,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    event_id bigint,
    valid_from timestamp with time zone,
    valid_to timestamp with time zone,
    recorded_at timestamp with time zone NOT NULL,
    retired_at timestamp with time zone,
    keyword tsvector NOT NULL,
    replaced jsonb,
    cold_file_id bigint,
    cold_hash bytea,
    CONSTRAINT memory_version_recorded_check CHECK ((recorded_at < retired_at)),
    CONSTRAINT memory_version_text_check CHECK ((text <> ''::text)),
    CONSTRAINT memory_version_valid_check CHECK ((valid_from < valid_to)),
    CONSTRAINT memory_version_version_check CHECK ((version >= 1))
)
WITH (fillfactor='95');

COMMENT ON TABLE memdb.memory_version IS 'What a memory said, version by version; only retired_at is ever set later.';

COMMENT ON COLUMN memdb.memory_version.heading IS 'Words indexed and embedded with the text but not shown: date and speaker.';

COMMENT ON COLUMN memdb.memory_version.event_id IS 'The event that caused this version.';

COMMENT ON COLUMN memdb.memory_version.valid_from IS 'World axis: when it began to be true; null = always.';

COMMENT ON COLUMN memdb.memory_version.recorded_at IS 'Belief axis: when memdb began to say so; retired_at is when it stopped.';

COMMENT ON COLUMN memdb.memory_version.keyword IS 'The words it is found by (keyword_text_v2), written by a trigger.';

COMMENT ON COLUMN memdb.memory_version.replaced IS 'Set with retired_at: type, importance, confidence, trust and occurred_at the memory had with this version.';

COMMENT ON COLUMN memdb.memory_version.cold_file_id IS 'The file that holds its words; text is then only their beginning, or the summary.';

COMMENT ON COLUMN memdb.memory_version.cold_hash IS 'The content hash of the words in the file.';

CREATE TABLE memdb.schema_info (
    key text NOT NULL,
    value text NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE memdb.schema_info IS 'One row per installation fact: package version, hash of sql/, switches such as test_clock.';

CREATE TABLE memdb.recall_cache (
    tenant_id integer NOT NULL,
    cache_key bytea NOT NULL,
    namespace_ids integer[],
    snapshot pg_snapshot NOT NULL,
    hits memdb._recall_hit[] NOT NULL,
    stored_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL
);

COMMENT ON TABLE memdb.recall_cache IS 'What recent recalls found, as ids, by a hash of all they were asked; valid while the snapshot saw every write to their scope.';

COMMENT ON COLUMN memdb.recall_cache.namespace_ids IS 'The namespaces that were searched; null = all of the tenant.';

CREATE TABLE memdb.scope_write (
    tenant_id integer NOT NULL,
    namespace_id integer NOT NULL,
    xid xid8 NOT NULL
);

COMMENT ON TABLE memdb.scope_write IS 'Which transactions wrote to which namespace (0: to something all of a tenant depend on), for as long as a cached recall may not have seen them.';

CREATE TABLE memdb.review_item (
    tenant_id integer NOT NULL,
    review_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    kind text NOT NULL,
    memory_id bigint NOT NULL,
    version integer NOT NULL,
    other_memory_id bigint,
    other_version integer,
    event_id bigint,
    question text NOT NULL,
    details jsonb DEFAULT '{}'::jsonb NOT NULL,
    confidence real,
    state text DEFAULT 'open'::text NOT NULL,
    decision text,
    decided_by text,
    decided_at timestamp with time zone,
    recorded_at timestamp with time zone NOT NULL,
    effects jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT review_item_decision_check CHECK (((state = 'decided'::text) = (decided_at IS NOT NULL))),
    CONSTRAINT review_item_kind_check CHECK ((kind = ANY (ARRAY['conflict'::text, 'uncertain'::text, 'stale'::text]))),
    CONSTRAINT review_item_sides_check CHECK ((((other_memory_id IS NULL) = (other_version IS NULL)) AND (other_memory_id <> memory_id) AND ((kind <> 'conflict'::text) OR (other_memory_id IS NOT NULL)))),
    CONSTRAINT review_item_state_check CHECK ((state = ANY (ARRAY['open'::text, 'decided'::text])))
);

COMMENT ON TABLE memdb.review_item IS 'What a person is asked to decide: two memories that cannot both be true, a write that is uncertain, a memory that lost its support.';

COMMENT ON COLUMN memdb.review_item.memory_id IS 'The memory in question; of a conflict the newer side, other_memory_id being the older.';

COMMENT ON COLUMN memdb.review_item.effects IS 'What the decision changed: contradicted and retracted memories, the event and version it made, the confidence before; reopen_review undoes it.';

CREATE TABLE memdb.summary (
    tenant_id integer NOT NULL,
    summary_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    session_id bigint,
    user_id text,
    memory_id bigint,
    facts integer DEFAULT 0 NOT NULL,
    due_at timestamp with time zone,
    reason text,
    attempts smallint DEFAULT 0 NOT NULL,
    summarised_at timestamp with time zone,
    CONSTRAINT summary_due_check CHECK (((due_at IS NULL) = (reason IS NULL))),
    CONSTRAINT summary_reason_check CHECK ((reason = ANY (ARRAY['facts'::text, 'task'::text, 'stale'::text]))),
    CONSTRAINT summary_subject_check CHECK (((session_id IS NULL) <> (user_id IS NULL)))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.05');

COMMENT ON TABLE memdb.summary IS 'Running summaries of sessions and of users: the memory that holds each, and whether it is due to be written anew.';

COMMENT ON COLUMN memdb.summary.facts IS 'Memories of its subject written since it was last handed out.';

COMMENT ON COLUMN memdb.summary.due_at IS 'From when on it is handed out; while one works on it, when another may take over.';

ALTER TABLE memdb.memory ALTER COLUMN memory_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.memory_memory_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memdb.rederivation (
    tenant_id integer NOT NULL,
    memory_id bigint NOT NULL,
    version integer NOT NULL,
    namespace_id integer NOT NULL,
    attempts smallint DEFAULT 0 NOT NULL,
    next_at timestamp with time zone NOT NULL,
    leased_until timestamp with time zone,
    worker text,
    error text,
    CONSTRAINT rederivation_attempts_check CHECK ((attempts >= 0))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02');

COMMENT ON TABLE memdb.rederivation IS 'Stale memories a model is to look at again, where policy when_stale says derive; a row goes when it is done or the memory stands again.';

CREATE TABLE memdb.extraction (
    tenant_id integer NOT NULL,
    event_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    session_id bigint,
    sequence integer,
    state text DEFAULT 'pending'::text NOT NULL,
    attempts smallint DEFAULT 0 NOT NULL,
    next_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL,
    leased_until timestamp with time zone,
    worker text,
    error text,
    raw_output text,
    finished_at timestamp with time zone,
    CONSTRAINT extraction_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT extraction_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'leased'::text, 'done'::text, 'failed'::text, 'dead'::text])))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02');

COMMENT ON TABLE memdb.extraction IS 'Work still to be done on an event: state, lease, attempts, last error and the raw model output that caused it.';

CREATE TABLE memdb.tenant (
    tenant_id integer NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL,
    truth_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    CONSTRAINT tenant_name_check CHECK (((name <> ''::text) AND (char_length(name) <= 200)))
);

COMMENT ON TABLE memdb.tenant IS 'The outermost wall: nothing in memdb refers across two tenants.';

COMMENT ON COLUMN memdb.tenant.truth_at IS 'Time of the last correction: the next one is later, whatever the clock does, so that its time names it.';

CREATE VIEW memdb.shown_memory WITH (security_invoker='true') AS
 SELECT tenant_id,
    memory_id,
    namespace_id,
    session_id,
    sequence,
    version,
    user_id,
    agent_id,
    type,
    external_id,
    content_hash,
    status,
    tier,
    is_pinned,
    importance,
    confidence,
    trust,
    occurred_at,
    recorded_at,
    fades_at,
    use_count,
    last_used_at,
    is_isolated,
    erasure_id
   FROM memdb.memory m
  WHERE ((erasure_id IS NULL) AND ((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, 'memory'::text, memory_id))));

COMMENT ON VIEW memdb.shown_memory IS 'Memories, without those that are being forgotten.';

CREATE VIEW memdb.shown_memory_version WITH (security_invoker='true') AS
 SELECT tenant_id,
    memory_id,
    version,
    namespace_id,
    user_id,
    text,
    summary,
    heading,
    language,
    metadata,
    event_id,
    valid_from,
    valid_to,
    recorded_at,
    retired_at,
    keyword,
    replaced,
    cold_file_id,
    cold_hash
   FROM memdb.memory_version v
  WHERE ((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, 'memory'::text, memory_id)));

COMMENT ON VIEW memdb.shown_memory_version IS 'Versions of memories, without those of memories that are being forgotten.';

CREATE TABLE memdb.event (
    tenant_id integer NOT NULL,
    event_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    session_id bigint,
    sequence integer,
    kind text NOT NULL,
    text text DEFAULT ''::text NOT NULL,
    input jsonb,
    output jsonb,
    user_id text,
    agent_id text,
    speaker text,
    language text,
    parent_event_id bigint,
    occurred_at timestamp with time zone NOT NULL,
    time_zone text DEFAULT 'UTC'::text NOT NULL,
    recorded_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL,
    trust real DEFAULT 1 NOT NULL,
    idempotency_key text,
    content_hash bytea NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT event_content_check CHECK (((text <> ''::text) OR (input IS NOT NULL) OR (output IS NOT NULL))),
    CONSTRAINT event_kind_check CHECK ((kind = ANY (ARRAY['user_message'::text, 'assistant_message'::text, 'system_message'::text, 'tool_call'::text, 'tool_result'::text, 'thought'::text, 'answer'::text, 'observation'::text, 'recall'::text, 'reflection'::text, 'correction'::text, 'document'::text]))),
    CONSTRAINT event_sequence_check CHECK (((session_id IS NULL) = (sequence IS NULL))),
    CONSTRAINT event_trust_check CHECK (((trust >= (0)::double precision) AND (trust <= (1)::double precision)))
);

COMMENT ON TABLE memdb.event IS 'Every observed step, stored first and never changed: the ground all memories rest on.';

COMMENT ON COLUMN memdb.event.text IS 'What was said or done, as plain text; quoted spans of premises are offsets into it (in characters, 0-based).';

COMMENT ON COLUMN memdb.event.occurred_at IS 'When it happened in the world; time_zone is the speaker''s zone, needed to resolve "yesterday".';

COMMENT ON COLUMN memdb.event.recorded_at IS 'When memdb accepted it; the belief axis.';

CREATE TABLE memdb.mention (
    tenant_id integer NOT NULL,
    memory_id bigint NOT NULL,
    entity_id bigint NOT NULL,
    namespace_id integer NOT NULL
);

COMMENT ON TABLE memdb.mention IS 'Which memory speaks of which entity.';

CREATE TABLE memdb.entity (
    tenant_id integer NOT NULL,
    entity_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    name text NOT NULL,
    type text DEFAULT 'thing'::text NOT NULL,
    merged_into bigint,
    recorded_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL,
    CONSTRAINT entity_merged_check CHECK ((merged_into <> entity_id)),
    CONSTRAINT entity_name_check CHECK (((name <> ''::text) AND (char_length(name) <= 500)))
);

COMMENT ON TABLE memdb.entity IS 'A person, place, product or thing that memories of one namespace mention.';

CREATE VIEW memdb.shown_event WITH (security_invoker='true') AS
 SELECT tenant_id,
    event_id,
    namespace_id,
    session_id,
    sequence,
    kind,
    text,
    input,
    output,
    user_id,
    agent_id,
    speaker,
    language,
    parent_event_id,
    occurred_at,
    time_zone,
    recorded_at,
    trust,
    idempotency_key,
    content_hash,
    metadata
   FROM memdb.event e
  WHERE ((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, 'event'::text, event_id)));

COMMENT ON VIEW memdb.shown_event IS 'Events, without those that are being forgotten.';

ALTER TABLE memdb.event ALTER COLUMN event_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.event_event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memdb.event_tombstone (
    tenant_id integer NOT NULL,
    key_hash bytea NOT NULL,
    forgotten_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE memdb.event_tombstone IS 'Hashed keys of forgotten events: whoever sends one again is told that it is known, and nothing is stored.';

CREATE TABLE memdb.namespace (
    tenant_id integer NOT NULL,
    namespace_id integer NOT NULL,
    path text NOT NULL,
    visibility text DEFAULT 'shared'::text NOT NULL,
    owner_agent_id text,
    created_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL,
    CONSTRAINT namespace_owner_check CHECK (((visibility <> 'private'::text) OR (owner_agent_id IS NOT NULL))),
    CONSTRAINT namespace_path_check CHECK ((((char_length(path) >= 1) AND (char_length(path) <= 255)) AND (path !~ '(^/|/$|//|[[:cntrl:]])'::text) AND (path !~ '(^|/)\.\.?(/|$)'::text))),
    CONSTRAINT namespace_visibility_check CHECK ((visibility = ANY (ARRAY['shared'::text, 'private'::text, 'public'::text])))
);

COMMENT ON TABLE memdb.namespace IS 'A slash path inside a tenant (team/support) that memories live under; appears on first write.';

COMMENT ON COLUMN memdb.namespace.visibility IS 'shared: agents may read and write unless a grant says otherwise; private: only owner_agent_id and granted agents; public: every agent reads, granted agents write.';

CREATE TABLE memdb.session (
    tenant_id integer NOT NULL,
    session_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    external_id text NOT NULL,
    user_id text,
    agent_id text,
    next_sequence integer DEFAULT 1 NOT NULL,
    token_budget integer DEFAULT 4000 NOT NULL,
    started_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL,
    last_event_at timestamp with time zone,
    CONSTRAINT session_budget_check CHECK ((token_budget > 0)),
    CONSTRAINT session_external_check CHECK (((external_id <> ''::text) AND (char_length(external_id) <= 512)))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.05');

COMMENT ON TABLE memdb.session IS 'One conversation or task: who takes part, and the next sequence number, which orders its events without gaps.';

CREATE TABLE memdb.model_call (
    tenant_id integer NOT NULL,
    call_id bigint NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    namespace_id integer NOT NULL,
    purpose text NOT NULL,
    model text NOT NULL,
    prompt_hash bytea NOT NULL,
    event_ids bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    memory_ids bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    outcome text DEFAULT 'open'::text NOT NULL,
    tokens_held integer DEFAULT 0 NOT NULL,
    tokens_in integer,
    tokens_out integer,
    cost numeric(16,8),
    latency_ms real,
    finished_at timestamp with time zone,
    error text,
    request jsonb,
    response text,
    CONSTRAINT model_call_finished_check CHECK (((outcome = 'open'::text) = (finished_at IS NULL))),
    CONSTRAINT model_call_model_check CHECK (((model <> ''::text) AND (char_length(model) <= 200))),
    CONSTRAINT model_call_outcome_check CHECK ((outcome = ANY (ARRAY['open'::text, 'ok'::text, 'cached'::text, 'invalid'::text, 'refused'::text, 'unavailable'::text]))),
    CONSTRAINT model_call_purpose_check CHECK ((purpose ~ '^[a-z][a-z0-9_]{0,62}$'::text)),
    CONSTRAINT model_call_tokens_check CHECK (((tokens_held >= 0) AND (tokens_in >= 0) AND (tokens_out >= 0)))
)
PARTITION BY RANGE (recorded_at);

COMMENT ON TABLE memdb.model_call IS 'Every call of a model: opened before it is sent, closed once with what came of it.';

COMMENT ON COLUMN memdb.model_call.event_ids IS 'The events whose words are in request and response, as memory_ids the memories: what erasing one of them has to look at.';

COMMENT ON COLUMN memdb.model_call.outcome IS 'open: sent, and nothing heard (of a process that died, for ever); ok; cached: not sent, an earlier answer was used; invalid: the answer could not be used; refused: by the model or its endpoint; unavailable: no answer.';

COMMENT ON COLUMN memdb.model_call.tokens_held IS 'Estimate that counts against the budget while the call is open.';

CREATE TABLE memdb.erasure_item (
    tenant_id integer NOT NULL,
    subject text NOT NULL,
    subject_id bigint NOT NULL,
    version integer DEFAULT 0 NOT NULL,
    receipt_id bigint NOT NULL,
    wave integer DEFAULT 0 NOT NULL,
    stays boolean DEFAULT false NOT NULL,
    CONSTRAINT erasure_item_subject_check CHECK ((subject = ANY (ARRAY['event'::text, 'version'::text, 'memory'::text, 'session'::text, 'entity'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0.02');

COMMENT ON TABLE memdb.erasure_item IS 'What an erasure has still to delete; nobody reads it meanwhile.';

CREATE TABLE memdb.recall (
    tenant_id integer NOT NULL,
    recall_id bigint NOT NULL,
    recorded_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL,
    namespace_ids integer[],
    user_id text,
    agent_id text,
    session_id bigint,
    query text,
    arguments jsonb DEFAULT '{}'::jsonb NOT NULL,
    memory_ids bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    versions integer[] DEFAULT '{}'::integer[] NOT NULL,
    scores real[] DEFAULT '{}'::real[] NOT NULL,
    legs jsonb DEFAULT '{}'::jsonb NOT NULL,
    is_degraded boolean DEFAULT false NOT NULL,
    elapsed_ms real,
    used_ids bigint[],
    used_at timestamp with time zone,
    timing jsonb
)
PARTITION BY RANGE (recorded_at);

COMMENT ON TABLE memdb.recall IS 'What was asked and what came back, one row a recall; append-only but for the marks of what was used.';

COMMENT ON COLUMN memdb.recall.timing IS 'Milliseconds in all and of each leg that ran, and the legs left out for lack of time.';

CREATE TABLE memdb.model_usage (
    tenant_id integer NOT NULL,
    namespace_id integer NOT NULL,
    day date NOT NULL,
    purpose text NOT NULL,
    model text NOT NULL,
    calls integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    cached integer DEFAULT 0 NOT NULL,
    tokens_held bigint DEFAULT 0 NOT NULL,
    tokens_in bigint DEFAULT 0 NOT NULL,
    tokens_out bigint DEFAULT 0 NOT NULL,
    cost numeric(16,8) DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE memdb.model_usage IS 'Calls of models by day (UTC), namespace, purpose and model: what budgets are held against.';

CREATE TABLE memdb.policy (
    tenant_id integer NOT NULL,
    policy_id bigint NOT NULL,
    namespace_id integer,
    key text NOT NULL,
    value jsonb NOT NULL,
    updated_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL
);

COMMENT ON TABLE memdb.policy IS 'Half-lives, thresholds, boundaries, budgets: one value per key, tenant wide or for one namespace.';

CREATE TABLE memdb.summary_queue (
    tenant_id integer NOT NULL,
    queue_id bigint NOT NULL,
    memory_id bigint NOT NULL,
    version integer NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02');

COMMENT ON TABLE memdb.summary_queue IS 'Memory versions that no running summary has counted yet.';

CREATE TABLE memdb.memory_use (
    tenant_id integer NOT NULL,
    memory_id bigint NOT NULL,
    use_id bigint NOT NULL,
    uses smallint NOT NULL,
    used_at timestamp with time zone NOT NULL,
    CONSTRAINT memory_use_uses_check CHECK ((uses >= 0))
)
WITH (autovacuum_vacuum_scale_factor='0.02');

COMMENT ON TABLE memdb.memory_use IS 'What happened to memories since the last fold: uses, and (uses = 0) ties that were made or lost.';

CREATE TABLE memdb.api_key (
    tenant_id integer NOT NULL,
    key_id bigint NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    prefix text NOT NULL,
    key_hash bytea NOT NULL,
    namespaces text[],
    agents text[],
    created_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone,
    CONSTRAINT api_key_bounds_check CHECK (((cardinality(namespaces) > 0) AND (cardinality(agents) > 0))),
    CONSTRAINT api_key_hash_check CHECK ((octet_length(key_hash) = 32)),
    CONSTRAINT api_key_name_check CHECK (((name <> ''::text) AND (char_length(name) <= 200))),
    CONSTRAINT api_key_operator_check CHECK (((role <> 'operator'::text) OR ((namespaces IS NULL) AND (agents IS NULL)))),
    CONSTRAINT api_key_prefix_check CHECK (((char_length(prefix) >= 4) AND (char_length(prefix) <= 40))),
    CONSTRAINT api_key_role_check CHECK ((role = ANY (ARRAY['reader'::text, 'writer'::text, 'operator'::text])))
)
WITH (fillfactor='70');

COMMENT ON TABLE memdb.api_key IS 'Keys of the HTTP service: the SHA-256 of each secret, its first characters, and what it may do.';

COMMENT ON COLUMN memdb.api_key.namespaces IS 'Paths it may read (and write), each with the paths below it; null: all of the tenant.';

COMMENT ON COLUMN memdb.api_key.agents IS 'Agents it may act as, and whose namespaces it therefore sees; null: any, and none.';

CREATE TABLE memdb.erasure_hash (
    tenant_id integer NOT NULL,
    receipt_id bigint NOT NULL,
    hash bytea NOT NULL
);

COMMENT ON TABLE memdb.erasure_hash IS 'What an erasure deleted, each id hashed with the salt of its receipt.';

CREATE VIEW memdb.memories WITH (security_invoker='true') AS
 SELECT m.tenant_id,
    m.memory_id,
    m.version,
    n.path AS namespace,
    m.user_id,
    m.agent_id,
    m.type,
    m.external_id,
    v.text,
    v.summary,
    v.heading,
    v.language,
    m.status,
    m.tier,
    m.is_pinned,
    m.importance,
    m.confidence,
    m.trust,
    m.occurred_at,
    v.valid_from,
    v.valid_to,
    v.recorded_at,
    v.metadata,
    m.session_id,
    m.sequence,
    m.use_count,
    m.last_used_at
   FROM ((memdb.shown_memory m
     JOIN memdb.memory_version v ON (((v.tenant_id = m.tenant_id) AND (v.memory_id = m.memory_id) AND (v.version = m.version))))
     JOIN memdb.namespace n ON (((n.tenant_id = m.tenant_id) AND (n.namespace_id = m.namespace_id))));

COMMENT ON VIEW memdb.memories IS 'Every memory with what it says today and its state, whatever its status.';

CREATE TABLE memdb.lexeme_stat (
    tenant_id integer NOT NULL,
    namespace_id integer NOT NULL,
    lexeme text NOT NULL,
    documents integer NOT NULL
)
WITH (fillfactor='80');

COMMENT ON TABLE memdb.lexeme_stat IS 'How many current versions of a namespace hold a lexeme.';

CREATE TABLE memdb.memory_topic (
    tenant_id integer NOT NULL,
    memory_id bigint NOT NULL,
    version integer NOT NULL,
    topic_id bigint NOT NULL,
    namespace_id integer NOT NULL
);

COMMENT ON TABLE memdb.memory_topic IS 'Which topic a memory belongs to, by which version that was decided.';

CREATE TABLE memdb.namespace_stat (
    tenant_id integer NOT NULL,
    namespace_id integer NOT NULL,
    documents integer DEFAULT 0 NOT NULL,
    tokens bigint DEFAULT 0 NOT NULL,
    folded_at timestamp with time zone
)
WITH (fillfactor='50');

COMMENT ON TABLE memdb.namespace_stat IS 'Number and total length of the current versions of a namespace, as of the last fold.';

CREATE TABLE memdb.topic (
    tenant_id integer NOT NULL,
    topic_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    label text,
    entity_id bigint,
    members integer DEFAULT 0 NOT NULL,
    is_due boolean DEFAULT true NOT NULL,
    moving_to bigint,
    moves_all boolean DEFAULT false NOT NULL,
    moved_after bigint DEFAULT 0 NOT NULL,
    recorded_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL,
    changed_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL,
    CONSTRAINT topic_label_check CHECK ((char_length(label) <= 500)),
    CONSTRAINT topic_moving_check CHECK ((moving_to <> topic_id))
)
WITH (fillfactor='70');

COMMENT ON TABLE memdb.topic IS 'A group of memories of one namespace that are about the same thing.';

COMMENT ON COLUMN memdb.topic.label IS 'An entity, or the words that tell its memories from others; null until refresh_topics came by.';

COMMENT ON COLUMN memdb.topic.is_due IS 'Whether members came or went since label and centroid were made.';

COMMENT ON COLUMN memdb.topic.moving_to IS 'The topic its members are being moved to, in order of id beyond moved_after: all of them, or those nearer to that one.';

CREATE TABLE memdb.keyword_queue (
    tenant_id integer NOT NULL,
    queue_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    memory_id bigint,
    version integer,
    lexemes text[],
    sign smallint DEFAULT 1 NOT NULL,
    CONSTRAINT keyword_queue_sign_check CHECK ((sign = ANY (ARRAY['-1'::integer, 1]))),
    CONSTRAINT keyword_queue_source_check CHECK (((memory_id IS NULL) <> (lexemes IS NULL)))
);

COMMENT ON TABLE memdb.keyword_queue IS 'Versions that came into (+1) or left (-1, with their lexemes) the keyword statistics since the last fold.';

ALTER TABLE memdb.justification ALTER COLUMN justification_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.justification_justification_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memdb.assessment (
    tenant_id integer NOT NULL,
    assessment_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    event_id bigint NOT NULL,
    span_from integer,
    span_to integer,
    outcome text NOT NULL,
    reason text,
    importance real,
    components jsonb DEFAULT '{}'::jsonb NOT NULL,
    confidence real,
    memory_id bigint,
    version integer,
    recorded_at timestamp with time zone NOT NULL,
    CONSTRAINT assessment_memory_check CHECK ((((memory_id IS NULL) = (outcome = 'dropped'::text)) AND ((memory_id IS NULL) = (version IS NULL)))),
    CONSTRAINT assessment_outcome_check CHECK ((outcome = ANY (ARRAY['created'::text, 'confirmed'::text, 'versioned'::text, 'unchanged'::text, 'dropped'::text]))),
    CONSTRAINT assessment_span_check CHECK ((((span_from IS NULL) = (span_to IS NULL)) AND (span_from >= 0) AND (span_from < span_to)))
);

COMMENT ON TABLE memdb.assessment IS 'Why the words of an event were kept or dropped: one row for each statement the pipeline saw, append-only.';

COMMENT ON COLUMN memdb.assessment.components IS 'What the importance was made of, each 0 to 1: density, emotion, task, novelty.';

CREATE VIEW memdb.events WITH (security_invoker='true') AS
 SELECT e.tenant_id,
    e.event_id,
    n.path AS namespace,
    s.external_id AS session,
    e.sequence,
    e.kind,
    e.text,
    e.input,
    e.output,
    e.user_id,
    e.agent_id,
    e.speaker,
    e.language,
    e.parent_event_id,
    e.occurred_at,
    e.time_zone,
    e.recorded_at,
    e.trust,
    e.idempotency_key,
    e.metadata,
    COALESCE(b.status, 'active'::text) AS status
   FROM (((memdb.shown_event e
     JOIN memdb.namespace n ON (((n.tenant_id = e.tenant_id) AND (n.namespace_id = e.namespace_id))))
     LEFT JOIN memdb.session s ON (((s.tenant_id = e.tenant_id) AND (s.session_id = e.session_id))))
     LEFT JOIN memdb.belief b ON (((b.tenant_id = e.tenant_id) AND (b.subject = 'event'::text) AND (b.subject_id = e.event_id) AND (b.to_at IS NULL))));

COMMENT ON VIEW memdb.events IS 'Every event as it was observed, with its session by name and whether it still counts.';

CREATE VIEW memdb.open_conflicts WITH (security_invoker='true') AS
 SELECT i.tenant_id,
    i.review_id,
    n.path AS namespace,
    i.question,
    i.confidence,
    i.details,
    i.recorded_at,
    i.memory_id,
    i.version,
    v.text,
    m.status,
    m.occurred_at,
    m.confidence AS memory_confidence,
    m.trust,
    i.other_memory_id,
    i.other_version,
    w.text AS other_text,
    o.status AS other_status,
    o.occurred_at AS other_occurred_at,
    o.confidence AS other_confidence,
    o.trust AS other_trust
   FROM (((((memdb.review_item i
     JOIN memdb.namespace n ON (((n.tenant_id = i.tenant_id) AND (n.namespace_id = i.namespace_id))))
     JOIN memdb.shown_memory m ON (((m.tenant_id = i.tenant_id) AND (m.memory_id = i.memory_id))))
     JOIN memdb.memory_version v ON (((v.tenant_id = i.tenant_id) AND (v.memory_id = i.memory_id) AND (v.version = i.version))))
     LEFT JOIN memdb.memory o ON (((o.tenant_id = i.tenant_id) AND (o.memory_id = i.other_memory_id))))
     LEFT JOIN memdb.memory_version w ON (((w.tenant_id = i.tenant_id) AND (w.memory_id = i.other_memory_id) AND (w.version = i.other_version))))
  WHERE ((i.kind = 'conflict'::text) AND (i.state = 'open'::text) AND ((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(i.tenant_id, 'memory'::text, i.other_memory_id))));

COMMENT ON VIEW memdb.open_conflicts IS 'Pairs of memories that cannot both be true, with both sides and the question to put; other_ is the older one.';

CREATE PROCEDURE memdb.work_off_jobs(IN p_seconds integer DEFAULT 50)
    LANGUAGE plpgsql
    AS $$
declare
  v_end timestamptz := clock_timestamp() + make_interval(secs => p_seconds);
begin
  loop
    perform from memdb.run_due_jobs(null, 'pg_cron');
    exit when not found or clock_timestamp() >= v_end;
    commit;
  end loop;
end $$;

COMMENT ON PROCEDURE memdb.work_off_jobs(IN p_seconds integer) IS 'Call run_due_jobs until nothing is due or so many seconds are over, each batch in a transaction of its own.';

CREATE TABLE memdb.agent_grant (
    tenant_id integer NOT NULL,
    agent_id text NOT NULL,
    namespace_id integer NOT NULL,
    can_read boolean DEFAULT true NOT NULL,
    can_write boolean DEFAULT false NOT NULL,
    weight real DEFAULT 1 NOT NULL,
    granted_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL,
    CONSTRAINT agent_grant_agent_check CHECK ((agent_id <> ''::text)),
    CONSTRAINT agent_grant_weight_check CHECK (((weight > (0)::double precision) AND (weight <= (10)::double precision)))
);

COMMENT ON TABLE memdb.agent_grant IS 'What one agent may do in one namespace, and how much a memory from there weighs in its recall.';

CREATE TABLE memdb.alembic_version (
    version_num character varying(32) NOT NULL
);

COMMENT ON TABLE memdb.alembic_version IS 'The newest revision of migrations/versions this database has had.';

ALTER TABLE memdb.api_key ALTER COLUMN key_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.api_key_key_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memdb.api_request (
    tenant_id integer NOT NULL,
    key_id bigint NOT NULL,
    idempotency_key text NOT NULL,
    request_hash bytea NOT NULL,
    request_id text NOT NULL,
    recorded_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL,
    status smallint,
    answer jsonb,
    CONSTRAINT api_request_answer_check CHECK (((status IS NULL) = (answer IS NULL))),
    CONSTRAINT api_request_idempotency_check CHECK (((char_length(idempotency_key) >= 1) AND (char_length(idempotency_key) <= 255)))
);

COMMENT ON TABLE memdb.api_request IS 'Writes that came with an Idempotency-Key, for a day: written in their own transaction, so that none happens twice.';

COMMENT ON COLUMN memdb.api_request.key_id IS 'The key it came with; 0 where the service asks for none.';

CREATE TABLE memdb.assertion (
    tenant_id integer NOT NULL,
    memory_id bigint NOT NULL,
    version integer NOT NULL,
    ordinal smallint NOT NULL,
    namespace_id integer NOT NULL,
    user_id text,
    subject text NOT NULL,
    attribute text NOT NULL,
    value text NOT NULL,
    is_single boolean NOT NULL,
    is_negated boolean DEFAULT false NOT NULL,
    CONSTRAINT assertion_attribute_check CHECK ((attribute ~ '^[a-z][a-z0-9_]{0,62}$'::text)),
    CONSTRAINT assertion_subject_check CHECK (((subject <> ''::text) AND (char_length(subject) <= 200))),
    CONSTRAINT assertion_value_check CHECK (((value <> ''::text) AND (char_length(value) <= 500)))
);

COMMENT ON TABLE memdb.assertion IS 'What a version of a memory says, as far as it fits into subject, attribute and value: how a changed fact finds the old one.';

COMMENT ON COLUMN memdb.assertion.subject IS 'Case-folded and in one Unicode form, like an entity''s alias; value the same.';

COMMENT ON COLUMN memdb.assertion.is_single IS 'Two values of one subject exclude each other (one lives in one place); otherwise they stand side by side.';

ALTER TABLE memdb.assessment ALTER COLUMN assessment_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.assessment_assessment_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE memdb.audit ALTER COLUMN audit_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.audit_audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memdb.audit_default (
    tenant_id integer CONSTRAINT audit_tenant_id_not_null NOT NULL,
    audit_id bigint CONSTRAINT audit_audit_id_not_null NOT NULL,
    recorded_at timestamp with time zone DEFAULT memdb."current_time"() CONSTRAINT audit_recorded_at_not_null NOT NULL,
    key_id bigint,
    role_name name CONSTRAINT audit_role_name_not_null NOT NULL,
    action text CONSTRAINT audit_action_not_null NOT NULL,
    request_id text,
    detail jsonb DEFAULT '{}'::jsonb CONSTRAINT audit_detail_not_null NOT NULL,
    CONSTRAINT audit_action_check CHECK (((action <> ''::text) AND (char_length(action) <= 200)))
);

COMMENT ON TABLE memdb.audit_default IS 'Rows of the audit that no month partition holds.';

CREATE TABLE memdb.cold_file (
    tenant_id integer NOT NULL,
    file_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    month date NOT NULL,
    name text NOT NULL,
    sha256 bytea NOT NULL,
    bytes bigint NOT NULL,
    versions integer NOT NULL,
    has_erased boolean DEFAULT false NOT NULL,
    exported_at timestamp with time zone NOT NULL,
    CONSTRAINT cold_file_name_check CHECK (((name <> ''::text) AND (char_length(name) <= 500))),
    CONSTRAINT cold_file_sha256_check CHECK ((octet_length(sha256) = 32))
);

COMMENT ON TABLE memdb.cold_file IS 'Files that hold the words of archived memories of one namespace and month, with their checksums.';

COMMENT ON COLUMN memdb.cold_file.has_erased IS 'Whether it still holds words that were forgotten since: it is to be written anew without them.';

ALTER TABLE memdb.cold_file ALTER COLUMN file_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.cold_file_file_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE memdb.edge ALTER COLUMN edge_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.edge_edge_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE memdb.embedding_model ALTER COLUMN model_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.embedding_model_model_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW memdb.shown_entity WITH (security_invoker='true') AS
 SELECT tenant_id,
    entity_id,
    namespace_id,
    name,
    type,
    merged_into,
    recorded_at
   FROM memdb.entity e
  WHERE ((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, 'entity'::text, entity_id)));

COMMENT ON VIEW memdb.shown_entity IS 'Entities, without those that only memories mention which are being forgotten.';

CREATE VIEW memdb.entities WITH (security_invoker='true') AS
 SELECT e.tenant_id,
    e.entity_id,
    n.path AS namespace,
    e.name,
    e.type,
    e.merged_into,
    e.recorded_at
   FROM (memdb.shown_entity e
     JOIN memdb.namespace n ON (((n.tenant_id = e.tenant_id) AND (n.namespace_id = e.namespace_id))));

COMMENT ON VIEW memdb.entities IS 'Persons, places, products and things that memories mention; merged ones point to what they became.';

CREATE TABLE memdb.entity_alias (
    tenant_id integer NOT NULL,
    namespace_id integer NOT NULL,
    alias text NOT NULL,
    entity_id bigint NOT NULL,
    CONSTRAINT entity_alias_alias_check CHECK (((alias <> ''::text) AND (char_length(alias) <= 500)))
);

COMMENT ON TABLE memdb.entity_alias IS 'Every spelling of an entity, case-folded; the way a mention finds its entity.';

ALTER TABLE memdb.entity ALTER COLUMN entity_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.entity_entity_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE memdb.erasure_receipt ALTER COLUMN receipt_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.erasure_receipt_receipt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memdb.expiry (
    tenant_id integer NOT NULL,
    memory_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    minutes double precision NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT expiry_minutes_check CHECK ((minutes > (0)::double precision))
);

COMMENT ON TABLE memdb.expiry IS 'Memories that live for a while only: how long after they were written or last read, and until when that is.';

CREATE TABLE memdb.fold_mark (
    tenant_id integer NOT NULL,
    belief_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE memdb.fold_mark IS 'Up to which correction of a tenant it was seen which memories lost their ties.';

CREATE TABLE memdb.golden_query (
    tenant_id integer NOT NULL,
    golden_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    query text NOT NULL,
    memory_ids bigint[] NOT NULL,
    k integer DEFAULT 10 NOT NULL,
    found integer,
    asked_at timestamp with time zone,
    CONSTRAINT golden_query_ids_check CHECK (((cardinality(memory_ids) >= 1) AND (cardinality(memory_ids) <= 100))),
    CONSTRAINT golden_query_k_check CHECK (((k >= 1) AND (k <= 1000))),
    CONSTRAINT golden_query_text_check CHECK (((query <> ''::text) AND (char_length(query) <= 8000)))
);

COMMENT ON TABLE memdb.golden_query IS 'Questions of which the answers are known: a job asks them and warns where an answer is not found.';

COMMENT ON COLUMN memdb.golden_query.found IS 'How many of memory_ids were among the first k when it was asked last.';

ALTER TABLE memdb.golden_query ALTER COLUMN golden_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.golden_query_golden_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memdb.job_run (
    tenant_id integer NOT NULL,
    run_id bigint NOT NULL,
    name text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    outcome text DEFAULT 'running'::text NOT NULL,
    batches integer DEFAULT 0 NOT NULL,
    remaining bigint,
    elapsed_ms real DEFAULT 0 NOT NULL,
    worker text,
    error text,
    CONSTRAINT job_run_finished_check CHECK (((outcome = 'running'::text) = (finished_at IS NULL))),
    CONSTRAINT job_run_outcome_check CHECK ((outcome = ANY (ARRAY['running'::text, 'done'::text, 'warned'::text, 'failed'::text, 'timed_out'::text])))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.05');

COMMENT ON TABLE memdb.job_run IS 'Every run of a job: how many bounded batches it took, what remained after the last one, how it ended.';

ALTER TABLE memdb.job_run ALTER COLUMN run_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.job_run_run_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE memdb.keyword_queue ALTER COLUMN queue_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.keyword_queue_queue_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memdb.keyword_renewal (
    tenant_id integer NOT NULL,
    memory_id bigint NOT NULL
);

COMMENT ON TABLE memdb.keyword_renewal IS 'Tenants whose words were cut by older rules: versions of memories beyond memory_id may have other words.';

CREATE TABLE memdb.legal_hold (
    tenant_id integer NOT NULL,
    hold_id bigint NOT NULL,
    namespace_id integer,
    user_id text,
    reason text NOT NULL,
    actor text NOT NULL,
    set_at timestamp with time zone NOT NULL,
    lifted_at timestamp with time zone,
    CONSTRAINT legal_hold_reason_check CHECK (((reason <> ''::text) AND (char_length(reason) <= 1000)))
);

COMMENT ON TABLE memdb.legal_hold IS 'What may not be forgotten: of a user, of a namespace and those below it, of a user there, or (both null) of the tenant.';

ALTER TABLE memdb.legal_hold ALTER COLUMN hold_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.legal_hold_hold_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE memdb.memory_use ALTER COLUMN use_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.memory_use_use_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW memdb.memory_versions WITH (security_invoker='true') AS
 SELECT v.tenant_id,
    v.memory_id,
    v.version,
    (v.version = m.version) AS is_current,
    n.path AS namespace,
    v.user_id,
    m.type,
    v.text,
    v.summary,
    v.heading,
    v.language,
    v.metadata,
    v.event_id,
    v.valid_from,
    v.valid_to,
    v.recorded_at,
    v.retired_at
   FROM ((memdb.memory_version v
     JOIN memdb.shown_memory m ON (((m.tenant_id = v.tenant_id) AND (m.memory_id = v.memory_id))))
     JOIN memdb.namespace n ON (((n.tenant_id = v.tenant_id) AND (n.namespace_id = v.namespace_id))));

COMMENT ON VIEW memdb.memory_versions IS 'Everything memories ever said, version by version, with both time axes.';

ALTER TABLE memdb.model_call ALTER COLUMN call_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.model_call_call_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memdb.model_call_default (
    tenant_id integer CONSTRAINT model_call_tenant_id_not_null NOT NULL,
    call_id bigint CONSTRAINT model_call_call_id_not_null NOT NULL,
    recorded_at timestamp with time zone CONSTRAINT model_call_recorded_at_not_null NOT NULL,
    namespace_id integer CONSTRAINT model_call_namespace_id_not_null NOT NULL,
    purpose text CONSTRAINT model_call_purpose_not_null NOT NULL,
    model text CONSTRAINT model_call_model_not_null NOT NULL,
    prompt_hash bytea CONSTRAINT model_call_prompt_hash_not_null NOT NULL,
    event_ids bigint[] DEFAULT '{}'::bigint[] CONSTRAINT model_call_event_ids_not_null NOT NULL,
    memory_ids bigint[] DEFAULT '{}'::bigint[] CONSTRAINT model_call_memory_ids_not_null NOT NULL,
    outcome text DEFAULT 'open'::text CONSTRAINT model_call_outcome_not_null NOT NULL,
    tokens_held integer DEFAULT 0 CONSTRAINT model_call_tokens_held_not_null NOT NULL,
    tokens_in integer,
    tokens_out integer,
    cost numeric(16,8),
    latency_ms real,
    finished_at timestamp with time zone,
    error text,
    request jsonb,
    response text,
    CONSTRAINT model_call_finished_check CHECK (((outcome = 'open'::text) = (finished_at IS NULL))),
    CONSTRAINT model_call_model_check CHECK (((model <> ''::text) AND (char_length(model) <= 200))),
    CONSTRAINT model_call_outcome_check CHECK ((outcome = ANY (ARRAY['open'::text, 'ok'::text, 'cached'::text, 'invalid'::text, 'refused'::text, 'unavailable'::text]))),
    CONSTRAINT model_call_purpose_check CHECK ((purpose ~ '^[a-z][a-z0-9_]{0,62}$'::text)),
    CONSTRAINT model_call_tokens_check CHECK (((tokens_held >= 0) AND (tokens_in >= 0) AND (tokens_out >= 0)))
);

COMMENT ON TABLE memdb.model_call_default IS 'Calls of models that no month partition holds.';

ALTER TABLE memdb.namespace ALTER COLUMN namespace_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.namespace_namespace_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE memdb.policy ALTER COLUMN policy_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.policy_policy_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memdb.profile (
    tenant_id integer NOT NULL,
    profile_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    user_id text NOT NULL,
    memory_id bigint,
    due_at timestamp with time zone,
    attempts smallint DEFAULT 0 NOT NULL,
    refreshed_at timestamp with time zone
)
WITH (fillfactor='70');

COMMENT ON TABLE memdb.profile IS 'Profiles of users: the memory that holds each, and from when on it is to be written anew.';

CREATE TABLE memdb.profile_mark (
    tenant_id integer NOT NULL,
    reason_id bigint DEFAULT 0 NOT NULL,
    belief_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL
);

COMMENT ON TABLE memdb.profile_mark IS 'Up to which reason and which correction of a tenant it was seen whose profiles changed.';

ALTER TABLE memdb.profile ALTER COLUMN profile_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.profile_profile_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memdb.recall_default (
    tenant_id integer CONSTRAINT recall_tenant_id_not_null NOT NULL,
    recall_id bigint CONSTRAINT recall_recall_id_not_null NOT NULL,
    recorded_at timestamp with time zone DEFAULT memdb."current_time"() CONSTRAINT recall_recorded_at_not_null NOT NULL,
    namespace_ids integer[],
    user_id text,
    agent_id text,
    session_id bigint,
    query text,
    arguments jsonb DEFAULT '{}'::jsonb CONSTRAINT recall_arguments_not_null NOT NULL,
    memory_ids bigint[] DEFAULT '{}'::bigint[] CONSTRAINT recall_memory_ids_not_null NOT NULL,
    versions integer[] DEFAULT '{}'::integer[] CONSTRAINT recall_versions_not_null NOT NULL,
    scores real[] DEFAULT '{}'::real[] CONSTRAINT recall_scores_not_null NOT NULL,
    legs jsonb DEFAULT '{}'::jsonb CONSTRAINT recall_legs_not_null NOT NULL,
    is_degraded boolean DEFAULT false CONSTRAINT recall_is_degraded_not_null NOT NULL,
    elapsed_ms real,
    used_ids bigint[],
    used_at timestamp with time zone,
    timing jsonb
);

COMMENT ON TABLE memdb.recall_default IS 'Rows of the recall log that no month partition holds.';

ALTER TABLE memdb.recall ALTER COLUMN recall_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.recall_recall_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memdb.refade (
    tenant_id integer NOT NULL,
    memory_id bigint NOT NULL
);

COMMENT ON TABLE memdb.refade IS 'Tenants whose policy of fading changed: memories beyond memory_id may have a fades_at that is too late.';

ALTER TABLE memdb.review_item ALTER COLUMN review_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.review_item_review_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memdb.role_tenant (
    tenant_id integer NOT NULL,
    role_name name NOT NULL,
    namespaces text[],
    can_write boolean DEFAULT false NOT NULL,
    granted_at timestamp with time zone DEFAULT memdb."current_time"() NOT NULL
);

COMMENT ON TABLE memdb.role_tenant IS 'Which database role may see which tenant; namespaces null means all of them, a path also covers the paths below it.';

ALTER TABLE memdb.session ALTER COLUMN session_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.session_session_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memdb.summary_mark (
    tenant_id integer NOT NULL,
    belief_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE memdb.summary_mark IS 'Up to which correction of a tenant its summaries were checked for having become stale.';

ALTER TABLE memdb.summary_queue ALTER COLUMN queue_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.summary_queue_queue_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE memdb.summary ALTER COLUMN summary_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.summary_summary_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE memdb.tenant ALTER COLUMN tenant_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.tenant_tenant_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memdb.topic_centroid (
    tenant_id integer NOT NULL,
    model_id integer NOT NULL,
    topic_id bigint NOT NULL,
    namespace_id integer NOT NULL,
    vector public.halfvec NOT NULL
);
ALTER TABLE ONLY memdb.topic_centroid ALTER COLUMN vector SET STORAGE PLAIN;

COMMENT ON TABLE memdb.topic_centroid IS 'The middle of a topic by one encoder, as a unit vector.';

CREATE TABLE memdb.topic_progress (
    tenant_id integer NOT NULL,
    seen_id bigint DEFAULT 0 NOT NULL,
    swept_id bigint DEFAULT 0 NOT NULL
);

COMMENT ON TABLE memdb.topic_progress IS 'How far refresh_topics came: the newest memory it saw, and where its round through the older ones stands.';

ALTER TABLE memdb.topic ALTER COLUMN topic_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memdb.topic_topic_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY memdb.audit ATTACH PARTITION memdb.audit_default DEFAULT;

ALTER TABLE ONLY memdb.model_call ATTACH PARTITION memdb.model_call_default DEFAULT;

ALTER TABLE ONLY memdb.recall ATTACH PARTITION memdb.recall_default DEFAULT;

ALTER TABLE ONLY memdb.model_usage
    ADD CONSTRAINT model_usage_pkey PRIMARY KEY (tenant_id, day, namespace_id, purpose, model);

ALTER TABLE ONLY memdb.agent_grant
    ADD CONSTRAINT agent_grant_pkey PRIMARY KEY (tenant_id, agent_id, namespace_id);

ALTER TABLE ONLY memdb.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);

ALTER TABLE ONLY memdb.api_key
    ADD CONSTRAINT api_key_pkey PRIMARY KEY (tenant_id, key_id);

ALTER TABLE ONLY memdb.api_request
    ADD CONSTRAINT api_request_pkey PRIMARY KEY (tenant_id, key_id, idempotency_key);

ALTER TABLE ONLY memdb.assertion
    ADD CONSTRAINT assertion_pkey PRIMARY KEY (tenant_id, memory_id, version, ordinal);

ALTER TABLE ONLY memdb.assessment
    ADD CONSTRAINT assessment_pkey PRIMARY KEY (tenant_id, assessment_id);

ALTER TABLE ONLY memdb.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (tenant_id, audit_id, recorded_at);

ALTER TABLE ONLY memdb.audit_default
    ADD CONSTRAINT audit_default_pkey PRIMARY KEY (tenant_id, audit_id, recorded_at);

ALTER TABLE ONLY memdb.belief
    ADD CONSTRAINT belief_pkey PRIMARY KEY (tenant_id, subject, subject_id, from_at);

ALTER TABLE ONLY memdb.cold_file
    ADD CONSTRAINT cold_file_name_key UNIQUE (tenant_id, name);

ALTER TABLE ONLY memdb.cold_file
    ADD CONSTRAINT cold_file_pkey PRIMARY KEY (tenant_id, file_id);

ALTER TABLE ONLY memdb.edge
    ADD CONSTRAINT edge_pkey PRIMARY KEY (tenant_id, edge_id);

ALTER TABLE ONLY memdb.embedding_cold
    ADD CONSTRAINT embedding_cold_pkey PRIMARY KEY (tenant_id, model_id, memory_id, version);

ALTER TABLE ONLY memdb.embedding_model
    ADD CONSTRAINT embedding_model_name_key UNIQUE (tenant_id, name);

ALTER TABLE ONLY memdb.embedding_model
    ADD CONSTRAINT embedding_model_pkey PRIMARY KEY (tenant_id, model_id);

ALTER TABLE ONLY memdb.embedding
    ADD CONSTRAINT embedding_pkey PRIMARY KEY (tenant_id, model_id, memory_id, version);

ALTER TABLE ONLY memdb.embedding_queue
    ADD CONSTRAINT embedding_queue_pkey PRIMARY KEY (tenant_id, model_id, memory_id, version);

ALTER TABLE ONLY memdb.entity_alias
    ADD CONSTRAINT entity_alias_pkey PRIMARY KEY (tenant_id, namespace_id, alias);

ALTER TABLE ONLY memdb.entity
    ADD CONSTRAINT entity_pkey PRIMARY KEY (tenant_id, entity_id);

ALTER TABLE ONLY memdb.erasure_hash
    ADD CONSTRAINT erasure_hash_pkey PRIMARY KEY (tenant_id, receipt_id, hash);

ALTER TABLE ONLY memdb.erasure_item
    ADD CONSTRAINT erasure_item_pkey PRIMARY KEY (tenant_id, subject, subject_id, version);

ALTER TABLE ONLY memdb.erasure_receipt
    ADD CONSTRAINT erasure_receipt_pkey PRIMARY KEY (tenant_id, receipt_id);

ALTER TABLE ONLY memdb.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (tenant_id, event_id);

ALTER TABLE ONLY memdb.event_tombstone
    ADD CONSTRAINT event_tombstone_pkey PRIMARY KEY (tenant_id, key_hash);

ALTER TABLE ONLY memdb.expiry
    ADD CONSTRAINT expiry_pkey PRIMARY KEY (tenant_id, memory_id);

ALTER TABLE ONLY memdb.extraction
    ADD CONSTRAINT extraction_pkey PRIMARY KEY (tenant_id, event_id);

ALTER TABLE ONLY memdb.fold_mark
    ADD CONSTRAINT fold_mark_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY memdb.golden_query
    ADD CONSTRAINT golden_query_pkey PRIMARY KEY (tenant_id, golden_id);

ALTER TABLE ONLY memdb.golden_query
    ADD CONSTRAINT golden_query_query_key UNIQUE (tenant_id, namespace_id, query);

ALTER TABLE ONLY memdb.job
    ADD CONSTRAINT job_pkey PRIMARY KEY (tenant_id, name);

ALTER TABLE ONLY memdb.job_run
    ADD CONSTRAINT job_run_pkey PRIMARY KEY (tenant_id, run_id);

ALTER TABLE ONLY memdb.justification
    ADD CONSTRAINT justification_pkey PRIMARY KEY (tenant_id, justification_id);

ALTER TABLE ONLY memdb.keyword_queue
    ADD CONSTRAINT keyword_queue_pkey PRIMARY KEY (tenant_id, queue_id);

ALTER TABLE ONLY memdb.keyword_renewal
    ADD CONSTRAINT keyword_renewal_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY memdb.legal_hold
    ADD CONSTRAINT legal_hold_pkey PRIMARY KEY (tenant_id, hold_id);

ALTER TABLE ONLY memdb.lexeme_stat
    ADD CONSTRAINT lexeme_stat_pkey PRIMARY KEY (tenant_id, namespace_id, lexeme);

ALTER TABLE ONLY memdb.memory
    ADD CONSTRAINT memory_pkey PRIMARY KEY (tenant_id, memory_id);

ALTER TABLE ONLY memdb.memory_topic
    ADD CONSTRAINT memory_topic_pkey PRIMARY KEY (tenant_id, memory_id);

ALTER TABLE ONLY memdb.memory_use
    ADD CONSTRAINT memory_use_pkey PRIMARY KEY (tenant_id, memory_id, use_id);

ALTER TABLE ONLY memdb.memory_version
    ADD CONSTRAINT memory_version_pkey PRIMARY KEY (tenant_id, memory_id, version);

ALTER TABLE ONLY memdb.mention
    ADD CONSTRAINT mention_pkey PRIMARY KEY (tenant_id, memory_id, entity_id);

ALTER TABLE ONLY memdb.model_call
    ADD CONSTRAINT model_call_pkey PRIMARY KEY (tenant_id, call_id, recorded_at);

ALTER TABLE ONLY memdb.model_call_default
    ADD CONSTRAINT model_call_default_pkey PRIMARY KEY (tenant_id, call_id, recorded_at);

ALTER TABLE ONLY memdb.namespace
    ADD CONSTRAINT namespace_path_key UNIQUE (tenant_id, path);

ALTER TABLE ONLY memdb.namespace
    ADD CONSTRAINT namespace_pkey PRIMARY KEY (tenant_id, namespace_id);

ALTER TABLE ONLY memdb.namespace_stat
    ADD CONSTRAINT namespace_stat_pkey PRIMARY KEY (tenant_id, namespace_id);

ALTER TABLE ONLY memdb.policy
    ADD CONSTRAINT policy_key_key UNIQUE NULLS NOT DISTINCT (tenant_id, namespace_id, key);

ALTER TABLE ONLY memdb.policy
    ADD CONSTRAINT policy_pkey PRIMARY KEY (tenant_id, policy_id);

ALTER TABLE ONLY memdb.premise
    ADD CONSTRAINT premise_pkey PRIMARY KEY (tenant_id, justification_id, ordinal);

ALTER TABLE ONLY memdb.profile_mark
    ADD CONSTRAINT profile_mark_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY memdb.profile
    ADD CONSTRAINT profile_pkey PRIMARY KEY (tenant_id, profile_id);

ALTER TABLE ONLY memdb.profile
    ADD CONSTRAINT profile_user_key UNIQUE (tenant_id, namespace_id, user_id);

ALTER TABLE ONLY memdb.recall_cache
    ADD CONSTRAINT recall_cache_pkey PRIMARY KEY (tenant_id, cache_key);

ALTER TABLE ONLY memdb.recall
    ADD CONSTRAINT recall_pkey PRIMARY KEY (tenant_id, recall_id, recorded_at);

ALTER TABLE ONLY memdb.recall_default
    ADD CONSTRAINT recall_default_pkey PRIMARY KEY (tenant_id, recall_id, recorded_at);

ALTER TABLE ONLY memdb.rederivation
    ADD CONSTRAINT rederivation_pkey PRIMARY KEY (tenant_id, memory_id);

ALTER TABLE ONLY memdb.refade
    ADD CONSTRAINT refade_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY memdb.review_item
    ADD CONSTRAINT review_item_pkey PRIMARY KEY (tenant_id, review_id);

ALTER TABLE ONLY memdb.role_tenant
    ADD CONSTRAINT role_tenant_pkey PRIMARY KEY (tenant_id, role_name);

ALTER TABLE ONLY memdb.schema_info
    ADD CONSTRAINT schema_info_pkey PRIMARY KEY (key);

ALTER TABLE ONLY memdb.scope_write
    ADD CONSTRAINT scope_write_pkey PRIMARY KEY (tenant_id, namespace_id, xid);

ALTER TABLE ONLY memdb.session
    ADD CONSTRAINT session_external_key UNIQUE (tenant_id, namespace_id, external_id);

ALTER TABLE ONLY memdb.session
    ADD CONSTRAINT session_pkey PRIMARY KEY (tenant_id, session_id);

ALTER TABLE ONLY memdb.summary_mark
    ADD CONSTRAINT summary_mark_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY memdb.summary
    ADD CONSTRAINT summary_pkey PRIMARY KEY (tenant_id, summary_id);

ALTER TABLE ONLY memdb.summary_queue
    ADD CONSTRAINT summary_queue_pkey PRIMARY KEY (tenant_id, queue_id);

ALTER TABLE ONLY memdb.summary
    ADD CONSTRAINT summary_subject_key UNIQUE NULLS NOT DISTINCT (tenant_id, namespace_id, session_id, user_id);

ALTER TABLE ONLY memdb.tenant
    ADD CONSTRAINT tenant_name_key UNIQUE (name);

ALTER TABLE ONLY memdb.tenant
    ADD CONSTRAINT tenant_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY memdb.topic_centroid
    ADD CONSTRAINT topic_centroid_pkey PRIMARY KEY (tenant_id, model_id, topic_id);

ALTER TABLE ONLY memdb.topic
    ADD CONSTRAINT topic_pkey PRIMARY KEY (tenant_id, topic_id);

ALTER TABLE ONLY memdb.topic_progress
    ADD CONSTRAINT topic_progress_pkey PRIMARY KEY (tenant_id);

CREATE INDEX api_key_hash_idx ON memdb.api_key USING btree (key_hash);

CREATE INDEX api_request_time_idx ON memdb.api_request USING btree (tenant_id, recorded_at);

CREATE INDEX assertion_subject_idx ON memdb.assertion USING btree (tenant_id, namespace_id, subject, attribute) INCLUDE (memory_id, version);

CREATE INDEX assessment_event_idx ON memdb.assessment USING btree (tenant_id, event_id);

CREATE INDEX assessment_memory_idx ON memdb.assessment USING btree (tenant_id, memory_id) WHERE (memory_id IS NOT NULL);

CREATE INDEX belief_from_idx ON memdb.belief USING btree (from_at, tenant_id);

CREATE INDEX belief_root_idx ON memdb.belief USING btree (root_id, root, tenant_id) WHERE ((to_at IS NULL) AND (root IS NOT NULL));

CREATE INDEX belief_to_idx ON memdb.belief USING btree (to_at, tenant_id) WHERE (to_at IS NOT NULL);

CREATE INDEX edge_event_idx ON memdb.edge USING btree (tenant_id, event_id) WHERE (event_id IS NOT NULL);

CREATE INDEX edge_from_ended_idx ON memdb.edge USING btree (tenant_id, from_memory_id) WHERE (retired_at IS NOT NULL);

CREATE UNIQUE INDEX edge_from_idx ON memdb.edge USING btree (tenant_id, from_memory_id, to_memory_id, relation) INCLUDE (weight) WHERE (retired_at IS NULL);

CREATE INDEX edge_from_memory_idx ON memdb.edge USING btree (tenant_id, from_memory_id);

CREATE INDEX edge_to_ended_idx ON memdb.edge USING btree (tenant_id, to_memory_id) WHERE (retired_at IS NOT NULL);

CREATE INDEX edge_to_idx ON memdb.edge USING btree (tenant_id, to_memory_id) INCLUDE (from_memory_id, relation, weight) WHERE (retired_at IS NULL);

CREATE INDEX edge_to_memory_idx ON memdb.edge USING btree (tenant_id, to_memory_id);

CREATE INDEX embedding_cold_namespace_idx ON memdb.embedding_cold USING btree (tenant_id, model_id, namespace_id, user_id);

CREATE INDEX embedding_cold_version_idx ON memdb.embedding_cold USING btree (tenant_id, memory_id, version);

CREATE UNIQUE INDEX embedding_model_active_idx ON memdb.embedding_model USING btree (tenant_id) WHERE (state = 'active'::text);

CREATE INDEX embedding_namespace_idx ON memdb.embedding USING btree (tenant_id, model_id, namespace_id, user_id);

CREATE INDEX embedding_queue_version_idx ON memdb.embedding_queue USING btree (tenant_id, memory_id, version);

CREATE INDEX embedding_scope_idx ON memdb.embedding USING btree (tenant_id, model_id, namespace_id, user_id) INCLUDE (memory_id, version, type, vector) WHERE (public.vector_dims(vector) <= 768);

CREATE INDEX embedding_version_idx ON memdb.embedding USING btree (tenant_id, memory_id, version);

CREATE INDEX entity_alias_alias_idx ON memdb.entity_alias USING btree (tenant_id, alias text_pattern_ops);

CREATE INDEX entity_alias_entity_idx ON memdb.entity_alias USING btree (tenant_id, entity_id);

CREATE INDEX entity_merged_idx ON memdb.entity USING btree (tenant_id, merged_into) WHERE (merged_into IS NOT NULL);

CREATE INDEX erasure_item_receipt_idx ON memdb.erasure_item USING btree (tenant_id, receipt_id, subject, subject_id);

CREATE INDEX erasure_receipt_open_idx ON memdb.erasure_receipt USING btree (tenant_id, receipt_id) WHERE (state = 'erasing'::text);

CREATE UNIQUE INDEX event_idempotency_idx ON memdb.event USING btree (tenant_id, namespace_id, idempotency_key) WHERE (idempotency_key IS NOT NULL);

CREATE INDEX event_namespace_idx ON memdb.event USING btree (tenant_id, namespace_id, event_id);

CREATE INDEX event_parent_idx ON memdb.event USING btree (tenant_id, parent_event_id) WHERE (parent_event_id IS NOT NULL);

CREATE UNIQUE INDEX event_sequence_idx ON memdb.event USING btree (tenant_id, session_id, sequence) WHERE (session_id IS NOT NULL);

CREATE INDEX expiry_time_idx ON memdb.expiry USING btree (tenant_id, expires_at);

CREATE INDEX extraction_fresh_idx ON memdb.extraction USING btree (tenant_id, namespace_id, event_id) WHERE (state = ANY (ARRAY['pending'::text, 'leased'::text, 'failed'::text, 'dead'::text]));

CREATE INDEX extraction_leased_idx ON memdb.extraction USING btree (tenant_id, session_id, leased_until) WHERE (state = 'leased'::text);

CREATE INDEX extraction_open_idx ON memdb.extraction USING btree (tenant_id, session_id, sequence, event_id) WHERE (state = ANY (ARRAY['pending'::text, 'leased'::text, 'failed'::text]));

CREATE INDEX job_due_idx ON memdb.job USING btree (next_at) WHERE is_enabled;

CREATE INDEX job_run_name_idx ON memdb.job_run USING btree (tenant_id, name, run_id);

CREATE INDEX justification_memory_idx ON memdb.justification USING btree (tenant_id, memory_id, version);

CREATE INDEX justification_other_idx ON memdb.justification USING btree (tenant_id, memory_id) INCLUDE (justification_id) WHERE (NOT supports);

CREATE INDEX keyword_queue_namespace_idx ON memdb.keyword_queue USING btree (tenant_id, namespace_id, queue_id);

CREATE UNIQUE INDEX legal_hold_open_idx ON memdb.legal_hold USING btree (tenant_id, namespace_id, user_id) NULLS NOT DISTINCT WHERE (lifted_at IS NULL);

CREATE UNIQUE INDEX memory_external_idx ON memdb.memory USING btree (tenant_id, namespace_id, external_id) WHERE (external_id IS NOT NULL);

CREATE UNIQUE INDEX memory_fact_idx ON memdb.memory USING btree (tenant_id, namespace_id, content_hash, user_id) NULLS NOT DISTINCT WHERE (external_id IS NULL);

CREATE INDEX memory_fades_idx ON memdb.memory USING btree (tenant_id, fades_at) WHERE (fades_at IS NOT NULL);

CREATE INDEX memory_sequence_idx ON memdb.memory USING btree (tenant_id, session_id, sequence, memory_id) WHERE (session_id IS NOT NULL);

CREATE INDEX memory_time_idx ON memdb.memory USING btree (tenant_id, namespace_id, occurred_at, memory_id);

CREATE INDEX memory_topic_topic_idx ON memdb.memory_topic USING btree (tenant_id, topic_id, memory_id);

CREATE INDEX memory_user_idx ON memdb.memory USING btree (tenant_id, namespace_id, user_id, importance) WHERE (user_id IS NOT NULL);

CREATE INDEX memory_version_cold_idx ON memdb.memory_version USING btree (tenant_id, cold_file_id) WHERE (cold_file_id IS NOT NULL);

CREATE INDEX memory_version_event_idx ON memdb.memory_version USING btree (tenant_id, event_id) WHERE (event_id IS NOT NULL);

CREATE INDEX memory_version_keyword_idx ON memdb.memory_version USING gin (keyword);

CREATE INDEX memory_version_metadata_idx ON memdb.memory_version USING gin (memdb.scoped_metadata_v1(tenant_id, namespace_id, metadata) jsonb_path_ops) WHERE (metadata <> '{}'::jsonb);

CREATE INDEX mention_entity_idx ON memdb.mention USING btree (tenant_id, entity_id, memory_id);

CREATE INDEX model_call_answer_idx ON ONLY memdb.model_call USING btree (tenant_id, prompt_hash) WHERE ((outcome = 'ok'::text) AND (response IS NOT NULL));

CREATE INDEX model_call_event_idx ON ONLY memdb.model_call USING gin (event_ids);

CREATE INDEX model_call_default_event_ids_idx ON memdb.model_call_default USING gin (event_ids);

CREATE INDEX model_call_memory_idx ON ONLY memdb.model_call USING gin (memory_ids);

CREATE INDEX model_call_default_memory_ids_idx ON memdb.model_call_default USING gin (memory_ids);

CREATE INDEX model_call_default_tenant_id_prompt_hash_idx ON memdb.model_call_default USING btree (tenant_id, prompt_hash) WHERE ((outcome = 'ok'::text) AND (response IS NOT NULL));

CREATE INDEX model_call_time_idx ON ONLY memdb.model_call USING btree (tenant_id, recorded_at);

CREATE INDEX model_call_default_tenant_id_recorded_at_idx ON memdb.model_call_default USING btree (tenant_id, recorded_at);

CREATE INDEX premise_event_idx ON memdb.premise USING btree (tenant_id, event_id) INCLUDE (conclusion_id, justification_id, supports) WHERE (event_id IS NOT NULL);

CREATE INDEX premise_memory_idx ON memdb.premise USING btree (tenant_id, memory_id) INCLUDE (memory_version, conclusion_id, justification_id, supports) WHERE (memory_id IS NOT NULL);

CREATE INDEX profile_due_idx ON memdb.profile USING btree (tenant_id, due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX profile_memory_idx ON memdb.profile USING btree (tenant_id, memory_id) WHERE (memory_id IS NOT NULL);

CREATE INDEX recall_cache_stored_idx ON memdb.recall_cache USING btree (tenant_id, stored_at);

CREATE INDEX rederivation_next_idx ON memdb.rederivation USING btree (tenant_id, next_at);

CREATE INDEX review_item_event_idx ON memdb.review_item USING btree (tenant_id, event_id) WHERE (event_id IS NOT NULL);

CREATE INDEX review_item_memory_idx ON memdb.review_item USING btree (tenant_id, memory_id);

CREATE INDEX review_item_namespace_idx ON memdb.review_item USING btree (tenant_id, namespace_id, review_id) WHERE (state = 'open'::text);

CREATE UNIQUE INDEX review_item_open_idx ON memdb.review_item USING btree (tenant_id, kind, LEAST(memory_id, other_memory_id), GREATEST(memory_id, other_memory_id)) WHERE (state = 'open'::text);

CREATE INDEX review_item_other_idx ON memdb.review_item USING btree (tenant_id, other_memory_id) WHERE (other_memory_id IS NOT NULL);

CREATE INDEX summary_due_idx ON memdb.summary USING btree (tenant_id, due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX summary_memory_idx ON memdb.summary USING btree (tenant_id, memory_id) WHERE (memory_id IS NOT NULL);

CREATE INDEX summary_session_idx ON memdb.summary USING btree (tenant_id, session_id) WHERE (session_id IS NOT NULL);

CREATE INDEX topic_centroid_namespace_idx ON memdb.topic_centroid USING btree (tenant_id, model_id, namespace_id);

CREATE INDEX topic_centroid_topic_idx ON memdb.topic_centroid USING btree (tenant_id, topic_id);

CREATE INDEX topic_due_idx ON memdb.topic USING btree (tenant_id, topic_id) WHERE is_due;

CREATE INDEX topic_entity_idx ON memdb.topic USING btree (tenant_id, entity_id) WHERE (entity_id IS NOT NULL);

CREATE INDEX topic_moving_idx ON memdb.topic USING btree (tenant_id, moving_to) WHERE (moving_to IS NOT NULL);

CREATE INDEX topic_namespace_idx ON memdb.topic USING btree (tenant_id, namespace_id, topic_id);

ALTER INDEX memdb.audit_pkey ATTACH PARTITION memdb.audit_default_pkey;

ALTER INDEX memdb.model_call_event_idx ATTACH PARTITION memdb.model_call_default_event_ids_idx;

ALTER INDEX memdb.model_call_memory_idx ATTACH PARTITION memdb.model_call_default_memory_ids_idx;

ALTER INDEX memdb.model_call_pkey ATTACH PARTITION memdb.model_call_default_pkey;

ALTER INDEX memdb.model_call_answer_idx ATTACH PARTITION memdb.model_call_default_tenant_id_prompt_hash_idx;

ALTER INDEX memdb.model_call_time_idx ATTACH PARTITION memdb.model_call_default_tenant_id_recorded_at_idx;

ALTER INDEX memdb.recall_pkey ATTACH PARTITION memdb.recall_default_pkey;

CREATE TRIGGER memory_topic_forget AFTER DELETE ON memdb.memory_topic REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION memdb._forget_topic_members();

CREATE TRIGGER memory_version_keyword BEFORE INSERT OR UPDATE OF tenant_id, namespace_id, user_id, text, heading, language ON memdb.memory_version FOR EACH ROW EXECUTE FUNCTION memdb._set_keyword();

ALTER TABLE memdb.memory_version ENABLE ALWAYS TRIGGER memory_version_keyword;

CREATE TRIGGER memory_version_summary AFTER INSERT ON memdb.memory_version REFERENCING NEW TABLE AS new_version FOR EACH STATEMENT EXECUTE FUNCTION memdb._queue_for_summaries();

ALTER TABLE ONLY memdb.agent_grant
    ADD CONSTRAINT agent_grant_namespace_fkey FOREIGN KEY (tenant_id, namespace_id) REFERENCES memdb.namespace(tenant_id, namespace_id);

ALTER TABLE ONLY memdb.api_key
    ADD CONSTRAINT api_key_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES memdb.tenant(tenant_id);

ALTER TABLE ONLY memdb.api_request
    ADD CONSTRAINT api_request_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES memdb.tenant(tenant_id);

ALTER TABLE ONLY memdb.assertion
    ADD CONSTRAINT assertion_version_fkey FOREIGN KEY (tenant_id, memory_id, version) REFERENCES memdb.memory_version(tenant_id, memory_id, version);

ALTER TABLE ONLY memdb.assessment
    ADD CONSTRAINT assessment_event_fkey FOREIGN KEY (tenant_id, event_id) REFERENCES memdb.event(tenant_id, event_id);

ALTER TABLE ONLY memdb.assessment
    ADD CONSTRAINT assessment_version_fkey FOREIGN KEY (tenant_id, memory_id, version) REFERENCES memdb.memory_version(tenant_id, memory_id, version);

ALTER TABLE ONLY memdb.cold_file
    ADD CONSTRAINT cold_file_namespace_fkey FOREIGN KEY (tenant_id, namespace_id) REFERENCES memdb.namespace(tenant_id, namespace_id);

ALTER TABLE ONLY memdb.edge
    ADD CONSTRAINT edge_event_fkey FOREIGN KEY (tenant_id, event_id) REFERENCES memdb.event(tenant_id, event_id);

ALTER TABLE ONLY memdb.edge
    ADD CONSTRAINT edge_from_fkey FOREIGN KEY (tenant_id, from_memory_id) REFERENCES memdb.memory(tenant_id, memory_id);

ALTER TABLE ONLY memdb.edge
    ADD CONSTRAINT edge_to_fkey FOREIGN KEY (tenant_id, to_memory_id) REFERENCES memdb.memory(tenant_id, memory_id);

ALTER TABLE ONLY memdb.embedding_cold
    ADD CONSTRAINT embedding_cold_model_fkey FOREIGN KEY (tenant_id, model_id) REFERENCES memdb.embedding_model(tenant_id, model_id);

ALTER TABLE ONLY memdb.embedding_cold
    ADD CONSTRAINT embedding_cold_version_fkey FOREIGN KEY (tenant_id, memory_id, version) REFERENCES memdb.memory_version(tenant_id, memory_id, version);

ALTER TABLE ONLY memdb.embedding
    ADD CONSTRAINT embedding_model_fkey FOREIGN KEY (tenant_id, model_id) REFERENCES memdb.embedding_model(tenant_id, model_id);

ALTER TABLE ONLY memdb.embedding_model
    ADD CONSTRAINT embedding_model_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES memdb.tenant(tenant_id);

ALTER TABLE ONLY memdb.embedding_queue
    ADD CONSTRAINT embedding_queue_model_fkey FOREIGN KEY (tenant_id, model_id) REFERENCES memdb.embedding_model(tenant_id, model_id);

ALTER TABLE ONLY memdb.embedding_queue
    ADD CONSTRAINT embedding_queue_version_fkey FOREIGN KEY (tenant_id, memory_id, version) REFERENCES memdb.memory_version(tenant_id, memory_id, version);

ALTER TABLE ONLY memdb.embedding
    ADD CONSTRAINT embedding_version_fkey FOREIGN KEY (tenant_id, memory_id, version) REFERENCES memdb.memory_version(tenant_id, memory_id, version);

ALTER TABLE ONLY memdb.entity_alias
    ADD CONSTRAINT entity_alias_entity_fkey FOREIGN KEY (tenant_id, entity_id) REFERENCES memdb.entity(tenant_id, entity_id);

ALTER TABLE ONLY memdb.entity
    ADD CONSTRAINT entity_merged_fkey FOREIGN KEY (tenant_id, merged_into) REFERENCES memdb.entity(tenant_id, entity_id);

ALTER TABLE ONLY memdb.entity
    ADD CONSTRAINT entity_namespace_fkey FOREIGN KEY (tenant_id, namespace_id) REFERENCES memdb.namespace(tenant_id, namespace_id);

ALTER TABLE ONLY memdb.erasure_hash
    ADD CONSTRAINT erasure_hash_receipt_fkey FOREIGN KEY (tenant_id, receipt_id) REFERENCES memdb.erasure_receipt(tenant_id, receipt_id);

ALTER TABLE ONLY memdb.erasure_item
    ADD CONSTRAINT erasure_item_receipt_fkey FOREIGN KEY (tenant_id, receipt_id) REFERENCES memdb.erasure_receipt(tenant_id, receipt_id);

ALTER TABLE ONLY memdb.event
    ADD CONSTRAINT event_namespace_fkey FOREIGN KEY (tenant_id, namespace_id) REFERENCES memdb.namespace(tenant_id, namespace_id);

ALTER TABLE ONLY memdb.event
    ADD CONSTRAINT event_parent_fkey FOREIGN KEY (tenant_id, parent_event_id) REFERENCES memdb.event(tenant_id, event_id);

ALTER TABLE ONLY memdb.event
    ADD CONSTRAINT event_session_fkey FOREIGN KEY (tenant_id, session_id) REFERENCES memdb.session(tenant_id, session_id);

ALTER TABLE ONLY memdb.expiry
    ADD CONSTRAINT expiry_memory_fkey FOREIGN KEY (tenant_id, memory_id) REFERENCES memdb.memory(tenant_id, memory_id) ON DELETE CASCADE;

ALTER TABLE ONLY memdb.extraction
    ADD CONSTRAINT extraction_event_fkey FOREIGN KEY (tenant_id, event_id) REFERENCES memdb.event(tenant_id, event_id);

ALTER TABLE ONLY memdb.fold_mark
    ADD CONSTRAINT fold_mark_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES memdb.tenant(tenant_id);

ALTER TABLE ONLY memdb.golden_query
    ADD CONSTRAINT golden_query_namespace_fkey FOREIGN KEY (tenant_id, namespace_id) REFERENCES memdb.namespace(tenant_id, namespace_id);

ALTER TABLE ONLY memdb.job
    ADD CONSTRAINT job_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES memdb.tenant(tenant_id);

ALTER TABLE ONLY memdb.justification
    ADD CONSTRAINT justification_version_fkey FOREIGN KEY (tenant_id, memory_id, version) REFERENCES memdb.memory_version(tenant_id, memory_id, version);

ALTER TABLE ONLY memdb.keyword_renewal
    ADD CONSTRAINT keyword_renewal_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES memdb.tenant(tenant_id);

ALTER TABLE ONLY memdb.legal_hold
    ADD CONSTRAINT legal_hold_namespace_fkey FOREIGN KEY (tenant_id, namespace_id) REFERENCES memdb.namespace(tenant_id, namespace_id);

ALTER TABLE ONLY memdb.memory
    ADD CONSTRAINT memory_namespace_fkey FOREIGN KEY (tenant_id, namespace_id) REFERENCES memdb.namespace(tenant_id, namespace_id);

ALTER TABLE ONLY memdb.memory
    ADD CONSTRAINT memory_session_fkey FOREIGN KEY (tenant_id, session_id) REFERENCES memdb.session(tenant_id, session_id);

ALTER TABLE ONLY memdb.memory_topic
    ADD CONSTRAINT memory_topic_memory_fkey FOREIGN KEY (tenant_id, memory_id) REFERENCES memdb.memory(tenant_id, memory_id) ON DELETE CASCADE;

ALTER TABLE ONLY memdb.memory_topic
    ADD CONSTRAINT memory_topic_topic_fkey FOREIGN KEY (tenant_id, topic_id) REFERENCES memdb.topic(tenant_id, topic_id);

ALTER TABLE ONLY memdb.memory_version
    ADD CONSTRAINT memory_version_cold_fkey FOREIGN KEY (tenant_id, cold_file_id) REFERENCES memdb.cold_file(tenant_id, file_id);

ALTER TABLE ONLY memdb.memory_version
    ADD CONSTRAINT memory_version_event_fkey FOREIGN KEY (tenant_id, event_id) REFERENCES memdb.event(tenant_id, event_id);

ALTER TABLE ONLY memdb.memory_version
    ADD CONSTRAINT memory_version_memory_fkey FOREIGN KEY (tenant_id, memory_id) REFERENCES memdb.memory(tenant_id, memory_id);

ALTER TABLE ONLY memdb.mention
    ADD CONSTRAINT mention_entity_fkey FOREIGN KEY (tenant_id, entity_id) REFERENCES memdb.entity(tenant_id, entity_id);

ALTER TABLE ONLY memdb.mention
    ADD CONSTRAINT mention_memory_fkey FOREIGN KEY (tenant_id, memory_id) REFERENCES memdb.memory(tenant_id, memory_id);

ALTER TABLE ONLY memdb.model_usage
    ADD CONSTRAINT model_usage_namespace_fkey FOREIGN KEY (tenant_id, namespace_id) REFERENCES memdb.namespace(tenant_id, namespace_id);

ALTER TABLE ONLY memdb.namespace_stat
    ADD CONSTRAINT namespace_stat_namespace_fkey FOREIGN KEY (tenant_id, namespace_id) REFERENCES memdb.namespace(tenant_id, namespace_id);

ALTER TABLE ONLY memdb.namespace
    ADD CONSTRAINT namespace_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES memdb.tenant(tenant_id);

ALTER TABLE ONLY memdb.policy
    ADD CONSTRAINT policy_namespace_fkey FOREIGN KEY (tenant_id, namespace_id) REFERENCES memdb.namespace(tenant_id, namespace_id);

ALTER TABLE ONLY memdb.policy
    ADD CONSTRAINT policy_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES memdb.tenant(tenant_id);

ALTER TABLE ONLY memdb.premise
    ADD CONSTRAINT premise_event_fkey FOREIGN KEY (tenant_id, event_id) REFERENCES memdb.event(tenant_id, event_id);

ALTER TABLE ONLY memdb.premise
    ADD CONSTRAINT premise_justification_fkey FOREIGN KEY (tenant_id, justification_id) REFERENCES memdb.justification(tenant_id, justification_id);

ALTER TABLE ONLY memdb.premise
    ADD CONSTRAINT premise_memory_fkey FOREIGN KEY (tenant_id, memory_id, memory_version) REFERENCES memdb.memory_version(tenant_id, memory_id, version);

ALTER TABLE ONLY memdb.profile_mark
    ADD CONSTRAINT profile_mark_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES memdb.tenant(tenant_id);

ALTER TABLE ONLY memdb.profile
    ADD CONSTRAINT profile_memory_fkey FOREIGN KEY (tenant_id, memory_id) REFERENCES memdb.memory(tenant_id, memory_id) ON DELETE SET NULL (memory_id);

ALTER TABLE ONLY memdb.profile
    ADD CONSTRAINT profile_namespace_fkey FOREIGN KEY (tenant_id, namespace_id) REFERENCES memdb.namespace(tenant_id, namespace_id);

ALTER TABLE ONLY memdb.rederivation
    ADD CONSTRAINT rederivation_version_fkey FOREIGN KEY (tenant_id, memory_id, version) REFERENCES memdb.memory_version(tenant_id, memory_id, version);

ALTER TABLE ONLY memdb.refade
    ADD CONSTRAINT refade_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES memdb.tenant(tenant_id);

ALTER TABLE ONLY memdb.review_item
    ADD CONSTRAINT review_item_event_fkey FOREIGN KEY (tenant_id, event_id) REFERENCES memdb.event(tenant_id, event_id);

ALTER TABLE ONLY memdb.review_item
    ADD CONSTRAINT review_item_memory_fkey FOREIGN KEY (tenant_id, memory_id, version) REFERENCES memdb.memory_version(tenant_id, memory_id, version);

ALTER TABLE ONLY memdb.review_item
    ADD CONSTRAINT review_item_other_fkey FOREIGN KEY (tenant_id, other_memory_id, other_version) REFERENCES memdb.memory_version(tenant_id, memory_id, version);

ALTER TABLE ONLY memdb.role_tenant
    ADD CONSTRAINT role_tenant_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES memdb.tenant(tenant_id);

ALTER TABLE ONLY memdb.session
    ADD CONSTRAINT session_namespace_fkey FOREIGN KEY (tenant_id, namespace_id) REFERENCES memdb.namespace(tenant_id, namespace_id);

ALTER TABLE ONLY memdb.summary_mark
    ADD CONSTRAINT summary_mark_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES memdb.tenant(tenant_id);

ALTER TABLE ONLY memdb.summary
    ADD CONSTRAINT summary_memory_fkey FOREIGN KEY (tenant_id, memory_id) REFERENCES memdb.memory(tenant_id, memory_id);

ALTER TABLE ONLY memdb.summary
    ADD CONSTRAINT summary_namespace_fkey FOREIGN KEY (tenant_id, namespace_id) REFERENCES memdb.namespace(tenant_id, namespace_id);

ALTER TABLE ONLY memdb.summary
    ADD CONSTRAINT summary_session_fkey FOREIGN KEY (tenant_id, session_id) REFERENCES memdb.session(tenant_id, session_id);

ALTER TABLE ONLY memdb.topic_centroid
    ADD CONSTRAINT topic_centroid_model_fkey FOREIGN KEY (tenant_id, model_id) REFERENCES memdb.embedding_model(tenant_id, model_id) ON DELETE CASCADE;

ALTER TABLE ONLY memdb.topic_centroid
    ADD CONSTRAINT topic_centroid_topic_fkey FOREIGN KEY (tenant_id, topic_id) REFERENCES memdb.topic(tenant_id, topic_id) ON DELETE CASCADE;

ALTER TABLE ONLY memdb.topic
    ADD CONSTRAINT topic_entity_fkey FOREIGN KEY (tenant_id, entity_id) REFERENCES memdb.entity(tenant_id, entity_id) ON DELETE SET NULL (entity_id);

ALTER TABLE ONLY memdb.topic
    ADD CONSTRAINT topic_moving_fkey FOREIGN KEY (tenant_id, moving_to) REFERENCES memdb.topic(tenant_id, topic_id) ON DELETE SET NULL (moving_to);

ALTER TABLE ONLY memdb.topic
    ADD CONSTRAINT topic_namespace_fkey FOREIGN KEY (tenant_id, namespace_id) REFERENCES memdb.namespace(tenant_id, namespace_id);

ALTER TABLE ONLY memdb.topic_progress
    ADD CONSTRAINT topic_progress_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES memdb.tenant(tenant_id);

ALTER TABLE memdb.agent_grant ENABLE ROW LEVEL SECURITY;

CREATE POLICY agent_grant_operator ON memdb.agent_grant FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.api_key ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.api_request ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.assertion ENABLE ROW LEVEL SECURITY;

CREATE POLICY assertion_app ON memdb.assertion FOR SELECT TO memdb_reader USING ((((tenant_id = ANY (( SELECT memdb.bound_tenants() AS bound_tenants)::integer[])) OR (namespace_id = ANY (( SELECT memdb.bound_namespaces() AS bound_namespaces)::integer[]))) AND ((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, 'memory'::text, memory_id)))));

CREATE POLICY assertion_operator ON memdb.assertion FOR SELECT TO memdb_operator USING (((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, 'memory'::text, memory_id))));

ALTER TABLE memdb.assessment ENABLE ROW LEVEL SECURITY;

CREATE POLICY assessment_app ON memdb.assessment FOR SELECT TO memdb_reader USING ((((tenant_id = ANY (( SELECT memdb.bound_tenants() AS bound_tenants)::integer[])) OR (namespace_id = ANY (( SELECT memdb.bound_namespaces() AS bound_namespaces)::integer[]))) AND ((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT (memdb._is_hidden(tenant_id, 'event'::text, event_id) OR memdb._is_hidden(tenant_id, 'memory'::text, memory_id))))));

CREATE POLICY assessment_operator ON memdb.assessment FOR SELECT TO memdb_operator USING (((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT (memdb._is_hidden(tenant_id, 'event'::text, event_id) OR memdb._is_hidden(tenant_id, 'memory'::text, memory_id)))));

ALTER TABLE memdb.audit ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.audit_default ENABLE ROW LEVEL SECURITY;

CREATE POLICY audit_operator ON memdb.audit FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.belief ENABLE ROW LEVEL SECURITY;

CREATE POLICY belief_app ON memdb.belief FOR SELECT TO memdb_reader USING ((((tenant_id = ANY (( SELECT memdb.bound_tenants() AS bound_tenants)::integer[])) OR (namespace_id = ANY (( SELECT memdb.bound_namespaces() AS bound_namespaces)::integer[]))) AND ((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, subject, subject_id)))));

CREATE POLICY belief_operator ON memdb.belief FOR SELECT TO memdb_operator USING (((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, subject, subject_id))));

ALTER TABLE memdb.cold_file ENABLE ROW LEVEL SECURITY;

CREATE POLICY cold_file_operator ON memdb.cold_file FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.edge ENABLE ROW LEVEL SECURITY;

CREATE POLICY edge_operator ON memdb.edge FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.embedding ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.embedding_cold ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.embedding_model ENABLE ROW LEVEL SECURITY;

CREATE POLICY embedding_model_app ON memdb.embedding_model FOR SELECT TO memdb_reader USING ((tenant_id IN ( SELECT g.tenant_id
   FROM memdb._grants() g(tenant_id, namespaces, can_write))));

CREATE POLICY embedding_model_operator ON memdb.embedding_model FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.embedding_queue ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.entity ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.entity_alias ENABLE ROW LEVEL SECURITY;

CREATE POLICY entity_alias_operator ON memdb.entity_alias FOR SELECT TO memdb_operator USING (true);

CREATE POLICY entity_app ON memdb.entity FOR SELECT TO memdb_reader USING ((((tenant_id = ANY (( SELECT memdb.bound_tenants() AS bound_tenants)::integer[])) OR (namespace_id = ANY (( SELECT memdb.bound_namespaces() AS bound_namespaces)::integer[]))) AND ((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, 'entity'::text, entity_id)))));

CREATE POLICY entity_operator ON memdb.entity FOR SELECT TO memdb_operator USING (((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, 'entity'::text, entity_id))));

ALTER TABLE memdb.erasure_hash ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.erasure_item ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.erasure_receipt ENABLE ROW LEVEL SECURITY;

CREATE POLICY erasure_receipt_operator ON memdb.erasure_receipt FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.event ENABLE ROW LEVEL SECURITY;

CREATE POLICY event_app ON memdb.event FOR SELECT TO memdb_reader USING ((((tenant_id = ANY (( SELECT memdb.bound_tenants() AS bound_tenants)::integer[])) OR (namespace_id = ANY (( SELECT memdb.bound_namespaces() AS bound_namespaces)::integer[]))) AND ((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, 'event'::text, event_id)))));

CREATE POLICY event_operator ON memdb.event FOR SELECT TO memdb_operator USING (((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, 'event'::text, event_id))));

ALTER TABLE memdb.event_tombstone ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.expiry ENABLE ROW LEVEL SECURITY;

CREATE POLICY expiry_app ON memdb.expiry FOR SELECT TO memdb_reader USING (((tenant_id = ANY (( SELECT memdb.bound_tenants() AS bound_tenants)::integer[])) OR (namespace_id = ANY (( SELECT memdb.bound_namespaces() AS bound_namespaces)::integer[]))));

CREATE POLICY expiry_operator ON memdb.expiry FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.extraction ENABLE ROW LEVEL SECURITY;

CREATE POLICY extraction_operator ON memdb.extraction FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.fold_mark ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.golden_query ENABLE ROW LEVEL SECURITY;

CREATE POLICY golden_query_operator ON memdb.golden_query FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.job ENABLE ROW LEVEL SECURITY;

CREATE POLICY job_operator ON memdb.job FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.job_run ENABLE ROW LEVEL SECURITY;

CREATE POLICY job_run_operator ON memdb.job_run FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.justification ENABLE ROW LEVEL SECURITY;

CREATE POLICY justification_operator ON memdb.justification FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.keyword_queue ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.keyword_renewal ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.legal_hold ENABLE ROW LEVEL SECURITY;

CREATE POLICY legal_hold_operator ON memdb.legal_hold FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.lexeme_stat ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.memory ENABLE ROW LEVEL SECURITY;

CREATE POLICY memory_app ON memdb.memory FOR SELECT TO memdb_reader USING ((((tenant_id = ANY (( SELECT memdb.bound_tenants() AS bound_tenants)::integer[])) OR (namespace_id = ANY (( SELECT memdb.bound_namespaces() AS bound_namespaces)::integer[]))) AND (erasure_id IS NULL) AND ((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, 'memory'::text, memory_id)))));

CREATE POLICY memory_operator ON memdb.memory FOR SELECT TO memdb_operator USING (((erasure_id IS NULL) AND ((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, 'memory'::text, memory_id)))));

ALTER TABLE memdb.memory_topic ENABLE ROW LEVEL SECURITY;

CREATE POLICY memory_topic_operator ON memdb.memory_topic FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.memory_use ENABLE ROW LEVEL SECURITY;

CREATE POLICY memory_use_operator ON memdb.memory_use FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.memory_version ENABLE ROW LEVEL SECURITY;

CREATE POLICY memory_version_app ON memdb.memory_version FOR SELECT TO memdb_reader USING ((((tenant_id = ANY (( SELECT memdb.bound_tenants() AS bound_tenants)::integer[])) OR (namespace_id = ANY (( SELECT memdb.bound_namespaces() AS bound_namespaces)::integer[]))) AND ((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, 'memory'::text, memory_id)))));

CREATE POLICY memory_version_operator ON memdb.memory_version FOR SELECT TO memdb_operator USING (((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT memdb._is_hidden(tenant_id, 'memory'::text, memory_id))));

ALTER TABLE memdb.mention ENABLE ROW LEVEL SECURITY;

CREATE POLICY mention_operator ON memdb.mention FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.model_call ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.model_call_default ENABLE ROW LEVEL SECURITY;

CREATE POLICY model_call_operator ON memdb.model_call FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.model_usage ENABLE ROW LEVEL SECURITY;

CREATE POLICY model_usage_operator ON memdb.model_usage FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.namespace ENABLE ROW LEVEL SECURITY;

CREATE POLICY namespace_app ON memdb.namespace FOR SELECT TO memdb_reader USING (((tenant_id = ANY (( SELECT memdb.bound_tenants() AS bound_tenants)::integer[])) OR (namespace_id = ANY (( SELECT memdb.bound_namespaces() AS bound_namespaces)::integer[]))));

CREATE POLICY namespace_operator ON memdb.namespace FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.namespace_stat ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.policy ENABLE ROW LEVEL SECURITY;

CREATE POLICY policy_operator ON memdb.policy FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.premise ENABLE ROW LEVEL SECURITY;

CREATE POLICY premise_operator ON memdb.premise FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.profile ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.profile_mark ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.recall ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.recall_cache ENABLE ROW LEVEL SECURITY;

CREATE POLICY recall_cache_operator ON memdb.recall_cache FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.recall_default ENABLE ROW LEVEL SECURITY;

CREATE POLICY recall_operator ON memdb.recall FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.rederivation ENABLE ROW LEVEL SECURITY;

CREATE POLICY rederivation_operator ON memdb.rederivation FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.refade ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.review_item ENABLE ROW LEVEL SECURITY;

CREATE POLICY review_item_app ON memdb.review_item FOR SELECT TO memdb_reader USING ((((tenant_id = ANY (( SELECT memdb.bound_tenants() AS bound_tenants)::integer[])) OR (namespace_id = ANY (( SELECT memdb.bound_namespaces() AS bound_namespaces)::integer[]))) AND ((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT (memdb._is_hidden(tenant_id, 'memory'::text, memory_id) OR memdb._is_hidden(tenant_id, 'memory'::text, other_memory_id))))));

CREATE POLICY review_item_operator ON memdb.review_item FOR SELECT TO memdb_operator USING (((NOT ( SELECT memdb._is_erasing() AS _is_erasing)) OR (NOT (memdb._is_hidden(tenant_id, 'memory'::text, memory_id) OR memdb._is_hidden(tenant_id, 'memory'::text, other_memory_id)))));

ALTER TABLE memdb.role_tenant ENABLE ROW LEVEL SECURITY;

CREATE POLICY role_tenant_operator ON memdb.role_tenant FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.schema_info ENABLE ROW LEVEL SECURITY;

CREATE POLICY schema_info_app ON memdb.schema_info FOR SELECT TO memdb_reader USING (true);

ALTER TABLE memdb.scope_write ENABLE ROW LEVEL SECURITY;

CREATE POLICY scope_write_operator ON memdb.scope_write FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.session ENABLE ROW LEVEL SECURITY;

CREATE POLICY session_app ON memdb.session FOR SELECT TO memdb_reader USING (((tenant_id = ANY (( SELECT memdb.bound_tenants() AS bound_tenants)::integer[])) OR (namespace_id = ANY (( SELECT memdb.bound_namespaces() AS bound_namespaces)::integer[]))));

CREATE POLICY session_operator ON memdb.session FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.summary ENABLE ROW LEVEL SECURITY;

ALTER TABLE memdb.summary_mark ENABLE ROW LEVEL SECURITY;

CREATE POLICY summary_operator ON memdb.summary FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.summary_queue ENABLE ROW LEVEL SECURITY;

CREATE POLICY summary_queue_operator ON memdb.summary_queue FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.tenant ENABLE ROW LEVEL SECURITY;

CREATE POLICY tenant_app ON memdb.tenant FOR SELECT TO memdb_reader USING ((tenant_id IN ( SELECT g.tenant_id
   FROM memdb._grants() g(tenant_id, namespaces, can_write))));

CREATE POLICY tenant_operator ON memdb.tenant FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.topic ENABLE ROW LEVEL SECURITY;

CREATE POLICY topic_app ON memdb.topic FOR SELECT TO memdb_reader USING (((tenant_id = ANY (( SELECT memdb.bound_tenants() AS bound_tenants)::integer[])) OR (namespace_id = ANY (( SELECT memdb.bound_namespaces() AS bound_namespaces)::integer[]))));

ALTER TABLE memdb.topic_centroid ENABLE ROW LEVEL SECURITY;

CREATE POLICY topic_operator ON memdb.topic FOR SELECT TO memdb_operator USING (true);

ALTER TABLE memdb.topic_progress ENABLE ROW LEVEL SECURITY;

GRANT USAGE ON SCHEMA memdb TO memdb_reader;
GRANT USAGE ON SCHEMA memdb TO memdb_service;

GRANT SELECT ON TABLE memdb.edge TO memdb_operator;

GRANT SELECT ON TABLE memdb.justification TO memdb_operator;

GRANT SELECT ON TABLE memdb.memory TO memdb_reader;

GRANT SELECT ON TABLE memdb.premise TO memdb_operator;

GRANT SELECT ON TABLE memdb.erasure_receipt TO memdb_operator;

GRANT SELECT ON TABLE memdb.belief TO memdb_reader;

GRANT SELECT ON TABLE memdb.embedding_model TO memdb_reader;

GRANT SELECT ON TABLE memdb.audit TO memdb_operator;

GRANT SELECT ON TABLE memdb.job TO memdb_operator;

GRANT SELECT ON TABLE memdb.memory_version TO memdb_reader;

GRANT SELECT ON TABLE memdb.schema_info TO memdb_reader;

GRANT SELECT ON TABLE memdb.review_item TO memdb_reader;

GRANT SELECT ON TABLE memdb.summary TO memdb_operator;

GRANT SELECT ON TABLE memdb.rederivation TO memdb_operator;

GRANT SELECT ON TABLE memdb.extraction TO memdb_operator;

GRANT SELECT ON TABLE memdb.tenant TO memdb_reader;

GRANT SELECT ON TABLE memdb.shown_memory TO memdb_reader;

GRANT SELECT ON TABLE memdb.shown_memory_version TO memdb_reader;

GRANT SELECT ON TABLE memdb.event TO memdb_reader;

GRANT SELECT ON TABLE memdb.mention TO memdb_operator;

GRANT SELECT ON TABLE memdb.entity TO memdb_reader;

GRANT SELECT ON TABLE memdb.shown_event TO memdb_reader;

GRANT SELECT ON TABLE memdb.namespace TO memdb_reader;

GRANT SELECT ON TABLE memdb.session TO memdb_reader;

GRANT SELECT ON TABLE memdb.model_call TO memdb_operator;

GRANT SELECT ON TABLE memdb.recall TO memdb_operator;

GRANT SELECT ON TABLE memdb.model_usage TO memdb_operator;

GRANT SELECT ON TABLE memdb.policy TO memdb_operator;

GRANT SELECT ON TABLE memdb.summary_queue TO memdb_operator;

GRANT SELECT ON TABLE memdb.memory_use TO memdb_operator;

GRANT SELECT ON TABLE memdb.memories TO memdb_reader;

GRANT SELECT ON TABLE memdb.memory_topic TO memdb_operator;

GRANT SELECT ON TABLE memdb.topic TO memdb_reader;

GRANT SELECT ON TABLE memdb.assessment TO memdb_reader;

GRANT SELECT ON TABLE memdb.events TO memdb_reader;

GRANT SELECT ON TABLE memdb.open_conflicts TO memdb_reader;

REVOKE ALL ON PROCEDURE memdb.work_off_jobs(IN p_seconds integer) FROM PUBLIC;
GRANT ALL ON PROCEDURE memdb.work_off_jobs(IN p_seconds integer) TO memdb_operator;

GRANT SELECT ON TABLE memdb.agent_grant TO memdb_operator;

GRANT SELECT ON TABLE memdb.alembic_version TO memdb_reader;

GRANT SELECT ON TABLE memdb.assertion TO memdb_reader;

GRANT SELECT ON TABLE memdb.cold_file TO memdb_operator;

GRANT SELECT ON TABLE memdb.shown_entity TO memdb_reader;

GRANT SELECT ON TABLE memdb.entities TO memdb_reader;

GRANT SELECT ON TABLE memdb.entity_alias TO memdb_operator;

GRANT SELECT ON TABLE memdb.expiry TO memdb_reader;

GRANT SELECT ON TABLE memdb.golden_query TO memdb_operator;

GRANT SELECT ON TABLE memdb.job_run TO memdb_operator;

GRANT SELECT ON TABLE memdb.legal_hold TO memdb_operator;

GRANT SELECT ON TABLE memdb.memory_versions TO memdb_reader;

GRANT SELECT ON TABLE memdb.role_tenant TO memdb_operator;

-- Functions

-- _able_legs (p_legs text[], p_types text[], p_also memdb._recall_filter, p_vector halfvec)
-- returns text[]; immutable; for its owner

-- _add_count (p_counts jsonb, p_table text, p_rows bigint)
-- returns jsonb; immutable; for its owner

-- _add_counts (p_counts jsonb, p_more jsonb)
-- returns jsonb; immutable; for its owner

-- _add_uses (p_tenant integer, p_memory_ids bigint[], p_uses integer[], p_used_at timestamp with time zone[], p_tied bigint[])
-- returns bigint[]; volatile; for its owner

-- _adjacent (p_tenant integer, p_memory bigint, p_namespaces integer[], p_relations text[], p_fan_out integer)
-- returns TABLE(memory_id bigint, weight real); stable, rows 16; for its owner

-- _adjacent_then (p_tenant integer, p_memory bigint, p_namespaces integer[], p_belief_at timestamp with time zone, p_world_at timestamp with time zone, p_fan_out integer)
-- returns TABLE(memory_id bigint, weight real); stable, rows 16; for its owner

-- _advance_erasure (p_receipt memdb.erasure_receipt, p_limit integer, p_now timestamp with time zone, p_until text DEFAULT NULL::text)
-- returns memdb.erasure_receipt; volatile; for its owner

-- _advance_memories (p_tenant integer, p_items memdb._memory_item[], p_places memdb._memory_place[], p_out integer[], p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _agent_denied (p_tenant integer, p_agent text, p_write boolean)
-- returns integer[]; stable, security definer; for its owner

-- _agents_see (p_tenant integer, p_namespace integer, p_agents text[])
-- returns boolean; stable, security definer; for its owner

-- _alias (p_name text)
-- returns text; immutable; for its owner

-- _alternatives (p_tenant integer, p_now timestamp with time zone)
-- returns bigint[]; stable; for its owner

-- _anchored (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_also memdb._recall_filter, p_query text, p_best double precision, p_found bigint[], p_memory_ids bigint[], p_versions integer[], p_scores double precision[], p_agent text, OUT memory_ids bigint[], OUT versions integer[], OUT scores double precision[])
-- returns record; stable; for its owner

-- _ann_existing ()
-- returns TABLE(name text, tenant_id integer, model_id integer, namespace_id integer, state text); stable, rows 20; for its owner

-- _ann_most ()
-- returns integer; immutable; for its owner

-- _ann_name (p_tenant integer, p_model integer, p_namespace integer)
-- returns text; immutable; for its owner

-- _ann_rows (p_dimensions integer)
-- returns integer; immutable; for its owner

-- _ann_scopes (p_tenant integer, p_model integer)
-- returns integer[]; stable; for its owner

-- _ann_statement (p_tenant integer, p_model integer, p_namespace integer, p_dimensions integer)
-- returns text; stable; for its owner

-- _ann_wanted (p_tenant integer)
-- returns TABLE(model_id integer, namespace_id integer, vectors bigint, place bigint); stable, rows 20; for its owner

-- _any_term (p_terms text[])
-- returns text; immutable; for its owner

-- _append_correction (p_tenant integer, p_event bigint, p_text text)
-- returns bigint; volatile; for its owner

-- _archive (p_tenant integer, p_memory_ids bigint[])
-- returns void; volatile; for its owner

-- _arm_graph (p_on boolean)
-- returns void; volatile; for its owner

-- _arm_memories (p_tenant integer, p_memory_ids bigint[])
-- returns void; volatile; for its owner

-- _ask_about_stale (p_text text, p_language text)
-- returns text; immutable; for its owner

-- _ask_golden (p_tenant integer, p_limit integer)
-- returns TABLE(remaining bigint, note text); volatile, rows 1; for its owner

-- _assign_topics (p_tenant integer, p_model integer, p_spread jsonb, p_limit integer)
-- returns integer; volatile; for its owner

-- _audit (p_tenant integer, p_key bigint, p_action text, p_request text, p_detail jsonb)
-- returns void; volatile; for its owner

-- _audit_beliefs (p_tenant integer, p_repair boolean, p_now timestamp with time zone)
-- returns TABLE(problem text, found bigint, repaired bigint, examples bigint[], remedy text); volatile, rows 3; for its owner

-- _audit_graph (p_tenant integer, p_repair boolean)
-- returns TABLE(problem text, found bigint, repaired bigint, examples bigint[], remedy text); volatile, rows 1; for its owner

-- _audit_keywords (p_tenant integer, p_repair boolean, p_now timestamp with time zone)
-- returns TABLE(problem text, found bigint, repaired bigint, examples bigint[], remedy text); volatile, rows 2; for its owner

-- _audit_labels (p_tenant integer, p_repair boolean, p_now timestamp with time zone)
-- returns TABLE(problem text, found bigint, repaired bigint, examples bigint[], remedy text); volatile, rows 3; for its owner

-- _audit_queues (p_tenant integer, p_repair boolean, p_now timestamp with time zone)
-- returns TABLE(problem text, found bigint, repaired bigint, examples bigint[], remedy text); volatile, rows 4; for its owner

-- _audit_supports (p_tenant integer, p_repair boolean)
-- returns TABLE(problem text, found bigint, repaired bigint, examples bigint[], remedy text); volatile, rows 2; for its owner

-- _audit_vectors (p_tenant integer, p_repair boolean)
-- returns TABLE(problem text, found bigint, repaired bigint, examples bigint[], remedy text); volatile, rows 3; for its owner

-- _audit_versions (p_tenant integer, p_repair boolean, p_now timestamp with time zone)
-- returns TABLE(problem text, found bigint, repaired bigint, examples bigint[], remedy text); volatile, rows 3; for its owner

-- _authorize (p_tenant integer, p_write boolean)
-- returns void; stable, security definer; for memdb_reader

-- _await_hiding (p_tenant integer)
-- returns void; volatile; for its owner

-- _await_vectors (p_tenant integer, p_memory_ids bigint[])
-- returns void; volatile; for its owner

-- _backing (p_tenant integer, p_memory_ids bigint[], p_versions integer[], p_belief_at timestamp with time zone)
-- returns TABLE(memory_id bigint, events bigint, trust real, confidence real); stable, rows 2; for its owner

-- _bad_memory (p_memories jsonb)
-- returns jsonb; volatile; for its owner

-- _beating_query (p_terms text[], p_idf double precision[], p_used integer, p_least double precision)
-- returns text; immutable; for its owner

-- _begin_correction (p_tenant integer)
-- returns timestamp with time zone; volatile; for its owner

-- _begin_run (p_job memdb.job, p_worker text, p_now timestamp with time zone)
-- returns bigint; volatile; for its owner

-- _believed (p_tenant integer, p_belief_at timestamp with time zone, p_world_at timestamp with time zone, p_memory_ids bigint[])
-- returns TABLE(memory_id bigint, version integer); stable, rows 100; for its owner

-- _best_matches (p_tenant integer, p_user text, p_query tsquery, p_terms text[], p_idf double precision[], p_mean double precision, p_limit integer, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter)
-- returns TABLE(memory_id bigint, version integer, score double precision); stable, rows 50; for its owner

-- _bigints (p_numbers jsonb)
-- returns bigint[]; immutable; for its owner

-- _broken_premises (p_tenant integer, p_justification bigint)
-- returns TABLE(memory_id bigint, is_replaced boolean); stable, rows 1; for its owner

-- _budget_day (p_now timestamp with time zone)
-- returns date; immutable; for its owner

-- _build_graph ()
-- returns TABLE(label text, kind text, entries bigint); volatile, rows 11; for its owner

-- _cache_is_on ()
-- returns boolean; stable; for its owner

-- _cache_is_usable (p_tenant integer)
-- returns boolean; volatile; for its owner

-- _cache_key (p_namespaces integer[], p_arguments jsonb)
-- returns bytea; stable; for its owner

-- _cache_watches ()
-- returns TABLE(name text, is_tenant_wide boolean); immutable, rows 20; for its owner

-- _cached_candidates (p_tenant integer, p_query text, p_vector real[], p_namespaces text[], p_user text, p_agent text, p_session text, p_types text[], p_k integer, p_legs text[], p_hops integer, p_include text[], p_belief_at timestamp with time zone, p_world_at timestamp with time zone, p_budget_ms integer, p_tiers text[], p_from timestamp with time zone, p_to timestamp with time zone, p_entities text[], p_topic bigint, p_metadata jsonb, p_expand text, p_offset integer, p_factors jsonb)
-- returns TABLE(memory_id bigint, version integer, event_id bigint, score real, legs jsonb); volatile, security definer, rows 10; for memdb_reader

-- _cached_hits (p_tenant integer, p_key bytea)
-- returns memdb._recall_hit[]; stable; for its owner

-- _caller ()
-- returns name; stable; for memdb_reader

-- _candidates (p_tenant integer, p_items jsonb, p_limit integer)
-- returns TABLE(ordinal integer, memory_id bigint, version integer, is_same boolean, similarity real, overlap real); stable, security definer, rows 50; for memdb_writer

-- _candidates_of (p_tenant integer, p_namespace integer, p_user text, p_text text, p_language text, p_assertions jsonb, p_model integer, p_vector halfvec, p_limit integer)
-- returns TABLE(memory_id bigint, version integer, is_same boolean, similarity real, overlap real); stable, rows 10; for its owner

-- _cause_of (p_tenant integer, p_memory_ids bigint[])
-- returns TABLE(memory_id bigint, namespace_id integer, cause text, root text, root_id bigint, depth integer, reason text); stable, rows 100; for its owner

-- _centrality_factor (p_ties bigint)
-- returns double precision; immutable; for its owner

-- _changes_truth (p_tenant integer, p_items memdb._memory_item[], p_new bigint[])
-- returns boolean; volatile; for its owner

-- _check_agent (p_agent text)
-- returns void; stable; for its owner

-- _check_cypher (p_query text, p_params jsonb)
-- returns void; stable; for memdb_operator

-- _check_edges (p_tenant integer, p_edges memdb.edge[])
-- returns void; volatile; for its owner

-- _check_entities (p_items memdb._memory_item[])
-- returns void; volatile; for its owner

-- _check_event (p_index integer, p_kind text, p_text text, p_input jsonb, p_output jsonb, p_user text, p_agent text, p_speaker text, p_key text, p_trust real, p_parent integer, p_metadata jsonb)
-- returns void; volatile; for its owner

-- _check_frame (p_index integer, p_item jsonb, p_agent text, p_speaker text, p_language text, p_model text, p_metadata jsonb, p_valid_from timestamp with time zone, p_valid_to timestamp with time zone, p_occurred_at timestamp with time zone)
-- returns boolean; volatile; for its owner

-- _check_ids (p_tenant integer, p_memory_ids bigint[])
-- returns void; volatile; for its owner

-- _check_items (p_items jsonb, p_known text[], p_required text[])
-- returns void; volatile; for its owner

-- _check_key (p_name text, p_role text, p_hash bytea, p_namespaces text[], p_agents text[], p_expires_at timestamp with time zone)
-- returns void; stable; for its owner

-- _check_limit (p_limit integer, p_most integer)
-- returns void; volatile; for its owner

-- _check_memory (p_index integer, p_text text, p_type text, p_user text, p_external text, p_summary text, p_heading text, p_importance real, p_confidence real, p_tier text, p_valid_from timestamp with time zone, p_valid_to timestamp with time zone, p_occurred_at timestamp with time zone, p_metadata jsonb, p_method text, p_entities jsonb, p_edges jsonb)
-- returns boolean; volatile; for its owner

-- _check_next (p_tenant integer, OUT remaining bigint, OUT note text)
-- returns record; volatile; for its owner

-- _check_plain (p_items jsonb, p_nested text[])
-- returns void; volatile; for its owner

-- _check_recall (p_query text, p_vector real[], p_types text[], p_k integer, p_legs text[], p_hops integer, p_include text[], p_budget_ms integer, p_tiers text[], p_from timestamp with time zone, p_to timestamp with time zone, p_entities text[], p_metadata jsonb, p_expand text, p_offset integer)
-- returns void; immutable; for its owner

-- _check_snapshot (p_tenant integer, p_exclusive boolean)
-- returns void; volatile; for its owner

-- _check_time (p_index integer, p_at text, p_zone text)
-- returns void; volatile; for its owner

-- _check_versions (p_tenant integer, p_items jsonb)
-- returns void; volatile; for its owner

-- _check_writers (p_tenant integer, p_items memdb._memory_item[])
-- returns void; volatile; for its owner

-- _checked_edges (p_tenant integer, p_edges jsonb)
-- returns memdb.edge[]; volatile; for its owner

-- _checked_target (p_tenant integer, p_user text, p_session text, p_agent text, p_namespace text, p_types text[], p_kinds text[], p_from timestamp with time zone, p_to timestamp with time zone, p_entity bigint, p_event_ids bigint[], p_memory_ids bigint[], p_everything boolean)
-- returns jsonb; stable; for its owner

-- _chill (p_tenant integer, p_memory_ids bigint[])
-- returns void; volatile; for its owner

-- _chill_vectors (p_tenant integer, p_memory_ids bigint[])
-- returns bigint; volatile; for its owner

-- _chinese_dates (p_query text, p_today date)
-- returns text; immutable; for its owner

-- _chinese_number (p_text text)
-- returns integer; immutable; for its owner

-- _chinese_ranges (p_query text)
-- returns TABLE(year integer, from_month integer, from_day integer, to_month integer, to_day integer); immutable, rows 2; for its owner

-- _choose_topic (p_tenant integer, p_memory memdb.memory, p_model integer, p_spread double precision)
-- returns bigint; volatile; for its owner

-- _chosen (p_tenant integer, p_namespaces integer[], p_sessions bigint[], p_also memdb._recall_filter, p_few integer)
-- returns bigint[]; stable; for its owner

-- _chosen_matches (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_terms text[], p_idf double precision[], p_mean double precision, p_limit integer, p_also memdb._recall_filter, OUT memory_ids bigint[], OUT scores double precision[])
-- returns record; stable; for its owner

-- _claim_embeddings (p_tenant integer, p_model text, p_limit integer, p_lease_seconds integer)
-- returns TABLE(memory_id bigint, version integer); volatile, security definer, rows 100; for memdb_writer

-- _claimable_events (p_tenant integer, p_namespaces integer[], p_limit integer, p_now timestamp with time zone)
-- returns bigint[]; volatile; for its owner

-- _close_beliefs (p_tenant integer, p_subject text, p_ids bigint[], p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _close_review (p_tenant integer, p_review bigint, p_decision text, p_effects jsonb, p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _close_summary (p_subject memdb.summary, p_memory bigint, p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _closeness_weight (p_query text)
-- returns double precision; immutable; for its owner

-- _cold_stub (p_text text, p_summary text)
-- returns text; immutable; for its owner

-- _collapse (p_tenant integer, p_model integer, p_hits memdb._recall_hit[], p_k integer, p_belief_at timestamp with time zone)
-- returns SETOF memdb._recall_hit; stable, rows 10; for its owner

-- _confirm (p_tenant integer, p_memory memdb.memory, p_event bigint)
-- returns void; volatile; for its owner

-- _conflicting (p_tenant integer, p_memory_ids bigint[])
-- returns TABLE(memory_id bigint, markers text[]); stable, rows 5; for memdb_reader

-- _content_hash (p_text text)
-- returns bytea; immutable; for its owner

-- _context_line (p_marker text, p_type text, p_occurred_at timestamp with time zone, p_status text, p_conflicts text[], p_speaker text, p_text text)
-- returns text; stable; for memdb_reader

-- _context_rows (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_hits bigint[], p_nearest bigint[], p_width integer, p_belief_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_world_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter, OUT memory_ids bigint[], OUT versions integer[], OUT occurred_at timestamp with time zone[], OUT namespaces integer[], OUT factors double precision[], OUT places bigint[], OUT by_hit boolean[])
-- returns record; stable; for its owner

-- _copy_justifications (p_tenant integer, p_memory bigint, p_from integer, p_to integer, p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _correct (p_tenant integer, p_action text, p_id bigint, p_reason text, p_dry_run boolean, p_value jsonb DEFAULT NULL::jsonb)
-- returns SETOF memdb._truth_change; volatile, rows 100; for its owner

-- _corrected_text (p_text text, p_event text, p_new text, p_values jsonb)
-- returns text; immutable; for its owner

-- _count_context (p_text text, p_tokens_per_character real)
-- returns integer; immutable; for memdb_reader

-- _count_erasure (p_tenant integer, p_receipt bigint)
-- returns jsonb; stable; for its owner

-- _count_facts (p_tenant integer, p_limit integer, p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _count_kept (p_tenant integer, p_receipt bigint)
-- returns jsonb; stable; for its owner

-- _count_listed (p_tenant integer, p_receipt bigint DEFAULT NULL::bigint)
-- returns bigint; stable; for its owner

-- _count_matches (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_terms text[], p_limit integer, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter, OUT memory_ids bigint[], OUT scores double precision[], OUT idf double precision[], OUT documents double precision, OUT mean_length double precision)
-- returns record; stable; for its owner

-- _count_model_call (p_usage memdb.model_usage)
-- returns void; volatile; for its owner

-- _count_spent (p_tenant integer, p_memory_ids bigint[])
-- returns void; volatile; for its owner

-- _count_topics (p_tenant integer, p_came bigint[], p_went bigint[])
-- returns void; volatile; for its owner

-- _create_graph ()
-- returns void; volatile; for its owner

-- _create_memories (p_tenant integer, p_items memdb._memory_item[], p_out integer[], p_now timestamp with time zone)
-- returns memdb._memory_place[]; volatile; for its owner

-- _cut_line (p_line text, p_text text, p_tokens integer, p_tokens_per_character real)
-- returns text; immutable; for memdb_reader

-- _cut_tokens (p_text text, p_tokens integer)
-- returns text; immutable; for memdb_reader

-- _database_figures ()
-- returns TABLE(metric text, value double precision); stable, security definer, rows 6; for memdb_reader

-- _dated_query (p_query text, p_today date)
-- returns text; immutable; for its owner

-- _days_above (p_fresh double precision, p_threshold double precision, p_half_life_days double precision)
-- returns double precision; immutable; for its owner

-- _decide (p_tenant integer, p_item memdb.review_item, p_decision text, p_new jsonb, p_reason text, p_now timestamp with time zone)
-- returns jsonb; volatile; for its owner

-- _delete_reasons (p_tenant integer, p_justification_ids bigint[])
-- returns jsonb; volatile; for its owner

-- _delete_versions (p_tenant integer, p_memory_ids bigint[], p_versions integer[])
-- returns jsonb; volatile; for its owner

-- _drop_graph ()
-- returns void; volatile; for its owner

-- _drop_tasks (p_tenant integer, p_memory_ids bigint[], p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _due_job (p_tenant integer, p_is_inside boolean, p_name text, p_now timestamp with time zone)
-- returns memdb.job; volatile; for its owner

-- _due_sessions (p_tenant integer, p_namespaces integer[], p_now timestamp with time zone)
-- returns SETOF bigint; stable, rows 10; for its owner

-- _edge_flaw (p_from bigint, p_to bigint, p_relation text, p_weight real, p_confidence real, p_origin text)
-- returns text; immutable; for its owner

-- _edges_of (p_tenant integer, p_edges jsonb)
-- returns memdb.edge[]; volatile; for its owner

-- _empty_calls (p_tenant integer, p_event_ids bigint[], p_memory_ids bigint[])
-- returns bigint; volatile; for its owner

-- _end_work (p_tenant integer, p_ids bigint[])
-- returns void; volatile; for its owner

-- _ended_before (p_tenant integer, p_justification bigint, p_premise bigint, p_version integer)
-- returns boolean; stable; for its owner

-- _english_dates (p_query text, p_today date)
-- returns text; immutable; for its owner

-- _english_ranges (p_query text)
-- returns TABLE(year integer, from_month integer, from_day integer, to_month integer, to_day integer); immutable, rows 2; for its owner

-- _ensure_jobs (p_tenant integer, p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _erase_audit (p_tenant integer, p_target jsonb, p_after bigint, p_limit integer, OUT last bigint, OUT counts jsonb)
-- returns record; volatile; for its owner

-- _erase_entities (p_tenant integer, p_ids bigint[])
-- returns jsonb; volatile; for its owner

-- _erase_events (p_tenant integer, p_ids bigint[], p_now timestamp with time zone)
-- returns jsonb; volatile; for its owner

-- _erase_memories (p_tenant integer, p_ids bigint[])
-- returns jsonb; volatile; for its owner

-- _erase_recalls (p_tenant integer, p_receipt bigint, p_target jsonb, p_after bigint, p_limit integer, OUT last bigint, OUT counts jsonb)
-- returns record; volatile; for its owner

-- _erase_sessions (p_tenant integer, p_ids bigint[], p_target jsonb)
-- returns jsonb; volatile; for its owner

-- _erase_step (p_receipt memdb.erasure_receipt, p_limit integer, p_now timestamp with time zone, OUT is_over boolean, OUT place bigint, OUT counts jsonb)
-- returns record; volatile; for its owner

-- _erase_tenant (p_tenant integer, p_target jsonb)
-- returns jsonb; volatile; for its owner

-- _erasure_hash (p_salt bytea, p_subject text, p_value text)
-- returns bytea; immutable; for its owner

-- _estimate_tokens (p_text text)
-- returns integer; immutable; for memdb_reader

-- _event_items (p_events jsonb, p_now timestamp with time zone)
-- returns TABLE(ordinal integer, kind text, text text, input jsonb, output jsonb, namespace text, session text, user_id text, agent_id text, speaker text, language text, parent_event_id bigint, parent integer, occurred_at timestamp with time zone, time_zone text, trust real, key text, content_hash bytea, metadata jsonb, to_extract boolean); volatile, rows 1000; for its owner

-- _events_alone (p_tenant integer, p_namespaces integer[], p_limit integer, p_now timestamp with time zone)
-- returns SETOF bigint; volatile, rows 20; for its owner

-- _expect_version (p_memory memdb.memory, p_expected integer)
-- returns void; volatile; for its owner

-- _explain_sources (p_tenant integer, p_memory bigint, p_version integer, p_max_depth integer, p_belief_at timestamp with time zone)
-- returns TABLE(depth integer, key text, child text, justification_id bigint, method text, supports boolean, place bigint, source jsonb); stable, rows 50; for memdb_reader

-- _explained_version (p_tenant integer, p_memory bigint, p_version integer, p_belief_at timestamp with time zone, p_world_at timestamp with time zone)
-- returns integer; stable; for memdb_reader

-- _extend_list (p_tenant integer, p_receipt bigint, p_target jsonb, p_reason bigint, p_event bigint, p_since timestamp with time zone)
-- returns boolean; volatile; for its owner

-- _factor_fault (p_factors jsonb)
-- returns text; immutable; for its owner

-- _factor_hint ()
-- returns text; immutable; for its owner

-- _factor_logs (p_tenant integer, p_namespaces integer[], p_agent text, p_memory_ids bigint[], p_weights memdb._recall_weights, p_belief_at timestamp with time zone, p_world_at timestamp with time zone)
-- returns TABLE(memory_id bigint, usual double precision, importance double precision, reliability double precision, status double precision, tier double precision, namespace double precision, freshness double precision, centrality double precision, strength double precision); stable, rows 100; for its owner

-- _facts_before (p_tenant integer, p_namespace integer, p_session bigint, p_before integer, p_tokens integer, p_told jsonb)
-- returns TABLE(memory_id bigint, version integer, sequence integer, type text, text text, occurred_at timestamp with time zone, tokens integer); stable, rows 20; for memdb_reader

-- _fades_at (p_life jsonb, p_type text, p_tier text, p_is_pinned boolean, p_is_isolated boolean, p_importance double precision, p_reliability double precision, p_uses double precision, p_since timestamp with time zone)
-- returns timestamp with time zone; immutable; for its owner

-- _fall (p_tenant integer, p_memory_ids bigint[], p_cause text, p_root text, p_root_id bigint, p_reason text, p_now timestamp with time zone)
-- returns bigint; volatile; for its owner

-- _fall_back (p_tenant integer, p_memory_ids bigint[])
-- returns bigint[]; volatile; for its owner

-- _fallen_beside (p_tenant integer, p_now timestamp with time zone, p_memory bigint)
-- returns bigint; stable; for its owner

-- _fill_label (p_tenant integer, p_label text)
-- returns bigint; volatile; for its owner

-- _filter_flaw (p_filter jsonb)
-- returns text; immutable; for memdb_reader

-- _find_entity (p_tenant integer, p_namespace integer, p_aliases text[])
-- returns bigint; volatile; for its owner

-- _find_event (p_tenant integer, p_event bigint)
-- returns memdb.event; volatile; for its owner

-- _find_memory (p_tenant integer, p_memory bigint)
-- returns memdb.memory; volatile; for its owner

-- _find_model (p_tenant integer, p_name text)
-- returns memdb.embedding_model; stable; for its owner

-- _find_review (p_tenant integer, p_review bigint)
-- returns memdb.review_item; volatile; for its owner

-- _find_sessions (p_tenant integer, p_namespaces integer[], p_session text)
-- returns bigint[]; stable; for its owner

-- _find_stale_summaries (p_tenant integer, p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _find_summary (p_tenant integer, p_namespace integer, p_session bigint, p_user text)
-- returns SETOF memdb.summary; stable, rows 1; for its owner

-- _finding (p_problem text, p_ids bigint[], p_is_repaired boolean, p_remedy text)
-- returns TABLE(problem text, found bigint, repaired bigint, examples bigint[], remedy text); immutable, rows 1; for its owner

-- _first_sources (p_tenant integer, p_memory_ids bigint[], p_versions integer[])
-- returns TABLE(memory_id bigint, version integer, event_id bigint, session_id bigint, sequence integer, agent_id text, speaker text, occurred_at timestamp with time zone, time_zone text); stable, rows 10; for its owner

-- _first_statistics ()
-- returns void; volatile; for its owner

-- _first_turn (p_tenant integer, p_session bigint, p_tokens integer)
-- returns integer; stable; for memdb_reader

-- _fits (p_deadline timestamp with time zone, p_cost double precision)
-- returns boolean; volatile; for its owner

-- _fitting (p_deadline timestamp with time zone, p_hits integer, p_each double precision)
-- returns integer; volatile; for its owner

-- _forget (p_tenant integer, p_target jsonb, p_reason text, p_dry_run boolean, p_batch integer DEFAULT 200)
-- returns TABLE(receipt_id bigint, state text, remaining bigint, counts jsonb, kept jsonb); volatile, rows 1; for its owner

-- _forget_answers (p_tenant integer, p_target jsonb)
-- returns jsonb; volatile; for its owner

-- _forget_causes (p_tenant integer, p_subject text, p_ids bigint[])
-- returns void; volatile; for its owner

-- _forget_outdated (p_tenant integer, p_events bigint[], p_memories bigint[])
-- returns integer; volatile; for its owner

-- _forget_spellings (p_tenant integer, p_ids bigint[])
-- returns jsonb; volatile; for its owner

-- _forget_topic_members ()
-- returns trigger; volatile; for its owner

-- _fresh_leg (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_terms text[], p_idf double precision[], p_mean double precision, p_limit integer, p_belief_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter, OUT event_ids bigint[], OUT scores double precision[])
-- returns record; stable; for its owner

-- _freshness_factor (p_age double precision, p_half_life double precision)
-- returns double precision; immutable; for its owner

-- _grants ()
-- returns TABLE(tenant_id integer, namespaces text[], can_write boolean); stable, security definer, rows 2; for memdb_reader

-- _graph_edge ()
-- returns trigger; volatile, security definer; for its owner

-- _graph_edges (p_tenant integer)
-- returns TABLE(label text, tenant_id integer, id bigint, entry bigint, from_label text, from_id bigint, to_label text, to_id bigint); stable, rows 1000; for its owner

-- _graph_end (p_id bigint, p_labels jsonb)
-- returns jsonb; immutable; for memdb_operator

-- _graph_entity ()
-- returns trigger; volatile, security definer; for its owner

-- _graph_event ()
-- returns trigger; volatile, security definer; for its owner

-- _graph_found (p_tenant integer, p_label text)
-- returns TABLE(entry bigint, from_end bigint, to_end bigint, own bigint); stable, rows 1000; for its owner

-- _graph_hides (p_tenant integer, p_answer jsonb)
-- returns boolean; stable; for memdb_operator

-- _graph_hits (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_also memdb._recall_filter, p_agent text, p_query text, p_hops integer, p_belief_at timestamp with time zone, p_world_at timestamp with time zone, p_weights memdb._recall_weights, p_memory_ids bigint[], p_scores double precision[], OUT memory_ids bigint[], OUT versions integer[], OUT scores double precision[])
-- returns record; stable; for its owner

-- _graph_is_alive ()
-- returns boolean; stable; for memdb_operator

-- _graph_is_on ()
-- returns boolean; stable; for memdb_operator

-- _graph_label_ids ()
-- returns jsonb; stable, security definer; for memdb_operator

-- _graph_labels ()
-- returns TABLE(label text, kind text); immutable, rows 11; for its owner

-- _graph_leg (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_seeds bigint[], p_seed_scores double precision[], p_hops integer, p_belief_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_world_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter, p_agent text DEFAULT NULL::text, OUT memory_ids bigint[], OUT versions integer[], OUT scores double precision[])
-- returns record; stable; for its owner

-- _graph_memory ()
-- returns trigger; volatile, security definer; for its owner

-- _graph_mention ()
-- returns trigger; volatile, security definer; for its owner

-- _graph_oids ()
-- returns text; stable; for memdb_operator

-- _graph_premise ()
-- returns trigger; volatile, security definer; for its owner

-- _graph_relation (p_relation text)
-- returns text; immutable; for its owner

-- _graph_shown (p_tenant integer, p_answer jsonb, p_labels jsonb)
-- returns jsonb; stable; for memdb_operator

-- _graph_vertices (p_tenant integer)
-- returns TABLE(label text, tenant_id integer, id bigint); stable, rows 1000; for its owner

-- _graph_wanted (p_tenant integer, p_label text)
-- returns TABLE(entry bigint, from_end bigint, to_end bigint, own bigint); stable, rows 1000; for its owner

-- _group_lines (p_lines jsonb)
-- returns text; immutable; for memdb_reader

-- _half_life_days (p_life jsonb, p_type text, p_tier text, p_is_isolated boolean)
-- returns double precision; immutable; for its owner

-- _halves (p_tenant integer, p_topic bigint, p_model integer, p_spread double precision)
-- returns TABLE(kept halfvec, split halfvec); stable, rows 1; for its owner

-- _has_age_rights ()
-- returns boolean; stable; for memdb_operator

-- _has_justification (p_tenant integer, p_memory bigint, p_version integer, p_premises bigint[])
-- returns boolean; stable; for its owner

-- _has_metadata (p_tenant integer, p_memory bigint, p_version integer, p_metadata jsonb)
-- returns boolean; stable; for its owner

-- _has_vector (p_tenant integer, p_model_id integer, p_memory bigint, p_version integer)
-- returns boolean; stable; for its owner

-- _hashed_target (p_target jsonb, p_salt bytea)
-- returns jsonb; immutable; for its owner

-- _heading (p_language text, p_at timestamp without time zone, p_speaker text)
-- returns text; immutable; for its owner

-- _health_rules ()
-- returns TABLE(place integer, metric text, unit text, warn_from double precision, bad_from double precision, remedy text, is_low boolean); immutable, rows 20; for memdb_reader

-- _health_values (p_tenants integer[])
-- returns TABLE(metric text, value double precision); stable, security definer, rows 20; for memdb_reader

-- _held (p_tenant integer, p_justification bigint, p_at timestamp with time zone)
-- returns boolean; stable; for its owner

-- _hide_memories (p_tenant integer, p_receipt bigint, p_ids bigint[], p_now timestamp with time zone)
-- returns jsonb; volatile; for its owner

-- _hide_step (p_receipt memdb.erasure_receipt, p_limit integer, p_now timestamp with time zone, OUT is_over boolean, OUT place bigint, OUT counts jsonb)
-- returns record; volatile; for its owner

-- _id_columns ()
-- returns TABLE(table_name text, column_name text, subject text, is_array boolean); stable, rows 50; for its owner

-- _idf (p_documents double precision, p_holding double precision)
-- returns double precision; immutable; for its owner

-- _ids_of (p_target jsonb, p_key text)
-- returns bigint[]; immutable; for its owner

-- _importance_factor (p_importance real)
-- returns double precision; immutable; for its owner

-- _inherited_headings (p_tenant integer, p_memories jsonb)
-- returns jsonb; stable; for its owner

-- _insert_edges (p_tenant integer, p_edges memdb.edge[])
-- returns bigint[]; volatile; for its owner

-- _insert_embeddings (p_tenant integer, p_model_id integer, p_memory_ids bigint[], p_versions integer[], p_vectors text[])
-- returns integer; volatile; for its owner

-- _insert_events (p_tenant integer, p_events jsonb, p_now timestamp with time zone)
-- returns TABLE(ordinal integer, event_id bigint, session_id bigint, sequence integer, is_new boolean); volatile, rows 100; for its owner

-- _insert_first_edges (p_tenant integer, p_edges memdb.edge[])
-- returns void; volatile; for its owner

-- _insert_first_embeddings (p_tenant integer, p_model_id integer, p_memory_ids bigint[], p_versions integer[], p_vectors text[])
-- returns void; volatile; for its owner

-- _insert_model_call (p_call memdb.model_call)
-- returns bigint; volatile; for its owner

-- _is_broken (p_tenant integer, p_justification bigint)
-- returns boolean; stable; for its owner

-- _is_common_metadata (p_tenant integer, p_namespaces integer[], p_metadata jsonb)
-- returns boolean; stable; for its owner

-- _is_erasing ()
-- returns boolean; stable, security definer; for memdb_reader

-- _is_firm (p_tenant integer, p_memory bigint, p_version integer)
-- returns boolean; stable; for its owner

-- _is_held (p_tenant integer, p_namespace integer, p_user text)
-- returns boolean; stable; for its owner

-- _is_hidden (p_tenant integer, p_subject text, p_subject_id bigint)
-- returns boolean; stable, security definer; for memdb_reader

-- _is_late (p_tenant integer, p_receipt bigint, p_after bigint, p_since timestamp with time zone)
-- returns boolean; stable; for its owner

-- _is_listed (p_tenant integer, p_subject text, p_subject_id bigint)
-- returns boolean; stable; for its owner

-- _is_meant (p_user text, p_own bigint[], p_agent text, p_sessions bigint[], p_namespaces bigint[], p_from timestamp with time zone, p_to timestamp with time zone, p_row_namespace integer, p_row_session bigint, p_row_user text, p_row_agent text, p_row_at timestamp with time zone)
-- returns boolean; immutable; for its owner

-- _is_meant_recall (p_recall memdb.recall, p_target jsonb)
-- returns boolean; stable; for its owner

-- _is_moment (p_at timestamp with time zone)
-- returns boolean; immutable; for its owner

-- _is_named (p_name text, p_query text, p_words text)
-- returns boolean; immutable; for its owner

-- _is_operator ()
-- returns boolean; stable; for memdb_reader

-- _is_readable_event (p_tenant integer, p_event bigint)
-- returns boolean; stable; for its owner

-- _is_recallable (p_memory memdb.memory, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter)
-- returns boolean; stable; for its owner

-- _is_settled (p_tenant integer, p_item memdb.review_item)
-- returns boolean; stable; for its owner

-- _is_spelt (p_tenant integer, p_entity bigint, p_alias text, p_is_listed boolean)
-- returns boolean; stable; for its owner

-- _is_worked_on (p_tenant integer, p_session bigint, p_now timestamp with time zone)
-- returns boolean; stable; for its owner

-- _item_hash (p_text text, p_external_id text, p_metadata jsonb)
-- returns bytea; immutable; for its owner

-- _item_of (p_tenant integer, p_memory bigint, p_version integer)
-- returns jsonb; stable; for its owner

-- _job_kinds ()
-- returns TABLE(name text, every_seconds integer, daily_at text, batch integer, needs_operator boolean, is_inside boolean, meaning text); immutable, rows 15; for its owner

-- _keep (p_tenant integer, p_text text, p_sources jsonb)
-- returns bigint; volatile; for memdb_operator

-- _keep_answer (p_tenant integer, p_key bytea, p_namespaces integer[], p_snapshot pg_snapshot, p_hits memdb._recall_hit[])
-- returns void; volatile; for its owner

-- _kept_days (p_policy jsonb, p_subject text, p_kind text)
-- returns double precision; immutable; for its owner

-- _kept_expansion (p_tenant integer, p_walk text, p_arguments jsonb, p_agent text DEFAULT NULL::text)
-- returns jsonb; volatile, security definer; for memdb_reader

-- _key_hash (p_namespace integer, p_key text)
-- returns bytea; immutable; for its owner

-- _keyword_differences (p_tenant integer)
-- returns TABLE(namespace_id integer, lexeme text, wanted bigint); stable, rows 100; for its owner

-- _keyword_leg (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_terms text[], p_limit integer, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter, OUT memory_ids bigint[], OUT scores double precision[], OUT terms text[], OUT idf double precision[], OUT documents double precision, OUT mean_length double precision)
-- returns record; stable; for its owner

-- _keyword_matches (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_query tsquery, p_terms text[], p_idf double precision[], p_mean double precision, p_limit integer, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter, OUT memory_ids bigint[], OUT scores double precision[])
-- returns record; stable; for its owner

-- _keyword_then (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_terms text[], p_limit integer, p_belief_at timestamp with time zone, p_world_at timestamp with time zone, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter, OUT memory_ids bigint[], OUT scores double precision[], OUT terms text[], OUT idf double precision[], OUT documents double precision, OUT mean_length double precision)
-- returns record; stable; for its owner

-- _known_answer (p_tenant integer, p_namespace integer, p_hash bytea, p_now timestamp with time zone)
-- returns text; stable; for its owner

-- _labels_match (p_labels text[], p_match jsonb)
-- returns boolean; immutable; for memdb_reader

-- _last_recorded (p_tenant integer, OUT reason bigint, OUT event bigint, OUT at timestamp with time zone)
-- returns record; volatile; for its owner

-- _last_turns (p_tenant integer, p_session bigint, p_tokens integer)
-- returns TABLE(event_id bigint, sequence integer, kind text, speaker text, text text, occurred_at timestamp with time zone, tokens integer, is_cut boolean); stable, rows 50; for memdb_reader

-- _lease_events (p_tenant integer, p_worker text, p_events bigint[], p_until timestamp with time zone, p_now timestamp with time zone)
-- returns bigint[]; volatile; for its owner

-- _leg (p_rank bigint, p_score double precision)
-- returns jsonb; stable; for its owner

-- _length_differences (p_tenant integer)
-- returns TABLE(namespace_id integer, documents bigint, tokens bigint); stable, rows 10; for its owner

-- _lens_drift (p_tenant integer)
-- returns TABLE(kind text, id bigint, problem text); stable, security definer, rows 100; for its owner

-- _lens_repair (p_tenant integer)
-- returns void; volatile, security definer; for its owner

-- _let_in (p_tenant integer, p_event bigint, p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _let_memory_in (p_tenant integer, p_memory bigint, p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _lies_below (p_path text, p_prefix text)
-- returns boolean; immutable; for memdb_reader

-- _life (p_tenant integer, p_namespace integer)
-- returns jsonb; stable; for its owner

-- _life_figures (p_tenants integer[], p_namespaces integer[])
-- returns TABLE(metric text, value double precision); stable, rows 10; for its owner

-- _life_keys ()
-- returns text[]; immutable; for its owner

-- _list_all (p_tenant integer, p_receipt bigint, p_target jsonb, p_dry_run boolean, OUT reason bigint, OUT event bigint, OUT at timestamp with time zone, OUT counts jsonb, OUT kept jsonb)
-- returns record; volatile; for its owner

-- _list_derived (p_tenant integer, p_receipt bigint)
-- returns void; volatile; for its owner

-- _list_erasure (p_tenant integer, p_receipt bigint, p_target jsonb)
-- returns void; volatile; for its owner

-- _list_late_events (p_tenant integer, p_receipt bigint, p_after bigint)
-- returns void; volatile; for its owner

-- _list_named (p_tenant integer, p_receipt bigint, p_target jsonb)
-- returns void; volatile; for its owner

-- _list_quoted (p_tenant integer, p_receipt bigint, p_target jsonb)
-- returns void; volatile; for its owner

-- _list_rest (p_tenant integer, p_receipt bigint, p_target jsonb)
-- returns void; volatile; for its owner

-- _list_states (p_tenant integer, p_namespaces text[], p_user text, p_types text[], p_statuses text[], p_after bigint, p_after_at timestamp with time zone, p_limit integer, p_belief_at timestamp with time zone, p_world_at timestamp with time zone)
-- returns TABLE(memory_id bigint, version integer, status text); stable, security definer, rows 50; for memdb_reader

-- _list_whole (p_tenant integer, p_receipt bigint)
-- returns void; volatile; for its owner

-- _literals (p_query text)
-- returns text[]; immutable; for its owner

-- _lock_graph ()
-- returns void; volatile; for its owner

-- _lock_known (p_tenant integer, p_items memdb._memory_item[])
-- returns void; volatile; for its owner

-- _lock_memories (p_tenant integer, p_memory_ids bigint[])
-- returns bigint[]; volatile; for its owner

-- _lock_truth (p_tenant integer, p_exclusive boolean)
-- returns void; volatile; for its owner

-- _log_recall (p_tenant integer, p_namespaces text[], p_user text, p_agent text, p_query text, p_arguments jsonb, p_memory_ids bigint[], p_versions integer[], p_scores real[], p_legs jsonb, p_elapsed_ms real, p_timing jsonb DEFAULT NULL::jsonb)
-- returns bigint; volatile, security definer; for memdb_reader

-- _loser (p_tenant integer, p_rule text, p_new bigint, p_old bigint)
-- returns bigint; stable; for its owner

-- _made_below (p_tenant integer, p_event_ids bigint[], p_max_depth integer)
-- returns TABLE(memory_id bigint, version integer); stable, security definer, rows 50; for memdb_reader

-- _made_of_events (p_tenant integer, p_event_ids bigint[], p_belief_at timestamp with time zone DEFAULT NULL::timestamp with time zone)
-- returns TABLE(event_id bigint, memory_id bigint, version integer); stable, security definer, rows 50; for memdb_reader

-- _make_way (p_tenant integer, p_items memdb._memory_item[], p_sources memdb._memory_source[])
-- returns void; volatile; for its owner

-- _mark_graph (p_value text)
-- returns void; volatile; for its owner

-- _mark_profiles (p_tenant integer, p_limit integer, p_now timestamp with time zone)
-- returns boolean; volatile; for its owner

-- _match_flaw (p_match jsonb)
-- returns text; immutable; for memdb_reader

-- _max_attempts ()
-- returns integer; immutable; for its owner

-- _may_answer (p_recorded_at timestamp with time zone, p_retired_at timestamp with time zone, p_valid_from timestamp with time zone, p_valid_to timestamp with time zone, p_belief_at timestamp with time zone, p_world_at timestamp with time zone)
-- returns boolean; immutable; for its owner

-- _may_create (p_tenant integer, p_namespace text)
-- returns boolean; stable, security definer; for its owner

-- _meets (p_metadata jsonb, p_filter jsonb)
-- returns boolean; immutable; for memdb_reader

-- _memories_then (p_tenant integer, p_memory_ids bigint[], p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_belief_at timestamp with time zone, p_world_at timestamp with time zone, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter)
-- returns SETOF memdb.memory; stable, rows 1; for its owner

-- _memory_factor (p_importance real, p_confidence real, p_trust real, p_status text, p_tier text)
-- returns double precision; immutable; for its owner

-- _memory_fades_at (p_life jsonb, p_memory memdb.memory, p_tier text, p_is_isolated boolean, p_uses bigint, p_used_at timestamp with time zone)
-- returns timestamp with time zone; immutable; for its owner

-- _memory_items (p_tenant integer, p_memories jsonb, p_sources memdb._memory_source[], p_now timestamp with time zone)
-- returns SETOF memdb._memory_item; volatile, rows 1000; for its owner

-- _memory_sources (p_tenant integer, p_memories jsonb, p_readable integer[])
-- returns SETOF memdb._memory_source; volatile, rows 1000; for its owner

-- _merged_factors (p_below jsonb, p_above jsonb)
-- returns jsonb; immutable; for its owner

-- _metadata_members (p_tenant integer, p_namespaces integer[], p_metadata jsonb, p_limit integer)
-- returns bigint[]; stable; for its owner

-- _missing_vectors (p_tenant integer, p_model integer)
-- returns integer; stable; for its owner

-- _model_budgets (p_tenant integer, p_namespace integer, p_day date)
-- returns TABLE(namespace_id integer, path text, tokens bigint, used bigint); stable, rows 5; for its owner

-- _model_cost (p_prices jsonb, p_model text, p_tokens_in integer, p_tokens_out integer)
-- returns numeric; immutable; for its owner

-- _model_figures (p_tenants integer[], p_namespaces integer[])
-- returns TABLE(metric text, value double precision); stable, rows 5; for its owner

-- _model_vector (p_dimensions integer, p_vector real[])
-- returns halfvec; immutable; for its owner

-- _month_number (p_name text)
-- returns integer; immutable; for its owner

-- _move_due (p_tenant integer, p_memory_ids bigint[], p_tied bigint[], p_now timestamp with time zone)
-- returns bigint[]; volatile; for its owner

-- _move_support (p_tenant integer, p_memory_ids bigint[], p_justification_ids bigint[])
-- returns void; volatile; for its owner

-- _move_topic (p_tenant integer, p_model integer, p_limit integer)
-- returns integer; volatile; for its owner

-- _name_born (p_tenant integer, p_places memdb._memory_place[], p_out integer[], p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _name_causes (p_tenant integer, p_memory_ids bigint[], p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _named_entities (p_tenant integer, p_namespaces integer[], p_query text, p_fuzzy boolean)
-- returns TABLE(entity_id bigint, namespace_id integer, alias text, is_exact boolean); stable, rows 5; for its owner

-- _named_session (p_tenant integer, p_session text, p_namespace text, p_agent text)
-- returns memdb.session; stable; for memdb_reader

-- _namespaces_granted (p_tenant integer, p_write boolean)
-- returns integer[]; stable, security definer; for its owner

-- _narrow (p_tenant integer, p_namespaces integer[], p_sessions bigint[], p_tiers text[], p_from timestamp with time zone, p_to timestamp with time zone, p_entities text[], p_topic bigint, p_metadata jsonb)
-- returns memdb._recall_filter; stable; for its owner

-- _near_duplicates (p_tenant integer, p_memory_ids bigint[], p_versions integer[], p_model integer)
-- returns TABLE(first_place bigint, other_place bigint); stable, rows 2; for its owner

-- _near_topics (p_tenant integer, p_namespace integer, p_model integer, p_vector halfvec, p_limit integer)
-- returns TABLE(topic_id bigint, closeness double precision, bonus double precision); stable, rows 5; for its owner

-- _nearest_chosen (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_model integer, p_vector halfvec, p_limit integer, p_also memdb._recall_filter, p_statuses text[])
-- returns TABLE(memory_id bigint, version integer, similarity double precision); stable, rows 50; for its owner

-- _nearest_cold (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_model integer, p_vector halfvec, p_limit integer, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter)
-- returns TABLE(memory_id bigint, version integer, similarity double precision); stable, rows 50; for its owner

-- _nearest_exact (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_model integer, p_vector halfvec, p_limit integer, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter, p_statuses text[] DEFAULT NULL::text[])
-- returns TABLE(memory_id bigint, version integer, similarity double precision); stable, rows 50; for its owner

-- _nearest_indexed (p_tenant integer, p_namespaces integer[], p_user text, p_types text[], p_model integer, p_vector halfvec, p_indexes integer[], p_limit integer, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter)
-- returns TABLE(memory_id bigint, version integer, similarity double precision); stable, rows 50; for its owner

-- _nearest_then (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_model integer, p_vector halfvec, p_limit integer, p_belief_at timestamp with time zone, p_world_at timestamp with time zone, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter, OUT memory_ids bigint[], OUT scores double precision[])
-- returns record; stable; for its owner

-- _new_facts (p_tenant integer, p_limit integer)
-- returns TABLE(namespace_id integer, session_id bigint, user_id text, facts integer, is_done boolean); volatile, rows 100; for its owner

-- _next_events (p_tenant integer, p_session bigint, p_limit integer, p_now timestamp with time zone)
-- returns SETOF bigint; volatile, rows 20; for its owner

-- _next_life (p_life jsonb, p_memory memdb.memory, p_is_alone boolean, p_uses bigint, p_used_at timestamp with time zone, p_now timestamp with time zone, OUT tier text, OUT fades_at timestamp with time zone)
-- returns record; immutable; for its owner

-- _next_phase (p_phase text)
-- returns text; immutable; for its owner

-- _next_run (p_every_seconds integer, p_daily_at text, p_time_zone text, p_after timestamp with time zone)
-- returns timestamp with time zone; stable; for its owner

-- _next_then (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_memory memdb.memory, p_reach integer, p_belief_at timestamp with time zone, p_world_at timestamp with time zone, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter)
-- returns SETOF memdb.memory; stable, rows 4; for its owner

-- _next_to (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_memory memdb.memory, p_reach integer, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter)
-- returns SETOF memdb.memory; stable, rows 4; for its owner

-- _next_waves (p_tenant integer, p_wave bigint[], p_depth integer)
-- returns TABLE(memory_ids bigint[], namespace_ids integer[], depths integer[]); stable, rows 1; for its owner

-- _note (p_tenant integer, p_memory memdb.memory, p_kind text, p_text text)
-- returns bigint; volatile; for its owner

-- _note_batch (p_job memdb.job, p_run bigint, p_remaining bigint, p_note text, p_error text, p_ms real, p_now timestamp with time zone)
-- returns text; volatile; for its owner

-- _note_loosened (p_tenant integer, p_now timestamp with time zone)
-- returns bigint; volatile; for its owner

-- _note_uses (p_tenant integer, p_memory_ids bigint[], p_uses integer, p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _note_write ()
-- returns trigger; volatile, security definer; for its owner

-- _note_written (p_tenant integer, p_sources memdb._memory_source[], p_places memdb._memory_place[], p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _one_edit (p_one text, p_other text)
-- returns boolean; immutable; for its owner

-- _open_key (p_tenant integer, p_key bigint)
-- returns memdb.api_key; volatile; for its owner

-- _open_review (p_tenant integer, p_review bigint)
-- returns memdb.review_item; volatile; for its owner

-- _open_sessions (p_tenant integer, p_events jsonb)
-- returns void; volatile; for its owner

-- _open_stale_reviews (p_tenant integer, p_memory_ids bigint[], p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _outdated (p_tenant integer, p_limit integer, p_now timestamp with time zone)
-- returns TABLE(subject text, subject_id bigint, namespace_id integer, kind text, recorded_at timestamp with time zone); stable, rows 100; for its owner

-- _own_lease (p_tenant integer, p_worker text, p_event_ids bigint[])
-- returns void; volatile; for its owner

-- _own_rederivation (p_tenant integer, p_worker text, p_memory_ids bigint[])
-- returns void; volatile; for its owner

-- _own_words (p_query text)
-- returns integer; immutable; for memdb_reader

-- _owned_rows (p_tenant integer, p_namespaces integer[], p_user text, p_model integer, p_most integer)
-- returns integer; stable; for its owner

-- _part_survivors (p_tenant integer, p_receipt bigint, p_ids bigint[], p_now timestamp with time zone)
-- returns jsonb; volatile; for its owner

-- _place_memories (p_tenant integer, p_items memdb._memory_item[], p_sources memdb._memory_source[], p_new bigint[])
-- returns SETOF memdb._memory_place; volatile, rows 1000; for its owner

-- _plain_edges (p_tenant integer, p_items memdb._memory_item[], p_places memdb._memory_place[])
-- returns memdb.edge[]; volatile; for its owner

-- _plan_topic (p_tenant integer, p_topic bigint, p_model integer, p_spread double precision)
-- returns void; volatile; for its owner

-- _points_back (p_query text)
-- returns boolean; immutable; for memdb_reader

-- _policy (p_tenant integer, p_key text, p_namespace integer DEFAULT NULL::integer)
-- returns jsonb; stable; for its owner

-- _policy_defaults ()
-- returns TABLE(key text, value jsonb, meaning text); immutable, rows 20; for its owner

-- _pool (p_tenant integer, p_namespaces integer[], p_agent text, p_query text, p_memory_ids bigint[], p_versions integer[], p_occurred_at timestamp with time zone[], p_in integer[], p_factors double precision[], p_places bigint[], p_by_hit boolean[], p_keyword double precision[], p_causes bigint[], p_asks boolean[], p_nearest bigint[], p_similarity double precision[], p_model integer, p_vector halfvec, p_width integer, p_from_at timestamp with time zone[], p_to_at timestamp with time zone[], p_worth double precision[], p_event_ids bigint[], p_fresh double precision[], p_limit integer)
-- returns TABLE(memory_id bigint, version integer, event_id bigint, keyword double precision, closeness double precision, bonus double precision); stable, rows 100; for its owner

-- _premise_entry (p_justification bigint, p_ordinal smallint)
-- returns bigint; immutable; for its owner

-- _premise_now (p_tenant integer, p_event bigint, p_memory bigint, p_version integer)
-- returns TABLE(state text, event_id bigint, memory_id bigint, version integer, text text, before text, speaker text, occurred_at timestamp with time zone, namespace_id integer); stable, rows 1; for its owner

-- _premise_rows (p_tenant integer, p_memory_ids bigint[], p_versions integer[] DEFAULT NULL::integer[], p_max_depth integer DEFAULT 1, p_agent text DEFAULT NULL::text, p_belief_at timestamp with time zone DEFAULT NULL::timestamp with time zone)
-- returns TABLE(depth integer, conclusion_id bigint, conclusion_version integer, justification_id bigint, ordinal smallint, method text, supports boolean, is_hidden boolean, event_id bigint, span_from integer, span_to integer, memory_id bigint, memory_version integer, path bigint[]); stable, security definer, rows 50; for memdb_reader

-- _premises_hold (p_tenant integer, p_justification bigint)
-- returns boolean; stable; for its owner

-- _prepare_age ()
-- returns void; volatile; for memdb_operator

-- _presence (p_length double precision, p_mean double precision)
-- returns double precision; immutable; for its owner

-- _profile_ids (p_tenant integer, p_namespaces text[], p_user text, p_limit integer)
-- returns TABLE(section text, place integer, memory_id bigint, version integer, strength double precision); stable, security definer, rows 20; for memdb_reader

-- _profile_lines (p_tenant integer, p_namespaces integer[], p_user text, p_limit integer, p_now timestamp with time zone)
-- returns TABLE(section text, place integer, memory_id bigint, version integer, namespace_id integer, strength double precision, text text); stable, rows 20; for its owner

-- _profile_section (p_type text, p_text text)
-- returns text; immutable; for its owner

-- _promoted_tier (p_life jsonb, p_tier text, p_uses bigint)
-- returns text; immutable; for its owner

-- _prov_agent (p_kind text, p_name text)
-- returns text; immutable; for memdb_reader

-- _prov_derivations (p_tenant integer, p_rows jsonb)
-- returns TABLE(section text, id text, body jsonb); stable, rows 100; for memdb_reader

-- _prov_document (p_tenant integer, p_rows jsonb, p_events bigint[], p_ids bigint[], p_versions integer[])
-- returns jsonb; stable; for memdb_reader

-- _prov_events (p_tenant integer, p_event_ids bigint[])
-- returns TABLE(section text, id text, body jsonb); stable, rows 100; for memdb_reader

-- _prov_id (p_kind text, p_id text)
-- returns text; immutable; for memdb_reader

-- _prov_invalidations (p_tenant integer, p_event_ids bigint[], p_memory_ids bigint[], p_versions integer[])
-- returns TABLE(section text, id text, body jsonb); stable, rows 100; for memdb_reader

-- _prov_time (p_at timestamp with time zone)
-- returns text; immutable; for memdb_reader

-- _prov_type (p_name text)
-- returns jsonb; immutable; for memdb_reader

-- _prov_versions (p_tenant integer, p_memory_ids bigint[], p_versions integer[])
-- returns TABLE(section text, id text, body jsonb); stable, rows 100; for memdb_reader

-- _prove (p_tenant integer, p_supports boolean)
-- returns void; volatile; for its owner

-- _purge_logs (p_tenant integer, p_limit integer)
-- returns integer; volatile; for its owner

-- _put_memory_out (p_tenant integer, p_memory bigint, p_status text, p_reason text, p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _put_out (p_tenant integer, p_event bigint, p_status text, p_reason text, p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _put_right (p_tenant integer, p_event bigint, p_new bigint, p_text text, p_values jsonb, p_reason text, p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _query_grams (p_query text)
-- returns text[]; immutable; for its owner

-- _query_terms (p_query text)
-- returns text[]; immutable; for its owner

-- _query_vector (p_tenant integer, p_vector real[], OUT model_id integer, OUT vector halfvec)
-- returns record; stable; for its owner

-- _queue_fallen (p_tenant integer, p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _queue_for_summaries ()
-- returns trigger; volatile; for its owner

-- _quoted (p_text text)
-- returns text; immutable; for memdb_reader

-- _raise (p_code text, p_message text, p_detail jsonb DEFAULT NULL::jsonb, p_hint text DEFAULT NULL::text)
-- returns boolean; volatile; for memdb_reader

-- _ranked (p_memory_ids bigint[], p_versions integer[], p_events bigint[], p_scores double precision[], p_keywords double precision[], p_graph_ids bigint[], p_graph_versions integer[], p_graph_scores double precision[], p_keyword_ids bigint[], p_keyword_scores double precision[], p_near_ids bigint[], p_near_scores double precision[], p_event_ids bigint[], p_fresh_scores double precision[], p_width integer, p_k integer)
-- returns TABLE(memory_id bigint, version integer, event_id bigint, score real, legs jsonb); stable, rows 10; for its owner

-- _read_states (p_tenant integer, p_memory_ids bigint[], p_belief_at timestamp with time zone, p_world_at timestamp with time zone)
-- returns TABLE(memory_id bigint, version integer, status text); stable, security definer, rows 10; for memdb_reader

-- _readable (p_tenant integer, p_namespaces text[], p_agent text)
-- returns integer[]; stable, security definer; for memdb_reader

-- _reason_clusters (p_tenant integer, p_memory_ids bigint[], p_versions integer[] DEFAULT NULL::integer[], p_agent text DEFAULT NULL::text, p_belief_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_most integer DEFAULT 100)
-- returns TABLE(memory_id bigint, reasons jsonb); volatile, rows 10; for memdb_reader

-- _rebuild_graph ()
-- returns TABLE(label text, kind text, entries bigint); volatile, security definer, rows 11; for memdb_operator

-- _recall_candidates (p_tenant integer, p_query text, p_vector real[], p_namespaces text[], p_user text, p_agent text, p_session text, p_types text[], p_k integer, p_legs text[], p_hops integer, p_include text[], p_belief_at timestamp with time zone, p_world_at timestamp with time zone, p_budget_ms integer DEFAULT NULL::integer, p_tiers text[] DEFAULT NULL::text[], p_from timestamp with time zone DEFAULT NULL::timestamp with time zone, p_to timestamp with time zone DEFAULT NULL::timestamp with time zone, p_entities text[] DEFAULT NULL::text[], p_topic bigint DEFAULT NULL::bigint, p_metadata jsonb DEFAULT NULL::jsonb, p_expand text DEFAULT NULL::text, p_offset integer DEFAULT 0, p_factors jsonb DEFAULT NULL::jsonb)
-- returns TABLE(memory_id bigint, version integer, event_id bigint, score real, legs jsonb); stable, security definer, rows 10; for memdb_reader

-- _recall_factors (p_tenant integer, p_query text, p_namespaces text[], p_agent text, p_memory_ids bigint[], p_versions integer[], p_scores real[], p_legs jsonb[], p_belief_at timestamp with time zone, p_world_at timestamp with time zone, p_factors jsonb)
-- returns TABLE(memory_id bigint, factors jsonb); stable, security definer, rows 10; for memdb_reader

-- _recall_fate (p_tenant integer, p_memory bigint, p_query text, p_has_vector boolean, p_namespaces text[], p_user text, p_agent text, p_session text, p_types text[], p_legs text[], p_include text[], p_belief_at timestamp with time zone, p_world_at timestamp with time zone, p_tiers text[], p_from timestamp with time zone, p_to timestamp with time zone, p_entities text[], p_topic bigint, p_metadata jsonb, OUT step text, OUT reason text)
-- returns record; stable, security definer; for memdb_reader

-- _recall_figures (p_tenants integer[])
-- returns TABLE(metric text, value double precision); stable, rows 6; for its owner

-- _recall_sources (p_tenant integer, p_memory_ids bigint[], p_versions integer[], p_belief_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_agent text DEFAULT NULL::text)
-- returns TABLE(memory_id bigint, version integer, sources jsonb); stable, rows 10; for memdb_reader

-- _recompute_fading (p_tenant integer, p_limit integer)
-- returns integer; volatile; for its owner

-- _record_mentions (p_tenant integer, p_mentions jsonb)
-- returns void; volatile; for its owner

-- _refuse_held (p_tenant integer, p_receipt bigint, p_target jsonb)
-- returns void; volatile; for its owner

-- _refused (p_what text, p_code text, p_statement text)
-- returns text[]; volatile; for memdb_operator

-- _rehome (p_tenant integer, p_memory_ids bigint[], p_versions integer[])
-- returns void; volatile; for its owner

-- _related_rows (p_tenant integer, p_memory_ids bigint[], p_max_hops integer, p_min_weight real, p_relations text[], p_fan_out integer)
-- returns TABLE(memory_id bigint, hops integer, weight real, path bigint[]); stable, rows 100; for its owner

-- _relearn (p_tenant integer, p_justification_ids bigint[], p_now timestamp with time zone)
-- returns bigint; volatile; for its owner

-- _reliability (p_tenant integer, p_namespace integer)
-- returns jsonb; stable; for its owner

-- _reliability_factor (p_confidence real, p_trust real)
-- returns double precision; immutable; for its owner

-- _rename_causes (p_tenant integer, p_root text, p_root_ids bigint[], p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _renew_keywords (p_tenant integer, p_limit integer)
-- returns integer; volatile; for its owner

-- _require_graph ()
-- returns void; stable; for memdb_operator

-- _require_operator ()
-- returns void; stable; for memdb_operator

-- _require_service ()
-- returns void; stable; for its owner

-- _resolve_weights (p_tenant integer, p_namespaces text[], p_factors jsonb)
-- returns memdb._recall_weights; stable; for its owner

-- _resting_on_events (p_tenant integer, p_event_ids bigint[])
-- returns bigint[]; stable; for its owner

-- _resting_on_memories (p_tenant integer, p_memory_ids bigint[])
-- returns bigint[]; stable; for its owner

-- _retire_versions (p_tenant integer, p_memory_ids bigint[], p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _retry_failed (p_tenant integer)
-- returns integer; volatile; for its owner

-- _revive (p_tenant integer, p_memory_ids bigint[])
-- returns void; volatile; for its owner

-- _reword (p_tenant integer, p_lines jsonb, p_file bigint)
-- returns bigint; volatile; for its owner

-- _ring_member (p_tenant integer, p_memory_ids bigint[])
-- returns bigint; stable; for its owner

-- _rise (p_tenant integer, p_justification_ids bigint[], p_now timestamp with time zone)
-- returns bigint; volatile; for its owner

-- _risers (p_tenant integer, p_justification_ids bigint[])
-- returns TABLE(memory_id bigint, justification_id bigint, supports boolean); stable, rows 100; for its owner

-- _run_cypher (p_tenant integer, p_query text, p_params jsonb)
-- returns SETOF jsonb; stable, rows 100; for memdb_operator

-- _run_job (p_tenant integer, p_name text, p_limit integer, OUT remaining bigint, OUT note text)
-- returns record; volatile; for its owner

-- _same_claims (p_one text, p_other text)
-- returns boolean; immutable; for its owner

-- _saturate (p_weight double precision)
-- returns double precision; immutable; for its owner

-- _say (p_tenant integer, p_text text)
-- returns bigint; volatile; for memdb_operator

-- _scope_query (p_tenant integer, p_namespaces integer[], p_user text)
-- returns text; immutable; for its owner

-- _scope_statistics (p_tenant integer, p_namespaces integer[], p_terms text[], OUT documents double precision, OUT mean_length double precision, OUT queued integer, OUT holding double precision[])
-- returns record; stable; for its owner

-- _scored (p_tenant integer, p_namespaces integer[], p_agent text, p_query text, p_memory_ids bigint[], p_versions integer[], p_occurred_at timestamp with time zone[], p_in integer[], p_factors double precision[], p_places bigint[], p_by_hit boolean[], p_keyword double precision[], p_causes bigint[], p_asks boolean[], p_nearest bigint[], p_similarity double precision[], p_model integer, p_vector halfvec, p_width integer, p_from_at timestamp with time zone[], p_to_at timestamp with time zone[], p_worth double precision[], p_event_ids bigint[], p_fresh double precision[], p_limit integer, OUT memory_ids bigint[], OUT versions integer[], OUT event_ids bigint[], OUT scores double precision[], OUT keywords double precision[])
-- returns record; stable; for its owner

-- _scratch_tenant ()
-- returns integer; volatile; for memdb_operator

-- _search (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_also memdb._recall_filter, p_agent text, p_query text, p_model integer, p_vector halfvec, p_legs text[], p_hops integer, p_depth integer, p_k integer, p_belief_at timestamp with time zone, p_world_at timestamp with time zone, p_deadline timestamp with time zone, p_weights memdb._recall_weights)
-- returns TABLE(memory_id bigint, version integer, event_id bigint, score real, legs jsonb); stable, rows 10; for its owner

-- _search_matches (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_terms text[], p_idf double precision[], p_holding double precision[], p_mean double precision, p_limit integer, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter, OUT memory_ids bigint[], OUT scores double precision[])
-- returns record; stable; for its owner

-- _service_agents ()
-- returns text[]; stable; for its owner

-- _service_tenant ()
-- returns integer; stable; for its owner

-- _session_named (p_tenant integer, p_session text, p_namespace text)
-- returns bigint; stable; for memdb_reader

-- _sessions_of (p_tenant integer, p_user text)
-- returns jsonb; stable; for its owner

-- _set_keyword ()
-- returns trigger; volatile; for its owner

-- _shed_versions (p_tenant integer, p_receipt bigint, p_ids bigint[], p_now timestamp with time zone)
-- returns jsonb; volatile; for its owner

-- _shown_text (p_text text, p_input jsonb, p_output jsonb)
-- returns text; immutable; for memdb_reader

-- _sieved_matches (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_query tsquery, p_terms text[], p_idf double precision[], p_mean double precision, p_limit integer, p_also memdb._recall_filter, OUT memory_ids bigint[], OUT scores double precision[])
-- returns record; stable; for its owner

-- _small_number (p_text text)
-- returns integer; immutable; for its owner

-- _source_flaw (p_source jsonb)
-- returns text; stable; for its owner

-- _sources_out (p_tenant integer, p_sources memdb._memory_source[])
-- returns integer[]; volatile; for its owner

-- _span_back (p_number integer, p_unit text, p_until_now boolean, p_today date)
-- returns text; immutable; for its owner

-- _span_named (p_name text, p_back integer, p_today date)
-- returns text; immutable; for its owner

-- _span_text (p_from date, p_to date)
-- returns text; immutable; for its owner

-- _spare_above (p_tenant integer, p_receipt bigint, p_ids bigint[], p_versions integer[])
-- returns void; volatile; for its owner

-- _spare_supported (p_tenant integer, p_receipt bigint)
-- returns void; volatile; for its owner

-- _standing (p_tenant integer, p_memory_ids bigint[], p_depth integer)
-- returns TABLE(memory_ids bigint[], namespace_ids integer[], depths integer[]); stable, rows 1; for its owner

-- _states_at (p_tenant integer, p_belief_at timestamp with time zone, p_world_at timestamp with time zone, p_memory_ids bigint[])
-- returns TABLE(memory_id bigint, version integer, status text); stable, rows 100; for its owner

-- _status_factor (p_status text)
-- returns double precision; immutable; for its owner

-- _steps_down (p_tenant integer, p_memory_ids bigint[], p_relations text[], p_at timestamp with time zone)
-- returns TABLE(from_id bigint, memory_id bigint, version integer, relation text, supports boolean); stable, rows 100; for its owner

-- _steps_up (p_tenant integer, p_memory_ids bigint[], p_versions integer[], p_relations text[], p_at timestamp with time zone)
-- returns TABLE(from_id bigint, event_id bigint, memory_id bigint, version integer, relation text, supports boolean, justification_id bigint, ordinal integer, span_from integer, span_to integer); stable, rows 100; for its owner

-- _strength (p_importance double precision, p_reliability double precision, p_uses double precision, p_idle_days double precision, p_half_life_days double precision, p_use_weight double precision)
-- returns double precision; immutable; for its owner

-- _strength_factor (p_strength double precision)
-- returns double precision; immutable; for its owner

-- _strike_items (p_tenant integer, p_receipt bigint, p_subject text, p_ids bigint[], p_stay bigint[])
-- returns void; volatile; for its owner

-- _suits_policy (p_key text, p_value jsonb)
-- returns boolean; immutable; for its owner

-- _summary_before (p_tenant integer, p_namespace integer, p_session bigint, p_tokens integer)
-- returns TABLE(memory_id bigint, version integer, text text, occurred_at timestamp with time zone, tokens integer, is_cut boolean, told jsonb); stable, rows 1; for memdb_reader

-- _summary_item (p_subject memdb.summary, p_namespace text, p_text text, p_sources jsonb, p_model text)
-- returns jsonb; volatile; for its owner

-- _summary_key (p_session bigint, p_user text)
-- returns text; immutable; for memdb_reader

-- _summary_material (p_tenant integer, p_namespace integer, p_session bigint, p_user text, p_tokens integer)
-- returns TABLE(memory_id bigint, version integer, type text, text text, occurred_at timestamp with time zone, tokens integer); stable, rows 20; for memdb_reader

-- _summary_subject (p_tenant integer, p_namespace text, p_session text, p_user text)
-- returns memdb.summary; stable; for memdb_reader

-- _supersede (p_tenant integer, p_memory memdb.memory, p_item jsonb, p_event bigint, p_readable integer[], p_now timestamp with time zone)
-- returns integer; volatile; for its owner

-- _superseded (p_tenant integer, p_memory memdb.memory, p_version integer, p_now timestamp with time zone)
-- returns TABLE(memory_id bigint, version integer, outcome text, fallen bigint); stable, rows 1; for its owner

-- _support_anew (p_tenant integer, p_memory_ids bigint[], p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _support_of (p_tenant integer, p_memory bigint, p_version integer, p_belief_at timestamp with time zone)
-- returns TABLE(justification_id bigint, method text, ordinal smallint, event_id bigint, span_from integer, span_to integer, memory_id bigint, memory_version integer); stable, rows 4; for its owner

-- _support_rows (p_tenant integer, p_memory_ids bigint[], p_versions integer[] DEFAULT NULL::integer[], p_agent text DEFAULT NULL::text, p_belief_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_most integer DEFAULT 2000)
-- returns TABLE(hit_id bigint, depth integer, conclusion_id bigint, conclusion_version integer, justification_id bigint, ordinal smallint, method text, is_hidden boolean, is_cut boolean, event_id bigint, span_from integer, span_to integer, memory_id bigint, memory_version integer); stable, security definer, rows 50; for memdb_reader

-- _take_items (p_tenant integer, p_receipt bigint, p_subject text, p_limit integer, p_after bigint DEFAULT 0, p_stays boolean DEFAULT false)
-- returns bigint[]; volatile; for its owner

-- _take_look (p_tenant integer, p_look integer, p_repair boolean, p_now timestamp with time zone)
-- returns TABLE(problem text, found bigint, repaired bigint, examples bigint[], remedy text); volatile, rows 3; for its owner

-- _telling_terms (p_tenant integer, p_namespace integer, p_text text, p_language text, p_limit integer)
-- returns text[]; stable; for its owner

-- _tells_of (p_tenant integer, p_value jsonb, p_target jsonb)
-- returns boolean; stable; for its owner

-- _then (p_memory memdb.memories, p_version memdb.memory_version, p_status text)
-- returns memdb.memories; stable; for memdb_reader

-- _tied (p_tenant integer, p_memory_ids bigint[])
-- returns bigint[]; stable; for its owner

-- _time_fade (p_at timestamp with time zone, p_from_at timestamp with time zone, p_to_at timestamp with time zone)
-- returns double precision; immutable; for its owner

-- _time_ranges (p_query text, p_years integer[])
-- returns TABLE(from_date date, to_date date); immutable, rows 2; for its owner

-- _time_spans (p_tenant integer, p_namespaces integer[], p_query text, p_documents double precision, OUT from_at timestamp with time zone[], OUT to_at timestamp with time zone[], OUT worth double precision[])
-- returns record; stable; for its owner

-- _timing (p_legs text[], p_laps timestamp with time zone[])
-- returns jsonb; immutable; for its owner

-- _told_times (p_valid_from timestamp with time zone, p_metadata jsonb)
-- returns SETOF timestamp with time zone; stable, rows 1; for its owner

-- _topic_batch (p_tenant integer, p_limit integer)
-- returns SETOF memdb.memory; volatile, rows 100; for its owner

-- _topic_entity (p_tenant integer, p_memory bigint)
-- returns bigint; stable; for its owner

-- _topic_label (p_tenant integer, p_topic bigint)
-- returns text; stable; for its owner

-- _topic_members (p_tenant integer, p_topic bigint)
-- returns TABLE(memory_id bigint); stable, rows 100; for its owner

-- _topics_of (p_tenant integer, p_memory_ids bigint[])
-- returns TABLE(memory_id bigint, heading text); stable, security definer, rows 20; for memdb_reader

-- _trace_rows (p_tenant integer, p_memory bigint, p_version integer, p_is_up boolean, p_max_depth integer, p_relations text[], p_limit integer, p_belief_at timestamp with time zone)
-- returns TABLE(depth integer, from_id bigint, event_id bigint, memory_id bigint, version integer, relation text, supports boolean, is_hidden boolean, span_from integer, span_to integer); stable, security definer, rows 100; for memdb_reader

-- _truth_changes (p_tenant integer, p_now timestamp with time zone)
-- returns SETOF memdb._truth_change; stable, rows 100; for its owner

-- _truth_time (p_tenant integer)
-- returns timestamp with time zone; volatile; for its owner

-- _unbuild_graph ()
-- returns void; volatile, security definer; for memdb_operator

-- _undo (p_tenant integer, p_item memdb.review_item, p_reason text, p_now timestamp with time zone)
-- returns void; volatile; for its owner

-- _unit_vectors (p_dimensions integer, p_vectors text[])
-- returns halfvec[]; immutable; for its owner

-- _unlabelled (p_tenant integer, p_memory_ids bigint[])
-- returns TABLE(memory_id bigint, version integer, namespace_id integer); stable, rows 100; for its owner

-- _unreachable ()
-- returns jsonb; immutable; for its owner

-- _unsupported (p_tenant integer, p_memory_ids bigint[])
-- returns bigint[]; stable; for its owner

-- _update_topic (p_tenant integer, p_topic bigint, p_model integer)
-- returns void; volatile; for its owner

-- _vector_cost (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_model integer, p_vector halfvec, p_also memdb._recall_filter)
-- returns double precision; stable; for its owner

-- _vector_leg (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_types text[], p_statuses text[], p_model integer, p_vector halfvec, p_limit integer, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter, OUT memory_ids bigint[], OUT scores double precision[])
-- returns record; stable; for its owner

-- _vector_spread (p_tenant integer, p_namespace integer, p_model integer)
-- returns double precision; stable; for its owner

-- _vector_strategy (p_tenant integer, p_namespaces integer[], p_user text, p_sessions bigint[], p_model integer, p_vector halfvec, p_also memdb._recall_filter DEFAULT NULL::memdb._recall_filter, OUT indexes integer[], OUT rest integer[])
-- returns record; stable; for its owner

-- _verify_cascade (p_tenant integer)
-- returns text[]; volatile; for memdb_operator

-- _verify_consistency (p_tenant integer)
-- returns text[]; volatile; for memdb_operator

-- _verify_past (p_tenant integer)
-- returns text[]; volatile; for memdb_operator

-- _verify_walls (p_tenant integer)
-- returns text[]; volatile; for memdb_operator

-- _version_at (p_tenant integer, p_memory bigint, p_at timestamp with time zone)
-- returns integer; stable; for its owner

-- _version_fields (p_tenant integer, p_memory bigint, p_version integer)
-- returns jsonb; stable; for memdb_reader

-- _version_status (p_tenant integer, p_memory bigint, p_version integer, p_at timestamp with time zone)
-- returns text; stable; for memdb_reader

-- _waiting_then (p_tenant integer, p_namespace integer, p_at timestamp with time zone, p_limit integer)
-- returns TABLE(event_id bigint); stable, rows 50; for its owner

-- _warm_vectors (p_tenant integer, p_memory_ids bigint[])
-- returns bigint; volatile; for its owner

-- _weighed (p_tenant integer, p_namespaces integer[], p_agent text, p_weights memdb._recall_weights, p_belief_at timestamp with time zone, p_world_at timestamp with time zone, p_memory_ids bigint[], p_versions integer[], p_event_ids bigint[], p_scores double precision[], p_keywords double precision[], OUT memory_ids bigint[], OUT versions integer[], OUT event_ids bigint[], OUT scores double precision[], OUT keywords double precision[])
-- returns record; stable; for its owner

-- _window_scores (p_tenant integer, p_memory_ids bigint[], p_versions integer[], p_places bigint[], p_terms text[], p_idf double precision[], p_mean double precision, p_width integer, OUT scores double precision[], OUT event_ids bigint[], OUT asks boolean[])
-- returns record; stable; for its owner

-- _withdraw_words (p_tenant integer, p_memory_ids bigint[], p_versions integer[])
-- returns void; volatile; for its owner

-- _within_budget (p_tenant integer, p_namespace integer, p_day date, p_tokens bigint)
-- returns boolean; volatile; for its owner

-- _word_overlap (p_one text, p_one_language text, p_other text, p_other_language text)
-- returns double precision; immutable; for its owner

-- _words (p_text text)
-- returns text; immutable; for its owner

-- _writable (p_tenant integer, p_namespace text, p_agent text)
-- returns integer; volatile, security definer; for its owner

-- _write_edges (p_tenant integer, p_edges jsonb, p_ordinals integer[])
-- returns void; volatile; for its owner

-- _write_links (p_tenant integer, p_items memdb._memory_item[], p_places memdb._memory_place[])
-- returns void; volatile; for its owner

-- _write_plain_edges (p_tenant integer, p_items memdb._memory_item[], p_places memdb._memory_place[])
-- returns boolean; volatile; for its owner

-- _write_vectors (p_tenant integer, p_items memdb._memory_item[], p_places memdb._memory_place[], p_vector_model text)
-- returns void; volatile; for its owner

-- _write_versions (p_tenant integer, p_items memdb._memory_item[], p_sources memdb._memory_source[], p_places memdb._memory_place[], p_out integer[], p_now timestamp with time zone)
-- returns bigint[]; volatile; for its owner

-- _writing_figures (p_tenants integer[], p_namespaces integer[])
-- returns TABLE(metric text, value double precision); stable, rows 2; for its owner

-- _year_of (p_from date, p_back integer, p_today date)
-- returns date; immutable; for its owner

-- activate_embedding_model (p_tenant integer, p_model text, p_allow_missing boolean DEFAULT false)
-- returns TABLE(previous text, missing integer); volatile, security definer, rows 1; for memdb_writer

-- add_premises (p_tenant integer, p_justification bigint, p_sources jsonb)
-- returns SETOF memdb._truth_change; volatile, security definer, rows 100; for memdb_writer

-- admit_role (p_role name, p_can_write boolean DEFAULT false)
-- returns boolean; volatile; for memdb_operator

-- append_events (p_tenant integer, p_events jsonb)
-- returns TABLE(ordinal integer, event_id bigint, session_id bigint, sequence integer, is_new boolean); volatile, security definer, rows 100; for memdb_writer

-- apply_preset (p_tenant integer, p_preset text, p_namespace text DEFAULT NULL::text)
-- returns integer; volatile, security definer; for memdb_operator

-- apply_retention (p_tenant integer, p_limit integer DEFAULT 500)
-- returns bigint; volatile, security definer; for memdb_operator

-- archive_memories (p_tenant integer, p_memory_ids bigint[])
-- returns integer; volatile, security definer; for memdb_writer

-- ask_rederivations (p_tenant integer, p_worker text, p_memory_ids bigint[])
-- returns integer; volatile, security definer; for memdb_writer

-- bound_namespaces ()
-- returns integer[]; stable, security definer; for memdb_reader

-- bound_tenants ()
-- returns integer[]; stable, security definer; for memdb_reader

-- build_context (p_tenant integer, p_query text, p_vector real[] DEFAULT NULL::real[], p_namespaces text[] DEFAULT NULL::text[], p_user text DEFAULT NULL::text, p_agent text DEFAULT NULL::text, p_session text DEFAULT NULL::text, p_types text[] DEFAULT NULL::text[], p_k integer DEFAULT 50, p_include text[] DEFAULT NULL::text[], p_token_budget integer DEFAULT 2000, p_tokens_per_character real DEFAULT NULL::real, p_log boolean DEFAULT true, p_as_of_belief timestamp with time zone DEFAULT NULL::timestamp with time zone, p_as_of_world timestamp with time zone DEFAULT NULL::timestamp with time zone, p_budget_ms integer DEFAULT NULL::integer, p_tiers text[] DEFAULT NULL::text[], p_from timestamp with time zone DEFAULT NULL::timestamp with time zone, p_to timestamp with time zone DEFAULT NULL::timestamp with time zone, p_entities text[] DEFAULT NULL::text[], p_topic bigint DEFAULT NULL::bigint, p_metadata jsonb DEFAULT NULL::jsonb, p_factors jsonb DEFAULT NULL::jsonb)
-- returns TABLE(context text, tokens integer, items jsonb, recall_id bigint); volatile, rows 1; for memdb_reader

-- check_chains (p_tenant integer, p_memory_ids bigint[])
-- returns TABLE(memory_id bigint, is_complete boolean, has_hidden boolean, depth integer, events bigint); stable, rows 10; for memdb_reader

-- check_consistency (p_tenant integer, p_repair boolean DEFAULT false)
-- returns TABLE(problem text, found bigint, repaired bigint, examples bigint[], remedy text); volatile, security definer, rows 20; for memdb_operator

-- claim_events (p_tenant integer, p_worker text, p_limit integer DEFAULT 20, p_lease_seconds integer DEFAULT 300)
-- returns TABLE(event_id bigint, namespace text, session text, session_id bigint, sequence integer, kind text, text text, input jsonb, output jsonb, user_id text, agent_id text, speaker text, language text, occurred_at timestamp with time zone, time_zone text, trust real, parent_event_id bigint, metadata jsonb, attempts integer, leased_until timestamp with time zone); volatile, security definer, rows 20; for memdb_writer

-- claim_job (p_tenant integer, p_name text, p_worker text)
-- returns bigint; volatile, security definer; for memdb_writer

-- claim_rederivations (p_tenant integer, p_worker text, p_limit integer DEFAULT 20, p_lease_seconds integer DEFAULT 300)
-- returns TABLE(memory_id bigint, version integer, namespace text, user_id text, type text, text text, language text, cause text, root text, root_id bigint, depth integer, attempts integer, leased_until timestamp with time zone); volatile, security definer, rows 20; for memdb_writer

-- close_request (p_tenant integer, p_key bigint, p_request text, p_action text, p_detail jsonb DEFAULT '{}'::jsonb, p_idempotency_key text DEFAULT NULL::text, p_request_hash bytea DEFAULT NULL::bytea)
-- returns void; volatile, security definer; for memdb_writer

-- cold_files (p_tenant integer)
-- returns TABLE(file_id bigint, namespace text, month date, name text, sha256 text, bytes bigint, versions bigint, has_erased boolean); stable, security definer, rows 20; for memdb_operator

-- cold_versions (p_tenant integer, p_memory_ids bigint[] DEFAULT NULL::bigint[], p_file bigint DEFAULT NULL::bigint)
-- returns TABLE(memory_id bigint, version integer, hash text, file_id bigint, name text, sha256 text); stable, security definer, rows 20; for memdb_reader

-- complete_events (p_tenant integer, p_worker text, p_event_ids bigint[])
-- returns integer; volatile, security definer; for memdb_writer

-- complete_rederivations (p_tenant integer, p_worker text, p_memory_ids bigint[])
-- returns integer; volatile, security definer; for memdb_writer

-- compose_passages (p_tenant integer, p_memories jsonb)
-- returns TABLE(ordinal integer, heading text, text text); stable, security definer, rows 100; for memdb_writer

-- continue_erasures (p_tenant integer, p_limit integer DEFAULT 500, p_receipt bigint DEFAULT NULL::bigint)
-- returns bigint; volatile, security definer; for memdb_operator

-- correct_event (p_tenant integer, p_event bigint, p_text text, p_values jsonb DEFAULT '{}'::jsonb, p_reason text DEFAULT NULL::text, p_dry_run boolean DEFAULT false)
-- returns SETOF memdb._truth_change; volatile, security definer, rows 100; for memdb_writer

-- create_api_key (p_tenant integer, p_name text, p_prefix text, p_hash bytea, p_role text DEFAULT 'reader'::text, p_namespaces text[] DEFAULT NULL::text[], p_agents text[] DEFAULT NULL::text[], p_expires_at timestamp with time zone DEFAULT NULL::timestamp with time zone)
-- returns bigint; volatile, security definer; for memdb_operator

-- create_tenant (p_name text)
-- returns TABLE(tenant_id integer, is_new boolean); volatile, security definer, rows 1; for memdb_operator

-- "current_time" ()
-- returns timestamp with time zone; volatile, security definer; for memdb_reader

-- cypher (p_tenant integer, p_query text, p_params jsonb DEFAULT '{}'::jsonb)
-- returns TABLE(result jsonb); stable, rows 100; for memdb_operator

-- decide_review (p_tenant integer, p_review bigint, p_decision text, p_item jsonb DEFAULT NULL::jsonb, p_reason text DEFAULT NULL::text)
-- returns TABLE(review_id bigint, decision text, memory_id bigint, version integer, status text, fallen bigint); volatile, security definer, rows 1; for memdb_writer

-- diff_versions (p_tenant integer, p_memory bigint, p_from integer DEFAULT NULL::integer, p_to integer DEFAULT NULL::integer)
-- returns TABLE(field text, old_value jsonb, new_value jsonb); stable, rows 5; for memdb_reader

-- drop_embedding_model (p_tenant integer, p_model text, p_limit integer DEFAULT 10000)
-- returns integer; volatile, security definer; for memdb_operator

-- due_profiles (p_tenant integer, p_limit integer DEFAULT 20, p_lease_seconds integer DEFAULT 300)
-- returns TABLE(namespace text, user_id text, attempts integer); volatile, security definer, rows 20; for memdb_writer

-- due_summaries (p_tenant integer, p_limit integer DEFAULT 20, p_lease_seconds integer DEFAULT 300)
-- returns TABLE(namespace text, session text, user_id text, reason text, memory_id bigint, version integer, attempts integer); volatile, security definer, rows 20; for memdb_writer

-- earlier_events (p_tenant integer, p_event bigint, p_limit integer DEFAULT 3)
-- returns TABLE(event_id bigint, namespace text, session text, session_id bigint, sequence integer, kind text, text text, input jsonb, output jsonb, user_id text, agent_id text, speaker text, language text, occurred_at timestamp with time zone, time_zone text, trust real, parent_event_id bigint, metadata jsonb, attempts integer, leased_until timestamp with time zone); stable, rows 3; for memdb_reader

-- effective_policy (p_tenant integer, p_namespace text DEFAULT NULL::text)
-- returns TABLE(key text, value jsonb, source text, meaning text); stable, security definer, rows 20; for memdb_reader

-- enqueue_embeddings (p_tenant integer, p_model text, p_limit integer DEFAULT 1000, p_after bigint DEFAULT 0)
-- returns TABLE(enqueued integer, last_memory_id bigint); volatile, security definer, rows 1; for memdb_writer

-- erasure_receipts (p_tenant integer, p_receipt bigint DEFAULT NULL::bigint, p_limit integer DEFAULT 100)
-- returns TABLE(receipt_id bigint, state text, remaining bigint, target jsonb, reason text, actor text, requested_at timestamp with time zone, finished_at timestamp with time zone, counts jsonb, kept jsonb, cold_files bigint, unreachable jsonb); stable, security definer, rows 10; for memdb_operator

-- expand_related (p_tenant integer, p_memory_ids bigint[], p_max_hops integer DEFAULT 2, p_min_weight real DEFAULT 0.1, p_relations text[] DEFAULT NULL::text[], p_fan_out integer DEFAULT 16)
-- returns TABLE(memory_id bigint, hops integer, weight real, path bigint[]); volatile, security definer, rows 100; for memdb_reader

-- explain_memory (p_tenant integer, p_memory bigint, p_version integer DEFAULT NULL::integer, p_max_depth integer DEFAULT 10, p_as_of_belief timestamp with time zone DEFAULT NULL::timestamp with time zone, p_as_of_world timestamp with time zone DEFAULT NULL::timestamp with time zone)
-- returns TABLE(depth integer, conclusion_id bigint, conclusion_version integer, justification_id bigint, method text, supports boolean, source text, event_id bigint, memory_id bigint, memory_version integer, kind_or_type text, status text, text text, quote text, speaker text, session text, occurred_at timestamp with time zone, path bigint[]); stable, rows 50; for memdb_reader

-- explain_memory_json (p_tenant integer, p_memory bigint, p_version integer DEFAULT NULL::integer, p_max_depth integer DEFAULT 10, p_as_of_belief timestamp with time zone DEFAULT NULL::timestamp with time zone, p_as_of_world timestamp with time zone DEFAULT NULL::timestamp with time zone)
-- returns jsonb; stable; for memdb_reader

-- explain_recall (p_tenant integer, p_query text, p_expected bigint DEFAULT NULL::bigint, p_vector real[] DEFAULT NULL::real[], p_namespaces text[] DEFAULT NULL::text[], p_user text DEFAULT NULL::text, p_agent text DEFAULT NULL::text, p_session text DEFAULT NULL::text, p_types text[] DEFAULT NULL::text[], p_k integer DEFAULT 10, p_legs text[] DEFAULT NULL::text[], p_hops integer DEFAULT 1, p_include text[] DEFAULT NULL::text[], p_as_of_belief timestamp with time zone DEFAULT NULL::timestamp with time zone, p_as_of_world timestamp with time zone DEFAULT NULL::timestamp with time zone, p_tiers text[] DEFAULT NULL::text[], p_from timestamp with time zone DEFAULT NULL::timestamp with time zone, p_to timestamp with time zone DEFAULT NULL::timestamp with time zone, p_entities text[] DEFAULT NULL::text[], p_topic bigint DEFAULT NULL::bigint, p_metadata jsonb DEFAULT NULL::jsonb, p_factors jsonb DEFAULT NULL::jsonb)
-- returns TABLE(rank integer, memory_id bigint, version integer, event_id bigint, score real, text text, legs jsonb, factors jsonb, is_expected boolean, step text, reason text); volatile, rows 10; for memdb_reader

-- explain_writing (p_tenant integer, p_event bigint DEFAULT NULL::bigint, p_memory bigint DEFAULT NULL::bigint)
-- returns TABLE(assessment_id bigint, event_id bigint, quote text, outcome text, reason text, importance real, components jsonb, confidence real, memory_id bigint, version integer, recorded_at timestamp with time zone); stable, rows 10; for memdb_reader

-- export_cold (p_tenant integer, p_namespace text, p_month date, p_after bigint DEFAULT 0, p_limit integer DEFAULT 5000)
-- returns TABLE(memory_id bigint, version integer, line jsonb); stable, security definer, rows 1000; for memdb_operator

-- export_memories (p_tenant integer, p_namespaces text[] DEFAULT NULL::text[], p_after bigint DEFAULT 0, p_limit integer DEFAULT 500)
-- returns TABLE(memory_id bigint, item jsonb); stable, rows 500; for memdb_reader

-- export_prov (p_tenant integer, p_memory bigint DEFAULT NULL::bigint, p_session text DEFAULT NULL::text, p_namespace text DEFAULT 'default'::text, p_max_depth integer DEFAULT 20)
-- returns jsonb; stable; for memdb_reader

-- extend_lease (p_tenant integer, p_worker text, p_event_ids bigint[], p_lease_seconds integer DEFAULT 300)
-- returns integer; volatile, security definer; for memdb_writer

-- fade_due (p_tenant integer, p_limit integer DEFAULT 1000)
-- returns integer; volatile, security definer; for memdb_writer

-- fail_embedding (p_tenant integer, p_model text, p_memory bigint, p_version integer, p_error text)
-- returns void; volatile, security definer; for memdb_writer

-- fail_event (p_tenant integer, p_worker text, p_event bigint, p_error text, p_raw_output text DEFAULT NULL::text, p_charge boolean DEFAULT true, p_wait_seconds integer DEFAULT 0)
-- returns text; volatile, security definer; for memdb_writer

-- fail_rederivation (p_tenant integer, p_worker text, p_memory bigint, p_error text)
-- returns text; volatile, security definer; for memdb_writer

-- failed_events (p_tenant integer, p_after bigint DEFAULT 0, p_limit integer DEFAULT 100)
-- returns TABLE(event_id bigint, namespace text, state text, attempts integer, next_at timestamp with time zone, error text, raw_output text); stable, security definer, rows 20; for memdb_writer

-- find_api_key (p_hash bytea)
-- returns TABLE(tenant_id integer, tenant text, key_id bigint, name text, role text, namespaces text[], agents text[], expires_at timestamp with time zone); stable, security definer, rows 1; for memdb_service

-- find_candidates (p_tenant integer, p_items jsonb, p_limit integer DEFAULT 10)
-- returns TABLE(ordinal integer, memory_id bigint, version integer, is_same boolean, similarity real, overlap real, text text, type text, status text, user_id text, language text, importance real, confidence real, trust real, occurred_at timestamp with time zone, recorded_at timestamp with time zone, assertions jsonb); stable, rows 50; for memdb_writer

-- find_items (p_tenant integer, p_namespaces text[], p_external_ids text[])
-- returns TABLE(ordinal integer, memory_id bigint, version integer, namespace text, external_id text, text text, metadata jsonb, created_at timestamp with time zone, updated_at timestamp with time zone, expires_at timestamp with time zone); stable, rows 10; for memdb_reader

-- find_request (p_tenant integer, p_key bigint, p_idempotency_key text, p_request_hash bytea)
-- returns TABLE(status integer, answer jsonb); stable, security definer, rows 1; for memdb_writer

-- find_tenant (p_name text)
-- returns integer; stable, security definer; for memdb_reader

-- finish_job (p_tenant integer, p_name text, p_run_id bigint, p_error text DEFAULT NULL::text, p_note text DEFAULT NULL::text)
-- returns void; volatile, security definer; for memdb_writer

-- fold_keyword_stats (p_tenant integer, p_limit integer DEFAULT 1000)
-- returns integer; volatile, security definer; for memdb_writer

-- fold_query (p_tenant integer, p_query text, p_session text, p_namespace text DEFAULT 'default'::text, p_agent text DEFAULT NULL::text, p_tokens integer DEFAULT 120)
-- returns TABLE(query text, is_folded boolean, turns text[]); stable, rows 1; for memdb_reader

-- fold_uses (p_tenant integer, p_limit integer DEFAULT 1000)
-- returns integer; volatile, security definer; for memdb_writer

-- folded_text_v1 (p_text text)
-- returns text; immutable; for memdb_reader

-- forget (p_tenant integer, p_user text DEFAULT NULL::text, p_session text DEFAULT NULL::text, p_agent text DEFAULT NULL::text, p_namespace text DEFAULT NULL::text, p_types text[] DEFAULT NULL::text[], p_kinds text[] DEFAULT NULL::text[], p_from timestamp with time zone DEFAULT NULL::timestamp with time zone, p_to timestamp with time zone DEFAULT NULL::timestamp with time zone, p_entity bigint DEFAULT NULL::bigint, p_event_ids bigint[] DEFAULT NULL::bigint[], p_memory_ids bigint[] DEFAULT NULL::bigint[], p_everything boolean DEFAULT false, p_reason text DEFAULT NULL::text, p_dry_run boolean DEFAULT true)
-- returns TABLE(receipt_id bigint, state text, remaining bigint, counts jsonb, kept jsonb); volatile, security definer, rows 1; for memdb_operator

-- get_memory (p_tenant integer, p_memory bigint)
-- returns SETOF memdb.memories; stable, rows 1; for memdb_reader

-- grant_agent (p_tenant integer, p_agent text, p_namespace text, p_can_read boolean DEFAULT true, p_can_write boolean DEFAULT false, p_weight real DEFAULT 1)
-- returns void; volatile, security definer; for memdb_operator

-- grant_role (p_tenant integer, p_role name, p_can_write boolean DEFAULT false, p_namespaces text[] DEFAULT NULL::text[])
-- returns void; volatile, security definer; for memdb_operator

-- health (p_tenant integer DEFAULT NULL::integer)
-- returns TABLE(metric text, value double precision, unit text, state text, remedy text); stable, rows 20; for memdb_reader

-- hold_truth (p_tenant integer)
-- returns void; volatile, security definer; for memdb_writer

-- keep_answer (p_tenant integer, p_key bigint, p_idempotency_key text, p_status integer, p_answer jsonb)
-- returns void; volatile, security definer; for memdb_writer

-- keyword_text_v2 (p_text text, p_heading text, p_language text, p_scope text[])
-- returns tsvector; immutable; for memdb_reader

-- known_events (p_tenant integer, p_namespace text, p_keys text[])
-- returns TABLE(key text, event_id bigint); stable, security definer, rows 100; for memdb_reader

-- list_api_keys (p_tenant integer DEFAULT NULL::integer)
-- returns TABLE(tenant_id integer, tenant text, key_id bigint, name text, role text, prefix text, namespaces text[], agents text[], state text, created_at timestamp with time zone, expires_at timestamp with time zone, revoked_at timestamp with time zone, last_used_at timestamp with time zone); stable, security definer, rows 20; for memdb_operator

-- list_audit (p_tenant integer, p_after bigint DEFAULT NULL::bigint, p_limit integer DEFAULT 50)
-- returns TABLE(audit_id bigint, recorded_at timestamp with time zone, key_id bigint, key_name text, role_name text, action text, request_id text, detail jsonb); stable, security definer, rows 50; for memdb_operator

-- list_embedding_models (p_tenant integer)
-- returns TABLE(model_id integer, name text, dimensions integer, state text, fingerprint text); stable, rows 2; for memdb_reader

-- list_events (p_tenant integer, p_namespaces text[] DEFAULT NULL::text[], p_after bigint DEFAULT 0, p_limit integer DEFAULT 1000)
-- returns SETOF memdb.events; stable, rows 1000; for memdb_reader

-- list_golden_queries (p_tenant integer, p_namespaces text[] DEFAULT NULL::text[])
-- returns TABLE(golden_id bigint, namespace text, query text, memory_ids bigint[], k integer, found integer, asked_at timestamp with time zone); stable, security definer, rows 50; for memdb_reader

-- list_item_namespaces (p_tenant integer, p_prefix text DEFAULT NULL::text, p_match jsonb DEFAULT '[]'::jsonb, p_filter jsonb DEFAULT '[]'::jsonb, p_depth integer DEFAULT NULL::integer, p_limit integer DEFAULT 100, p_offset integer DEFAULT 0)
-- returns TABLE(path text); stable, rows 100; for memdb_reader

-- list_items (p_tenant integer, p_prefix text DEFAULT NULL::text, p_filter jsonb DEFAULT '[]'::jsonb, p_memory_ids bigint[] DEFAULT NULL::bigint[], p_limit integer DEFAULT 50, p_offset integer DEFAULT 0)
-- returns TABLE(memory_id bigint, version integer, namespace text, external_id text, text text, metadata jsonb, created_at timestamp with time zone, updated_at timestamp with time zone, expires_at timestamp with time zone); stable, rows 50; for memdb_reader

-- list_jobs (p_tenant integer)
-- returns TABLE(name text, meaning text, every_seconds integer, daily_at text, time_zone text, is_enabled boolean, next_at timestamp with time zone, failures integer, last_started_at timestamp with time zone, last_outcome text, last_batches integer, last_remaining bigint, last_elapsed_ms real, note text); volatile, security definer, rows 15; for memdb_operator

-- list_memories (p_tenant integer, p_namespaces text[] DEFAULT NULL::text[], p_user text DEFAULT NULL::text, p_types text[] DEFAULT NULL::text[], p_statuses text[] DEFAULT '{active}'::text[], p_after bigint DEFAULT NULL::bigint, p_limit integer DEFAULT 50, p_as_of_belief timestamp with time zone DEFAULT NULL::timestamp with time zone, p_as_of_world timestamp with time zone DEFAULT NULL::timestamp with time zone)
-- returns SETOF memdb.memories; stable, rows 50; for memdb_reader

-- list_roles (p_tenant integer)
-- returns TABLE(role_name text, can_write boolean, namespaces text[], is_admitted boolean); stable, security definer, rows 10; for memdb_operator

-- list_session_events (p_tenant integer, p_session text, p_namespace text DEFAULT 'default'::text, p_limit integer DEFAULT 1000, p_before integer DEFAULT NULL::integer)
-- returns TABLE(event_id bigint, sequence integer, kind text, text text, input jsonb, output jsonb, speaker text, metadata jsonb, occurred_at timestamp with time zone); stable, rows 100; for memdb_reader

-- list_topics (p_tenant integer, p_namespaces text[] DEFAULT NULL::text[], p_agent text DEFAULT NULL::text, p_limit integer DEFAULT 100, p_offset integer DEFAULT 0)
-- returns TABLE(topic_id bigint, namespace text, label text, entity text, members integer, changed_at timestamp with time zone); stable, rows 100; for memdb_reader

-- mark_used (p_tenant integer, p_recall_id bigint, p_memory_ids bigint[])
-- returns integer; volatile, security definer; for memdb_reader

-- measure_use (p_tenant integer, p_namespaces text[] DEFAULT NULL::text[], p_days integer DEFAULT 90)
-- returns TABLE(recalls bigint, marked bigint, returned bigint, used bigint); stable, security definer, rows 1; for memdb_reader

-- memory_as_of (p_tenant integer, p_memory bigint, p_as_of_belief timestamp with time zone DEFAULT NULL::timestamp with time zone, p_as_of_world timestamp with time zone DEFAULT NULL::timestamp with time zone)
-- returns SETOF memdb.memories; stable, rows 1; for memdb_reader

-- memory_history (p_tenant integer, p_memory bigint)
-- returns TABLE(from_at timestamp with time zone, to_at timestamp with time zone, version integer, status text, text text, summary text, type text, importance real, confidence real, valid_from timestamp with time zone, valid_to timestamp with time zone, event_id bigint, metadata jsonb, cause text, root text, root_id bigint, depth integer, actor text, reason text); stable, rows 10; for memdb_reader

-- memory_life (p_tenant integer, p_memory_ids bigint[])
-- returns TABLE(memory_id bigint, tier text, is_pinned boolean, strength double precision, threshold double precision, half_life_days double precision, is_isolated boolean, use_count integer, last_used_at timestamp with time zone, fades_at timestamp with time zone); stable, security definer, rows 100; for memdb_reader

-- merge_entities (p_tenant integer, p_from bigint, p_into bigint)
-- returns integer; volatile, security definer; for memdb_writer

-- model_budgets (p_tenant integer, p_namespace text DEFAULT NULL::text)
-- returns TABLE(namespace text, tokens bigint, used bigint, remaining bigint); stable, security definer, rows 5; for memdb_reader

-- model_spend (p_tenant integer, p_namespace text DEFAULT NULL::text, p_day date DEFAULT NULL::date)
-- returns TABLE(namespace text, purpose text, model text, calls integer, failed integer, cached integer, tokens_held bigint, tokens_in bigint, tokens_out bigint, cost numeric); stable, security definer, rows 20; for memdb_reader

-- nearest_memories (p_tenant integer, p_model text, p_vector real[], p_namespaces text[] DEFAULT NULL::text[], p_user text DEFAULT NULL::text, p_k integer DEFAULT 10)
-- returns TABLE(rank integer, memory_id bigint, similarity double precision); stable, security definer, rows 10; for memdb_reader

-- neighbours (p_tenant integer, p_memory_ids bigint[], p_width integer DEFAULT 2)
-- returns TABLE(memory_id bigint, neighbour_id bigint, distance integer); stable, security definer, rows 100; for memdb_reader

-- open_conflicts (p_tenant integer, p_namespaces text[] DEFAULT NULL::text[], p_after bigint DEFAULT 0, p_limit integer DEFAULT 50)
-- returns SETOF memdb.open_conflicts; stable, rows 20; for memdb_reader

-- open_model_call (p_tenant integer, p_namespace text, p_purpose text, p_model text, p_request jsonb, p_tokens integer DEFAULT 0, p_event_ids bigint[] DEFAULT '{}'::bigint[], p_memory_ids bigint[] DEFAULT '{}'::bigint[])
-- returns TABLE(call_id bigint, outcome text, response text, wait_seconds integer); volatile, security definer, rows 1; for memdb_writer

-- pending_embeddings (p_tenant integer, p_model text, p_limit integer DEFAULT 100, p_lease_seconds integer DEFAULT 300)
-- returns TABLE(memory_id bigint, version integer, text text); volatile, rows 100; for memdb_writer

-- pin_memory (p_tenant integer, p_memory bigint, p_is_pinned boolean DEFAULT true)
-- returns boolean; volatile, security definer; for memdb_writer

-- policy_presets ()
-- returns TABLE(preset text, meaning text, key text, value jsonb); immutable, rows 20; for memdb_reader

-- promote_memories (p_tenant integer, p_memory_ids bigint[], p_tier text DEFAULT NULL::text)
-- returns integer; volatile, security definer; for memdb_writer

-- query_entities (p_tenant integer, p_query text, p_namespaces text[] DEFAULT NULL::text[], p_agent text DEFAULT NULL::text, p_fuzzy boolean DEFAULT true)
-- returns TABLE(entity_id bigint, name text, namespace text, alias text, is_exact boolean); stable, security definer, rows 5; for memdb_reader

-- read_turns (p_tenant integer, p_memory_ids bigint[], p_width integer DEFAULT 2, p_characters integer DEFAULT 4000)
-- returns TABLE(memory_id bigint, version integer, text text, speaker text, session_id bigint, sequence integer); stable, rows 100; for memdb_reader

-- rebuild_graph ()
-- returns TABLE(label text, kind text, entries bigint); volatile, rows 11; for memdb_operator

-- recall (p_tenant integer, p_query text, p_vector real[] DEFAULT NULL::real[], p_namespaces text[] DEFAULT NULL::text[], p_user text DEFAULT NULL::text, p_agent text DEFAULT NULL::text, p_session text DEFAULT NULL::text, p_types text[] DEFAULT NULL::text[], p_k integer DEFAULT 10, p_legs text[] DEFAULT NULL::text[], p_hops integer DEFAULT 1, p_include text[] DEFAULT NULL::text[], p_log boolean DEFAULT true, p_as_of_belief timestamp with time zone DEFAULT NULL::timestamp with time zone, p_as_of_world timestamp with time zone DEFAULT NULL::timestamp with time zone, p_budget_ms integer DEFAULT NULL::integer, p_tiers text[] DEFAULT NULL::text[], p_from timestamp with time zone DEFAULT NULL::timestamp with time zone, p_to timestamp with time zone DEFAULT NULL::timestamp with time zone, p_entities text[] DEFAULT NULL::text[], p_topic bigint DEFAULT NULL::bigint, p_metadata jsonb DEFAULT NULL::jsonb, p_expand text DEFAULT NULL::text, p_offset integer DEFAULT 0, p_report boolean DEFAULT false, p_factors jsonb DEFAULT NULL::jsonb)
-- returns TABLE(rank integer, memory_id bigint, version integer, event_id bigint, score real, text text, summary text, type text, status text, namespace text, user_id text, agent_id text, importance real, confidence real, occurred_at timestamp with time zone, legs jsonb, sources jsonb, recall_id bigint, reasons jsonb, timing jsonb); volatile, rows 10; for memdb_reader

-- record_assertions (p_tenant integer, p_assertions jsonb)
-- returns TABLE(ordinal integer, rival_id bigint, rival_version integer, rival_value text); volatile, security definer, rows 10; for memdb_writer

-- record_assessments (p_tenant integer, p_assessments jsonb)
-- returns integer; volatile, security definer; for memdb_writer

-- record_embeddings (p_tenant integer, p_model text, p_embeddings jsonb)
-- returns integer; volatile, security definer; for memdb_writer

-- record_memories (p_tenant integer, p_memories jsonb, p_vector_model text DEFAULT NULL::text)
-- returns TABLE(ordinal integer, memory_id bigint, version integer, outcome text); volatile, security definer, rows 1000; for memdb_writer

-- record_model_call (p_tenant integer, p_call bigint, p_outcome text, p_tokens_in integer DEFAULT NULL::integer, p_tokens_out integer DEFAULT NULL::integer, p_latency_ms real DEFAULT NULL::real, p_response text DEFAULT NULL::text, p_error text DEFAULT NULL::text)
-- returns boolean; volatile, security definer; for memdb_writer

-- record_profile (p_tenant integer, p_namespace text, p_user text, p_text text DEFAULT NULL::text, p_sources jsonb DEFAULT NULL::jsonb, p_model text DEFAULT NULL::text)
-- returns TABLE(memory_id bigint, version integer, outcome text); volatile, security definer, rows 1; for memdb_writer

-- record_summary (p_tenant integer, p_namespace text, p_session text DEFAULT NULL::text, p_user text DEFAULT NULL::text, p_text text DEFAULT NULL::text, p_sources jsonb DEFAULT NULL::jsonb, p_model text DEFAULT NULL::text)
-- returns TABLE(memory_id bigint, version integer, outcome text); volatile, security definer, rows 1; for memdb_writer

-- rederivation_material (p_tenant integer, p_memory bigint)
-- returns TABLE(state text, event_id bigint, memory_id bigint, version integer, text text, before text, speaker text, occurred_at timestamp with time zone); stable, security definer, rows 5; for memdb_writer

-- refresh_profiles (p_tenant integer, p_limit integer DEFAULT 100)
-- returns bigint; volatile, security definer; for memdb_writer

-- refresh_topics (p_tenant integer, p_limit integer DEFAULT 500)
-- returns integer; volatile, security definer; for memdb_writer

-- register_cold_file (p_tenant integer, p_namespace text, p_month date, p_name text, p_sha256 text, p_bytes bigint, p_versions jsonb)
-- returns TABLE(file_id bigint, versions bigint); volatile, security definer, rows 1; for memdb_operator

-- register_embedding_model (p_tenant integer, p_name text, p_dimensions integer, p_fingerprint text DEFAULT NULL::text)
-- returns TABLE(model_id integer, state text, is_new boolean); volatile, security definer, rows 1; for memdb_writer

-- relate_memories (p_tenant integer, p_edges jsonb)
-- returns TABLE(ordinal integer, edge_id bigint, is_new boolean); volatile, security definer, rows 100; for memdb_writer

-- renew_expiry (p_tenant integer, p_memory_ids bigint[])
-- returns integer; volatile, security definer; for memdb_writer

-- reopen_review (p_tenant integer, p_review bigint, p_reason text DEFAULT NULL::text)
-- returns SETOF memdb._truth_change; volatile, security definer, rows 10; for memdb_writer

-- replace_cold_file (p_tenant integer, p_file bigint, p_name text DEFAULT NULL::text, p_sha256 text DEFAULT NULL::text, p_bytes bigint DEFAULT NULL::bigint)
-- returns boolean; volatile, security definer; for memdb_operator

-- replay_session (p_tenant integer, p_session text, p_namespace text DEFAULT 'default'::text, p_after integer DEFAULT 0, p_limit integer DEFAULT 1000, p_as_of_belief timestamp with time zone DEFAULT NULL::timestamp with time zone)
-- returns TABLE(sequence integer, depth integer, event_id bigint, parent_event_id bigint, kind text, status text, text text, input jsonb, output jsonb, speaker text, user_id text, agent_id text, occurred_at timestamp with time zone, memories jsonb); stable, rows 100; for memdb_reader

-- request_reviews (p_tenant integer, p_items jsonb)
-- returns TABLE(ordinal integer, review_id bigint, is_new boolean); volatile, security definer, rows 10; for memdb_writer

-- resolve_conflict (p_tenant integer, p_review bigint, p_rule text, p_reason text DEFAULT NULL::text)
-- returns TABLE(review_id bigint, outcome text, kept_id bigint, dropped_id bigint, fallen bigint, question text); volatile, security definer, rows 1; for memdb_writer

-- restore_archived (p_tenant integer, p_memory_ids bigint[])
-- returns integer; volatile, security definer; for memdb_writer

-- restore_cold (p_tenant integer, p_file bigint, p_lines jsonb)
-- returns bigint; volatile, security definer; for memdb_operator

-- restore_event (p_tenant integer, p_event bigint, p_reason text DEFAULT NULL::text, p_dry_run boolean DEFAULT false)
-- returns SETOF memdb._truth_change; volatile, security definer, rows 100; for memdb_writer

-- restore_memory (p_tenant integer, p_memory bigint, p_reason text DEFAULT NULL::text, p_dry_run boolean DEFAULT false)
-- returns SETOF memdb._truth_change; volatile, security definer, rows 100; for memdb_writer

-- retention_report (p_tenant integer)
-- returns TABLE(namespace text, subject text, kind text, days double precision, due bigint, oldest timestamp with time zone); stable, security definer, rows 10; for memdb_operator

-- retract_event (p_tenant integer, p_event bigint, p_reason text DEFAULT NULL::text, p_dry_run boolean DEFAULT false)
-- returns SETOF memdb._truth_change; volatile, security definer, rows 100; for memdb_writer

-- retract_memory (p_tenant integer, p_memory bigint, p_reason text DEFAULT NULL::text, p_dry_run boolean DEFAULT false)
-- returns SETOF memdb._truth_change; volatile, security definer, rows 100; for memdb_writer

-- retry_events (p_tenant integer, p_event_ids bigint[] DEFAULT NULL::bigint[])
-- returns integer; volatile, security definer; for memdb_writer

-- review_items (p_tenant integer, p_state text DEFAULT 'open'::text, p_kinds text[] DEFAULT NULL::text[], p_after bigint DEFAULT 0, p_limit integer DEFAULT 50)
-- returns TABLE(review_id bigint, kind text, namespace text, state text, question text, memory_id bigint, version integer, text text, other_memory_id bigint, other_version integer, other_text text, event_id bigint, details jsonb, confidence real, decision text, decided_by text, decided_at timestamp with time zone, recorded_at timestamp with time zone); stable, rows 50; for memdb_reader

-- revoke_api_key (p_tenant integer, p_key bigint)
-- returns boolean; volatile, security definer; for memdb_operator

-- revoke_role (p_tenant integer, p_role name)
-- returns boolean; volatile, security definer; for memdb_operator

-- rollback_memory (p_tenant integer, p_memory bigint, p_expected_version integer, p_to_version integer, p_reason text DEFAULT NULL::text)
-- returns TABLE(memory_id bigint, version integer, outcome text, fallen bigint); volatile, security definer, rows 1; for memdb_writer

-- rotate_api_key (p_tenant integer, p_key bigint, p_prefix text, p_hash bytea, p_grace_seconds integer DEFAULT 86400)
-- returns bigint; volatile, security definer; for memdb_operator

-- run_due_jobs (p_tenant integer DEFAULT NULL::integer, p_worker text DEFAULT NULL::text)
-- returns TABLE(tenant_id integer, name text, outcome text, remaining bigint, elapsed_ms real, note text); volatile, security definer, rows 1; for memdb_writer

-- sample_queries (p_tenant integer, p_namespace text DEFAULT 'default'::text, p_limit integer DEFAULT 50, p_days integer DEFAULT 90, p_seed integer DEFAULT 0)
-- returns TABLE(query text, asked bigint, last_asked_at timestamp with time zone, is_golden boolean); stable, security definer, rows 50; for memdb_operator

-- schedule_cron ()
-- returns void; volatile; for memdb_operator

-- schedule_job (p_tenant integer, p_name text, p_every_seconds integer DEFAULT NULL::integer, p_daily_at text DEFAULT NULL::text, p_time_zone text DEFAULT 'UTC'::text, p_timeout_seconds integer DEFAULT 300, p_is_enabled boolean DEFAULT true)
-- returns timestamp with time zone; volatile, security definer; for memdb_operator

-- scope_lexemes_v1 (p_tenant integer, p_namespace integer, p_user text)
-- returns text[]; immutable; for its owner

-- scoped_metadata_v1 (p_tenant integer, p_namespace integer, p_metadata jsonb)
-- returns jsonb; immutable; for its owner

-- service_state ()
-- returns TABLE(metric text, value double precision); stable, security definer, rows 8; for memdb_service

-- session_context (p_tenant integer, p_session text, p_token_budget integer DEFAULT NULL::integer, p_namespace text DEFAULT 'default'::text, p_agent text DEFAULT NULL::text)
-- returns TABLE(place integer, part text, event_id bigint, memory_id bigint, version integer, kind_or_type text, speaker text, text text, occurred_at timestamp with time zone, tokens integer, is_cut boolean); stable, rows 50; for memdb_reader

-- set_expiry (p_tenant integer, p_memory_ids bigint[], p_minutes double precision[])
-- returns integer; volatile, security definer; for memdb_writer

-- set_golden_query (p_tenant integer, p_query text, p_memory_ids bigint[], p_namespace text DEFAULT 'default'::text, p_k integer DEFAULT 10)
-- returns bigint; volatile, security definer; for memdb_writer

-- set_legal_hold (p_tenant integer, p_reason text, p_user text DEFAULT NULL::text, p_namespace text DEFAULT NULL::text, p_is_on boolean DEFAULT true)
-- returns boolean; volatile, security definer; for memdb_operator

-- set_namespace (p_tenant integer, p_path text, p_visibility text DEFAULT 'shared'::text, p_owner_agent text DEFAULT NULL::text)
-- returns integer; volatile, security definer; for memdb_operator

-- set_policy (p_tenant integer, p_key text, p_value jsonb, p_namespace text DEFAULT NULL::text)
-- returns void; volatile, security definer; for memdb_operator

-- spaceless_pairs_v1 (p_text text)
-- returns tsvector; immutable; for memdb_reader

-- summary_material (p_tenant integer, p_namespace text, p_session text DEFAULT NULL::text, p_user text DEFAULT NULL::text, p_token_budget integer DEFAULT NULL::integer)
-- returns TABLE(memory_id bigint, version integer, type text, text text, occurred_at timestamp with time zone, tokens integer); stable, rows 20; for memdb_reader

-- supersede_memory (p_tenant integer, p_memory bigint, p_expected_version integer, p_item jsonb)
-- returns TABLE(memory_id bigint, version integer, outcome text, fallen bigint); volatile, security definer, rows 1; for memdb_writer

-- sweep_expired (p_tenant integer, p_limit integer DEFAULT 1000)
-- returns integer; volatile, security definer; for memdb_writer

-- switch_graph (p_on boolean)
-- returns boolean; volatile; for memdb_operator

-- switch_recall_cache (p_on boolean)
-- returns boolean; volatile, security definer; for memdb_operator

-- table_fingerprints (p_contents boolean DEFAULT false)
-- returns TABLE(table_name text, table_rows bigint, content_sum numeric); stable, security definer, rows 60; for memdb_operator

-- touch_api_keys (p_keys bigint[], p_used_at timestamp with time zone[], p_uses integer[])
-- returns integer; volatile, security definer; for memdb_service

-- trace_memory (p_tenant integer, p_memory bigint, p_direction text DEFAULT 'up'::text, p_max_depth integer DEFAULT 10, p_kinds text[] DEFAULT NULL::text[], p_relations text[] DEFAULT '{derived_from,premise,cause}'::text[], p_limit integer DEFAULT 1000, p_as_of_belief timestamp with time zone DEFAULT NULL::timestamp with time zone, p_as_of_world timestamp with time zone DEFAULT NULL::timestamp with time zone)
-- returns TABLE(depth integer, direction text, from_id bigint, relation text, supports boolean, source text, event_id bigint, memory_id bigint, version integer, kind_or_type text, status text, text text, quote text, speaker text, session text, occurred_at timestamp with time zone); stable, rows 100; for memdb_reader

-- trim_recall_cache (p_tenant integer, p_limit integer DEFAULT 10000)
-- returns integer; volatile, security definer; for memdb_writer

-- unschedule_cron ()
-- returns void; volatile; for memdb_operator

-- user_profile (p_tenant integer, p_user text, p_namespaces text[] DEFAULT NULL::text[], p_limit integer DEFAULT 10)
-- returns TABLE(section text, memory_id bigint, version integer, namespace text, type text, text text, importance real, strength double precision, is_pinned boolean, occurred_at timestamp with time zone, sources jsonb); stable, rows 20; for memdb_reader

-- vacuum_plan ()
-- returns TABLE(name text, dead_rows bigint, is_after_forgetting boolean, statement text); stable, security definer, rows 5; for memdb_operator

-- vector_index_plan (p_tenant integer)
-- returns TABLE(action text, name text, model text, namespace text, vectors bigint, bytes bigint, statement text); stable, security definer, rows 20; for memdb_operator

-- vector_index_progress ()
-- returns TABLE(name text, phase text, done bigint, total bigint); stable, security definer, rows 1; for memdb_operator

-- verify_erasure (p_tenant integer, p_receipt bigint)
-- returns TABLE(place text, remains bigint); stable, security definer, rows 5; for memdb_operator

-- verify_tenant (p_tenant integer, p_checks text[] DEFAULT NULL::text[])
-- returns TABLE(check_name text, meaning text, passed boolean, problems text[]); volatile, rows 4; for memdb_operator

-- work_off_jobs (IN p_seconds integer DEFAULT 50)
-- returns ; volatile; for memdb_operator
