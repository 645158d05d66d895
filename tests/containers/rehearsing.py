"""`scripts/gpu-smoke --rehearse`: what verifies a GPU host, on this machine's engine with the CPU files."""

import json
import os
import subprocess

from firstword import paths


def rehearse(docker, stack, out, *options, seconds=1500, **settings):
    """Run it on a stack's project and port; return the exit code, what it said and its report, None where it has none.

    Args:
        docker: `docker_engine.Docker`.
        stack: `stack.Stack`.
        out: The report's folder.
        options: Further ones.
        seconds: That it may take; its own limits are to come first.
        settings: Further variables.
    """
    done = subprocess.run(
        [
            *(str(paths.root() / "scripts/gpu-smoke"), "--rehearse", "--out", str(out)),
            *("--project", stack.name, "--port", str(stack.port), *options),
        ],
        env=os.environ | docker.environment | {"COMPOSE_ENV_FILES": "/dev/null"} | settings,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    file = out / "report.json"
    return done.returncode, done.stderr, json.loads(file.read_text()) if file.exists() else None
