package journal

import (
	"fmt"

	"github.com/felixlog/felix/internal/errcode"
)

var (
	// ErrFailed is what every change returns after a sync of the journal failed, until the process restarts.
	ErrFailed = errcode.New(errcode.StorageFailed, "journal: stopped after a failed sync")
	// ErrClosed is what every change returns after Close.
	ErrClosed = errcode.New(errcode.StorageFailed, "journal: closed")
)

// DamageError says that a journal file cannot be read, and where.
type DamageError struct {
	File     string
	Position int64 // byte position in the file
	Reason   error
}

// Error implements error.
func (e *DamageError) Error() string {
	return fmt.Sprintf("journal %s is damaged at byte %d: %v", e.File, e.Position, e.Reason)
}

// Unwrap returns the reason.
func (e *DamageError) Unwrap() error { return e.Reason }

// Kind implements errcode.Kinder.
func (e *DamageError) Kind() errcode.Kind { return errcode.StorageFailed }
