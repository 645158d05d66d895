"""Know an engine's last words: from its output to one line of cause, the mend and an exit code.

vLLM reports most failures at the place where they were noticed, not where they arose; the telling
line can be eighty lines above the last one. So every line is read as it comes, and the most
specific match wins over later, vaguer ones.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from firstword.errors import Exit, FirstwordError


@dataclass(frozen=True)
class Pattern:
    """A line that tells a cause; ``rank`` says how specific it is, lower wins."""

    rank: int
    regex: re.Pattern[str]
    cause: Callable[[re.Match[str]], str]
    mend: str
    code: Exit


def _pattern(rank: int, regex: str, cause: str, mend: str, code: Exit) -> Pattern:
    return Pattern(rank, re.compile(regex), lambda match: match.expand(cause), mend, code)


PATTERNS: tuple[Pattern, ...] = (
    _pattern(
        0,
        r"(?:torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory|DefaultCPUAllocator: can't allocate memory|"
        r"Cannot allocate memory|\bMemoryError\b|No available memory for the cache blocks|"
        r"(?:less than|below) desired \w+ memory utilization)",
        "the engine ran out of memory",
        "free memory, or choose a smaller --shape (firstword preflight does the arithmetic)",
        Exit.OUT_OF_MEMORY,
    ),
    _pattern(
        0,
        r"\[Errno 98\]|[Aa]ddress already in use",
        "the port is in use",
        "stop what listens there, or choose another --port",
        Exit.PORT_IN_USE,
    ),
    _pattern(
        0,
        r"(?:\[Errno 28\]|No space left on device)",
        "the disk is full",
        "free disk space in FIRSTWORD_HOME and in /dev/shm",
        Exit.DISK_FULL,
    ),
    _pattern(
        1,
        r"There is no such class as ([\w.]+)",
        r"class \1, named by the checkpoint's flow.yaml, cannot be imported",
        "run: firstword preflight MODEL (it names the missing package), then reinstall the environment",
        Exit.MISSING_CLASS,
    ),
    _pattern(
        1,
        r"(?:ModuleNotFoundError|ImportError): No module named '([\w.]+)'",
        r"module \1 is missing",
        "reinstall the environment from its lock: scripts/up does, or uv pip sync docker/requirements/engine-*.txt",
        Exit.MISSING_CLASS,
    ),
    _pattern(
        1,
        r"InvalidCxxCompiler|Failed to find C compiler",
        "no C/C++ compiler was found, and something has to be compiled",
        "install gcc and g++",
        Exit.NO_COMPILER,
    ),
    _pattern(
        2,
        r"Model architectures \['(\w+)'\] failed to be inspected",
        r"the module of \1 cannot be imported",
        "run: firstword preflight MODEL; it names what the import lacks",
        Exit.MISSING_CLASS,
    ),
    _pattern(
        3,
        r"(StageEngineCoreProc_stage\d+\w*|Engine core proc \w+|EngineCore_\w+).{0,200}(?:died|exited) unexpectedly",
        r"\1 died",
        "the lines above it in the log tell why; a SIGKILL without a traceback is most often the kernel, out of memory",
        Exit.STAGE_DIED,
    ),
    _pattern(
        4,
        r"EngineDeadError|Engine core initialization failed|Orchestrator initialization failed",
        "a stage of the engine died",
        "the traceback above it in the log tells why",
        Exit.STAGE_DIED,
    ),
)


# What a client asked for says nothing of the engine, and may say anything.
_ACCESS = re.compile(r'"[A-Z]+ \S+ HTTP/\d(?:\.\d)?" \d{3}\b')

# Patterns may look at a line many times over; the engine waits while one is read.
_LONGEST = 4000


@dataclass
class LastWords:
    """Collects the most telling line of an engine's output."""

    best: Pattern | None = None
    cause: str = ""
    line: str = ""

    def read(self, line: str) -> None:
        """Take one line of output, of which the middle is left out where a request has made it long."""
        if len(line) > _LONGEST:
            line = f"{line[: _LONGEST // 2]} … {line[-_LONGEST // 2 :]}"
        if _ACCESS.search(line):
            return
        for pattern in PATTERNS:
            if self.best is not None and pattern.rank >= self.best.rank:
                continue
            match = pattern.regex.search(line)
            if match:
                self.best, self.cause, self.line = pattern, pattern.cause(match), line.strip()[:300]

    def error(self, returncode: int) -> FirstwordError:
        """Return what ended an engine that exited with ``returncode`` (negative: a signal's number)."""
        if self.best is not None:
            return FirstwordError(f"{self.cause} ({self.line})", mend=self.best.mend, code=self.best.code)
        if returncode == -9:
            return FirstwordError(
                "the engine was killed (SIGKILL)",
                mend="most often the kernel, out of memory: see dmesg; free memory or choose a smaller --shape",
                code=Exit.OUT_OF_MEMORY,
            )
        how = f"signal {-returncode}" if returncode < 0 else f"exit code {returncode}"
        return FirstwordError(
            f"the engine ended by itself ({how})", mend="its last lines in the log tell why", code=Exit.STAGE_DIED
        )
