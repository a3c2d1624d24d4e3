"""pytorch-crf."""

import torchcrf

import modules
import timing

if __name__ == "__main__":
    crf = {
        "pytorch-crf": lambda problem: modules.module(
            torchcrf.CRF(len(problem.start), batch_first=True), problem
        )
    }
    timing.main(crf)
