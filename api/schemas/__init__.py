"""What requests and answers look like, one file per thing.

Requests are strict: an unknown field, a number given as text or a time without its offset is
refused. Ranges, lengths and whatever depends on what is stored are checked by the database,
once for every way in. A field that is left out takes the default of the service; null says
that there is none.
"""
