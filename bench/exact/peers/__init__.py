"""The tools that are compared, one file each.

A Python library is a script (`python -m peers.NAME MODEL EVIDENCE QUERY`) that prints one line of JSON.
A program has functions `command` and `parse` instead, so that nothing but the program is measured.
"""
