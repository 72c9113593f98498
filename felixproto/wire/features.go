package wire

// Features is a set of capabilities: the low 32 bits are the first word of the wire, the high 32 bits the second.
type Features uint64

// The features. Who has to have one for it to count is a matter of each: see spec/felix-wire.md 3.3.
const (
	FeatureTopology            Features = 0x0000_0001
	FeatureRedirect            Features = 0x0000_0002
	FeatureCacheDelete         Features = 0x0000_0004
	FeatureConsumerGroup       Features = 0x0000_0008
	FeatureGroupDeadLetters    Features = 0x0000_0010
	FeatureStreamShards        Features = 0x0000_0020
	FeatureCacheWatch          Features = 0x0000_0040
	FeatureCacheWatchRetained  Features = 0x0000_0080
	FeatureCounters            Features = 0x0000_0100
	FeatureIdempotentProducer  Features = 0x0000_0200
	FeatureCacheShards         Features = 0x0000_0400
	FeatureErrorCodes          Features = 0x0000_0800
	FeatureShardMoved          Features = 0x0000_1000
	FeatureUnsupported         Features = 0x0000_2000
	FeatureSequenceReused      Features = 0x0000_4000
	FeaturePublishPipeline     Features = 0x0000_8000
	FeatureAtomicCommit        Features = 0x0001_0000
	FeatureStreamPublishWindow Features = 0x0002_0000
	FeatureShardOwners         Features = 0x0004_0000
	FeatureAckOnCommit         Features = 0x0008_0000
	FeatureGroupConsumer       Features = 0x0010_0000
	FeatureSubscriptionLagged  Features = 0x0020_0000
	FeatureGroupSkipped        Features = 0x0040_0000
	FeatureGroupPublisher      Features = 0x0080_0000
	FeatureGroupAdmin          Features = 0x0100_0000
	FeatureCacheConditional    Features = 0x0200_0000
	FeatureRecordTimestamps    Features = 0x0400_0000
	FeatureGroupClaimControl   Features = 0x0800_0000
	FeaturePublishConditional  Features = 0x1000_0000
	FeatureStreamRead          Features = 0x2000_0000
	FeatureSubscribeQueue      Features = 0x4000_0000
	// FeatureExtended is no capability: it marks that the second word is there and is read.
	FeatureExtended Features = 0x8000_0000
	// FeatureInspect is bit 0 of the second word.
	FeatureInspect Features = 0x1_0000_0000
	// FeatureExplicitShard is bit 3 of the second word: writes and reads of an entity's state may name their shard.
	FeatureExplicitShard Features = 0x8_0000_0000
)

// Has says that all bits of other are set.
func (f Features) Has(other Features) bool { return f&other == other }

// Words splits f for the wire. The marker follows from the second word alone: it is set if and only if that is not zero.
func (f Features) Words() (low, high uint32) {
	low, high = uint32(f&^FeatureExtended), uint32(f>>32)
	if high != 0 {
		low |= uint32(FeatureExtended)
	}
	return low, high
}

// JoinFeatures puts the words together. The second counts only under the marker, which is kept: its presence says that the peer reads
// a second word, even when it sent zero.
func JoinFeatures(low, high uint32) Features {
	f := Features(low)
	if f.Has(FeatureExtended) {
		f |= Features(high) << 32
	}
	return f
}
