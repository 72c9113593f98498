// Package ids holds the numbers and names by which the parts of Felix refer to each other.
//
// It is a leaf: it imports nothing of ours, so that every layer can speak of an offset or a shard in the same type.
// Values are plain data, safe to copy and to compare.
//
// Sources: KIP-516 (topic ids), KIP-101 (leader epochs).
package ids
