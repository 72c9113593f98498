package kafkaproto

import "math"

// The guard reads a request's body once, by its schema, before kmsg makes Go structs of it. kmsg was made for clients that
// trust their broker: it runs a tag loop as often as the wire says and turns one-byte elements into structs of a hundred bytes. The
// guard refuses counts and lengths that the body cannot hold, and tells how much memory decoding will take.

const (
	// maxDecoded bounds what one request may decode to, in bytes. The largest requests that clients make in earnest,
	// Metadata or CreateTopics for some ten thousand topics, stay far below.
	maxDecoded = 32 << 20
	// maxUnauthenticatedDecoded is the same before authentication.
	maxUnauthenticatedDecoded = 1 << 20

	// What decoding makes of one element, at least: a struct, and a map entry for each unknown tag. A test compares the
	// first two with kmsg's types.
	elementBytes = 64
	fieldBytes   = 32
	tagBytes     = 128
)

// field is one field of a request body.
type field struct {
	kind     fieldKind
	size     int16 // of fixed fields, in bytes
	from, to int16 // versions that have it, both inclusive
	elem     []field
}

type fieldKind uint8

const (
	fixedField  fieldKind = iota
	stringField           // nullable or not
	bytesField
	arrayField   // of structs: in flexible versions each element ends with tags
	listField    // of primitives: no tags
	structField  // nullable, as a signed byte before it says
	endOfVersion = math.MaxInt16
)

func fixed(size int16) field    { return field{kind: fixedField, size: size, to: endOfVersion} }
func text() field               { return field{kind: stringField, to: endOfVersion} }
func blob() field               { return field{kind: bytesField, to: endOfVersion} }
func array(elem ...field) field { return field{kind: arrayField, elem: elem, to: endOfVersion} }
func list(elem field) field     { return field{kind: listField, elem: []field{elem}, to: endOfVersion} }

func nullableStruct(elem ...field) field {
	return field{kind: structField, elem: elem, to: endOfVersion}
}

func (f field) since(version int16) field { f.from = version; return f }
func (f field) until(version int16) field { f.to = version; return f }

func boolean() field { return fixed(1) }
func int8s() field   { return fixed(1) }
func int16s() field  { return fixed(2) }
func int32s() field  { return fixed(4) }
func int64s() field  { return fixed(8) }
func uuids() field   { return fixed(16) }

// requestSchema is the body of a request that kmsg decodes. flexible is the first version with compact encodings.
type requestSchema struct {
	flexible int16
	fields   []field
}

