"""confluent-kafka: librdkafka for Python."""

import time

import confluent_kafka as ck
from confluent_kafka import admin as ca

from agent import Owner, Unsupported, decode, headers, record, timeout


def config(req, **defaults):
    c = {name.replace("_", "."): value for name, value in defaults.items()}
    c["bootstrap.servers"] = req["bootstrap"]
    c.update(req.get("config") or {})
    return c


def raise_error(error):
    raise ck.KafkaException(error)


def node(m):
    return record(m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers())


class Library:
    def version(self):
        return f"confluent-kafka {ck.__version__} (librdkafka {ck.libversion()[0]})"

    def code(self, e):
        if isinstance(e, ck.KafkaException) and isinstance(e.args[0], ck.KafkaError):
            return e.args[0].code()
        return 0

    def client(self, req):
        return ca.AdminClient({"bootstrap.servers": req["bootstrap"]})

    def metadata(self, req):
        args = {"topic": req["topic"]} if req.get("topic") else {}
        client = self.client(req)
        m = client.list_topics(timeout=20, **args)
        return {"metadata": {
            "brokers": [{"id": b.id, "host": b.host, "port": b.port} for b in m.brokers.values()],
            "topics": [{
                "name": t.topic, "error": str(t.error) if t.error else "",
                "partitions": [{"id": p.id, "leader": p.leader, "replicas": p.replicas, "isr": p.isrs} for p in t.partitions.values()],
            } for t in m.topics.values()]}}

    def create(self, req):
        topic = ca.NewTopic(req["topic"], num_partitions=req["partitions"], replication_factor=1, config=req.get("config") or {})
        client = self.client(req)  # held until the answer is here: the call does not
        client.create_topics([topic])[req["topic"]].result(timeout(req))

    def produce(self, req):
        c = config(req, acks="all", linger_ms=100)
        if req.get("codec"):
            c["compression.codec"] = req["codec"]
        producer = ck.Producer(c)
        offsets, failed = [0] * len(req["records"]), []

        def report(i):
            def done(error, m):
                if error:
                    failed.append(error)
                else:
                    offsets[i] = m.offset()
            return done

        for i, r in enumerate(req["records"]):
            producer.produce(req["topic"], value=decode(r["value"]), key=decode(r["key"]), partition=r["partition"],
                             timestamp=r["timestamp"], headers=headers(r), on_delivery=report(i))
        left = producer.flush(timeout(req))
        if failed:
            raise_error(failed[0])
        if left:
            raise TimeoutError(f"{left} records without an answer")
        return {"offsets": offsets}

    def consumer(self, req):
        # A group id is wanted even for partitions assigned by hand; nothing is committed under it.
        return ck.Consumer(config(req, group_id="felix-compat-unused", enable_auto_commit=False, enable_partition_eof=True,
                                  auto_offset_reset="error", check_crcs=True, fetch_wait_max_ms=20))

    def consume(self, req):
        c = self.consumer(req)
        try:
            start = ck.OFFSET_BEGINNING if req.get("from", 0) == -2 else req.get("from", 0)
            c.assign([ck.TopicPartition(req["topic"], p, start) for p in req["assign"]])
            records, ended, deadline = [], set(), time.monotonic() + timeout(req)
            while len(ended) < len(req["assign"]):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{len(ended)} partitions ended, {len(records)} records")
                m = c.poll(0.1)
                if m is None:
                    continue
                if not m.error():
                    records.append(node(m))
                elif m.error().code() == ck.KafkaError._PARTITION_EOF:
                    ended.add(m.partition())
                elif m.error().code() not in (ck.KafkaError._TRANSPORT, ck.KafkaError._ALL_BROKERS_DOWN, ck.KafkaError.COORDINATOR_NOT_AVAILABLE):
                    raise_error(m.error())
            return {"records": records}
        finally:
            c.close()

    def offsets(self, req):
        c = self.consumer(req)
        try:
            out = []
            for at in req["times"]:
                answer = c.offsets_for_times([ck.TopicPartition(req["topic"], req.get("partition", 0), at)], timeout=20)[0]
                if answer.error:
                    raise_error(answer.error)
                out.append(answer.offset)
            return {"offsets": out}
        finally:
            c.close()

    def watermarks(self, req):
        c = self.consumer(req)
        try:
            return {"offsets": list(c.get_watermark_offsets(ck.TopicPartition(req["topic"], req.get("partition", 0)), timeout=20))}
        finally:
            c.close()

    def tail(self, req, stop, emit):
        c = self.consumer(req)
        try:
            c.assign([ck.TopicPartition(req["topic"], p, ck.OFFSET_END) for p in req["assign"]])
            ended = set()
            while not stop.is_set():
                m = c.poll(0.1)
                if m is None:
                    continue
                if not m.error():
                    emit({"record": node(m)})
                elif m.error().code() == ck.KafkaError._PARTITION_EOF and len(ended) < len(req["assign"]):
                    ended.add(m.partition())
                    if len(ended) == len(req["assign"]):
                        emit({"ready": True})
                elif m.error().fatal():
                    raise_error(m.error())
        finally:
            c.close()

    def member(self, req, stop, emit):
        g = req["group"]
        defaults = {"group_id": g["id"], "auto_offset_reset": "earliest", "enable_auto_commit": not g.get("commit"),
                    "check_crcs": True, "reconnect_backoff_max_ms": 500}
        if g.get("assignor"):
            defaults["partition_assignment_strategy"] = g["assignor"]
        if g.get("instance"):
            defaults["group_instance_id"] = g["instance"]
        if g.get("session_ms"):
            defaults["session_timeout_ms"] = g["session_ms"]
            defaults["heartbeat_interval_ms"] = g["session_ms"] // 10
        c = ck.Consumer(config(req, **defaults))
        owner = Owner(emit)
        revoked = lambda _, ps: owner.revoked([p.partition for p in ps])
        c.subscribe([req["topic"]], on_assign=lambda _, ps: owner.assigned([p.partition for p in ps]), on_revoke=revoked, on_lost=revoked)
        try:
            while not stop.is_set():
                m = c.poll(0.1)
                if m is None:
                    continue
                if m.error():
                    if m.error().fatal():
                        raise_error(m.error())
                    continue
                owner.record(node(m))
                if g.get("commit"):
                    try:
                        c.commit(m, asynchronous=False)
                    except ck.KafkaException as e:
                        # A commit that a rebalance overtook is the next owner's to make again.
                        if e.args[0].code() not in (ck.KafkaError.ILLEGAL_GENERATION, ck.KafkaError.UNKNOWN_MEMBER_ID,
                                                    ck.KafkaError.REBALANCE_IN_PROGRESS, ck.KafkaError._STATE):
                            raise
        finally:
            owner.end()
            c.close()

    def admin(self, req):
        client, op, group = self.client(req), req["op"], req["group"]["id"]
        if op == "delete":
            client.delete_topics([req["topic"]])[req["topic"]].result(20)
        elif op == "alter":
            entries = [ca.ConfigEntry(n, v, incremental_operation=ca.AlterConfigOpType.SET) for n, v in req["config"].items()]
            resource = ca.ConfigResource(ca.ResourceType.TOPIC, req["topic"], incremental_configs=entries)
            list(client.incremental_alter_configs([resource]).values())[0].result(20)
        elif op == "configs":
            resource = ca.ConfigResource(ca.ResourceType.TOPIC, req["topic"])
            entries = client.describe_configs([resource])[resource].result(20)
            return {"values": {n: e.value or "" for n, e in entries.items()}}
        elif op == "groups":
            listed = client.list_consumer_groups().result(20)
            if listed.errors:
                raise listed.errors[0]
            return {"groups": [{"id": g.group_id, "state": g.state.name} for g in listed.valid]}
        elif op == "describe":
            g = client.describe_consumer_groups([group])[group].result(20)
            return {"groups": [{"id": g.group_id, "state": g.state.name, "members": [m.client_id for m in g.members]}]}
        elif op == "delete-group":
            client.delete_consumer_groups([group])[group].result(20)
        elif op == "reset":
            tps = [ck.TopicPartition(req["topic"], p, req.get("from", 0)) for p in req["assign"]]
            answer = client.alter_consumer_group_offsets([ck.ConsumerGroupTopicPartitions(group, tps)])[group].result(20)
            for tp in answer.topic_partitions:
                if tp.error:
                    raise_error(tp.error)
        elif op == "committed":
            tps = [ck.TopicPartition(req["topic"], p) for p in req["assign"]]
            answer = client.list_consumer_group_offsets([ck.ConsumerGroupTopicPartitions(group, tps)])[group].result(20)
            byp = {tp.partition: tp.offset for tp in answer.topic_partitions}
            return {"offsets": [max(-1, byp[p]) for p in req["assign"]]}
        else:
            raise Unsupported
