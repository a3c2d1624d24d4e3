"""zhat on one chain problem, one line of JSON: numbers, gradient and measures of `peers/chain_peer.py`."""

import argparse
import json
import os
import resource
import time


def arguments() -> argparse.Namespace:
    """The command line of the peers' script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-N", type=int, required=True)
    parser.add_argument("-T", type=int, required=True)
    parser.add_argument("-B", type=int, required=True)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=40.0)
    return parser.parse_args()


def peak() -> float:
    """The largest resident memory so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Builds the problem, asks once, then again and again with the clock running."""
    options = arguments()
    if options.threads == 1:
        os.sched_setaffinity(0, {int(os.environ.get("BENCH_CPU", max(os.sched_getaffinity(0))))})
    import numpy as np
    import zhat

    states, steps, batch = options.N, options.T, options.B
    random = np.random.default_rng(0)
    transitions = random.standard_normal((states, states)).astype(np.float32)
    transitions -= np.log(np.exp(transitions.astype(np.float64)).sum(1, keepdims=True)).astype(np.float32)
    emissions = random.standard_normal((batch, steps, states)).astype(np.float32)
    start = np.full(states, -np.log(states), np.float32)

    def ask():
        chain = zhat.Chain(emissions, transitions, start=start)
        return chain.log_partition_and_gradient(threads=options.threads)

    base = peak()
    begun = time.perf_counter()
    log_z, gradient = ask()
    first = time.perf_counter() - begun
    sums = {"gA": float(gradient.transitions.sum()), "gE": float(gradient.emissions.sum())}
    sums["gA_absmax"] = float(np.abs(gradient.transitions).max())
    value = float(log_z[0])
    del gradient
    wall, cpu = [], []
    begun = time.perf_counter()
    while len(wall) < options.reps and time.perf_counter() - begun < options.budget:
        clocks = time.perf_counter(), time.process_time()
        ask()
        wall.append(time.perf_counter() - clocks[0])
        cpu.append(time.process_time() - clocks[1])
    figures = {"first_s": first, "median_s": float(np.median(wall)), "min_s": min(wall)}
    figures |= {"cpu_median_s": float(np.median(cpu)), "cpu_min_s": min(cpu), "reps": len(wall)}
    memory = {"peak_rss_mib": round(peak()), "base_rss_mib": round(base)}
    case = {"peer": "zhat", "N": states, "T": steps, "B": batch, "threads": options.threads, "dtype": "f32"}
    print(json.dumps(case | figures | memory | {"logZ0": value} | sums | {"ver": {"zhat": zhat.__version__}}))


if __name__ == "__main__":
    main()
