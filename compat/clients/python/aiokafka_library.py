"""aiokafka. Each operation runs an event loop of its own."""

import asyncio

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import CommitFailedError, KafkaError, for_code

from agent import Owner, Unsupported, decode, headers, record, timeout

SETTINGS = {
    "acks": ("acks", lambda v: v if v == "all" else int(v)),
    "enable.idempotence": ("enable_idempotence", lambda v: v == "true"),
    "fetch.wait.max.ms": ("fetch_max_wait_ms", int),
}


def config(req, **defaults):
    c = dict(defaults, bootstrap_servers=req["bootstrap"])
    for name, value in (req.get("config") or {}).items():
        mine, parse = SETTINGS[name]
        c[mine] = parse(value)
    return c


def node(m):
    return record(m.partition, m.offset, m.timestamp, m.key, m.value, m.headers)


def check(code):
    if code:
        raise for_code(code)()


class Listener(ConsumerRebalanceListener):
    def __init__(self, owner):
        self.owner = owner

    async def on_partitions_revoked(self, revoked):
        # It is called before the first assignment too, with nothing.
        if revoked:
            self.owner.revoked([tp.partition for tp in revoked])

    async def on_partitions_assigned(self, assigned):
        self.owner.assigned([tp.partition for tp in assigned])


class Library:
    def version(self):
        return "aiokafka " + aiokafka.__version__

    def code(self, e):
        code = getattr(e, "errno", 0)
        return code if isinstance(e, KafkaError) and isinstance(code, int) else 0

    def run(self, work, req):
        return asyncio.run(asyncio.wait_for(work, timeout(req)))

    async def with_admin(self, req, work):
        client = AIOKafkaAdminClient(bootstrap_servers=req["bootstrap"])
        await client.start()
        try:
            return await work(client)
        finally:
            await client.close()

    async def with_consumer(self, req, work):
        c = AIOKafkaConsumer(**config(req, auto_offset_reset="none", enable_auto_commit=False))
        await c.start()
        try:
            return await work(c)
        finally:
            await c.stop()

    def metadata(self, req):
        async def work(client):
            cluster = await client.describe_cluster()
            topics = await client.describe_topics([req["topic"]] if req.get("topic") else None)
            return {"metadata": {
                "brokers": [{"id": b["node_id"], "host": b["host"], "port": b["port"]} for b in cluster["brokers"]],
                "topics": [{
                    "name": t["topic"], "error": str(t["error_code"]) if t["error_code"] else "",
                    "partitions": [{"id": p["partition"], "leader": p["leader"], "replicas": p["replicas"], "isr": p["isr"]} for p in t["partitions"]],
                } for t in topics]}}
        return self.run(self.with_admin(req, work), req)

    def create(self, req):
        async def work(client):
            answer = await client.create_topics([NewTopic(req["topic"], req["partitions"], 1, topic_configs=req.get("config") or {})])
            for topic in answer.topic_errors:
                check(topic[1])
        self.run(self.with_admin(req, work), req)

    def produce(self, req):
        async def work():
            codec = req.get("codec") or "none"
            producer = AIOKafkaProducer(**config(req, linger_ms=100, compression_type=None if codec == "none" else codec))
            await producer.start()
            try:
                sent = [await producer.send(req["topic"], value=decode(r["value"]), key=decode(r["key"]), headers=headers(r),
                                            partition=r["partition"], timestamp_ms=r["timestamp"] or None) for r in req["records"]]
                # Without acknowledgements there is no metadata to return.
                return {"offsets": [getattr(await f, "offset", -1) for f in sent]}
            finally:
                await producer.stop()
        return self.run(work(), req)

    def consume(self, req):
        async def work(c):
            tps = [TopicPartition(req["topic"], p) for p in req["assign"]]
            c.assign(tps)
            first, ends = await c.beginning_offsets(tps), await c.end_offsets(tps)
            for tp in tps:
                c.seek(tp, first[tp] if req.get("from", 0) == -2 else req.get("from", 0))
            records = []
            while [tp for tp in tps if await c.position(tp) < ends[tp]]:
                for got in (await c.getmany(timeout_ms=100)).values():
                    records.extend(node(m) for m in got)
            return {"records": records}
        return self.run(self.with_consumer(req, work), req)

    def offsets(self, req):
        async def work(c):
            tp, out = TopicPartition(req["topic"], req.get("partition", 0)), []
            for at in req["times"]:
                found = (await c.offsets_for_times({tp: at}))[tp]
                out.append(-1 if found is None else found.offset)
            return {"offsets": out}
        return self.run(self.with_consumer(req, work), req)

    def watermarks(self, req):
        async def work(c):
            tp = TopicPartition(req["topic"], req.get("partition", 0))
            return {"offsets": [(await c.beginning_offsets([tp]))[tp], (await c.end_offsets([tp]))[tp]]}
        return self.run(self.with_consumer(req, work), req)

    def tail(self, req, stop, emit):
        async def work(c):
            tps = [TopicPartition(req["topic"], p) for p in req["assign"]]
            c.assign(tps)
            for tp, end in (await c.end_offsets(tps)).items():
                c.seek(tp, end)
            emit({"ready": True})
            while not stop.is_set():
                for got in (await c.getmany(timeout_ms=100)).values():
                    for m in got:
                        emit({"record": node(m)})
        asyncio.run(self.with_consumer(req, work))

    def member(self, req, stop, emit):
        g = req["group"]
        c = {"group_id": g["id"], "auto_offset_reset": "earliest", "enable_auto_commit": not g.get("commit")}
        if g.get("assignor") == "range":
            c["partition_assignment_strategy"] = (RangePartitionAssignor,)
        elif g.get("assignor"):
            raise Unsupported("assignor " + g["assignor"])
        if g.get("instance"):
            c["group_instance_id"] = g["instance"]
        if g.get("session_ms"):
            c["session_timeout_ms"], c["heartbeat_interval_ms"] = g["session_ms"], g["session_ms"] // 10

        async def work():
            consumer, owner = AIOKafkaConsumer(**config(req, **c)), Owner(emit)
            consumer.subscribe([req["topic"]], listener=Listener(owner))
            await consumer.start()
            try:
                while not stop.is_set():
                    got = await consumer.getmany(timeout_ms=100)
                    for records in got.values():
                        for m in records:
                            owner.record(node(m))
                    if got and g.get("commit"):
                        try:
                            await consumer.commit()
                        except CommitFailedError:
                            pass  # a commit that a rebalance overtook is the next owner's to make again
            finally:
                owner.end()
                await consumer.stop()
        asyncio.run(work())

    def admin(self, req):
        if req["op"] == "delete-group":
            raise Unsupported
        if req["op"] == "reset":
            return self.run(self.reset(req), req)
        return self.run(self.with_admin(req, lambda client: self.do(client, req, req["op"], req["group"]["id"])), req)

    async def reset(self, req):
        """The admin client cannot; a consumer that is no member commits."""
        tps = [TopicPartition(req["topic"], p) for p in req["assign"]]
        c = AIOKafkaConsumer(bootstrap_servers=req["bootstrap"], group_id=req["group"]["id"], enable_auto_commit=False)
        await c.start()
        try:
            c.assign(tps)
            await c.commit({tp: req.get("from", 0) for tp in tps})
        finally:
            await c.stop()

    async def do(self, client, req, op, group):
        if op == "delete":
            answer = await client.delete_topics([req["topic"]])
            for topic in answer.topic_error_codes:
                check(topic[1])
        elif op == "alter":
            for answer in await client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, req["topic"], dict(req["config"]))]):
                for resource in answer.resources:
                    check(resource[0])
        elif op == "configs":
            values = {}
            for answer in await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, req["topic"])]):
                for resource in answer.resources:
                    check(resource[0])
                    values.update({entry[0]: entry[1] or "" for entry in resource[4]})
            return {"values": values}
        elif op == "groups":
            return {"groups": [{"id": g[0]} for g in await client.list_consumer_groups()]}
        elif op == "describe":
            groups = []
            for answer in await client.describe_consumer_groups([group]):
                for g in answer.groups:
                    check(g[0])
                    groups.append({"id": g[1], "state": g[2], "members": [m[1] for m in g[5]]})
            return {"groups": groups}
        elif op == "committed":
            tps = [TopicPartition(req["topic"], p) for p in req["assign"]]
            found = await client.list_consumer_group_offsets(group, partitions=tps)
            return {"offsets": [found[tp].offset if tp in found else -1 for tp in tps]}
        else:
            raise Unsupported
