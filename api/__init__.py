"""memdb over HTTP: thin routes over `memdb.AsyncMemory`."""
