"""The words a memory is found by: the same in any locale, and renewed after a change."""

import contextlib
import re
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb import migrate
from tests.cluster import Cluster
from tests.conftest import Connection, FreshDatabase
from tests.sql.rows import Rows
from tests.sql.test_55_recall import Store

shared_db = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

# A text, and what it is found by besides single characters and pairs.
CASES = {
    "我喜欢喝tea。": {"tea"},
    "“tea”，coffee、milk…": {"tea", "coffe", "milk"},
    "ＴＥＡ　１２３": {"tea", "123"},
    "ÉMILE Émile": {"émile"},
    "na\u00efve nai\u0308ve": {"naïv"},
    "Я пью ЧАЙ": {"я", "пью", "чай"},
    "ΟΔΟΣ οδος": {"οδοσ"},
    "İstanbul STRASSE straße": {"istanbul", "strass", "straße"},
    "ดื่มชา tea": {"tea"},
    "차를tea": {"tea"},
    "كتاب हिन्दी ١٢٣": {"كتاب", "हिन्दी", "١٢٣"},
    "tea🍵 👍🏽 🇨🇳 ❤️": {"tea", "🍵", "👍", "🇨🇳", "❤"},
    "1️⃣ №5 x² memdb™ 10°C 5км": {"1", "no5", "x2", "memdb", "10", "c", "5км"},
    "it’s Emma’s, isn't it": {"emma", "isn"},
    "don´t": set(),
    "e-mail e‑mail": {"e", "e-mail", "mail"},
    "订单A-1024号，-5度，3.5。": {"1024", "1024号", "5", "5度", "3.5"},
    "2023-05-08 3~5": {"2023", "05", "08", "~5", "3", "5"},
    "tea/coffee": {"tea/coffee", "tea", "coffe"},
    "tea@example.com": {"tea@example.com", "tea", "exampl", "com"},
    "I like tea.But": {"like", "tea.but", "tea"},
    "/usr/lib/site.py": {"/usr/lib/site.py", "usr", "lib", "site", "py"},
    "List<String> a<tea and coffee>": {"list", "string", "tea", "coffe"},
    "te\u00ada te\u200da 茶\ufe00": {"tea"},
}
SPACELESS = r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
FUNCTIONS = [
    *("_query_terms", "_words", "_is_named", "_alias", "_same_claims", "_own_words"),
    *("_chinese_number", "_month_number", "_small_number", "_year_of", "_span_text"),
    *("_span_back", "_span_named", "_english_dates"),
]


def definitions() -> str:
    """The functions that read words, out of their files: a whole install would take seconds."""
    revisions = sorted((migrate.migrations_dir() / "versions").glob("*.sql"))
    frozen = next(
        text for f in reversed(revisions) if "keyword_text_v2 (" in (text := f.read_text())
    )
    found = re.findall(r"^create function memdb\.\w+_v\d .*?^end \$\$;$", frozen, re.M | re.S)
    files = "\n".join(file.read_text() for file in migrate.function_files())
    for name in FUNCTIONS:
        body = re.search(
            rf"^create or replace function memdb\.{name} \(.*?^end.*?;$", files, re.M | re.S
        )
        assert body is not None, name
        found.append(body[0])
    return "create schema memdb;" + "\n".join(found)


@pytest.fixture(scope="module")
def locales(cluster: Cluster) -> Iterator[list[psycopg.Connection]]:
    """Two databases with the functions alone: of ctype C, and of one that knows Unicode."""
    script = definitions().encode()
    with contextlib.ExitStack() as stack:
        found = []
        for ctype in ("C", "C.UTF-8"):
            try:
                dsn = stack.enter_context(cluster.empty("ctype", ctype))
            except psycopg.errors.WrongObjectType:
                pytest.skip(f"this platform has no locale {ctype}")
            found.append(stack.enter_context(psycopg.connect(dsn, autocommit=True)))
            found[-1].execute(script)
        yield found


@pytest.fixture
def world(db: Connection, tenant) -> Rows:
    return Rows(db, tenant().id)


WORDS = "select tsvector_to_array(memdb.keyword_text_v2(%s, null, 'en', '{}'))"


