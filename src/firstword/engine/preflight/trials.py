"""Start `trial`, and read what it says."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from firstword.engine.preflight import trial

_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}


class Trial:
    """Real imports that run beside the other checks.

    Args:
        python: The interpreter whose environment is tried.
        wanted: Module -> names that it must have afterwards.
        deep: Allow minutes, not seconds.
    """

    def __init__(
        self,
        python: Path,
        wanted: Mapping[str, Sequence[str]],
        *,
        deep: bool = False,
    ) -> None:
        self._seconds = 600 if deep else 120
        self._wanted = wanted
        # -P: the script's folder must not come before the environment's packages.
        self._process = subprocess.Popen(
            [str(python), "-P", trial.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | _ENVIRONMENT,
        )

    def failures(self) -> dict[str, str]:
        """Wait, and return module -> error, for those that failed.

        An import that ends the process or takes too long is named as one; those after it are not tried.
        """
        text = json.dumps([[module, list(names)] for module, names in self._wanted.items()])
        ended = None
        try:
            out, err = self._process.communicate(text, timeout=self._seconds)
            if self._process.returncode:
                last = (err.strip().splitlines() or ["no output"])[-1]
                ended = f"the interpreter ended with {self._process.returncode}: {last}"
        except subprocess.TimeoutExpired:
            self._process.kill()
            out, _ = self._process.communicate()
            ended = f"the import took longer than {self._seconds} s"
        failed: dict[str, str] = {}
        trying = "python"
        for line in out.splitlines():
            match json.loads(line):
                case [str() as module]:
                    trying = module
                case [str() as module, str() as error]:
                    failed[module] = error
        if ended:
            failed[trying] = ended
        return failed
