"""One file per thing the service is asked for; each has a `router`."""
