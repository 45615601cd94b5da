"""Two agents whose memory is memdb, to run and to copy from.

    python -m memdb.examples.support    # a parcel that was signed for and never came
    python -m memdb.examples.travel     # a journey planned over weeks

Each takes --language en or zh. They answer by a stand-in that quotes what it was given, or by the
chat model of MEMDB_MODEL (with MEMDB_MODEL_URL and MEMDB_MODEL_API_KEY where it needs them).
"""
