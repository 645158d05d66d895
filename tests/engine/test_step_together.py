"""Step-Audio-2 listens and speaks to many at once: each gets what it gets alone."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from listening import HIGH, LONG, LOW

from firstword.acceptance import load

pytestmark = pytest.mark.engine("step-audio-2-mini-synthetic", "speech-cpu")

RECORDINGS = [LOW, HIGH, LONG, LOW, HIGH, LONG, HIGH, LOW]
TEXTS = [f"Number {number} is said beside the others." for number in range(4)]


def test_eight_are_heard_while_four_are_spoken_to_and_one_leaves(client):
    def speak(number):
        return client.speech_stream(TEXTS[number], seed=number).body

    def leave(_):
        stream = client.iter_speech("Nobody hears the end of this.", seed=9)
        next(stream)
        stream.close()

    heard = [client.transcribe(recording).text for recording in RECORDINGS]
    spoken = [speak(number) for number in range(4)]
    assert len(set(spoken)) == 4
    with ThreadPoolExecutor(13) as pool:
        leaving = pool.submit(leave, None)
        speaking = [pool.submit(speak, number) for number in range(4)]
        hearing = [pool.submit(client.transcribe, recording) for recording in RECORDINGS]
        assert [future.result().text for future in hearing] == heard
        assert [future.result() for future in speaking] == spoken
        leaving.result()
    assert load.read(client.metrics()).requests == 0
