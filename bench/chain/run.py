"""Compares zhat with other libraries on chains: log Z and all gradients. Run by `cargo xtask bench chain`."""

from common.libraries import Comparison, Peer, memory, milliseconds
from common.tools import Run
from problem import parsed

PEERS = (
    Peer("numpy-scaled", "numpy_scaled", "numpy"),
    Peer("dynamax", "dynamax", "dynamax"),
    Peer("dynamax-par", "dynamax", "dynamax"),
    Peer("hmmlearn-scaling", "hmmlearn", "hmmlearn"),
    Peer("hmmlearn-log", "hmmlearn", "hmmlearn"),
    Peer("pomegranate", "pomegranate", "pomegranate"),
    Peer("torch-struct", "torch_struct", "torch-struct"),
    Peer("torch-loop-gemm", "torch_loop", "torch"),
)
CASES = (
    "9:64:32,20:64:32,45:32:32,64:16:1,64:64:8,256:16:1,256:64:8,1000:16:1,1000:64:8,2000:16:1,2000:64:8,"
    "low-rank:2000:64:64:1,low-rank:20000:64:64:1,low-rank:1000000:64:64:1,"
    "sparse:2000:10:1000:1,sparse:100000:10:1000:1"
)
HEADER = ("case", "library", "CPU ms", "× zhat", "peak MiB", "own MiB", "Δ gradient")  # noqa: RUF001


def figures(run: Run, zhat: Run) -> list[str]:
    """Times, memory and differences of a library."""
    answer, reference = run.answer, zhat.answer
    agrees = abs(answer["value"] - reference["value"]) <= 1e-4 * max(1.0, abs(reference["value"]))
    largest = reference["transition_gradient_max"]
    difference = abs(answer["transition_gradient_max"] - largest) / largest
    return [
        milliseconds(answer["cpu_min"]),
        f"{answer['cpu_min'] / reference['cpu_min']:.3g}",
        *memory(run),
        f"{difference:.0e}" if agrees else f"**log Z {answer['value']:.4f}**",
    ]


if __name__ == "__main__":
    Comparison(
        name="chain",
        title="Chains: log Z and all gradients compared with other libraries",
        cases=CASES,
        metavar="CASE",
        cases_help="forms of transitions with their sizes, separated by commas; README.md lists them",
        seconds=60.0,
        peers=PEERS,
        header=HEADER,
        key="cpu_min",
        figures=figures,
        check=parsed,
    ).main()
