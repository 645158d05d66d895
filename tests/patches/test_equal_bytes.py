"""Which bytes a patch leaves as they were, and which it makes equal that were not."""

from forks import Run

FLOW_CACHES = "step-audio2/0001-flow-caches-belong-to-the-stream.patch"
STATES = "vllm-omni/0004-stream-state-by-request.patch"
TOKENS = "vllm-omni/0005-stream-tokens-stay-on-device.patch"


def test_a_single_stream_has_the_released_flows_mel_frames(run: Run) -> None:
    """With flow caches of its own. (The next patch changes the noise, and so these bytes.)"""
    check = "token2wav_checks.flow_caches"
    assert run(check, upto=FLOW_CACHES)["alone"] == run(check, upto="stock")["alone"]


def test_the_vocoder_without_a_generator_is_the_released_one(run: Run) -> None:
    check = "token2wav_checks.vocoder_without_a_generator"
    assert run(check)["audio"] == run(check, upto="stock")["audio"]


def test_tokens_that_stay_on_the_device_give_the_same_audio(run: Run) -> None:
    check = "token2wav_checks.tokens_on_device"
    assert run(check, upto=TOKENS)["audio"] == run(check, upto=STATES)["audio"]


def test_audio_features_and_token_ids_are_the_released_ones(run: Run) -> None:
    for check, key in (("thinker_checks.audio_lengths", "features"), ("thinker_checks.tokenizer", "ids")):
        assert run(check)[key] == run(check, upto="stock")[key]


def test_equal_requests_give_equal_bytes_in_another_process(run: Run) -> None:
    """After a restart, and whatever the process drew from the global generator before."""
    check = "token2wav_checks.noise"
    assert run(check)["first"] == run(check, draws=12345)["first"]


def test_a_stream_and_a_whole_sequence_of_one_seed_agree_in_length_and_level(run: Run) -> None:
    """Not in their samples, and no patch could make them: a stream's flow sees three tokens ahead where a whole
    sequence sees all, and the vocoder's sines begin at phase zero in each chunk. So the deploy configs serve streams
    only: a request that wants the audio at once gets the same chunks joined, and so the same bytes.
    """
    facts = run("token2wav_checks.stream_against_whole")
    assert facts["samples"] == [38400, 38400]
    one, other = facts["level of each"]
    assert 0.01 < other < 0.5
    assert abs(one - other) < 0.15 * other


def test_the_audio_encoder_never_runs_in_a_cuda_graph_capture(run: Run) -> None:
    """The one host read of `_process_audio_input` would fail there.

    vLLM calls `embed_multimodal` outside of capture. It captures an encoder only if the model offers
    it (SupportsEncoderCudaGraph), and the forward pass that it does capture gets embeddings or no
    audio: then the encoder is not called.
    """
    assert run("thinker_checks.never_captured") == {
        "vLLM can capture its encoder": False,
        "runs in the captured forward": [],
        "runs in embed_multimodal": ["encoder"],
    }
