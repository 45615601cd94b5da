"""Measuring how well recall finds, on data sets with known evidence; no model judges.

    data       the files: scopes, records, questions with the ids of their evidence
    score      recall@k, nDCG@10, MRR and all@10 over ranked ids
    vectors    an encoder that remembers its vectors between runs
    retrieval  store a data set, ask its questions, score the answers
    cascade    what a correction costs that fells many memories (footprint: memory taken)
    forget     what forgetting a user of many memories costs, and how long others wait
    hooks      what recording a step costs
    statebench what is still believed after facts were superseded, what leaks between scopes

The data sets are not part of memdb: name their files, or their folder in MEMDB_BENCH_DATA.
"""