// schemaOf returns the schema of an API's requests, for the versions that the table serves. Fetch and Produce have decoders of
// their own, bounded the same way.
func schemaOf(key int16) (requestSchema, bool) {
	switch key {
	case 2: // ListOffsets
		return requestSchema{6, []field{
			int32s(), int8s().since(2),
			array(text(), array(int32s(), int32s().since(4), int64s())),
			int32s().since(10),
		}}, true
	case 3: // Metadata
		return requestSchema{9, []field{
			array(uuids().since(10), text()),
			boolean().since(4), boolean().since(8).until(10), boolean().since(8),
		}}, true
	case keyOffsetCommit:
		return requestSchema{8, []field{
			text(), int32s(), text(), text().since(7), int64s().until(4),
			array(text().until(9), uuids().since(10), array(int32s(), int64s(), int32s().since(6), text())),
		}}, true
	case 9: // OffsetFetch
		return requestSchema{6, []field{
			text().until(7), array(text(), list(int32s())).until(7),
			array(text(), text().since(9), int32s().since(9), array(text().until(9), uuids().since(10), list(int32s()))).since(8),
			boolean().since(7),
		}}, true
	case 10: // FindCoordinator
		return requestSchema{3, []field{text().until(3), int8s().since(1), list(text()).since(4)}}, true
	case 11: // JoinGroup
		return requestSchema{6, []field{
			text(), int32s(), int32s().since(1), text(), text().since(5), text(), array(text(), blob()), text().since(8),
		}}, true
	case 12: // Heartbeat
		return requestSchema{4, []field{text(), int32s(), text(), text().since(3)}}, true
	case 13: // LeaveGroup
		return requestSchema{4, []field{text(), text().until(2), array(text(), text(), text().since(5)).since(3)}}, true
	case 14: // SyncGroup
		return requestSchema{4, []field{
			text(), int32s(), text(), text().since(3), text().since(5), text().since(5), array(text(), blob()),
		}}, true
	case 15: // DescribeGroups
		return requestSchema{5, []field{list(text()), boolean().since(3)}}, true
	case 16: // ListGroups
		return requestSchema{3, []field{list(text()).since(4), list(text()).since(5)}}, true
	case keySASLHandshake:
		return requestSchema{none, []field{text()}}, true
	case keyAPIVersions:
		return requestSchema{3, []field{text().since(3), text().since(3)}}, true
	case 19: // CreateTopics
		return requestSchema{5, []field{
			array(text(), int32s(), int16s(), array(int32s(), list(int32s())), array(text(), text())),
			int32s(), boolean().since(1),
		}}, true
	case 20: // DeleteTopics
		return requestSchema{4, []field{list(text()).until(5), array(text(), uuids()).since(6), int32s()}}, true
	case 21: // DeleteRecords
		return requestSchema{2, []field{array(text(), array(int32s(), int64s())), int32s()}}, true
	case 22: // InitProducerId
		return requestSchema{2, []field{text(), int32s(), int64s().since(3), int16s().since(3)}}, true
	case 23: // OffsetForLeaderEpoch
		return requestSchema{4, []field{int32s().since(3), array(text(), array(int32s(), int32s().since(2), int32s()))}}, true
	case 29: // DescribeAcls
		return requestSchema{2, []field{int8s(), text(), int8s(), text(), text(), int8s(), int8s()}}, true
	case 30, 31: // CreateAcls, DeleteAcls
		return requestSchema{2, []field{array(int8s(), text(), int8s(), text(), text(), int8s(), int8s())}}, true
	case 32: // DescribeConfigs
		return requestSchema{4, []field{array(int8s(), text(), list(text())), boolean().since(1), boolean().since(3)}}, true
	case 33: // AlterConfigs
		return requestSchema{2, []field{array(int8s(), text(), array(text(), text())), boolean()}}, true
	case 34: // AlterReplicaLogDirs
		return requestSchema{2, []field{array(text(), array(text(), list(int32s())))}}, true
	case 35: // DescribeLogDirs
		return requestSchema{2, []field{array(text(), list(int32s()))}}, true
	case keySASLAuthenticate:
		return requestSchema{2, []field{blob()}}, true
	case 37: // CreatePartitions
		return requestSchema{2, []field{array(text(), int32s(), array(list(int32s()))), int32s(), boolean()}}, true
	case 38: // CreateDelegationToken
		return requestSchema{2, []field{text().since(3), text().since(3), array(text(), text()), int64s()}}, true
	case 39, 40: // RenewDelegationToken, ExpireDelegationToken
		return requestSchema{2, []field{blob(), int64s()}}, true
	case 41: // DescribeDelegationToken
		return requestSchema{2, []field{array(text(), text())}}, true
	case 42: // DeleteGroups
		return requestSchema{2, []field{list(text())}}, true
	case 43: // ElectLeaders
		return requestSchema{2, []field{int8s().since(1), array(text(), list(int32s())), int32s()}}, true
	case 44: // IncrementalAlterConfigs
		return requestSchema{1, []field{array(int8s(), text(), array(text(), int8s(), text())), boolean()}}, true
	case keyOffsetDelete:
		return requestSchema{none, []field{text(), array(text(), array(int32s()))}}, true
	case 45: // AlterPartitionReassignments
		return requestSchema{0, []field{int32s(), boolean().since(1), array(text(), array(int32s(), list(int32s())))}}, true
	case 46: // ListPartitionReassignments
		return requestSchema{0, []field{int32s(), array(text(), list(int32s()))}}, true
	case 48: // DescribeClientQuotas
		return requestSchema{1, []field{array(text(), int8s(), text()), boolean()}}, true
	case 49: // AlterClientQuotas
		return requestSchema{1, []field{array(array(text(), text()), array(text(), int64s(), boolean())), boolean()}}, true
	case 50: // DescribeUserScramCredentials
		return requestSchema{0, []field{array(text())}}, true
	case 51: // AlterUserScramCredentials
		return requestSchema{0, []field{array(text(), int8s()), array(text(), int8s(), int32s(), blob(), blob())}}, true
	case 55: // DescribeQuorum
		return requestSchema{0, []field{array(text(), array(int32s()))}}, true
	case 57: // UpdateFeatures
		return requestSchema{0, []field{int32s(), array(text(), int16s(), boolean().until(0), int8s().since(1)), boolean().since(1)}}, true
	case 60: // DescribeCluster
		return requestSchema{0, []field{boolean(), int8s().since(1), boolean().since(2)}}, true
	case 61: // DescribeProducers
		return requestSchema{0, []field{array(text(), list(int32s()))}}, true
	case 74: // ListConfigResources
		return requestSchema{0, []field{list(int8s()).since(1)}}, true
	case 75: // DescribeTopicPartitions
		return requestSchema{0, []field{array(text()), int32s(), nullableStruct(text(), int32s())}}, true
	default:
		return requestSchema{}, false
	}
}

// scanRequest checks a request body against its schema and returns an upper bound of the memory that decoding it takes, in bytes.
// Bytes after the last field are ignored, as the reference broker does.
func scanRequest(key, version int16, body []byte) (decoded int64, err error) {
	schema, ok := schemaOf(key)
	if !ok {
		return 0, errMalformed
	}
	s := scanner{r: wireReader{b: body}, version: version, flexible: version >= schema.flexible}
	s.structure(schema.fields, true)
	if s.r.bad || s.decoded > maxDecoded {
		return 0, errMalformed
	}
	return s.decoded, nil
}

type scanner struct {
	r        wireReader
	version  int16
	flexible bool
	decoded  int64
}

func (s *scanner) structure(fields []field, tagged bool) {
	for i := range fields {
		f := &fields[i]
		if s.version >= f.from && s.version <= f.to {
			s.field(f)
		}
		if s.r.bad {
			return
		}
	}
	if tagged && s.flexible {
		s.decoded += int64(s.r.skipTags()) * tagBytes
	}
}

func (s *scanner) field(f *field) {
	switch f.kind {
	case fixedField:
		s.r.take(int(f.size))
	case stringField:
		b, _ := s.r.str(s.flexible)
		s.decoded += int64(len(b))
	case bytesField:
		s.r.bytes(s.flexible)
	case structField:
		if s.r.int8() >= 0 {
			s.decoded += elementBytes
			s.structure(f.elem, true)
		}
	case arrayField, listField:
		n := s.r.count(s.flexible, 1)
		s.decoded += int64(max(n, 0)) * (elementBytes + fieldBytes*int64(len(f.elem)))
		for range n {
			if s.decoded > maxDecoded {
				s.r.fail()
			}
			if s.r.bad {
				return
			}
			s.structure(f.elem, f.kind == arrayField)
		}
	}
}
