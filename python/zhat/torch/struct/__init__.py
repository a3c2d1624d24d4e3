"""The distributions of torch-struct, computed by zhat: `import zhat.torch.struct as torch_struct`.

The constructors, shapes and names are those of torch-struct 0.5:

| class | event | structures |
|---|---|---|
| `LinearChainCRF` | (N − 1, C, C), by position, next and previous state | sequences of N states |
| `HMM` | the same | states of a hidden Markov model |
| `SemiMarkovCRF` | (N − 1, K, C, C), by start, width, next and previous state | sequences of segments |
| `TreeCRF` | (N, N, NT), by first word, last word and symbol | binary trees |
| `SentCFG` | rules and words of a grammar | trees of a grammar |
| `DependencyCRF` | (N, N) or (N, N, L), by head and dependent, the root on the diagonal | projective trees |
| `NonProjectiveDependencyCRF` | the same | all dependency trees |

Every class has every query, also those that torch-struct leaves out. log Z, entropy, divergences, the best
scores and marginals have gradients with respect to `log_potentials`. −inf forbids a part; a distribution
without any structure has `partition` −inf. Scores of any size are handled, and ragged batches are exact.

`to_event` respects `lengths`, and no tensor of the caller is changed. A potential is a table of all pairs of
states for every position; `zhat.torch.Chain` takes emissions and transitions apart, which scales to thousands
of states.
"""

from ._base import StructDistribution
from ._dependency import DependencyCRF, NonProjectiveDependencyCRF
from ._segment import SemiMarkovCRF
from ._sequence import HMM, LinearChainCRF
from ._tree import SentCFG, TreeCRF

__all__ = [
    "HMM",
    "DependencyCRF",
    "LinearChainCRF",
    "NonProjectiveDependencyCRF",
    "SemiMarkovCRF",
    "SentCFG",
    "StructDistribution",
    "TreeCRF",
]
