"""The variables an engine starts with."""

from pathlib import Path

from firstword.engine.environment import engine_environment


def test_what_the_user_set_is_kept():
    environment = engine_environment("cpu", Path("/c"), {"OMP_NUM_THREADS": "7", "PYTHONDONTWRITEBYTECODE": "1"})
    assert environment["OMP_NUM_THREADS"] == "7"
    assert "PYTHONDONTWRITEBYTECODE" not in environment


def test_only_a_cpu_engine_goes_without_compilation():
    assert engine_environment("cpu", Path("/c"), {})["TORCHDYNAMO_DISABLE"] == "1"
    assert "TORCHDYNAMO_DISABLE" not in engine_environment("cuda", Path("/c"), {})


def test_sockets_and_temporary_files_end_with_the_engine_and_compiled_kernels_do_not():
    environment = engine_environment("cuda", Path("/c"), {"TMPDIR": "/of-the-user"}, scratch=Path("/s"))
    assert environment["TMPDIR"] == "/s"
    assert environment["VLLM_OMNI_SERVER_STORAGE__PATH"] == "/s/storage"
    assert environment["TORCHINDUCTOR_CACHE_DIR"] == "/c/inductor"
