"""Answers every GET with the greeting and how often it was asked."""

import http.server
import os
import sys


class Greeter(http.server.BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self) -> None:
        Greeter.asked += 1
        body = f"{os.environ['GREETING']} ({Greeter.asked})\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Greeter).serve_forever()
