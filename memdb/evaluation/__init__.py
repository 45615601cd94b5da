"""How well memory serves the questions it is really asked: a golden set, measured and compared.

    memdb eval init --to questions.jsonl    # a sample of what was asked
    memdb eval label questions.jsonl        # what each must find
    memdb eval run --min-recall 0.8         # exits 1 below
    memdb eval compare --a encoder=none --b encoder=auto --html report.html

The same from Python: `memdb.evaluation.golden`, `.measuring`, `.comparing`, `.tasks`, `.report`.
"""