def test_words_are_cut_the_same_in_every_locale(locales) -> None:
    for connection in locales:
        found = {}
        for text in CASES:
            cut = connection.execute(WORDS, [text]).fetchone()[0]
            found[text] = {w for w in cut if not re.search(SPACELESS, w) or re.match("[0-9]", w)}
        assert found == CASES, connection.info.dbname


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("memdb._query_terms('ＴＥＡ。 Чай，ÉMILE 茶！')", ["tea", "чай", "émile", "茶"]),
        ("memdb._words('Émile，Ёлка。ＴＥＡ')", " émile ёлка tea "),
        ("memdb._is_named('ÉMILE', 'où est Émile？', memdb._words('où est Émile？'))", True),
        ("memdb._is_named('mile', 'où est Émile？', memdb._words('où est Émile？'))", False),
        ("memdb._alias(' ÉMILE　Ёлкин ')", "émile ёлкин"),
        ("memdb._same_claims('我有two只猫', '我有three只猫')", False),
        ("memdb._own_words('Когда Ирина переехала？')", 3),
        (
            "memdb._english_dates('我last week去了', '2026-05-13') like '我去了 2026年5月4日%'",
            True,
        ),
    ],
)
def test_names_and_numbers_are_read_the_same_in_every_locale(
    locales, expression: str, wanted: object
) -> None:
    for connection in locales:
        found = connection.execute(f"select {expression}").fetchone()[0]
        assert sorted(found) == sorted(wanted) if isinstance(wanted, list) else found == wanted


# --- what stands in a memory is found by it ------------------------------------------------

PIECES = st.one_of(
    st.sampled_from(
        ["tea", "Emma", "Émile", "Zürich", "чай", "ΟΔΟΣ", "STRASSE", "ＴＥＡ", "python"]
    ),
    st.text("bcdfgklmnpqrvwxz", min_size=3, max_size=8),
    st.sampled_from("茶猫书水山药钱酒米车"),
    st.integers(0, 10**6).map(str),
    st.sampled_from(["3.5", "12.25"]),
)
SIGNS = st.sampled_from(
    [
        *"，。！？、；：“”‘’《》（）【】—…·　～￥",
        " ",
        ", ",
        ". ",
        "! ",
        " (",
        ") ",
        ": ",
        "-",
        "/",
        "'",
        '"',
        "🍵",
        "©",
        "\n",
    ]
)


@shared_db
@given(st.lists(st.tuples(PIECES, SIGNS), min_size=1, max_size=8))
def test_whatever_stands_in_a_text_is_found_by_itself(db, pieces) -> None:
    text = "".join(piece + sign for piece, sign in pieces)
    missed = db.execute(
        "select p.piece from unnest(%s::text[]) p (piece)"
        " where not memdb._query_terms(p.piece)"
        " && tsvector_to_array(memdb.keyword_text_v2(%s, null, 'zh', '{}'))",
        [[piece for piece, _ in pieces], text],
    ).fetchall()
    assert missed == [], text


TEXT = "昨天我和Émile喝了tea。订单A-1024，共3.5元；ＰＹＴＨＯＮ很好，чай也好。"


@pytest.mark.parametrize(
    "query",
    ["tea", "émile", "茶 tea", "1024", "A-1024", "3.5", "python", "ЧАЙ", "喝", "订单", "元"],
)
def test_the_keyword_leg_alone_finds_it(db, tenant, query: str) -> None:
    store = Store(db, tenant().id)
    memory = store.remember(TEXT)
    assert store.found(query, legs=["keyword"]) == [memory]


# --- written with the version, and anew after a change -----------------------------------------


def words(world: Rows, memory: int) -> set[str]:
    found = world.one(
        "select tsvector_to_array(v.keyword) from memdb.memory_version v"
        " where v.tenant_id = %(tenant)s and v.memory_id = %(memory)s",
        memory=memory,
    )
    return {word for word in found if not word.startswith("\x01")}


