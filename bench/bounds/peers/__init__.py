"""The tools that are compared, one file each; a Python library prints successively better results as JSON."""
