package kafkaproto

// operatorAPIs are the rows of what operators' tools ask for: elections, reassignments, quotas, and the answers that Kafka gives where a
// feature is off.
//
// Not served, and not advertised: GetTelemetrySubscriptions (71) and PushTelemetry (72), since nothing receives telemetry and clients would
// push for nothing; UnregisterBroker (64), AddRaftVoter (80) and RemoveRaftVoter (81), since nodes are not managed over this protocol.
func operatorAPIs() []api {
	return []api{
		{key: 29, name: "DescribeAcls", min: 1, max: 3, advertised: 1, flexible: 2, throttle: 1, handle: handleDescribeACLs},
		{key: 30, name: "CreateAcls", min: 1, max: 3, advertised: 1, flexible: 2, throttle: 1, handle: handleCreateACLs},
		{key: 31, name: "DeleteAcls", min: 1, max: 3, advertised: 1, flexible: 2, throttle: 1, handle: handleDeleteACLs},
		{key: 34, name: "AlterReplicaLogDirs", min: 1, max: 2, advertised: 1, flexible: 2, throttle: 1, handle: handleAlterReplicaLogDirs},
		{key: 38, name: "CreateDelegationToken", min: 1, max: 3, advertised: 1, flexible: 2, throttle: 1, handle: handleCreateDelegationToken},
		{key: 39, name: "RenewDelegationToken", min: 1, max: 2, advertised: 1, flexible: 2, throttle: 1, handle: handleRenewDelegationToken},
		{key: 40, name: "ExpireDelegationToken", min: 1, max: 2, advertised: 1, flexible: 2, throttle: 1, handle: handleExpireDelegationToken},
		{key: 41, name: "DescribeDelegationToken", min: 1, max: 3, advertised: 1, flexible: 2, throttle: 1, handle: handleDescribeDelegationToken},
		{key: 43, name: "ElectLeaders", min: 0, max: 2, advertised: 0, flexible: 2, throttle: 0, handle: handleElectLeaders},
		{key: 45, name: "AlterPartitionReassignments", min: 0, max: 1, advertised: 0, flexible: 0, throttle: 0, handle: handleAlterPartitionReassignments},
		{key: 46, name: "ListPartitionReassignments", min: 0, max: 0, advertised: 0, flexible: 0, throttle: 0, handle: handleListPartitionReassignments},
		{key: 48, name: "DescribeClientQuotas", min: 0, max: 1, advertised: 0, flexible: 1, throttle: 0, handle: handleDescribeClientQuotas},
		{key: 49, name: "AlterClientQuotas", min: 0, max: 1, advertised: 0, flexible: 1, throttle: 0, handle: handleAlterClientQuotas},
		{key: 50, name: "DescribeUserScramCredentials", min: 0, max: 0, advertised: 0, flexible: 0, throttle: 0, handle: handleDescribeSCRAM},
		{key: 51, name: "AlterUserScramCredentials", min: 0, max: 0, advertised: 0, flexible: 0, throttle: 0, handle: handleAlterSCRAM},
		{key: 55, name: "DescribeQuorum", min: 0, max: 2, advertised: 0, flexible: 0, throttle: none, handle: handleDescribeQuorum},
		{key: 57, name: "UpdateFeatures", min: 0, max: 2, advertised: 0, flexible: 0, throttle: 0, handle: handleUpdateFeatures},
		{key: 74, name: "ListConfigResources", min: 0, max: 1, advertised: 0, flexible: 0, throttle: 0, handle: handleListConfigResources},
	}
}
