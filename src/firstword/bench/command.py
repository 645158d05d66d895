"""Measure, and say on which machine.

  firstword bench start                        both engines on the CPU: alone, then together
  firstword bench start --runs 5 --json FILE   medians of five, and everything measured as JSON

Start each measurement on a quiet machine: the load average is part of the result.
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``firstword bench`` takes."""
    commands = parser.add_subparsers(dest="workload", metavar="WORKLOAD", required=True)
    start = commands.add_parser("start", help="time from a start to the first real answer, and the memory it takes")
    start.add_argument("--runs", type=int, default=3, help="warm starts each (default: %(default)s)")
    start.add_argument("--json", type=Path, dest="to", metavar="FILE", help="write everything measured to FILE")


def run(args: argparse.Namespace) -> int:
    """Run one workload."""
    from firstword.bench import start

    return start.measure(runs=args.runs, to=args.to)
