"""The commands of `memdb`, one file per group; `memdb.cli` puts them together.

    options   what commands have in common: which database, which tenant
    terminal  how things look: tables, progress, errors
    server    up, down, status, psql, serve       schema   migrate, uninstall
    memories  recall, why, fold                   ingest   ingest
    models    models, models use, models embed    doctor   doctor
    demo      demo                                bench    bench retrieval, bench write ...
    worker    worker

A command parses, calls and prints; what it does is somewhere else.
"""
