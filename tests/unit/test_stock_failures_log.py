"""What is taken from a server's log: the last exception, the first, and how far apart they stand."""

from firstword.engine.stock_failures.observe import last_words

LOG = """\
(APIServer pid=1) WARNING 11-30 04:59:00 [system_utils.py:299] cause fd limit errors like `OSError: [Errno 24] x`
(APIServer pid=1) INFO 11-30 04:59:01 [a.py:1] Resolved
\x1b[0;36m(APIServer pid=1)\x1b[0;0m ERROR 11-30 04:59:02 [registry.py:9]     import librosa
\x1b[0;36m(APIServer pid=1)\x1b[0;0m ERROR 11-30 04:59:02 [registry.py:9] ModuleNotFoundError: No module named 'librosa'

(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
(APIServer pid=1) RuntimeError: Orchestrator failed: 1 validation error for ModelConfig
(APIServer pid=1)   Value error, Model architectures ['A'] failed to be inspected.
(APIServer pid=1)     For further information visit a page
(APIServer pid=1) nothing more
"""


def test_a_log_with_the_cause_far_above():
    last, first, above = last_words(LOG)
    assert first == "ModuleNotFoundError: No module named 'librosa'"
    assert last == (
        "RuntimeError: Orchestrator failed: 1 validation error for ModelConfig "
        "Value error, Model architectures ['A'] failed to be inspected. For further information visit a page"
    )
    assert above == 3


def test_a_log_without_an_exception():
    assert last_words("one\ntwo\n\n") == ("two", "", 0)
    assert last_words("") == ("", "", 0)


def test_an_error_while_importing_by_name():
    text = "(EngineCore pid=2) pydoc.ErrorDuringImport: problem in cosyvoice2.flow.flow - ModuleNotFoundError: x\n"
    assert last_words(text)[1] == "pydoc.ErrorDuringImport: problem in cosyvoice2.flow.flow - ModuleNotFoundError: x"


def test_the_rows_own_folder_is_left_out():
    text = "FileNotFoundError: [Errno 2] No such file: '/tmp/firstword-x1_y/checkpoint/m/token2wav/flow.yaml'\n"
    assert last_words(text)[1] == "FileNotFoundError: [Errno 2] No such file: 'm/token2wav/flow.yaml'"
