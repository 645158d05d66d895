"""The bench of the gateway: streams are counted whole, times belong to chunks, and what is absent is told."""

import json

import pytest

from firstword.bench.gateway import chunks, client, command, contenders, page


@pytest.fixture(scope="module")
def upstream():
    with contenders.upstream() as url:
        yield url


def test_every_chunk_of_every_stream_is_timed(upstream):
    seen = client.ask(upstream, at_a_time=3, rounds=2, count=4, period=0.02)
    assert (seen.streams, len(seen.first), len(seen.late)) == (6, 6, 24)
    assert all(0 < late < 5 for late in seen.late)
    assert seen.seconds > 2 * 3 * 0.02
    told = seen.summary()
    assert told["first_p50_ms"] <= told["first_p99_ms"]
    assert told["chunks"] == 24


def test_a_chunk_tells_its_number_and_when_it_was_sent():
    data = chunks.made(7, 123, bytes(chunks.SIZE))
    assert len(data) == chunks.SIZE
    told = chunks.read(data)
    assert (told.number, told.asked) == (7, 123)
    with pytest.raises(ValueError, match="not those"):
        chunks.read(bytes(chunks.SIZE))


def test_a_stream_that_ends_early_is_no_measurement(upstream, monkeypatch):
    monkeypatch.setattr(client, "ORDER", "something else")
    with pytest.raises(ExceptionGroup) as caught:
        client.ask(upstream, at_a_time=1, rounds=1, count=2, period=0)
    assert "samples" in str(caught.value.exceptions[0]) or "chunks came" in str(caught.value.exceptions[0])


def test_quantiles():
    assert client.quantile([3.0], 0.99) == 3.0
    assert client.quantile([float(n) for n in range(101)], 0.5) == pytest.approx(50)
    assert client.quantile([float(n) for n in range(101)], 0.99) == pytest.approx(99)


def test_a_run_tells_what_is_absent_and_what_each_adds(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    monkeypatch.setattr(page, "draw", lambda report, to: to.write_bytes(b"drawn"))
    file = tmp_path / "gateway.json"
    load = command.Load(seconds=0.2, rounds=1, streams=(1, 2))
    assert command.measure(load, names=["direct", "nginx"], to=file) == 0
    report = json.loads(file.read_text())
    assert "apt-get install" in report["contenders"]["nginx"]["absent"]
    assert set(report["contenders"]["direct"]["streams"]) == {"1", "2"}
    assert report["encoding"]["mp3"]["gateway"] > 0
    assert report["encoding"]["mp3"]["ffmpeg"] is None
    assert "Not measured: nginx" in file.with_suffix(".md").read_text()
    assert "| 2 | direct" in capsys.readouterr().out


def test_what_is_added_is_beside_no_proxy():
    def streams(first):
        return {"streams": {"16": {"first_p50_ms": first, "first_p99_ms": 2 * first}}}

    added = command._added({"direct": streams(1.0), "gateway": streams(4.0), "nginx": {"absent": "no"}})
    assert added == {"gateway": {"16": {"p50": 3.0, "p99": 6.0}}}
