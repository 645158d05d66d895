"""The end: every container stops in time and by itself, and nothing is left."""

from rehearsing import rehearse
from stack import DEFAULT_ROUTE
from test_stack import ENGINES


def test_it_stops_in_time_and_down_leaves_nothing(docker, stack, tmp_path):
    assert stack.python("qwen3-tts", DEFAULT_ROUTE) == "True"
    stack.compose("stop", seconds=120)
    for service in (*ENGINES, "gateway"):
        assert stack.inspect(service)["State"]["ExitCode"] == 0, stack.logs(service)
    assert stack.left()
    # As after a run on a GPU host that was killed.
    code, said, _ = rehearse(docker, stack, tmp_path / "report", "--down")
    assert code == 0, said
    assert stack.left() == []
