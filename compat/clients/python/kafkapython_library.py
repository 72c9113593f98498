"""kafka-python."""

import time

import kafka
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import CommitFailedError, KafkaError, RebalanceInProgressError
from kafka.structs import OffsetAndMetadata

from agent import Owner, Unsupported, decode, headers, record, timeout

# Settings of a request, in the names that the cases use.
SETTINGS = {
    "acks": ("acks", lambda v: v if v == "all" else int(v)),
    "enable.idempotence": ("enable_idempotence", lambda v: v == "true"),
    "fetch.wait.max.ms": ("fetch_max_wait_ms", int),
}
ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


def config(req, **defaults):
    c = dict(defaults, bootstrap_servers=req["bootstrap"])
    for name, value in (req.get("config") or {}).items():
        mine, parse = SETTINGS[name]
        c[mine] = parse(value)
    if c.get("acks") == 0 or c.get("acks") == 1:
        c["enable_idempotence"] = False
    return c


def node(m):
    return record(m.partition, m.offset, m.timestamp, m.key, m.value, m.headers)


class Listener(ConsumerRebalanceListener):
    def __init__(self, owner):
        self.owner = owner

    def on_partitions_revoked(self, revoked):
        self.owner.revoked([tp.partition for tp in revoked])

    def on_partitions_assigned(self, assigned):
        self.owner.assigned([tp.partition for tp in assigned])

    def on_partitions_lost(self, lost):
        self.on_partitions_revoked(lost)


