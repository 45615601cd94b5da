"""Makes data/minilm/axes.npy: the directions in which the tokens of all-MiniLM-L6-v2 differ most.

    python -m memdb.models.axes

Late interaction keeps a vector for every token, so their length decides what a passage costs. The
axes are principal ones (of the second moment, so that cosines are kept best) of what the model
gives to the 6,000 most frequent words of its own vocabulary, each encoded alone: no other text
goes into them. 128 of 384 axes change no figure of `memdb bench retrieval` by more than chance.
"""

from memdb.models.encoder import NDArray, Vectors, np
from memdb.models.local import AXES_FILE, MiniLmEngine

_WORDS, _AXES = 6000, 128


def principal_axes(vectors: Vectors, number: int) -> NDArray[np.float16]:
    """Return the axes as columns, the one with most of the vectors' length first."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    _, axes = np.linalg.eigh(unit.T @ unit / len(unit))
    return axes[:, ::-1][:, :number].astype(np.float16)


def main() -> None:
    """Write the file."""
    engine = MiniLmEngine(threads=1, reduced=False)
    words = engine.frequent_words(_WORDS)
    vectors = np.concatenate([engine.tokens([word])[0][1] for word in words])
    np.save(AXES_FILE, principal_axes(vectors, _AXES))


if __name__ == "__main__":
    main()
