"""`gpu_check`'s worker where a GPU is only said to be there: tensors that claim it, and CUDA's own calls do nothing.

What it measures means nothing. But code that a GPU alone reaches is reached: bfloat16, modules made on the device, and
the refusal to mix tensors of the host and of the device.
"""

import contextlib
import json
import sys
import time
from pathlib import Path
from unittest import mock

from firstword.bench.gpu_check import worker
from firstword.bench.syncs import claims
from firstword.bench.syncs.counting import Counts


class Event:
    def __init__(self, enable_timing=False):
        self.at = 0.0

    def record(self):
        self.at = time.perf_counter()

    def elapsed_time(self, other):
        return (other.at - self.at) * 1e3


SAID = {
    "is_available": lambda: True,
    "Event": Event,
    "_sleep": lambda cycles: None,
    "memory_allocated": lambda: 0,
    "max_memory_allocated": lambda: 0,
    "reset_peak_memory_stats": lambda: None,
    "set_sync_debug_mode": lambda mode: None,
    "get_device_name": lambda device: "said to be there",
}

if __name__ == "__main__":
    with claims.counting(Counts()), contextlib.ExitStack() as stack:
        for name, said in SAID.items():
            stack.enter_context(mock.patch(f"torch.cuda.{name}", said))
        worker.main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
