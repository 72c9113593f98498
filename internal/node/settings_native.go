package node

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// NativeConfig is the native listener's part of Config, and what publishing and subscribing take of it.
type NativeConfig struct {
	Advertise                 string // "" is the bound listen address, if clients can reach that
	MaxConnections            int    // 0 is unlimited
	MaxConnectionsPerIP       int    // 0 is unlimited
	AuthTimeout               time.Duration
	PreAuthFrame              int64
	PreAuthStreams            int
	MaxFrame                  int64
	IdleTimeout, KeepAlive    time.Duration
	UDPSendBuffer, UDPReceive int64
	StreamWindow, ConnWindow  int64

	AckOnCommit, IngressWait       bool
	QueueDepth, Workers            int
	CommitConcurrency              int
	QueueWait, AckWait             time.Duration
	InflightBytes                  int64
	ConnInflightBytes, ConnInTotal int64
	Window                         int // 0 is off

	SubQueueCapacity, SubQueueLargest int
	SubQueueBytes                     int64
	SubQueuePolicy                    string
	Subscriptions, SubscriptionsIn    int
	WriteBytes                        int64
	EventsPerFrame                    int
	BytesPerFrame                     int64
	RecordsPerRead                    int
}

func nativeSettings() []setting {
	return append(nativeLimits(), append(publishSettings(), subscribeSettings()...)...)
}

func nativeLimits() []setting {
	return []setting{
		{
			Key: "client_advertise_addr", Env: "FELIX_CLIENT_ADVERTISE_ADDR", Kind: "addr", Default: "",
			Doc:  "Address that native clients are told, as IP:port: they ignore names. Empty is the bound address, unless that is a wildcard. One that is not on loopback ends the single-node profile.",
			bind: func(c *Config) binding { return addrOf(&c.Native.Advertise) },
		},
		{
			Key: "max_client_connections", Env: "FELIX_MAX_CLIENT_CONNECTIONS", Kind: "n", Default: "8192",
			Doc:  "Most connections of native clients; one more is refused before its handshake. 0 is unlimited.",
			bind: func(c *Config) binding { return intOf(&c.Native.MaxConnections, 0, math.MaxInt32) },
		},
		{
			Key: "max_connections_per_ip", Env: "FELIX_MAX_CONNECTIONS_PER_IP", Kind: "n", Default: "512",
			Doc:  "The same for one address. 0 is unlimited.",
			bind: func(c *Config) binding { return intOf(&c.Native.MaxConnectionsPerIP, 0, math.MaxInt32) },
		},
		{
			Key: "auth_timeout_ms", Env: "FELIX_AUTH_TIMEOUT_MS", Kind: "ms", Default: "10000",
			Doc:  "Closes a native connection of which no stream has authenticated. 0 is never.",
			bind: func(c *Config) binding { return durationOf(&c.Native.AuthTimeout, time.Millisecond, 0, time.Hour) },
		},
		{
			Key: "preauth_max_frame_bytes", Env: "FELIX_PREAUTH_MAX_FRAME_BYTES", Kind: "bytes", Default: "64KiB",
			Doc:  "Largest frame on a stream that has not authenticated; never above `max_frame_bytes`.",
			bind: func(c *Config) binding { return bytesOf(&c.Native.PreAuthFrame, 1*kib, gib) },
		},
		{
			Key: "preauth_max_streams_per_conn", Env: "FELIX_PREAUTH_MAX_STREAMS_PER_CONN", Kind: "n", Default: "16",
			Doc:  "Unauthenticated streams of a connection that are read at once; more wait.",
			bind: func(c *Config) binding { return intOf(&c.Native.PreAuthStreams, 1, 1024) },
		},
		{
			Key: "max_frame_bytes", Env: "FELIX_MAX_FRAME_BYTES", Kind: "bytes", Default: "16MiB",
			Doc:  "Largest frame of a native client. 0 is the default.",
			bind: func(c *Config) binding { return orDefault(bytesOf(&c.Native.MaxFrame, 64*kib, gib), "16MiB") },
		},
		{
			Env: "FELIX_MAX_IDLE_TIMEOUT_MS", Kind: "ms", Default: "6000",
			Doc: "A native connection without any packet for so long is over.",
			bind: func(c *Config) binding {
				return durationOf(&c.Native.IdleTimeout, time.Millisecond, time.Second, time.Hour)
			},
		},
		{
			Env: "FELIX_KEEPALIVE_MS", Kind: "ms", Default: "2000",
			Doc: "How often a quiet native connection is kept alive; at most half the idle time-out counts.",
			bind: func(c *Config) binding {
				return durationOf(&c.Native.KeepAlive, time.Millisecond, 100*time.Millisecond, time.Hour)
			},
		},
		{
			Env: "FELIX_UDP_SEND_BUFFER", Kind: "bytes", Default: "8MiB",
			Doc:  "Send buffer that the socket of native clients asks for; the system grants what it may.",
			bind: func(c *Config) binding { return bytesOf(&c.Native.UDPSendBuffer, 64*kib, gib) },
		},
		{
			Env: "FELIX_UDP_RECV_BUFFER", Kind: "bytes", Default: "8MiB",
			Doc:  "The same for receiving.",
			bind: func(c *Config) binding { return bytesOf(&c.Native.UDPReceive, 64*kib, gib) },
		},
		{
			Key: "pub_conn_recv_window", Env: "FELIX_BROKER_PUB_CONN_RECV_WINDOW", Kind: "bytes", Default: "16MiB",
			Doc:  "What a native connection's flow control window may grow to. It starts at 1 MiB, and grows after authentication and within the memory budget alone.",
			bind: func(c *Config) binding { return bytesOf(&c.Native.ConnWindow, 1*mib, gib) },
		},
		{
			Key: "pub_stream_recv_window", Env: "FELIX_BROKER_PUB_STREAM_RECV_WINDOW", Kind: "bytes", Default: "16MiB",
			Doc:  "The same for one stream of it, which starts at 256 KiB.",
			bind: func(c *Config) binding { return bytesOf(&c.Native.StreamWindow, 256*kib, gib) },
		},
	}
}

