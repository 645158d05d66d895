"""What a module's source says about its imports: which must succeed, which need not."""

import textwrap

import pytest

from firstword.engine.preflight.imports import Guard, attributes, read


def found(source: str, *, module: str = "pack.mod", is_package: bool = False, device: str = "cpu"):
    return read(textwrap.dedent(source).encode(), module, is_package=is_package, device=device)


def guards(source: str, device: str = "cpu") -> dict[str, Guard]:
    return {item.module: item.guard for item in found(source, device=device).imports}


def test_plain_imports_must_succeed_and_lazy_ones_are_told_apart():
    seen = found(
        """
        import numpy as np
        from a.b import c
        class K:
            import inside_class
            def f(self):
                import lazily
        async def g():
            with open("x"):
                from very.deep import thing
        """
    ).imports
    assert [(item.module, item.names, item.lazy, item.guard) for item in seen] == [
        ("numpy", (), False, Guard.NONE),
        ("a.b", ("c",), False, Guard.NONE),
        ("inside_class", (), False, Guard.NONE),
        ("lazily", (), True, Guard.NONE),
        ("very.deep", ("thing",), True, Guard.NONE),
    ]


@pytest.mark.parametrize(
    ("module", "is_package", "statement", "expected"),
    [
        ("pack.sub.mod", False, "from . import x", "pack.sub"),
        ("pack.sub.mod", False, "from .y import x", "pack.sub.y"),
        ("pack.sub.mod", False, "from ..y import x", "pack.y"),
        ("pack.sub", True, "from .y import x", "pack.sub.y"),
        ("pack.sub", True, "from .. import x", "pack"),
    ],
)
def test_relative_imports(module, is_package, statement, expected):
    (only,) = found(statement, module=module, is_package=is_package).imports
    assert only.module == expected


def test_type_checking_imports_never_run():
    source = """
    import typing
    from typing import TYPE_CHECKING
    if TYPE_CHECKING:
        import absent
    else:
        import present
    if typing.TYPE_CHECKING:
        import absent_too
    if not TYPE_CHECKING:
        import present_too
    """
    assert guards(source) == {
        "typing": Guard.NONE,
        "present": Guard.NONE,
        "present_too": Guard.NONE,
    }


@pytest.mark.parametrize(
    ("device", "expected"),
    [("cpu", {"for_cpu", "always", "not_npu"}), ("cuda", {"for_cuda", "for_cuda_too", "always", "not_npu"})],
)
def test_platform_questions_are_answered_for_the_device(device, expected):
    source = """
    if current_platform.is_cuda():
        import for_cuda
    elif current_platform.is_cpu():
        import for_cpu
    if current_platform.is_cuda_alike() and not current_platform.is_rocm():
        import for_cuda_too
    if current_platform.is_cpu() or current_platform.is_cuda():
        import always
    if platform.is_npu():
        import for_npu
    else:
        import not_npu
    """
    assert guards(source, device) == dict.fromkeys(expected, Guard.NONE)


def test_a_condition_that_only_the_run_knows():
    source = """
    if envs.VLLM_USE_MODELSCOPE:
        import modelscope
    match x:
        case 1:
            import one
    """
    assert guards(source) == {"modelscope": Guard.CONDITION, "one": Guard.CONDITION}


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        ("except ImportError:\n    pass", Guard.OPTIONAL),
        ("except ImportError:\n    HAS_AV = False", Guard.OPTIONAL),
        ("except (ImportError, AttributeError):\n    import other as av", Guard.OPTIONAL),
        ("except Exception as e:\n    log(e)", Guard.OPTIONAL),
        ("except:\n    pass", Guard.OPTIONAL),
        ("except ImportError:\n    av = None", Guard.STAND_IN),
        ('except ImportError:\n    av = PlaceholderModule("av")', Guard.STAND_IN),
        ("except ImportError as e:\n    raise RuntimeError from e", Guard.NONE),
        ("except ValueError:\n    pass", Guard.NONE),
        # Of several, the first one that catches it decides.
        ("except ImportError:\n    raise\nexcept Exception:\n    pass", Guard.NONE),
        ("except ImportError:\n    av = None\nexcept Exception:\n    pass", Guard.STAND_IN),
        ("except OSError:\n    raise\nexcept ImportError:\n    pass", Guard.OPTIONAL),
    ],
)
def test_what_a_handler_makes_of_a_missing_module(handler, expected):
    assert guards(f"try:\n    import av\n{handler}\n")["av"] is expected


def test_what_follows_a_try():
    source = """
    try:
        import optional
    except ImportError:
        import instead
    else:
        import beside
    finally:
        import always
    """
    assert guards(source) == {
        "optional": Guard.OPTIONAL,
        "instead": Guard.OPTIONAL,
        "beside": Guard.OPTIONAL,  # needed only where the optional one is there
        "always": Guard.NONE,
    }


def test_the_names_a_module_defines():
    seen = found(
        """
        import a.b, c as d
        from e import f as g
        x, (y, *z) = 1, (2, 3)
        w: int = 4
        if q:
            def h(): local = 1
        try:
            pass
        except E:
            class K:
                attribute = 1
        for i in r: pass
        with open("p") as file: pass
        def setter():
            global late
            late = 1
        """
    )
    assert seen.names == {"a", "d", "g", "x", "y", "z", "w", "h", "K", "i", "file", "setter", "late"}
    assert seen.classes == {"K"}
    assert not seen.open_ended


@pytest.mark.parametrize("source", ["from x import *", "globals()['a'] = 1", "def __getattr__(name): ..."])
def test_modules_whose_names_cannot_be_listed(source):
    assert found(source).open_ended


def test_attributes_looked_up_in_imported_modules():
    source = b"""
import librosa, numpy.linalg, onnxruntime as ort, os
def f(x):
    librosa.resample(x)
    return ort.SessionOptions(), x.librosa, os.path, librosa.filters.mel
"""
    assert attributes(source, {"librosa", "onnxruntime", "numpy.linalg"}) == {
        ("librosa", "resample"),
        ("librosa", "filters"),
        ("onnxruntime", "SessionOptions"),
    }
