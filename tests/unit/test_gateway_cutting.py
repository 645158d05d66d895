"""Recordings decoded and cut: every container, every limit, and cuts that stand in silences."""

import io
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import av
import numpy as np
import pytest

from firstword.gateway.audio.cutting import MOST_SECONDS, Cutter
from firstword.gateway.audio.decoding import RATE, Decoder, UnreadableError
from sounds import encode, streamed, to_pcm, to_wav, voice


def pieces(data, most=7200.0):
    cutter = Cutter(Decoder(data, most))
    found = []
    while (piece := cutter.next()) is not None:
        found.append(piece)
    return found


def heard(data):
    """Return all samples at 16 kHz."""
    return np.concatenate([np.frombuffer(piece.samples, "<i2") for piece in pieces(data)]) / 32768


def sentences(lengths, gap=0.5):
    """Return sound with silences between, and where they begin, at 16 kHz."""
    parts, silences, at = [], [], 0.0
    for number, length in enumerate(lengths):
        parts += [voice(length, rate=RATE, seed=number), np.zeros(round(gap * RATE), np.float32)]
        silences.append((at + length, at + length + gap))
        at += length + gap
    return np.concatenate(parts), silences


@pytest.mark.parametrize("fmt", ["wav", "mp3", "opus", "aac", "flac"])
@pytest.mark.parametrize("channels", [1, 2])
def test_any_container_is_heard(fmt, channels):
    found = heard(encode(voice(2.0), fmt, channels=channels))
    assert len(found) / RATE == pytest.approx(2.0, abs=0.13)
    assert 20 * np.log10(np.std(found) / 0.1) == pytest.approx(0, abs=1.5)


def in_film(fmt="mp4", video="mpeg4", audio="aac", sound=True):
    """Return a film of one second."""
    out = io.BytesIO()
    with av.open(out, "w", format=fmt) as file:
        pictures = file.add_stream(video, rate=10)
        pictures.width, pictures.height, pictures.pix_fmt = 64, 64, "yuv420p"
        if sound:
            track = file.add_stream(audio, rate=24000, layout="mono")
        for number in range(10):
            frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), number * 20, np.uint8), format="rgb24")
            file.mux(pictures.encode(frame))
        file.mux(pictures.encode(None))
        if sound:
            block = np.frombuffer(to_pcm(voice(1.0)), "<i2")[None, :]
            frame = av.AudioFrame.from_ndarray(block, format="s16", layout="mono")
            frame.sample_rate = 24000
            file.mux([*track.encode(frame), *track.encode(None)])
    return out.getvalue()


@pytest.mark.parametrize("fmt", ["mp4", "mov", "matroska"])
def test_of_a_film_its_sound_is_heard(fmt):
    assert len(heard(in_film(fmt))) / RATE == pytest.approx(1.0, abs=0.15)


def test_a_wav_with_open_length_and_a_cut_one_are_heard():
    whole = to_wav(voice(1.0))
    assert len(heard(streamed(whole))) == RATE
    assert len(heard(whole[: len(whole) // 2])) / RATE == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("rate", [8000, 11025, 48000, 192_000])
def test_every_rate_is_heard(rate):
    assert len(heard(to_wav(voice(1.0, rate=rate), rate))) / RATE == pytest.approx(1.0, abs=0.01)


def refused(data, most=7200.0):
    with pytest.raises(UnreadableError) as caught:
        pieces(data, most)
    return caught.value.code


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "empty_file"),
        (b"no recording at all", "invalid_audio"),
        (b"RIFF\0\0\0\0WAVE", "invalid_audio"),
        (bytes(5000), "invalid_audio"),
        (to_wav(voice(1.0))[:44], "audio_too_short"),
        (to_wav(voice(1.0))[:1000], "audio_too_short"),
        (to_wav(voice(1.0, rate=4000), 4000), "invalid_audio"),
        (to_wav(voice(0.1, rate=384_000), 384_000), "invalid_audio"),
        (to_wav(voice(0.5), channels=9), "invalid_audio"),
        (in_film(sound=False), "no_audio"),
    ],
)
def test_what_cannot_be_heard_is_told_apart(data, code):
    assert refused(data) == code


