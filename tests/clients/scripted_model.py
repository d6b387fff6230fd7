"""A model whose answers follow from the conversation, behind the HTTP API of an engine.

    python3 scripted_model.py --port 18200                              # chat completions alone; anything else is 404
    python3 scripted_model.py --port 18201 --speaks chat,messages,responses
    python3 scripted_model.py --port 18200 --record requests.jsonl      # one line a request, for looking at what clients send

The phrases it understands are in scripted/script.py. A prefix before /v1 is ignored, so that one model can be several backends of a gateway.
"""

import argparse
import hashlib
import http.server
import json
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from scripted import chat, messages, responses, script
from scripted.conversation import Refused

PATHS = {"/v1/chat/completions": chat, "/v1/messages": messages, "/v1/messages/count_tokens": messages, "/v1/responses": responses}
NAMES = {"chat": chat, "messages": messages, "responses": responses}


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves one connection. `server.speaks` are the dialects, `server.record` takes (path, headers, body)."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path.split("?")[0].endswith("/v1/models"):
            model = {
                "id": self.server.model,
                "object": "model",
                "created": 1,
                "owned_by": "scripted",
                "type": "model",
                "display_name": self.server.model,
            }
            return self.reply(200, {"object": "list", "data": [model], "has_more": False, "first_id": model["id"], "last_id": model["id"]})
        return self.reply(404, chat.error(404, f"no such path: {self.path}"))

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = "/v1" + self.path.split("?")[0].partition("/v1")[2]
        dialect = PATHS.get(path)
        if dialect not in self.server.speaks:
            self.server.record(path, dict(self.headers), raw)
            return self.reply(404, chat.error(404, f"no such path: {path}"))
        try:
            body = json.loads(raw)
            self.server.record(path, dict(self.headers), body)
            self.answer(dialect, path, body, hashlib.sha256(raw).hexdigest()[:16])
        except Refused as refused:
            self.reply(refused.status, dialect.error(refused.status, refused.message, refused.param, refused.details))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self.reply(400, dialect.error(400, f"malformed request: {error!r}"))

    def answer(self, dialect, path, body, ident):
        if path.endswith("/count_tokens"):
            return self.reply(200, {"input_tokens": messages.read(body, counting=True).prompt_tokens()})
        answer = script.respond(dialect.read(body))
        if not body.get("stream"):
            return self.reply(200, dialect.write(answer, body, ident))
        events = list(dialect.stream(answer, body, ident))
        if answer.fault:
            events = events[: len(events) // 2]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for event in events:
                self.event(*event)
                time.sleep(0.05 if answer.slow else 0)
        except OSError:
            script.LEFT.add(answer.slow)
            raise
        if answer.fault == "error":
            self.event(*dialect.stream_error())
        if answer.fault == "cut":
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def event(self, name, data):
        text = f"event: {name}\n" if name else ""
        text += f"data: {'[DONE]' if data is None else json.dumps(data)}\n\n"
        chunk = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.flush()

    def reply(self, status, body):
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


class Model(http.server.ThreadingHTTPServer):
    """The server; `requests` holds the latest (path, headers, body) for tests in the same process."""

    daemon_threads = True

    def handle_error(self, *_):
        """Clients and gateways may close connections at any time."""

    def __init__(self, port=0, speaks=("chat",), model="scripted", file=None):
        super().__init__(("127.0.0.1", port), Handler)
        self.speaks = [NAMES[name] for name in speaks]
        self.model, self.file, self.requests, self.lock = model, file, [], threading.Lock()

    def record(self, path, headers, body):
        with self.lock:
            self.requests = [*self.requests[-999:], (path, headers, body)]
            if self.file:
                line = {"path": path, "headers": headers, "body": body if isinstance(body, dict) else repr(body)}
                print(json.dumps(line), file=self.file, flush=True)


def serve(model):
    """Serves in a thread of its own; returns the URL without /v1."""
    threading.Thread(target=model.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{model.server_port}"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--speaks", default="chat", help="chat, messages, responses, with commas")
    options.add_argument("--model", default="scripted", help="the name in /v1/models; any name is served")
    options.add_argument("--record", help="a file that takes every request")
    given = options.parse_args()
    file = open(given.record, "a", encoding="utf-8") if given.record else None
    Model(given.port, given.speaks.split(","), given.model, file).serve_forever()


if __name__ == "__main__":
    main()