class Library:
    def version(self):
        return "kafka-python " + kafka.__version__

    def code(self, e):
        code = getattr(e, "errno", 0)
        return code if isinstance(e, KafkaError) and isinstance(code, int) else 0

    def client(self, req):
        return KafkaAdminClient(bootstrap_servers=req["bootstrap"])

    def metadata(self, req):
        client = self.client(req)
        try:
            cluster = client.describe_cluster()
            topics = client.describe_topics([req["topic"]] if req.get("topic") else None)
            return {"metadata": {
                "brokers": [{"id": b["broker_id"], "host": b["host"], "port": b["port"]} for b in cluster["brokers"]],
                "topics": [{
                    "name": t["name"], "error": str(t["error_code"]) if t["error_code"] else "",
                    "partitions": [{"id": p["partition_index"], "leader": p["leader_id"], "replicas": p["replica_nodes"], "isr": p["isr_nodes"]}
                                   for p in t["partitions"]],
                } for t in topics]}}
        finally:
            client.close()

    def create(self, req):
        client = self.client(req)
        try:
            client.create_topics({req["topic"]: {"num_partitions": req["partitions"], "replication_factor": 1, "configs": req.get("config") or {}}})
        finally:
            client.close()

    def produce(self, req):
        codec = req.get("codec") or "none"
        producer = KafkaProducer(**config(req, linger_ms=100, compression_type=None if codec == "none" else codec))
        try:
            sent = [producer.send(req["topic"], value=decode(r["value"]), key=decode(r["key"]), headers=headers(r), partition=r["partition"],
                                  timestamp_ms=r["timestamp"] or None) for r in req["records"]]
            producer.flush(timeout(req))
            return {"offsets": [f.get(timeout(req)).offset for f in sent]}
        finally:
            producer.close()

    def consumer(self, req):
        return KafkaConsumer(**config(req, group_id=None, auto_offset_reset="none", enable_auto_commit=False))

    def consume(self, req):
        c = self.consumer(req)
        try:
            tps = [TopicPartition(req["topic"], p) for p in req["assign"]]
            c.assign(tps)
            first, ends = c.beginning_offsets(tps), c.end_offsets(tps)
            for tp in tps:
                c.seek(tp, first[tp] if req.get("from", 0) == -2 else req.get("from", 0))
            records, deadline = [], time.monotonic() + timeout(req)
            while any(c.position(tp) < ends[tp] for tp in tps):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{len(records)} records, at {[c.position(tp) for tp in tps]}, ends {ends}")
                for got in c.poll(100).values():
                    records.extend(node(m) for m in got)
            return {"records": records}
        finally:
            c.close()

    def offsets(self, req):
        c = self.consumer(req)
        try:
            tp, out = TopicPartition(req["topic"], req.get("partition", 0)), []
            for at in req["times"]:
                found = c.offsets_for_times({tp: at})[tp]
                out.append(-1 if found is None else found.offset)
            return {"offsets": out}
        finally:
            c.close()

    def watermarks(self, req):
        c = self.consumer(req)
        try:
            tp = TopicPartition(req["topic"], req.get("partition", 0))
            return {"offsets": [c.beginning_offsets([tp])[tp], c.end_offsets([tp])[tp]]}
        finally:
            c.close()

    def tail(self, req, stop, emit):
        c = self.consumer(req)
        try:
            tps = [TopicPartition(req["topic"], p) for p in req["assign"]]
            c.assign(tps)
            for tp, end in c.end_offsets(tps).items():
                c.seek(tp, end)
            emit({"ready": True})
            while not stop.is_set():
                for got in c.poll(100).values():
                    for m in got:
                        emit({"record": node(m)})
        finally:
            c.close()

    def member(self, req, stop, emit):
        g = req["group"]
        c = {"group_id": g["id"], "auto_offset_reset": "earliest", "enable_auto_commit": not g.get("commit"), "reconnect_backoff_max_ms": 500}
        if g.get("assignor"):
            c["partition_assignment_strategy"] = (ASSIGNORS[g["assignor"]],)
        if g.get("instance"):
            c["group_instance_id"] = g["instance"]
        if g.get("session_ms"):
            c["session_timeout_ms"], c["heartbeat_interval_ms"] = g["session_ms"], g["session_ms"] // 10
        consumer, owner = KafkaConsumer(**config(req, **c)), Owner(emit)
        consumer.subscribe([req["topic"]], listener=Listener(owner))
        # The topic must be known before the first join: a leader that learns of it later joins anew, and if that poll ends before the
        # answer comes, the library never looks at it (need_rejoin compares the metadata of the assignment, which the join has renewed).
        # The member then stays without partitions and without heartbeats.
        consumer.partitions_for_topic(req["topic"])
        try:
            while not stop.is_set():
                got = consumer.poll(100)
                for records in got.values():
                    for m in records:
                        owner.record(node(m))
                if got and g.get("commit"):
                    try:
                        consumer.commit()
                    except (CommitFailedError, RebalanceInProgressError):
                        pass  # a commit that a rebalance overtook is the next owner's to make again
        finally:
            owner.end()
            consumer.close()

    def admin(self, req):
        client = self.client(req)
        try:
            return self.do(client, req, req["op"], req["group"]["id"])
        finally:
            client.close()

    def do(self, client, req, op, group):
        if op == "delete":
            client.delete_topics([req["topic"]])
        elif op == "alter":
            client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, req["topic"], dict(req["config"]))])
        elif op == "configs":
            answer = client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, req["topic"], None)], config_filter="all")
            entries = answer["topic"][req["topic"]]
            return {"values": {n: str(e["value"] if isinstance(e, dict) else e) for n, e in entries.items()}}
        elif op == "groups":
            return {"groups": [{"id": g["group_id"], "state": g.get("group_state") or ""} for g in client.list_groups()]}
        elif op == "describe":
            g = client.describe_groups([group])[group]
            return {"groups": [{"id": group, "state": g["group_state"], "members": [m["client_id"] for m in g["members"]]}]}
        elif op == "delete-group":
            result = client.delete_groups([group])[group]
            if result != "OK":
                raise getattr(kafka.errors, result)()
        elif op == "reset":
            offsets = {TopicPartition(req["topic"], p): OffsetAndMetadata(req.get("from", 0), "", -1) for p in req["assign"]}
            for error in client.alter_group_offsets(group, offsets).values():
                if error is not kafka.errors.NoError:
                    raise error()
        elif op == "committed":
            tps = [TopicPartition(req["topic"], p) for p in req["assign"]]
            found = client.list_group_offsets({group: tps})[group]
            return {"offsets": [found[tp].offset if tp in found else -1 for tp in tps]}
        else:
            raise Unsupported
