package vfs

// OpKind names a method of FS or File.
type OpKind uint8

// The kinds of calls, in the order of the interfaces.
const (
	OpOpen OpKind = iota + 1
	OpRemove
	OpRemoveAll
	OpRename
	OpMkdirAll
	OpReadDir
	OpStat
	OpSyncDir
	OpRead
	OpWrite
	OpClose
	OpSize
	OpTruncate
	OpSync
	OpDatasync
	OpPreallocate
	OpOpenWhole
	OpSyncWhole
)

var opNames = [...]string{
	OpOpen: "open", OpRemove: "remove", OpRemoveAll: "remove all", OpRename: "rename", OpMkdirAll: "mkdir all",
	OpReadDir: "read dir", OpStat: "stat", OpSyncDir: "sync dir", OpRead: "read", OpWrite: "write", OpClose: "close",
	OpSize: "size", OpTruncate: "truncate", OpSync: "sync", OpDatasync: "datasync", OpPreallocate: "preallocate",
}

// String returns the name of the call.
func (k OpKind) String() string {
	if int(k) < len(opNames) && opNames[k] != "" {
		return opNames[k]
	}
	return "unknown"
}

// Mutates says whether calls of this kind can change what is visible or what is durable: the calls after which a crash may
// find another disk than before. Opening counts, since it can create or empty a file.
func (k OpKind) Mutates() bool {
	switch k {
	case OpOpen, OpRemove, OpRemoveAll, OpRename, OpMkdirAll, OpSyncDir, OpWrite, OpTruncate, OpSync, OpDatasync, OpSyncWhole:
		return true
	default:
		return false
	}
}

// Op is one call, as predicates and hooks see it.
type Op struct {
	// Kind is the method.
	Kind OpKind
	// Path is the file as it was opened, or the first name of an FS call.
	Path string
	// NewPath is the second name of a rename.
	NewPath string
	// Off is the offset of a read, write or preallocation, or the size given to a truncation.
	Off int64
	// Len is the number of bytes of a read, write or preallocation.
	Len int64
}