def spoil(world: Rows, memory: int) -> None:
    """Give a memory the words an older release cut."""
    world.db.execute(
        "update memdb.memory_version v"
        " set keyword = array_to_tsvector(memdb.scope_lexemes_v1(tenant_id, namespace_id, user_id))"
        " || 'tea。:1'::tsvector where v.tenant_id = %s and v.memory_id = %s",
        [world.tenant, memory],
    )


def queue(world: Rows, memory: int) -> None:
    world.db.execute(
        "insert into memdb.keyword_queue (tenant_id, namespace_id, memory_id, version)"
        " values (%s, %s, %s, 1)",
        [world.tenant, world.namespace(), memory],
    )


def statistics(world: Rows) -> dict[str, int]:
    assert world.one("select memdb.fold_keyword_stats(%(tenant)s)") == 0
    rows = world.db.execute(
        "select lexeme, documents from memdb.lexeme_stat where tenant_id = %s", [world.tenant]
    )
    return dict(rows.fetchall())


def test_words_follow_what_a_version_says(world: Rows) -> None:
    memory = world.memory("我喜欢tea。")
    assert words(world, memory) == {"tea", "我", "喜", "欢", "我喜", "喜欢"}
    world.db.execute(
        "update memdb.memory_version set text = 'Milk' where tenant_id = %s", [world.tenant]
    )
    assert words(world, memory) == {"milk"}


def test_a_bulk_load_and_a_replica_have_words_too(world: Rows) -> None:
    world.db.execute("set local session_replication_role = replica")
    memory = world.memory("tea。")
    row = world.db.execute(
        "select v.keyword::text as words from memdb.memory_version v where v.memory_id = %s",
        [memory],
    ).fetchone()
    assert row is not None and "'tea'" in row.words


def test_old_words_are_renewed_in_steps_and_counted_right(world: Rows) -> None:
    counted, waiting, right = (world.memory(text) for text in ("tea。", "tea！", "milk"))
    for memory in (counted, waiting):
        spoil(world, memory)
    queue(world, counted)
    queue(world, right)
    assert statistics(world) == {"tea。": 1, "milk": 1}
    queue(world, waiting)
    world.db.execute("insert into memdb.keyword_renewal values (%s, 0)", [world.tenant])
    renew = "select memdb._renew_keywords(%(tenant)s, 2)"
    assert world.one(renew) == 1
    assert [words(world, m) for m in (counted, waiting)] == [{"tea"}, {"tea"}]
    assert statistics(world) == {"tea": 2, "milk": 1}
    assert world.one(renew) == 0
    assert world.one("select count(*) from memdb.keyword_renewal where tenant_id = %(tenant)s") == 0
    assert statistics(world) == {"tea": 2, "milk": 1}
    assert world.one(renew) == 0


def test_a_step_ends_with_a_million_bytes_of_text(world: Rows) -> None:
    memories = [world.memory("tea。" + "word " * 120_000) for _ in range(4)]
    for memory in memories:
        spoil(world, memory)
    world.db.execute("insert into memdb.keyword_renewal values (%s, 0)", [world.tenant])
    left = []
    while not left or left[-1]:
        left.append(world.one("select memdb._renew_keywords(%(tenant)s, 1000)"))
    assert left == [2, 0]
    assert all("tea" in words(world, memory) for memory in memories)


def test_the_job_renews(world: Rows) -> None:
    memory = world.memory("tea。")
    spoil(world, memory)
    world.db.execute("insert into memdb.keyword_renewal values (%s, 0)", [world.tenant])
    world.one("select remaining from memdb._run_job(%(tenant)s, 'fold_keywords', 100)")
    assert words(world, memory) == {"tea"}


def test_an_upgrade_renews_what_is_little(fresh_db: FreshDatabase) -> None:
    connection = fresh_db.connect()
    (tenant,) = connection.execute("select tenant_id from memdb.create_tenant('small')").fetchone()
    world = Rows(connection, tenant)
    memory = world.memory("tea。")
    spoil(world, memory)
    connection.execute("insert into memdb.keyword_renewal values (%s, 0)", [tenant])
    migrate.upgrade(fresh_db.dsn)
    assert words(world, memory) == {"tea"}
    assert statistics(world) == {"tea": 1}
