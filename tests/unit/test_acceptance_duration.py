"""The plausible duration of a text: four times wide at most, whatever the script."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstword.acceptance.duration import expected_seconds, window


@given(st.text(max_size=400), st.sampled_from([0.25, 1.0, 4.0]))
def test_never_wider_than_four(text, speed):
    bounds = window(text, speed=speed)
    assert 0 < bounds.lower < bounds.upper <= 4 * bounds.lower * (1 + 1e-9)


@given(st.text(max_size=100), st.text(max_size=100))
def test_more_text_never_takes_less_time(first, second):
    assert expected_seconds(first + second) >= expected_seconds(first) - 1e-9


# Paces of ordinary speech: English 150-180 words a minute; Chinese 240-300 characters a minute;
# Japanese 7-8 morae, Korean 5-7 syllables a second; digits two to three a second.
@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("The birch canoe slid on the smooth planks, and the sheet was glued to the dark blue background.", 5.0, 7.5),
        ("今天天气很好，我们一起去公园散步吧，然后回家吃饭。", 4.5, 6.5),  # noqa: RUF001
        ("きょうはとてもいいてんきですね", 1.8, 2.8),
        ("안녕하세요 만나서 반갑습니다", 2.0, 3.3),
        ("Привет, это первая настоящая фраза.", 2.0, 3.0),
        ("8 6 7 5 3 0 9", 2.3, 3.3),
        ("Hi.", 0.5, 1.0),
    ],
    ids=["english", "chinese", "japanese", "korean", "russian", "digits", "one word"],
)
def test_ordinary_pace(text, least, most):
    assert least <= expected_seconds(text) <= most


def test_white_space_and_final_marks_add_nothing():
    assert expected_seconds("Hello   there\n\n") == expected_seconds("Hello there")
    assert expected_seconds("One sentence of some length...") == expected_seconds("One sentence of some length")


def test_unknown_text_still_has_bounds():
    assert window(None).lower > 0.1
    assert window(None).upper < 300  # a model that never stops makes 5.5 minutes
