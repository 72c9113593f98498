package node

import (
	"time"

	"github.com/felixlog/felix/broker"
)

// Config is what a node runs with, after flags, environment, file and defaults were put together and checked. Load makes it; every
// field has a row in the table of settings.go, which is where names, defaults and bounds are written.
type Config struct {
	NodeID   string
	Roles    []string
	DataDir  string
	AdminAPI string // --metrics-listen: metrics, probes, profiles

	ReadyFile     string
	AllowInsecure bool

	LogLevels string // "info" or "component=level,..."
	LogFormat string // "text" or "json"

	MemoryBudgetBytes    int64
	MaxBatchDecodedBytes int64
	QuorumTimeout        time.Duration
	ShutdownPredrain     time.Duration
	ShutdownDrain        time.Duration

	Kafka   KafkaConfig
	Groups  GroupsConfig
	Native  NativeConfig
	TLS     TLSConfig
	API     APIConfig
	Quotas  broker.PublishQuotas
	Storage StorageConfig

	NativeListen, APIListen string // "" is off
	PeerListen              string // reserved: accepted, checked and reported, and not served

	// Development says that the single-node profile applies: the node keeps tokens for the person at this machine. Set by Load.
	Development bool
}

// KafkaConfig is the Kafka listener's part of Config.
type KafkaConfig struct {
	Listen              string // "" is off
	Advertise           string // "" is the bound listen address
	TLS                 bool
	AnonymousTenant     string
	DefaultNamespace    string
	AutoCreateTopics    bool
	DefaultPartitions   int
	MaxConnections      int // 0 is unlimited
	MaxConnectionsPerIP int // 0 is unlimited
	AuthTimeout         time.Duration
	MaxRequestBytes     int64
	PlainUsers          []Credential
}

// Credential is one static user of SASL PLAIN: the user name is the tenant that it acts for.
type Credential struct {
	Tenant   string
	Password string
}

// TLSConfig is the server certificate of the client listeners and of the API, and what is asked of clients.
type TLSConfig struct {
	CertFile, KeyFile, ClientCAFile string
	RequireCert                     bool
	BindSubject                     bool   // a client's certificate must belong to its principal
	RequireALPN                     bool   // native clients must offer our protocol
	ExportFile                      string // gets the authority of a generated certificate
	APICertFile, APIKeyFile         string // none: the API is plain HTTP
}

// StorageConfig is the log's part of Config; topic configurations override what has a Kafka name.
type StorageConfig struct {
	SyncMode                  string // none, periodic, on_commit
	SyncInterval              time.Duration
	SegmentBytes              int64
	RetentionBytes            int64         // -1 unlimited
	Retention                 time.Duration // negative unlimited
	RetentionInterval         time.Duration
	IndexSpacingBytes         int64
	Preallocate               bool
	VerifyAllOnOpen           bool
	RepairChecksumTail        bool
	CompactionBytesPerSec     int64 // 0 unlimited
	ProducersPerShard         int
	ProducerExpiry            time.Duration
	HotTailBytes              int64
	MaxOpenFiles              int // 0 derives it from the process limit
	SyncWorkers, OpenParallel int
}
