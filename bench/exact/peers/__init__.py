"""The tools that are compared, one file each.

A Python library has a script (`python -m peers.NAME MODEL EVIDENCE QUERY`) that prints one line of JSON.
A program has functions `command` and `parse`, so that only the program itself is measured.
"""