def test_damage_is_passed_over_and_a_wreck_is_not():
    good = bytearray(encode(voice(3.0), "mp3"))
    good[4000:4400] = bytes(400)
    assert len(heard(bytes(good))) / RATE == pytest.approx(3.0, abs=0.4)
    wreck = np.random.default_rng(0).integers(0, 256, 50_000, np.uint8).tobytes()
    assert refused(encode(voice(3.0), "flac")[:200] + wreck) in ("invalid_audio", "audio_too_short")


def test_a_long_one_is_refused_at_once_where_it_says_so_and_else_when_it_is_reached():
    with pytest.raises(UnreadableError, match="limit"):
        Decoder(encode(voice(3.0), "flac"), 1.0)
    assert refused(encode(voice(3.0), "flac"), most=2.0) == "audio_too_long"


def hour(every=300):
    """Return an hour in FLAC with half a second of voice in every so many seconds."""
    out = io.BytesIO()
    with av.open(out, "w", format="flac") as file:
        stream = file.add_stream("flac", rate=8000, layout="mono")
        for second in range(0, 3600, 20):
            block = np.zeros((1, 8000 * 20), np.int16)
            if second % every == 0:
                block[0, :4000] = np.frombuffer(to_pcm(voice(0.5, rate=8000)), "<i2")
            frame = av.AudioFrame.from_ndarray(block, format="s16", layout="mono")
            frame.sample_rate = 8000
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return out.getvalue()


def test_a_small_file_that_decodes_to_an_hour_costs_what_is_read():
    data = hour()
    assert len(data) < 1_000_000  # 115 MB of samples
    cutter = Cutter(Decoder(data, 7200))
    assert cutter.next().end <= MOST_SECONDS
    assert cutter._decoder.seconds < 60
    with pytest.raises(UnreadableError, match="limit"):
        Decoder(data, 1000)


def test_no_other_file_and_no_address_is_opened():
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/x.ts"
        for playlist in (
            f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{url}\n#EXT-X-ENDLIST\n",
            f"ffconcat version 1.0\nfile '{url}'\n",
            "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n",
        ):
            assert refused(playlist.encode()) == "invalid_audio"
        server.shutdown()
    assert asked == []


def test_cuts_stand_in_silences():
    sound, silences = sentences([7, 9, 4, 12, 8, 11, 6])
    found = pieces(to_wav(sound, RATE))
    assert len(found) > 2
    assert all(0 < piece.end - piece.start < MOST_SECONDS for piece in found)
    for piece in found[:-1]:
        assert any(begin <= piece.end <= end for begin, end in silences), piece.end
    assert [piece.start for piece in found[1:]] == [piece.end for piece in found[:-1]]
    assert found[-1].end == pytest.approx(len(sound) / RATE)
    assert np.array_equal(heard(to_wav(sound, RATE)), np.frombuffer(to_pcm(sound), "<i2") / 32768)


def test_without_a_silence_it_is_cut_all_the_same():
    found = pieces(to_wav(voice(60.0, rate=RATE), RATE))
    assert 3 <= len(found) <= 4
    assert all(piece.end - piece.start < MOST_SECONDS for piece in found)


@pytest.mark.parametrize("seconds", [24.99, 25.0, 25.01, 25.1])
def test_around_the_limit(seconds):
    found = pieces(to_wav(voice(seconds, rate=RATE), RATE))
    assert len(found) == (1 if seconds < MOST_SECONDS else 2)
    assert found[-1].end == pytest.approx(seconds, abs=1e-3)
    assert all(len(piece.samples) >= 2 * 0.1 * RATE for piece in found)


def test_silence_is_told():
    quiet = np.concatenate([np.zeros(RATE, np.float32), voice(1.0, rate=RATE, level=0.0002)])
    assert [piece.silent for piece in pieces(to_wav(quiet, RATE))] == [True]
    assert [piece.silent for piece in pieces(to_wav(voice(1.0, rate=RATE, level=0.01), RATE))] == [False]
