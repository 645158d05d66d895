"""How far a transcript is from what was said. Standard library only."""

import unicodedata


def words(text: str) -> list[str]:
    """Return the words of a text as they are compared: lower case, without marks; an ideograph is a word."""
    found: list[str] = []
    last_is_word = False
    for character in unicodedata.normalize("NFKC", text).casefold():
        category = unicodedata.category(character)
        if category[0] not in "LNM" and character != "'":
            last_is_word = False
        elif character == "'":
            continue
        elif _stands_alone(character):
            found.append(character)
            last_is_word = False
        elif last_is_word:
            found[-1] += character
        else:
            found.append(character)
            last_is_word = True
    return found


def word_error_rate(said: str, heard: str) -> float:
    """Return substitutions, insertions and deletions by the number of words said (Levenshtein, 1966).

    Raises:
        ValueError: Nothing was said.
    """
    wanted, got = words(said), words(heard)
    if not wanted:
        raise ValueError("nothing was said")
    row = list(range(len(got) + 1))
    for index, word in enumerate(wanted, 1):
        diagonal, row[0] = row[0], index
        for column, other in enumerate(got, 1):
            diagonal, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, diagonal + (word != other)),
            )
    return row[-1] / len(wanted)


def _stands_alone(character: str) -> bool:
    """Return whether a script is written without spaces: Chinese and Japanese."""
    return unicodedata.name(character, "").partition(" ")[0] in ("CJK", "HIRAGANA", "KATAKANA")
