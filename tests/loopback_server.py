"""An HTTP server for tests, on this machine alone."""

import sys
from http.server import ThreadingHTTPServer


class LoopbackServer(ThreadingHTTPServer):
    """An HTTP server that takes many connections at once and ends with its test."""

    daemon_threads = True
    # The library's own 5 lets the kernel reset or delay connections beyond it; real servers have hundreds.
    request_queue_size = 256

    def handle_error(self, request, client_address):
        """Say nothing of a client that broke off: it may be another test's, and stderr is looked at."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
