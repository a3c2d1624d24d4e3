"""Compares `zhat.torch` with other libraries on training steps of a CRF: `cargo xtask bench python`."""

from common.libraries import Comparison, Peer, milliseconds
from common.tools import Run
from problem import parsed

PEERS = (
    Peer("zhat-struct", "zhat", "zhat"),
    Peer("pytorch-crf", "pytorch_crf", "pytorch-crf"),
    Peer("torch-struct", "torch_struct", "torch-struct"),
    Peer("torch-loop", "torch_loop", "torch"),
    Peer("dynamax", "dynamax", "dynamax"),
)
CASES = "9:64:32,9:16:4,64:64:8,256:16:4"
HEADER = ("N:T:B", "library", "CPU ms", "× zhat", "peak MiB", "Δ gradient")  # noqa: RUF001


def figures(run: Run, zhat: Run) -> list[str]:
    """Times, memory and differences of a library."""
    answer, reference = run.answer, zhat.answer
    agrees = abs(answer["value"] - reference["value"]) <= 1e-4 * max(1.0, abs(reference["value"]))
    largest = reference["gradient_max"]
    difference = abs(answer["gradient_max"] - largest) / largest
    return [
        milliseconds(answer["cpu_median"]),
        f"{answer['cpu_median'] / reference['cpu_median']:.3g}",
        f"{run.peak / 2**20:.0f}",
        f"{difference:.0e}" if agrees else f"**{answer['value']:.4f}**",
    ]


if __name__ == "__main__":
    Comparison(
        name="python",
        title="PyTorch: one training step of a CRF compared with other libraries",
        cases=CASES,
        metavar="N:T:B",
        cases_help="numbers of tags, positions and sequences, separated by commas",
        seconds=120.0,
        peers=PEERS,
        header=HEADER,
        key="cpu_median",
        figures=figures,
        check=parsed,
    ).main()