func publishSettings() []setting {
	return []setting{
		{
			Key: "ack_on_commit", Env: "FELIX_ACK_ON_COMMIT", Kind: "bool", Default: "true",
			Doc:  "Native publishes to durable streams are answered after the write. `false`: when they are queued, so that a crash can lose what was acknowledged; Quorum streams, idempotent and conditional publishes and commits wait all the same, and so do clients that ask for it.",
			bind: func(c *Config) binding { return boolOf(&c.Native.AckOnCommit) },
		},
		{
			Key: "pub_ingress_wait", Env: "FELIX_PUB_INGRESS_WAIT", Kind: "bool", Default: "false",
			Doc:  "Publishes that ask for no answer wait for room, which slows their publisher down, instead of being dropped.",
			bind: func(c *Config) binding { return boolOf(&c.Native.IngressWait) },
		},
		{
			Key: "pub_queue_depth", Env: "FELIX_BROKER_PUB_QUEUE_DEPTH", Kind: "n", Default: "512",
			Doc:  "Publishes that each tenant may have queued whatever the others do.",
			bind: func(c *Config) binding { return intOf(&c.Native.QueueDepth, 1, 1_000_000) },
		},
		{
			Key: "pub_workers_per_conn", Env: "FELIX_BROKER_PUB_WORKERS_PER_CONN", Kind: "n", Default: "4",
			Doc:  "Publishes that the process writes side by side (the name is historical); times `pub_queue_depth` it bounds the whole queue.",
			bind: func(c *Config) binding { return intOf(&c.Native.Workers, 1, 1024) },
		},
		{
			Key: "pub_flush_concurrency", Env: "FELIX_BROKER_PUB_FLUSH_CONCURRENCY", Kind: "n", Default: "32",
			Doc:  "Publishes of one shard that may be written and wait for their commit.",
			bind: func(c *Config) binding { return intOf(&c.Native.CommitConcurrency, 1, 100_000) },
		},
		{
			Key: "publish_queue_wait_timeout_ms", Env: "FELIX_PUBLISH_QUEUE_WAIT_MS", Kind: "ms", Default: "2000",
			Doc: "How long a publish that is answered after the write waits for room before it is refused.",
			bind: func(c *Config) binding {
				return durationOf(&c.Native.QueueWait, time.Millisecond, time.Millisecond, time.Hour)
			},
		},
		{
			Key: "ack_wait_timeout_ms", Env: "FELIX_ACK_WAIT_TIMEOUT_MS", Kind: "ms", Default: "2000",
			Doc: "How long an answer that depends on a commit is waited for; the larger of this and `publish_quorum_timeout_ms` plus 500 counts.",
			bind: func(c *Config) binding {
				return durationOf(&c.Native.AckWait, time.Millisecond, time.Millisecond, time.Hour)
			},
		},
		{
			Key: "pub_inflight_bytes", Env: "FELIX_BROKER_PUBLISH_INFLIGHT_BYTES", Kind: "bytes", Default: "64MiB",
			Doc:  "Bytes of publishes that the process has queued or at work.",
			bind: func(c *Config) binding { return bytesOf(&c.Native.InflightBytes, 1*mib, maxBytes) },
		},
		{
			Key: "pub_conn_inflight_bytes", Env: "FELIX_BROKER_PUBLISH_CONN_INFLIGHT_BYTES", Kind: "bytes", Default: "16MiB",
			Doc:  "The same of one identity on one connection.",
			bind: func(c *Config) binding { return bytesOf(&c.Native.ConnInflightBytes, 64*kib, maxBytes) },
		},
		{
			Key: "pub_conn_total_inflight_bytes", Env: "FELIX_BROKER_PUBLISH_CONN_TOTAL_INFLIGHT_BYTES", Kind: "bytes", Default: "64MiB",
			Doc:  "The same of one connection.",
			bind: func(c *Config) binding { return bytesOf(&c.Native.ConnInTotal, 64*kib, maxBytes) },
		},
		{
			Key: "publish_window", Env: "FELIX_BROKER_PUBLISH_WINDOW", Kind: "n", Default: "256",
			Doc:  "Unanswered publishes of one stream whose client asks for answers in order; at the window the stream is read no further. 0 offers no such order.",
			bind: func(c *Config) binding { return intOf(&c.Native.Window, 0, 1024) },
		},
	}
}

