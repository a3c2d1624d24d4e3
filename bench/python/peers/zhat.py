"""zhat: the module `CRF`, and the distribution `LinearChainCRF` of torch-struct."""

import zhat.torch
import zhat.torch.struct

import modules
import timing


def load_struct(problem):
    """The same table of potentials as for torch-struct."""
    return modules.chain(zhat.torch.struct, problem)


if __name__ == "__main__":
    load = {
        "zhat": lambda problem: modules.module(zhat.torch.CRF(len(problem.start), batch_first=True), problem)
    }
    timing.main(load | {"zhat-struct": load_struct})
