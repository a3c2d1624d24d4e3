"""torch-struct: `LinearChainCRF`, whose potentials have one table per pair of positions."""

import timing
import torch_struct

if __name__ == "__main__":
    timing.main({"torch-struct": lambda problem: timing.chain(torch_struct, problem)})
