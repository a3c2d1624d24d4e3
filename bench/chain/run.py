"""zhat beside other libraries on exact chains: log Z and all gradients; run by `cargo xtask bench chain`."""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

CASES = "64:16:1,64:64:8,256:16:1,256:64:8,1000:16:1,1000:64:8,2000:16:1,2000:64:8"
PEERS = (
    "numpy-scaled,dynamax,dynamax-par,hmmlearn-scaling,hmmlearn-log,pomegranate,torch-struct,torch-loop-gemm"
)
HERE = Path(__file__).resolve().parent


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="cargo xtask bench chain", description=__doc__)
    parser.add_argument("--cases", default=CASES, help="N:T:B, with commas between")
    parser.add_argument("--peers", default=PEERS, help="with commas between")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--reps", type=int, default=20, help="calls that are timed (20)")
    parser.add_argument(
        "--limit", type=float, default=60.0, metavar="SECONDS", help="wall time of a run (60)"
    )
    parser.add_argument(
        "--memory", type=float, default=8.0, metavar="GIB", help="resident memory of a run (8)"
    )
    parser.add_argument("--note", default="", help="a sentence on the machine for the file's head")
    parser.add_argument("-o", "--output", type=Path, help="also write the result to this file")
    return parser.parse_args()


def resident(process: int) -> float:
    """The resident memory of a process in GiB."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 2**20 for line in lines if line.startswith("VmRSS")), 0.0)


def run(command: list[str], options: argparse.Namespace) -> dict:
    """Runs one process under the limits; its line of JSON, or why there is none."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    begun, why = time.monotonic(), None
    while process.poll() is None and why is None:
        if resident(process.pid) > options.memory:
            why = "memory"
        elif time.monotonic() - begun > options.limit:
            why = "time"
        time.sleep(0.02)
    if why:
        process.kill()
    output, errors = process.communicate()
    if process.returncode == 0 and not why:
        return json.loads(output.strip().splitlines()[-1])
    last = (errors.strip().splitlines() or ["no message"])[-1]
    return {"fail": why or f"failed: {last[:80]}"}


def cells(peer: str, result: dict, zhat: dict, model_mib: float) -> list[str]:
    """The row of one run."""
    if "fail" in result:
        return [peer, "", "", result["fail"], "", ""]
    own = result["peak_rss_mib"] - result["base_rss_mib"] + model_mib
    agrees = abs(result["logZ0"] - zhat["logZ0"]) <= 1e-4 * max(1.0, abs(zhat["logZ0"]))
    difference = abs(result["gA_absmax"] - zhat["gA_absmax"]) / zhat["gA_absmax"]
    note = f"{difference:.0e}" if agrees else f"**log Z {result['logZ0']:.4f}**"
    milliseconds = 1000 * result["cpu_min_s"]
    ratio = f"{result['cpu_min_s'] / zhat['cpu_min_s']:.3g}"
    return [peer, f"{milliseconds:.1f}", ratio, f"{result['peak_rss_mib']:.0f}", f"{own:.0f}", note]


def processor() -> str:
    """The CPU's name as Linux tells it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def main() -> None:
    """All peers on all cases."""
    options = arguments()
    data = os.environ.get("ZHAT_DATA") or sys.exit("ZHAT_DATA must name the folder with peers/chain_peer.py")
    script = str(Path(data) / "peers" / "chain_peer.py")
    common = ["--threads", str(options.threads), "--reps", str(options.reps), "--budget", "15"]
    lines = [
        "# Chains: log Z and all gradients beside other libraries",
        "",
        f"`cargo xtask bench chain --cases {options.cases} --threads {options.threads}`",
        "",
        f"{processor()}; {options.threads} thread(s), pinned. {options.note}".strip(),
        "",
        "What the columns mean is said in [README.md](README.md).",
        "",
        "| N:T:B | library | CPU ms | × zhat | peak MiB | its own MiB | Δ gradient |",  # noqa: RUF001
        "|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for case in options.cases.split(","):
        states, steps, batch = map(int, case.split(":"))
        sizes = ["-N", str(states), "-T", str(steps), "-B", str(batch), *common]
        model_mib = 4 * (states * states + batch * steps * states) / 2**20
        zhat = run([sys.executable, str(HERE / "zhat_chain.py"), *sizes], options)
        if "fail" in zhat:
            sys.exit(f"zhat on {case}: {zhat['fail']}")
        results = {"zhat": zhat}
        for peer in options.peers.split(","):
            results[peer] = run([sys.executable, script, "--peer", peer, *sizes], options)
        order = sorted(results, key=lambda peer: results[peer].get("cpu_min_s", float("inf")))
        for peer in order:
            row = [case, *cells(peer, results[peer], zhat, model_mib)]
            lines.append("| " + " | ".join(row) + " |")
            print(lines[-1], flush=True)
        if options.output:
            options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
