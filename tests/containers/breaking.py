"""Break both engines of a stack at the same time, and watch what becomes of each container."""

import threading
import time

# End the process that holds a stage: the largest one that is neither the supervisor's child nor above it.
KILL_STAGE = """
import json, os, pathlib, signal
record = json.loads(pathlib.Path("/run/firstword/engine-8091.json").read_text())
def memory(pid):
    fields = pathlib.Path(f"/proc/{pid}/status").read_text().split("VmRSS:")
    return int(fields[1].split()[0]) if len(fields) > 1 else 0
kept = {1, os.getpid(), record["pid"], record["supervisor"]}
others = [int(entry.name) for entry in pathlib.Path("/proc").glob("[0-9]*") if int(entry.name) not in kept]
largest = max(others, key=memory)
os.kill(largest, signal.SIGKILL)
print(largest)
"""
# Stop every process of the engine, which has a session of its own; the supervisor is not in it.
FREEZE = """
import json, os, pathlib, signal
record = json.loads(pathlib.Path("/run/firstword/engine-8091.json").read_text())
stopped = []
for entry in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
    except FileNotFoundError:  # a health check's, which has just ended
        continue
    if session == record["pid"]:
        os.kill(int(entry.name), signal.SIGSTOP)
        stopped.append(int(entry.name))
assert record["pid"] in stopped and record["supervisor"] not in stopped
print(len(stopped))
"""


class Watch:
    """What became of one container since it was broken.

    Attributes:
        seconds: What was seen -> after how many seconds: ``unhealthy``, ``restarted``, ``healthy``.
        cause: The health check's words when it was first unhealthy.
    """

    def __init__(self, stack, service):
        self._stack, self._service = stack, service
        self._restarts = stack.inspect(service)["RestartCount"]
        self.seconds, self.cause = {}, ""
        self.begun = time.monotonic()

    def look(self):
        now = self._stack.inspect(self._service)
        health = now["State"].get("Health") or {"Status": "none", "Log": []}
        if health["Status"] == "unhealthy" and "unhealthy" not in self.seconds:
            self.cause = (health["Log"] or [{"Output": ""}])[-1]["Output"]
            self._saw("unhealthy")
        if now["RestartCount"] > self._restarts:
            self._saw("restarted")
            if health["Status"] == "healthy":
                self._saw("healthy")

    def _saw(self, what):
        self.seconds.setdefault(what, round(time.monotonic() - self.begun))


class Breaking:
    """A stage of ``qwen3-tts`` killed, all of ``step-audio-2`` frozen.

    Attributes:
        killed, frozen: A `Watch` of each.
        told: Whether the gateway has said that it is not ready.
    """

    told = False

    def __init__(self, stack):
        self._stack = stack
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self):
        self.killed = self._broken("qwen3-tts", KILL_STAGE)
        self.frozen = self._broken("step-audio-2", FREEZE)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _broken(self, service, program):
        watch = Watch(self._stack, service)
        self._stack.python(service, program)
        return watch

    def _look(self):
        while not self._ended.wait(1):
            for watch in (self.killed, self.frozen):
                watch.look()
            self.told = self.told or self._stack.status("/ready") == 503
            if self.told and all("healthy" in watch.seconds for watch in (self.killed, self.frozen)):
                return  # the stack is taken down next
