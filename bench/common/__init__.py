"""What the comparisons with other tools share; `bench/` is on the module path of all of them."""
