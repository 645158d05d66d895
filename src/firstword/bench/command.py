"""Measure, and say on which machine.

  firstword bench start                        both engines on the CPU: alone, then together
  firstword bench start --runs 5 --json FILE   medians of five, and everything measured as JSON
  firstword bench syncs                        where the host waits for the device, release and patched; needs no GPU
  firstword bench syncs "streamed speech"      one workload of it
  firstword bench serve                        the release and firstword answer the same requests, in turns, on the CPU
  firstword bench gateway                      the gateway beside nginx and LiteLLM, with paced streams
  firstword bench seed-tables                  the method that vllm-omni #1614 changed, in three forms
  scripts/gpu-check                            that and single patched functions, on a machine with one GPU and PyTorch

Start each measurement of time on a quiet machine: the load average is part of the result.
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``firstword bench`` takes."""
    commands = parser.add_subparsers(dest="workload", metavar="WORKLOAD", required=True)
    start = commands.add_parser("start", help="time from a start to the first real answer, and the memory it takes")
    start.add_argument("--runs", type=int, default=3, help="warm starts each (default: %(default)s)")
    syncs = commands.add_parser("syncs", help="count where the host waits for the device, stock beside patched")
    syncs.add_argument("names", nargs="*", metavar="NAME", help="count only these (default: all)")
    tables = commands.add_parser("seed-tables", help="time and count build_attn_metadata in three forms")
    tables.add_argument("--runs", type=int, default=200, help="calls of each form (default: %(default)s)")
    serve = commands.add_parser("serve", help="the same requests to the release and to firstword, in turns")
    serve.add_argument("families", nargs="*", metavar="FAMILY", help="qwen3-tts, step-audio-2 (default: both)")
    serve.add_argument("--pairs", type=int, default=5, help="rounds of each side (default: %(default)s)")
    serve.add_argument(
        "--together", type=int, nargs="+", default=[1, 2, 4, 8], metavar="N", help="requests at once (default: 1 2 4 8)"
    )
    serve.add_argument("--png", type=Path, metavar="FILE", help="draw requests per second to FILE")
    gateway = commands.add_parser("gateway", help="what the gateway adds, beside no proxy, nginx and LiteLLM's")
    gateway.add_argument("names", nargs="*", metavar="NAME", help="only these of direct, nginx, gateway, litellm")
    gateway.add_argument("--seconds", type=float, default=4.0, help="of sound in each stream (default: %(default)s)")
    gateway.add_argument("--rounds", type=int, default=3, help="streams of each client (default: %(default)s)")
    gateway.add_argument("--streams", type=int, nargs="+", default=[1, 16, 64], help="at a time (default: 1 16 64)")
    for command in (start, syncs, tables, serve, gateway):
        command.add_argument("--json", type=Path, dest="to", metavar="FILE", help="write everything measured to FILE")
    for command in (syncs, tables, serve):
        command.add_argument("--doc", type=Path, metavar="FILE", help="write the page with its table to FILE")


def run(args: argparse.Namespace) -> int:
    """Run one workload."""
    if args.workload == "syncs":
        from firstword.bench.syncs import command as syncs

        return syncs.measure(to=args.to, doc=args.doc, names=args.names)
    if args.workload == "seed-tables":
        from firstword.bench.seed_tables import command as tables

        return tables.measure(runs=args.runs, to=args.to, doc=args.doc)
    if args.workload == "serve":
        from firstword.bench.serving import command as serving

        return serving.measure(
            families=args.families, together=args.together, pairs=args.pairs, to=args.to, doc=args.doc, png=args.png
        )
    if args.workload == "gateway":
        from firstword.bench.gateway import command as gateway

        load = gateway.Load(args.seconds, args.rounds, tuple(args.streams))
        return gateway.measure(load, names=args.names, to=args.to)
    from firstword.bench import start

    return start.measure(runs=args.runs, to=args.to)
