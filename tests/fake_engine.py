"""A server that answers like an engine, over real HTTP, and can be told to misbehave."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler

import numpy as np

from loopback_server import LoopbackServer
from sounds import encode, streamed, to_pcm, to_wav, voice


class FakeEngine:
    """``with FakeEngine() as engine:`` listens on loopback at ``engine.url``.

    Attributes to set: ``model``, ``health`` (status), ``speech`` (bytes of every spoken answer),
    ``text``, ``finish_reason``, ``delay`` (seconds before an answer), ``error`` (status of every
    POST), ``script`` (called with handler and body, answers every POST itself), ``strict`` (refuses other
    models' requests), ``careful`` (refuses unknown voices and what is no recording). ``speech`` may be a
    function of the request's body. ``asked`` lists what was requested.
    """

    def __init__(self, model="qwen3-tts-customvoice-synthetic"):
        self.model = model
        self.root = None
        self.health = 200
        self.speech = voice()
        self.text = "bab ver teb gar"
        self.finish_reason = "stop"
        self.voices = ["ryan", "vivian"]
        self.encode = encode
        self.careful = False
        self.delay = 0.0
        self.error = 0
        self.script = None
        self.strict = False
        self.cut_stream = False
        self.started_at = 1000.0
        self.requests = 0
        self.successes = 0
        self.progress = 0
        self.stages = 2
        self.has_metrics = True
        self.page = None
        self.models = None
        self.asked = []
        self.bodies = []
        self.keys = set()
        self.headers = []

    def __enter__(self):
        self._server = LoopbackServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def metrics(self):
        lines = [
            "# HELP process_start_time_seconds Start time",
            f"process_start_time_seconds {self.started_at}",
            f'vllm_omni:num_requests_running{{model_name="a b"}} {self.requests}.0',
            'vllm_omni:num_requests_waiting{model_name="a b"} 0.0',
            f'vllm_omni:requests_success_total{{finished_reason="stop",model_name="a b"}} {self.successes}',
            'vllm_omni:requests_success_total{finished_reason="abort",model_name="a b"} 7',
        ]
        for stage in range(self.stages):
            # vLLM's own gauge keeps its last value: it must not be believed.
            lines.append(f'vllm:num_requests_running{{replica="0",stage="{stage}"}} 1.0')
            lines.append(f'vllm:generation_tokens_total{{replica="0",stage="{stage}"}} {self.progress}')
        return "\n".join(lines) + "\n"


def _handler(engine):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            path = self.path.partition("?")[0]
            engine.asked.append(path)
            engine.keys.add(self.headers["authorization"])
            if path == "/health":
                self.send(engine.health, b"{}", "application/json")
            elif path == "/metrics" and engine.has_metrics:
                self.send(200, engine.metrics().encode(), "text/plain")
            elif self.path == "/v1/models" and engine.models is not None:
                self.send(200, engine.models, "application/json")
            elif engine.page:
                self.send(200, engine.page, "text/html")
            elif path == "/v1/models":
                entry = {"id": engine.model, "object": "model"} | ({"root": engine.root} if engine.root else {})
                self.send_json({"object": "list", "data": [entry]})
            elif path == "/v1/audio/voices":
                self.send_json({"voices": engine.voices, "uploaded_voices": []})
            else:
                self.send_json({"detail": "Not Found"}, 404)

        def do_POST(self):
            engine.asked.append(self.path)
            engine.keys.add(self.headers["authorization"])
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            engine.bodies.append(body)
            engine.headers.append(dict(self.headers.items()))
            if engine.script:
                return engine.script(self, body)
            time.sleep(engine.delay)
            if engine.strict and body["model"] != engine.model:
                return self.refuse(404, f"no model {body['model']}", "NotFoundError", "model")
            if engine.error:
                return self.refuse(engine.error, "it broke", "InternalServerError")
            if self.path == "/v1/audio/speech":
                return self.speak(body)
            return self.converse(body)

        def speak(self, body):
            fmt = body["response_format"]
            if engine.careful and body.get("voice") not in engine.voices:
                return self.refuse(400, "no such voice", "BadRequestError")
            sound = engine.speech(body) if callable(engine.speech) else engine.speech
            if isinstance(sound, bytes):
                return self.send(200, sound, "audio/wav")
            if body.get("stream_format") == "sse":
                pcm = to_pcm(sound)
                events = [{"type": "speech.audio.delta", "audio": b64(part)} for part in (pcm[:9600], pcm[9600:])]
                if not engine.cut_stream:
                    events.append({"type": "speech.audio.done", "usage": {"output_tokens": 37}})
                lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
                return self.send_pieces(lines, "text/event-stream")
            if body.get("stream_format") == "audio":
                data = to_pcm(sound) if fmt == "pcm" else streamed(to_wav(sound))
                return self.send_pieces([data[:9644], data[9644:]], f"audio/{fmt}")
            kind = {"mp3": "audio/mpeg", "opus": "audio/ogg"}.get(fmt, f"audio/{fmt}")
            return self.send(200, engine.encode(sound, fmt), kind)

        def converse(self, body):
            if engine.careful:
                sounds = [part["input_audio"] for part in body["messages"][0]["content"] if "input_audio" in part]
                if not base64.b64decode(sounds[0]["data"]).startswith(b"RIFF"):
                    return self.refuse(400, "no recording", "BadRequestError")
            speech = engine.speech(body) if callable(engine.speech) else engine.speech
            wav = to_wav(speech)
            if body.get("stream"):
                pieces = []
                if "audio" in body["modalities"]:
                    for part in np.array_split(speech, 3):
                        delta = {"content": b64(to_pcm(part))}
                        pieces.append({"modality": "audio", "choices": [{"index": 0, "delta": delta}]})
                else:
                    words = [{"delta": {"content": word}, "finish_reason": None} for word in ("one ", "two")]
                    words.append({"delta": {}, "finish_reason": engine.finish_reason})
                    pieces = [{"modality": "text", "choices": [word]} for word in words]
                lines = [f"data: {json.dumps(piece)}\n\n".encode() for piece in pieces]
                return self.send_pieces(
                    [*lines, *([] if engine.cut_stream else [b"data: [DONE]\n\n"])], "text/event-stream"
                )
            choices = []
            if "text" in body["modalities"]:
                message = {"role": "assistant", "content": engine.text}
                choices.append({"index": 0, "message": message, "finish_reason": engine.finish_reason})
            if "audio" in body["modalities"]:
                message = {"role": "assistant", "content": None, "audio": {"id": "a", "data": b64(wav)}}
                choices.append({"index": 0, "message": message, "finish_reason": "stop"})
            return self.send_json({"choices": choices, "usage": {"completion_tokens": 5}})

        def refuse(self, status, message, kind, param=None):
            error = {"message": message, "type": kind, "param": param, "code": status}
            self.send_json({"error": error}, status)

        def send_json(self, document, status=200):
            self.send(status, json.dumps(document).encode(), "application/json")

        def send(self, status, body, kind):
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def send_pieces(self, pieces, kind):
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for piece in pieces:
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                self.wfile.flush()
                time.sleep(0.05)
            self.wfile.write(b"0\r\n\r\n")

    return Handler


def b64(data):
    return base64.b64encode(data).decode()
