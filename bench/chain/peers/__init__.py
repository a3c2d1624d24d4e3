"""The libraries that are compared, one file each: `python -m peers.FILE PEER CASE THREADS CALLS SECONDS`.

A file passes a loader for each of its peers to `timing.main`, which describes loaders.
"""
