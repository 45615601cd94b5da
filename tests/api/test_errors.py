"""One table from memdb's errors to HTTP."""

import httpx
import pytest

from api.access import OPEN, Access
from api.app import create_app
from api.clients import Clients
from api.errors import status_of
from memdb import AsyncMemory, errors
from memdb.models import BadModelReply, ModelError, ModelMissing, ModelRefused, ModelUnavailable
from memdb.settings import Settings
from tests.api.problems import problem

UNAUTHORIZED = "MD304"
FAMILIES = {"MD0": 422, "MD1": 404, "MD2": 409, "MD3": 403, "MD4": 501, "MD9": 500}
SQLSTATES = [
    (code, 401 if code == UNAUTHORIZED else FAMILIES[code[:3]])
    for code in [*errors.CODES, "MD099", "MD199", "MD901"]
] + [
    ("40001", 503),
    ("40P01", 503),
    ("55P03", 503),
    ("57014", 504),
    ("57P01", 503),
    ("08006", 503),
    ("28P01", 503),
    ("53300", 503),
    ("25006", 501),
    ("42501", 403),
    ("42883", 501),
    ("22003", 422),
    ("23505", 409),
    ("XX000", 500),
]


class FailingClients(Clients):
    """Clients of a service in which every request meets the same error."""

    def __init__(self, error: Exception) -> None:
        super().__init__(Settings(dsn="postgresql://nowhere"), is_open=True)
        self.error = error

    def start(self) -> None:
        pass

    async def get(self, access: Access = OPEN, tenant: str | None = None) -> AsyncMemory:
        raise self.error

    async def check(self) -> None:
        raise self.error


async def answer_to(error: Exception, path: str = "/v1/memories/1") -> httpx.Response:
    app = create_app(clients=FailingClients(error))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://memdb.test") as client:
        return await client.get(path)


@pytest.mark.parametrize(("code", "status"), SQLSTATES)
async def test_each_sqlstate_has_its_status(code: str, status: int) -> None:
    error = errors.from_sqlstate(code, "it went wrong", detail='{"index": 3}', hint="Mend it.")
    answer = await answer_to(error)
    document = problem(answer, status, code)
    assert document["type"] == f"urn:memdb:{code}"
    assert ("retry-after" in answer.headers) is (status == 503)
    assert ("www-authenticate" in answer.headers) is (status == 401)
    if code.startswith("MD") and status != 500:
        assert document["detail"] == "it went wrong"
        assert (document["hint"], document["context"]) == ("Mend it.", {"index": 3})


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ModelUnavailable("away", retry_after=17.2), 503),
        (ModelRefused("no"), 502),
        (BadModelReply("nonsense"), 502),
        (ModelMissing("not installed"), 501),
    ],
)
async def test_errors_of_models(error: errors.MemdbError, status: int) -> None:
    answer = await answer_to(error)
    problem(answer, status)
    assert answer.headers.get("retry-after") == ("17" if status == 503 else None)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ServerUnavailable("db-7.internal says no to admin", hint="See db-7."), 503),
        (errors.InvariantBroken("db-7.internal", sqlstate="MD901"), 500),
        (errors.MemdbError("db-7.internal", sqlstate="XX000"), 500),
        (RuntimeError("db-7.internal"), 500),
    ],
)
async def test_the_inside_stays_inside(
    error: Exception, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await answer_to(error)
    problem(answer, status, getattr(error, "sqlstate", None))
    assert "db-7" not in answer.text
    if isinstance(error, errors.MemdbError):
        assert "db-7" in caplog.text


@pytest.mark.parametrize(
    "error", [errors.SchemaMismatch("older", hint="memdb migrate"), errors.ServerUnavailable()]
)
async def test_whatever_makes_it_unready_is_503(error: errors.MemdbError) -> None:
    answer = await answer_to(error, "/readyz")
    problem(answer, 503, error.sqlstate)
    assert answer.headers["retry-after"] == "1"


def test_every_class_of_errors_has_a_status_of_its_family() -> None:
    """A new family must be given a status, or else every error of it looks like a fault here."""

    def below(cls: type[errors.MemdbError]) -> set[type[errors.MemdbError]]:
        return {cls}.union(*(below(child) for child in cls.__subclasses__()))

    # What stops a stage of the pipeline stays in the worker.
    served = {
        cls
        for cls in below(errors.MemdbError)
        if not cls.__module__.startswith(("memdb.pipeline", "memdb.worker"))
    }
    by_default = {cls for cls in served if status_of(cls) == 500}
    # A ModelError is never raised itself: it only joins the others.
    assert by_default == {errors.MemdbError, errors.InvariantBroken, ModelError}
