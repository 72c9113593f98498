package kafkaproto

// adminAPIs are the rows of offsets, producer ids, topics and configurations. A row without a handler is not served.
func adminAPIs() []api {
	return []api{
		{key: 2, name: "ListOffsets", min: 1, max: 11, advertised: 1, flexible: 6, throttle: 3, handle: handleListOffsets},
		{key: 10, name: "FindCoordinator", min: 0, max: 6, advertised: 0, flexible: 3, throttle: 2, handle: handleFindCoordinator},
		{key: 19, name: "CreateTopics", min: 0, max: 7, advertised: 0, flexible: 5, throttle: 3, handle: handleCreateTopics},
		{key: 20, name: "DeleteTopics", min: 0, max: 6, advertised: 0, flexible: 4, throttle: 2, handle: handleDeleteTopics},
		{key: 21, name: "DeleteRecords", min: 0, max: 2, advertised: 0, flexible: 2, throttle: 1, handle: handleDeleteRecords},
		{key: 22, name: "InitProducerId", min: 0, max: 5, advertised: 0, flexible: 2, throttle: 1, handle: handleInitProducerID},
		{key: 23, name: "OffsetForLeaderEpoch", min: 2, max: 4, advertised: 2, flexible: 4, throttle: none, handle: handleOffsetForLeaderEpoch},
		{key: 32, name: "DescribeConfigs", min: 0, max: 4, advertised: 0, flexible: 4, throttle: 2, handle: handleDescribeConfigs},
		{key: 33, name: "AlterConfigs", min: 0, max: 2, advertised: 0, flexible: 2, throttle: 1, handle: handleAlterConfigs},
		{key: 35, name: "DescribeLogDirs", min: 1, max: 5, advertised: 1, flexible: 2, throttle: 1, handle: handleDescribeLogDirs},
		{key: 37, name: "CreatePartitions", min: 0, max: 3, advertised: 0, flexible: 2, throttle: 1, handle: handleCreatePartitions},
		{key: 44, name: "IncrementalAlterConfigs", min: 0, max: 1, advertised: 0, flexible: 1, throttle: 0, handle: handleIncrementalAlterConfigs},
		{key: 60, name: "DescribeCluster", min: 0, max: 2, advertised: 0, flexible: 0, throttle: 0, handle: handleDescribeCluster},
		{key: 61, name: "DescribeProducers", min: 0, max: 0, advertised: 0, flexible: 0, throttle: 0, handle: handleDescribeProducers},
		{key: 75, name: "DescribeTopicPartitions", min: 0, max: 0, advertised: 0, flexible: 0, throttle: 0, handle: handleDescribeTopicPartitions},
	}
}
