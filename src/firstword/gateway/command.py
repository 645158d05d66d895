"""Serve all models at one OpenAI-compatible address.

Its settings are environment variables:

  FIRSTWORD_HOST, FIRSTWORD_PORT       where to listen (127.0.0.1, 8000)
  FIRSTWORD_UPSTREAMS                  engines, by commas (http://127.0.0.1:8091,http://127.0.0.1:8092)
  FIRSTWORD_OPTIONAL_UPSTREAMS         engines that may be absent: /ready does not wait for them
  FIRSTWORD_API_KEYS                   keys that clients may use, by commas
  FIRSTWORD_API_KEYS_FILE              the same from a file, one a line
  FIRSTWORD_PUBLISH_ADDRESS            where the port is published, when that is not FIRSTWORD_HOST (containers)
  FIRSTWORD_BODY_LIMIT                 bytes of a request's body (25 MiB)
  FIRSTWORD_UPSTREAM_TIMEOUT           seconds without a byte from an engine (600)
  FIRSTWORD_CONCURRENCY                requests of one model at its engines at a time (32)
  FIRSTWORD_QUEUE                      further ones that may wait; the next gets a 429 (128)
  FIRSTWORD_SPEECH_DEADLINE            seconds that a request for speech may take, its wait included (900)
  FIRSTWORD_CHAT_DEADLINE              the same for a chat (900)
  FIRSTWORD_TRANSCRIPTION_DEADLINE     the same for a transcription or translation (1800)
  FIRSTWORD_SPEECH_CHARACTERS          characters of a text to say (4096)
  FIRSTWORD_SESSIONS                   WebSockets open at a time; the next gets a 429 (64)
  FIRSTWORD_SESSION_IDLE               seconds without a message after which one is closed (60)
  FIRSTWORD_MESSAGE_LIMIT              bytes of a message on one (4 MiB)
  FIRSTWORD_UPLOAD_LIMIT               bytes of a recording to recognise (25 MiB)
  FIRSTWORD_UPLOADS_MEMORY             bytes of recordings held at a time; the next gets a 429 (256 MiB)
  FIRSTWORD_AUDIO_LIMIT                seconds of a recording to recognise, once decoded (7200)
  FIRSTWORD_PIECES                     pieces of one recording that are recognised at a time (4)
  FIRSTWORD_DECODERS                   recordings that are decoded at a time (2)
  FIRSTWORD_VOICES_DIR                 folder for uploaded voices (voices in firstword's home)
  FIRSTWORD_VOICES_LIMIT               uploaded voices that are kept (1000)
  FIRSTWORD_REFERENCE_HOSTS            hosts, by commas, that recordings to clone may be fetched from (none)
  FIRSTWORD_REFERENCE_LIMIT            bytes of a recording to clone (10 MiB)
  FIRSTWORD_REFERENCE_TIMEOUT          seconds that fetching one may take (10)
  FIRSTWORD_READY_INTERVAL             seconds between two looks at an engine (5)
  FIRSTWORD_READY_TIMEOUT              seconds without a byte for a readiness request (120)
  FIRSTWORD_READY_FRESH                seconds for which a good answer is trusted (120)
  FIRSTWORD_READY_STALL                seconds without progress after which a busy engine is frozen (60)
  FIRSTWORD_STOP_TIMEOUT               seconds for requests in flight after SIGTERM (30)

What each engine serves, it is asked; requests go by their "model". Without a key it serves this machine only.
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: a container and a shell set the same variables."""


def run(args: argparse.Namespace) -> int:
    """Serve until stopped.

    Raises:
        FirstwordError: A setting or the catalogue is wrong, or the port is taken.
    """
    from firstword.gateway import server

    return server.serve()
