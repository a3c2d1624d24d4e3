"""The libraries that are compared, one file each: `python -m peers.FILE PEER CASE THREADS CALLS SECONDS`."""