func subscribeSettings() []setting {
	return []setting{
		{
			Key: "subscriber_queue_capacity", Env: "FELIX_SUBSCRIBER_QUEUE_CAPACITY", Kind: "n", Default: "512",
			Doc:  "Published batches that a live subscriber may be behind; the next one is dropped for it, and on a durable stream its subscription ends with the offset to resume from.",
			bind: func(c *Config) binding { return intOf(&c.Native.SubQueueCapacity, 1, 1_000_000) },
		},
		{
			Key: "subscriber_queue_capacity_max", Env: "FELIX_SUBSCRIBER_QUEUE_CAPACITY_MAX", Kind: "n", Default: "4096",
			Doc:  "The most that a subscriber may ask for.",
			bind: func(c *Config) binding { return intOf(&c.Native.SubQueueLargest, 1, 1_000_000) },
		},
		{
			Key: "subscriber_queue_max_bytes", Env: "FELIX_SUB_QUEUE_MAX_BYTES", Kind: "bytes", Default: "128MiB",
			Doc:  "Payload bytes that a live subscriber may be behind.",
			bind: func(c *Config) binding { return bytesOf(&c.Native.SubQueueBytes, 64*kib, maxBytes) },
		},
		{
			Key: "subscriber_queue_policy", Env: "FELIX_SUB_QUEUE_POLICY", Kind: "enum", Default: "drop_new",
			Doc:  "What a full queue does: `drop_new`, or `drop_old`, which acts alike. Publishers never wait for subscribers, so `block` is refused.",
			bind: func(c *Config) binding { return enumOf(&c.Native.SubQueuePolicy, "drop_new", "drop_old", "block") },
		},
		{
			Key: "max_subscriptions_per_conn", Env: "FELIX_MAX_SUBSCRIPTIONS_PER_CONN", Kind: "n", Default: "4096",
			Doc:  "Subscriptions of one identity on one connection.",
			bind: func(c *Config) binding { return intOf(&c.Native.Subscriptions, 1, math.MaxInt32) },
		},
		{
			Key: "max_subscriptions_per_conn_total", Env: "FELIX_MAX_SUBSCRIPTIONS_PER_CONN_TOTAL", Kind: "n", Default: "16384",
			Doc:  "Subscriptions of one connection, of all identities on it. Unset is four times `max_subscriptions_per_conn`.",
			bind: func(c *Config) binding { return intOf(&c.Native.SubscriptionsIn, 1, math.MaxInt32) },
		},
		{
			Key: "subscriber_max_bytes_per_write", Env: "FELIX_SUB_MAX_BYTES_PER_WRITE", Kind: "bytes", Default: "64KiB",
			Doc:  "What is written to a subscriber at once.",
			bind: func(c *Config) binding { return bytesOf(&c.Native.WriteBytes, 4*kib, 16*mib) },
		},
		{
			Key: "event_batch_max_events", Env: "FELIX_EVENT_BATCH_MAX_EVENTS", Kind: "n", Default: "64",
			Doc:  "Most events of one frame to subscribers.",
			bind: func(c *Config) binding { return intOf(&c.Native.EventsPerFrame, 1, 65536) },
		},
		{
			Key: "event_batch_max_bytes", Env: "FELIX_EVENT_BATCH_MAX_BYTES", Kind: "bytes", Default: "256KiB",
			Doc:  "Most bytes of one frame to subscribers; a single larger event goes alone.",
			bind: func(c *Config) binding { return bytesOf(&c.Native.BytesPerFrame, 4*kib, gib) },
		},
		{
			Env: "FELIX_DURABLE_MAX_RECORDS_PER_READ", Kind: "n", Default: "10000",
			Doc:  "Most records of one bounded read.",
			bind: func(c *Config) binding { return intOf(&c.Native.RecordsPerRead, 1, 1_000_000) },
		},
	}
}

