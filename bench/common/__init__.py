"""Shared by the benchmarks, which all have `bench/` on their module path."""
