#!/opt/venv/bin/python
"""A container's health check: ask the gateway whether every required engine is ready; print what it says."""

import http.client
import os
import sys

connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["FIRSTWORD_PORT"]), timeout=4)
try:
    connection.request("GET", "/ready")
    answer = connection.getresponse()
    print(answer.read().decode())
except OSError as error:
    sys.exit(f"the gateway does not answer: {error}")
sys.exit(0 if answer.status == http.HTTPStatus.OK else 1)
