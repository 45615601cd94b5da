"""memdb for LangChain: a retriever, a vector store, a chat history.

    from memdb import Memory
    from memdb.adapters.langchain import MemdbRetriever

    retriever = MemdbRetriever(memory=Memory(user="ann"), k=5)
    retriever.invoke("what does Ann drink?")

The middleware for agents is in `memdb.adapters.langchain_agents`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict, Field

from memdb import named, operations
from memdb.adapters._client import Client
from memdb.adapters._encoder import LangChainEncoder
from memdb.adapters._messages import is_source, text_of
from memdb.client import AsyncMemory, Memory
from memdb.errors import InvalidInput
from memdb.operations import named as items
from memdb.scope import Scope
from memdb.steps import Operation
from memdb.types import Hit

__all__ = ["MemdbChatHistory", "MemdbRetriever", "MemdbVectorStore", "message_event"]

_IS_DOCUMENT = {"path": ["document"], "op": "exists"}


# --- retriever -------------------------------------------------------------------------------


class MemdbRetriever(BaseRetriever):
    """Finds memories by memdb's recall; each document says where it comes from.

    `metadata` has memory_id, version, score, status, namespace and `sources`; its `id` is the
    memory's. `options` are further arguments of recall, such as types or session.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: Memory | AsyncMemory
    k: int = 10
    options: dict[str, Any] = Field(default_factory=dict[str, Any])

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return Client(self.memory).run(lambda scope: self._recall(scope, query, kwargs))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return await Client(self.memory).arun(lambda scope: self._recall(scope, query, kwargs))

    def _recall(
        self, scope: Scope, query: str, given: Mapping[str, Any]
    ) -> Operation[list[Document]]:
        options: dict[str, Any] = {"k": self.k, **self.options, **given}
        found = yield from operations.recall(scope, query, **options)
        return [_document(hit) for hit in found]


def _document(hit: Hit) -> Document:
    sources = [
        {"event_id": s.event_id, "memory_id": s.memory_id, "quote": s.quote, "session": s.session}
        for s in hit.sources
    ]
    id_ = f"m{hit.memory_id}" if hit.memory_id else f"e{hit.event_id}"
    metadata = {
        "memory_id": hit.memory_id,
        "version": hit.version,
        "event_id": hit.event_id,
        "score": hit.score,
        "status": hit.status,
        "type": hit.type,
        "namespace": hit.namespace,
        "occurred_at": hit.occurred_at.isoformat(),
        "sources": sources,
    }
    return Document(id=id_, page_content=hit.text, metadata=metadata)


# --- vector store ----------------------------------------------------------------------------


class MemdbVectorStore(VectorStore):
    """Documents as memories, found by their vectors.

    Args:
        memory: made with `encoder=LangChainEncoder(embedding, name)` where the documents are to
            be encoded by `embedding`; otherwise its own encoder is used.
        embedding: what `embeddings` gives back.
        namespace: where the documents are; default: the memory's.
        legs: how documents are found: ["vector"] as in other vector stores; with "keyword" beside
            it words count too.
    """

    def __init__(
        self,
        memory: Memory | AsyncMemory,
        embedding: Embeddings | None = None,
        *,
        namespace: str | None = None,
        legs: Sequence[str] = ("vector",),
    ) -> None:
        self._client = Client(memory)
        self._embedding = embedding
        self._namespace = namespace or self._client.namespace
        self._legs = list(legs)

    @property
    def embeddings(self) -> Embeddings | None:
        """The embedding model it was made with."""
        return self._embedding

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        dsn: str | None = None,
        encoder_name: str = "langchain",
        namespace: str | None = None,
        **options: Any,
    ) -> "MemdbVectorStore":
        """Make a store with a client of its own, and put texts into it.

        Args:
            options: of Memory. encoder_name: what memdb registers the embedding as.
        """
        encoder = LangChainEncoder(embedding, encoder_name)
        memory = Memory(dsn, encoder=encoder, **options)
        store = cls(memory, embedding, namespace=namespace)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Keep texts as documents; a known id becomes a new version. Returns the ids."""
        puts = self._puts(list(texts), metadatas, ids)
        self._client.run(lambda scope: items.change_items(scope, puts))
        return [put["external_id"] for put in puts]

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Do as add_texts does, without blocking the event loop."""
        puts = self._puts(list(texts), metadatas, ids)
        await self._client.arun(lambda scope: items.change_items(scope, puts))
        return [put["external_id"] for put in puts]

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Keep documents; ids are those given, or the documents' own, or new."""
        return self.add_texts(*_parts(documents), **_ids(documents, kwargs))

    async def aadd_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Do as add_documents does, without blocking the event loop."""
        return await self.aadd_texts(*_parts(documents), **_ids(documents, kwargs))

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Retract documents; without ids all of the namespace. Unknown ids are passed over."""
        self._client.run(lambda scope: self._delete(scope, ids))
        return True

    async def adelete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Do as delete does, without blocking the event loop."""
        await self._client.arun(lambda scope: self._delete(scope, ids))
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return documents by their ids; unknown ones are left out."""
        return self._client.run(lambda scope: self._get(scope, ids))

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Do as get_by_ids does, without blocking the event loop."""
        return await self._client.arun(lambda scope: self._get(scope, ids))

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the documents nearest to a query; `filter` is of their metadata."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Do as similarity_search does, without blocking the event loop."""
        found = await self.asimilarity_search_with_score(query, k, **kwargs)
        return [document for document, _ in found]

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return the documents nearest to a query, with the cosine."""
        filter_ = kwargs.get("filter")
        return self._client.run(lambda scope: self._search(scope, query, k, filter_))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Do as similarity_search_with_score does, without blocking the event loop."""
        filter_ = kwargs.get("filter")
        return await self._client.arun(lambda scope: self._search(scope, query, k, filter_))

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda cosine: (1 + cosine) / 2

    def _puts(
        self,
        texts: Sequence[str],
        metadatas: Sequence[Mapping[str, Any]] | None,
        ids: Sequence[str | None] | None,
    ) -> list[dict[str, Any]]:
        if any(len(given) != len(texts) for given in (metadatas, ids) if given is not None):
            raise InvalidInput("each text has one id and one metadata")
        puts: dict[str, dict[str, Any]] = {}
        for place, text in enumerate(texts):
            id_ = (ids[place] if ids else None) or str(uuid4())
            puts[id_] = {
                "text": text,
                "external_id": id_,
                "namespace": self._namespace,
                "metadata": {"document": dict(metadatas[place]) if metadatas else {}},
                "heading": "",
            }
        return list(puts.values())

    def _delete(self, scope: Scope, ids: Sequence[str] | None) -> Operation[None]:
        if ids is None:
            found = yield from items.list_items(
                scope, self._namespace, filter=[_IS_DOCUMENT], limit=None
            )
            ids = [item.external_id for item in found if item.namespace == self._namespace]
        names = [(self._namespace, id_) for id_ in dict.fromkeys(ids)]
        yield from items.change_items(scope, deletes=names)

    def _get(self, scope: Scope, ids: Sequence[str]) -> Operation[list[Document]]:
        found = yield from items.find_items(scope, [(self._namespace, id_) for id_ in ids])
        return [_stored(item) for item in found if item and "document" in item.metadata]

    def _search(
        self, scope: Scope, query: str, k: int, filter_: Mapping[str, Any] | None
    ) -> Operation[list[tuple[Document, float]]]:
        conditions = [
            {"path": ["document", key], "op": "eq", "value": value}
            for key, value in (filter_ or {}).items()
        ]
        found = yield from items.search_items(
            scope,
            query,
            self._namespace,
            filter=[_IS_DOCUMENT, *conditions],
            limit=k,
            legs=self._legs,
            is_exact=True,
            rerank=False,
        )
        return [
            (_stored(item), hit.legs.get("vector", {}).get("score", hit.score))
            for item, hit in found
        ]


