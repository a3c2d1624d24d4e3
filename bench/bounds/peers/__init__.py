"""The tools that are compared; a Python library is a script whose lines of JSON get better."""
