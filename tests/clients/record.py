"""A proxy that keeps what passed through it, check by check: the evidence of a failure.

Suites name the running check with GET /mark/NAME; everything else goes to the target.
"""

import http.client
import http.server
import json
import socket
import threading
import urllib.parse

LIMIT = 60_000


class Handler(http.server.BaseHTTPRequestHandler):
    """Passes requests on and streams the answers back."""

    protocol_version = "HTTP/1.1"

    def forward(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path.startswith("/mark/"):
            self.server.check = self.path.removeprefix("/mark/")
            return self.reply(204, [], b"")
        request = {"method": self.command, "path": self.path, "body": text(body)}
        kept = {"suite": self.server.suite, "check": self.server.check, "request": request, "response": {}}
        self.server.keep(kept)
        if self.headers.get("upgrade", "").lower() == "websocket":
            return self.tunnel(kept)
        connection = http.client.HTTPConnection(self.server.target.hostname, self.server.target.port, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection", "accept-encoding")}
        connection.request(self.command, self.path, body, headers)
        response = connection.getresponse()
        kept["response"] = {"status": response.status, "body": ""}
        headers = [
            (name, value) for name, value in response.getheaders() if name.lower() not in ("transfer-encoding", "connection", "content-length")
        ]
        if "text/event-stream" not in (response.getheader("content-type") or ""):
            raw = response.read()
            kept["response"]["body"] = text(raw)
            return self.reply(response.status, headers, raw)
        self.start(response.status, [*headers, ("transfer-encoding", "chunked")])
        try:
            while chunk := response.read1(65536):
                kept["response"]["body"] = (kept["response"]["body"] + chunk.decode(errors="replace"))[:LIMIT]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                self.wfile.flush()
            if response.isclosed():
                self.wfile.write(b"0\r\n\r\n")
        except (http.client.HTTPException, OSError) as error:
            kept["response"]["cut"] = repr(error)
            self.close_connection = True
        return None

    def tunnel(self, kept):
        """Passes a WebSocket through, byte for byte; only that there was one is kept."""
        self.close_connection = True
        with socket.create_connection((self.server.target.hostname, self.server.target.port)) as other:
            head = f"{self.requestline}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
            other.sendall(head.encode("latin-1") + b"\r\n")
            back = threading.Thread(target=pump, args=(other.recv, self.connection), daemon=True)
            back.start()
            pump(self.rfile.read1, other)
            back.join()
        kept["response"] = {"status": 101, "body": ""}

    do_GET = do_POST = do_HEAD = do_DELETE = forward

    def start(self, status, headers):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()

    def reply(self, status, headers, raw):
        self.start(status, [*headers, ("content-length", str(len(raw)))])
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


def pump(read, into):
    """Passes bytes on until either side ends."""
    try:
        while chunk := read(65536):
            into.sendall(chunk)
    except OSError:
        pass
    try:
        into.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def text(raw):
    """A body as JSON if it is, as text if not."""
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")[:LIMIT]


class Recorder(http.server.ThreadingHTTPServer):
    """Serves on a port of its own in a thread; `exchanges(check)` returns what passed."""

    daemon_threads = True

    def handle_error(self, *_):
        """Clients and gateways may close connections at any time."""

    def __init__(self, target):
        super().__init__(("127.0.0.1", 0), Handler)
        self.target, self.suite, self.check, self.kept, self.lock = urllib.parse.urlsplit(target), "", "", [], threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def keep(self, exchange):
        with self.lock:
            self.kept = [*self.kept[-4000:], exchange]

    def write(self, path):
        """Writes what passed, one exchange a line."""
        with self.lock, open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(exchange) + "\n" for exchange in self.kept)

    def exchanges(self, check):
        with self.lock:
            return [exchange for exchange in self.kept if exchange["check"] == check]