def _parts(documents: Sequence[Document]) -> tuple[list[str], list[dict[str, Any]]]:
    return [d.page_content for d in documents], [d.metadata for d in documents]


def _ids(documents: Sequence[Document], given: Mapping[str, Any]) -> dict[str, Any]:
    return {**given, "ids": given.get("ids") or [document.id for document in documents]}


def _stored(item: named.Item) -> Document:
    return Document(
        id=item.external_id, page_content=item.text, metadata=dict(item.metadata["document"])
    )


# --- chat history ----------------------------------------------------------------------------

_KINDS = {
    "human": "user_message",
    "ai": "assistant_message",
    "system": "system_message",
    "tool": "tool_result",
    "function": "tool_result",
}


def message_event(message: BaseMessage, session: str) -> dict[str, Any]:
    """Return a message as an event that holds all of it."""
    kind = _KINDS.get(message.type, "observation")
    text = text_of(message.content)
    return {
        "kind": kind,
        "session": session,
        "text": text,
        "output": message_to_dict(message),
        "metadata": {"message_id": message.id} if message.id else {},
        "extract": is_source(kind, text),
    }


class MemdbChatHistory(BaseChatMessageHistory):
    """The messages of a session, each an event; `clear` takes them back.

    Args:
        session: your id of the conversation.
        namespace: default: the memory's.
    """

    def __init__(
        self, memory: Memory | AsyncMemory, session: str, *, namespace: str | None = None
    ) -> None:
        self._client = Client(memory)
        self._session = session
        self._namespace = namespace

    @property
    def messages(self) -> list[BaseMessage]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """All messages, in order."""
        return self._client.run(self._read)

    async def aget_messages(self) -> list[BaseMessage]:
        """Return all messages without blocking the event loop."""
        return await self._client.arun(self._read)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages in one batch."""
        self._client.run(lambda scope: operations.observe_many(scope, self._events(messages)))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Do as add_messages does, without blocking the event loop."""
        events = self._events(messages)
        await self._client.arun(lambda scope: operations.observe_many(scope, events))

    def clear(self) -> None:
        """Take all messages back, and what rests on them alone."""
        self._client.run(
            lambda scope: items.clear_session(scope, self._session, namespace=self._namespace)
        )

    async def aclear(self) -> None:
        """Do as clear does, without blocking the event loop."""
        await self._client.arun(
            lambda scope: items.clear_session(scope, self._session, namespace=self._namespace)
        )

    def _events(self, messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
        place = {} if self._namespace is None else {"namespace": self._namespace}
        return [{**message_event(message, self._session), **place} for message in messages]

    def _read(self, scope: Scope) -> Operation[list[BaseMessage]]:
        events = yield from items.session_events(scope, self._session, namespace=self._namespace)
        stored = [event.output for event in events if event.output]
        return messages_from_dict([one for one in stored if "type" in one and "data" in one])
