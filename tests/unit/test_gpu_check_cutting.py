"""Cutting by the syntax tree: what a function needs comes along, what nobody gives is named, nothing else is run."""

import pytest

from firstword.bench.gpu_check.cutting import CannotCut, Cutter
from firstword.bench.gpu_check.sources import Sources

FILE = '''\
"""A file that cannot be imported here."""

from dataclasses import dataclass, field

import torch
import vllm
from demo.other import Base, scale
from .other import OFFSET
from vllm.logger import init_logger

try:
    from torch.nn import Linear
except ImportError:
    from vllm import Linear

logger = init_logger(__name__)
FACTOR = 2
WIDTH = FACTOR + 1
raise RuntimeError("the file was run")


@dataclass
class State:
    seen: list[int] = field(default_factory=list)
    kind: vllm.Kind = None


def plain(x: vllm.Tensor) -> vllm.Tensor:
    state = State()
    state.seen.append(int(x))
    return twice(x) + WIDTH + OFFSET, state.seen


def twice(x):
    return [FACTOR * y for y in [x]][0]


def told(x):
    logger.info("x")
    return x


def lazy():
    import vllm
    return vllm


def again(n):
    return n and again(n - 1)


def far(x):
    return told(x) + unknown


class Model(Base):
    size = 3
    sizes = size

    def grow(self, x):
        return x * scale * self.by

    @staticmethod
    def shrink(x):
        return x / scale

    def layer(self):
        return Linear(1, 1), super().name()
'''
OTHER = """\
OFFSET = 10
scale = 5


class Base:
    def name(self):
        return "base"
"""


@pytest.fixture
def cutter():
    files = {"demo/a.py": FILE, "demo/other.py": OTHER}
    return Cutter(Sources({("stock", path): text for path, text in files.items()}, {}), "stock")


def test_a_function_comes_with_what_it_needs_of_its_file_and_of_others(cutter):
    plain = cutter.cut("demo/a.py", "plain")
    assert plain(4) == (8 + 3 + 10, [4])
    assert cutter.cut_from == {"demo/a.py", "demo/other.py"}
    assert cutter.stood_in == set()


def test_a_method_is_a_function_and_a_class_is_whole(cutter):
    class Owner:
        by = 7

    grow, shrink = cutter.cut("demo/a.py", "Model.grow", "Model.shrink")
    assert grow(Owner, 2) == 70
    assert shrink(10) == 2
    model = cutter.cut("demo/a.py", "Model")()
    linear, name = model.layer()
    assert (type(linear).__name__, name, model.sizes) == ("Linear", "base", 3)
    assert cutter.cut("demo/a.py", "again")(2) == 0


def test_what_nobody_gives_is_named(cutter):
    with pytest.raises(CannotCut, match=r"told of demo/a.py needs init_logger .of vllm.logger.$"):
        cutter.cut("demo/a.py", "told")
    with pytest.raises(CannotCut, match=r"far of demo/a.py needs init_logger .of vllm.logger., unknown$"):
        cutter.cut("demo/a.py", "far")
    with pytest.raises(CannotCut, match=r"demo/a.py has no Model.nothing"):
        cutter.cut("demo/a.py", "Model.nothing")
    with pytest.raises(CannotCut, match=r"demo/c.py is in no bundle"):
        cutter.cut("demo/c.py", "x")


def test_a_stand_in_is_used_and_told(cutter):
    class Logger:
        said = ()

        def info(self, text):
            self.said += (text,)

    logger = Logger()
    told = cutter.cut("demo/a.py", "told", logger=logger, unneeded=1)
    assert told(3) == 3
    assert logger.said == ("x",)
    assert cutter.stood_in == {"logger"}


def test_an_import_in_a_function_is_refused_when_it_comes_to_it(cutter):
    lazy = cutter.cut("demo/a.py", "lazy")
    with pytest.raises(CannotCut, match="it imports vllm when it is called"):
        lazy()


def test_lines_keep_their_numbers(cutter):
    twice = cutter.cut("demo/a.py", "twice")
    assert twice.__code__.co_filename == "stock/demo/a.py"
    assert FILE.splitlines()[twice.__code__.co_firstlineno - 1] == "def twice(x):"


def test_sides_are_apart():
    sides = {"stock": "def f():\n    return 1\n", "patched": "def f():\n    return 2\n"}
    files = Sources({(side, "a.py"): text for side, text in sides.items()}, {})
    assert [Cutter(files, side).cut("a.py", "f")() for side in sides] == [1, 2]
