"""torch-struct: `LinearChainCRF`, whose potentials have one table per pair of positions."""

import torch_struct

import modules
import timing

if __name__ == "__main__":
    timing.main({"torch-struct": lambda problem: modules.chain(torch_struct, problem)})
