"""Drives felix-client, the upstream client of the native protocol, by lines: agent.py sync|async.

One JSON request a line on standard input, one JSON answer a line on standard output, in order. A request has an operation (op), the
name of the client or subscription that it is about, and what the operation takes; payloads are base64. An answer has the result, or the
error with its class and the attributes that the library gives it. Nothing else is written on standard output.
"""

import asyncio
import base64
import json
import sys
import time

import felix


def decode(text):
    return None if text is None else base64.b64decode(text)


def encode(data):
    return None if data is None else base64.b64encode(bytes(data)).decode()


def event(e):
    return {"offset": e.offset, "payload": encode(e.payload), "skipped": e.skipped_before}


def scope(req):
    return req.get("tenant") or "default", req.get("namespace") or "default", req["stream"]


class Direct:
    """The blocking surface."""

    def connect(self, addrs, **options):
        return felix.Client(addrs, **options)

    def call(self, function, *args, **options):
        return function(*args, **options)

    def gather(self, calls):
        return [function(*args, **options) for function, args, options in calls]

    def drain(self, subscription, out):
        for e in subscription:
            out.append(event(e))


class Asyncio:
    """The asyncio surface, on one loop."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()

    def connect(self, addrs, **options):
        return self.call(felix.AsyncClient.connect, addrs, **options)

    def call(self, function, *args, **options):
        async def run():
            return await function(*args, **options)

        return self.loop.run_until_complete(run())

    def gather(self, calls):
        async def run():
            return await asyncio.gather(*(function(*args, **options) for function, args, options in calls))

        return self.loop.run_until_complete(run())

    def drain(self, subscription, out):
        async def run():
            async for e in subscription:
                out.append(event(e))

        self.loop.run_until_complete(run())


class Agent:
    def __init__(self, surface):
        self.surface = surface
        self.clients = {}
        self.subscriptions = {}

    def op_version(self, req):
        return {"version": getattr(felix, "__version__", "?")}

    def op_connect(self, req):
        options = {k: req[k] for k in ("token", "ca_file", "server_name", "offer_alpn") if req.get(k)}
        self.clients[req["client"]] = self.surface.connect(req["addrs"], tenant_id=req.get("tenant") or "default", **options)
        return {}

    def op_disconnect(self, req):
        del self.clients[req["client"]]
        return {}

    def op_endpoints(self, req):
        return {"endpoints": self.surface.call(self.clients[req["client"]].endpoints)}

    def publish(self, req, payload):
        options = {k: req[k] for k in ("ack", "at_least_once") if req.get(k) is not None}
        if req.get("key") is not None:
            options["key"] = decode(req["key"])
        return self.clients[req["client"]].publish, (*scope(req), payload), options

    def op_publish(self, req):
        offsets = []
        for text in req["payloads"]:
            function, args, options = self.publish(req, decode(text))
            offsets.append(self.surface.call(function, *args, **options))
        return {"offsets": offsets}

    def op_publish_together(self, req):
        return {"offsets": self.surface.gather([self.publish(req, decode(text)) for text in req["payloads"]])}

    def op_subscribe(self, req):
        options = {"start": req["start"]} if req.get("start") is not None else {}
        client = self.clients[req["client"]]
        self.subscriptions[req["subscription"]] = self.surface.call(client.subscribe, *scope(req), **options)
        return {}

    def op_subscribe_many(self, req):
        client = self.clients[req["client"]]
        options = {"start": req["start"]} if req.get("start") is not None else {}
        calls = [(client.subscribe, scope(req), options) for _ in range(req["count"])]
        for i, subscription in enumerate(self.surface.gather(calls)):
            self.subscriptions[req["subscription"] + str(i)] = subscription
        return {}

    def op_next(self, req):
        """Takes count events, or fewer if the time is over or the subscription ends."""
        subscription = self.subscriptions[req["subscription"]]
        events, until = [], time.monotonic() + req["timeout"]
        while len(events) < req["count"]:
            e = self.surface.call(subscription.next_event, timeout=max(0.001, until - time.monotonic()))
            if e is None:
                break
            events.append(event(e))
        return {"events": events}

    def op_next_of_each(self, req):
        """Takes one event of each of count subscriptions."""
        handles = [self.subscriptions[req["subscription"] + str(i)] for i in range(req["count"])]
        got = self.surface.gather([(h.next_event, (), {"timeout": req["timeout"]}) for h in handles])
        return {"events": [None if e is None else event(e) for e in got]}

    def op_drain(self, req):
        """Iterates until the subscription ends."""
        events = []
        self.surface.drain(self.subscriptions[req["subscription"]], events)
        return {"events": events}

    def op_close(self, req):
        subscription = self.subscriptions.pop(req["subscription"])
        self.surface.call(subscription.close)
        return {}

    def op_stream_shards(self, req):
        return {"shards": self.surface.call(self.clients[req["client"]].stream_shards, *scope(req))}

    def op_subscribe_sharded(self, req):
        options = {"start": req["start"]} if req.get("start") is not None else {}
        if req.get("resume"):
            options["resume"] = {int(shard): offset for shard, offset in req["resume"].items()}
        client = self.clients[req["client"]]
        handle = self.surface.call(client.subscribe_sharded, *scope(req), **options)
        self.subscriptions[req["subscription"]] = handle
        return {"shards": handle.shards}

    def op_next_sharded(self, req):
        handle = self.subscriptions[req["subscription"]]
        events, notices, until = [], [], time.monotonic() + req["timeout"]
        while len(events) < req["count"]:
            e = self.surface.call(handle.next_event, timeout=max(0.001, until - time.monotonic()))
            if e is None:
                break
            if isinstance(e, felix.ShardRecord):
                events.append({**event(e.event), "shard": e.shard})
            else:
                notices.append(type(e).__name__)
        positions = self.surface.call(handle.positions)
        return {"events": events, "notices": notices, "positions": {str(s): p for s, p in positions.items()}}

    def op_commit(self, req):
        stream = req["stream"]
        ops = [felix.CommitOp.publish(stream, decode(req["event"]))]
        ops += [felix.CommitOp.put(stream, k, decode(v)) for k, v in (req.get("puts") or {}).items()]
        ops += [felix.CommitOp.delete(stream, k) for k in req.get("deletes") or []]
        tenant, namespace, _ = scope(req)
        receipt = self.surface.call(self.clients[req["client"]].commit, tenant, namespace, decode(req["key"]), ops)
        return {"offsets": [receipt.offset]}

    def op_state_get(self, req):
        v = self.surface.call(self.clients[req["client"]].state_get, *scope(req), decode(req["key"]), req["name"])
        return {"value": encode(v.value), "version_offset": v.version, "as_of": v.as_of}

    def op_unserved(self, req):
        """Calls something that the server may not serve."""
        client, (tenant, namespace, name) = self.clients[req["client"]], scope(req)
        calls = {
            "cache_put": (client.cache_put, (tenant, namespace, name, "k", b"v"), {"ttl": req.get("ttl")}),
            "cache_get": (client.cache_get, (tenant, namespace, name, "k"), {}),
            "cache_delete": (client.cache_delete, (tenant, namespace, name, "k"), {}),
            "counter_add": (client.counter_add, (tenant, namespace, name, "k", 1), {}),
            "group_poll": (client.group_poll, (tenant, namespace, name, 0, "g"), {"wait": 0.1}),
            "watch_cache": (client.watch_cache, (tenant, namespace, name, felix.CacheWatchFilter.key("k")), {}),
        }
        function, args, options = calls[req["name"]]
        self.surface.call(function, *args, **options)
        return {}

    def op_nack(self, req):
        """Polls a queue group for one record and gives it back."""
        client, where = self.clients[req["client"]], (*scope(req), 0, "group")
        records = self.surface.call(client.group_poll, *where, max_records=1, wait=0.1, consumer="member", reclaim=True)
        self.surface.call(client.group_nack, *where, records[0])
        return {}

    def answer(self, req):
        begin = time.monotonic()
        try:
            out = getattr(self, "op_" + req["op"])(req)
        except Exception as e:  # whatever the library raises is an answer
            bases = [c.__name__ for c in type(e).__mro__]
            out = {
                "error": {
                    "type": type(e).__name__, "felix": "FelixError" in bases, "message": str(e), "code": getattr(e, "code", None),
                    "retry": getattr(e, "retry", None), "detail": getattr(e, "detail", None),
                }
            }
        out["took_ms"] = int((time.monotonic() - begin) * 1000)
        return out


def main():
    agent = Agent(Asyncio() if sys.argv[1] == "async" else Direct())
    for line in sys.stdin:
        print(json.dumps(agent.answer(json.loads(line))), flush=True)


main()
