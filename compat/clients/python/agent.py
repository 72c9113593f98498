"""Drives one Kafka client library of Python by the line protocol of package agent: agent.py confluent|kafkapython|aiokafka.

One JSON request a line on standard input, one JSON answer a line on standard output, in order; a tail or member also writes events
until it is stopped. Each library's module has a class Library with a method for each operation.
"""

import base64
import importlib
import json
import os
import sys
import threading
import time


class Unsupported(Exception):
    """The library has no such call."""


def decode(text):
    return None if text is None else base64.b64decode(text)


def encode(data):
    return None if data is None else base64.b64encode(bytes(data)).decode()


def headers(record):
    return [(h["key"], decode(h.get("value"))) for h in record.get("headers") or []]


def record(partition, offset, timestamp, key, value, pairs):
    out = {"partition": partition, "offset": offset, "timestamp": timestamp, "key": encode(key), "value": encode(value)}
    if pairs:
        out["headers"] = [{"key": k, "value": encode(v)} for k, v in pairs]
    return out


def timeout(req):
    return (req.get("timeout_ms") or 60_000) / 1000


class Owner:
    """Keeps what a group member owns and emits changes of it and records, with their time."""

    def __init__(self, emit):
        self.emit = emit
        self.owned = set()
        self.ended = False

    def assigned(self, partitions):
        if self.ended:
            return
        self.owned |= set(partitions)
        self.emit({"at": time.time_ns() // 1000, "owned": {"assigned": sorted(partitions)}})

    def revoked(self, partitions):
        if self.ended:
            return
        self.owned -= set(partitions)
        self.emit({"at": time.time_ns() // 1000, "owned": {"revoked": sorted(partitions)}})

    def end(self):
        """The member is about to leave: what it owned is given up, and what the library says of a rebalance meanwhile counts no more."""
        if self.owned:
            self.revoked(list(self.owned))
        self.ended = True

    def record(self, r):
        self.emit({"at": time.time_ns() // 1000, "record": r})


ADMIN = {"delete", "alter", "configs", "groups", "describe", "delete-group", "reset", "committed"}


class Server:
    def __init__(self, library, out):
        self.library, self.out = library, out
        self.lock = threading.Lock()
        self.thread, self.stop = None, None

    def write(self, message):
        with self.lock:
            self.out.write(json.dumps(message) + "\n")
            self.out.flush()

    def answer(self, req, stop=None):
        res = {}
        try:
            op = req["op"]
            if op == "version":
                res["version"] = self.library.version()
            elif op in ("tail", "member"):
                getattr(self.library, op)(req, stop, self.write)
            elif op in ADMIN:
                req.setdefault("group", {"id": ""})
                res = self.library.admin(req) or {}
            elif op in ("metadata", "create", "produce", "consume", "offsets", "watermarks"):
                res = getattr(self.library, op)(req) or {}
            else:
                raise Unsupported("unknown operation " + op)
        except Unsupported as e:
            res = {"error": str(e) or "the library has no such call", "unsupported": True}
        except Exception as e:  # whatever a library throws is the answer
            res = {"error": f"{type(e).__name__}: {e}", "code": self.library.code(e)}
        res["done"] = True
        self.write(res)

    def serve(self, lines):
        for line in lines:
            req = json.loads(line)
            if req["op"] in ("tail", "member"):
                self.stop = threading.Event()
                self.thread = threading.Thread(target=self.answer, args=(req, self.stop))
                self.thread.start()
            elif req["op"] == "stop":
                self.end()
            else:
                self.answer(req)
        self.end()

    def end(self):
        if self.thread:
            self.stop.set()
            self.thread.join()
            self.thread = None


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not get between the answers
    library = importlib.import_module(sys.argv[1] + "_library").Library()
    Server(library, out).serve(sys.stdin)


if __name__ == "__main__":
    # The libraries import this module by its name; let them have this one.
    sys.modules["agent"] = sys.modules["__main__"]
    main()