// validate checks what involves more than one setting.
func (n *NativeConfig) validate() error {
	larger := func(what string, a int64, than string, b int64) error {
		if a <= b {
			return nil
		}
		return fmt.Errorf("%s (%d) is above %s (%d)", what, a, than, b)
	}
	var block error
	if n.SubQueuePolicy == "block" {
		block = errors.New("subscriber_queue_policy: block would let one slow subscriber hold up every publisher of its shard; this server has no such mode: " +
			"use a durable stream, where a slow subscriber resumes without loss")
	}
	return errors.Join(block,
		larger("event_batch_max_bytes", n.BytesPerFrame, "max_frame_bytes", n.MaxFrame),
		larger("pub_conn_inflight_bytes", n.ConnInflightBytes, "pub_inflight_bytes", n.InflightBytes),
		larger("pub_conn_inflight_bytes", n.ConnInflightBytes, "pub_conn_total_inflight_bytes", n.ConnInTotal),
		larger("pub_conn_total_inflight_bytes", n.ConnInTotal, "pub_inflight_bytes", n.InflightBytes),
		larger("max_subscriptions_per_conn", int64(n.Subscriptions), "max_subscriptions_per_conn_total", int64(n.SubscriptionsIn)),
		larger("pub_stream_recv_window", n.StreamWindow, "pub_conn_recv_window", n.ConnWindow))
}
