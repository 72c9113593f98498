package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Addresses are the bound addresses of a node's listeners, as host:port; a listener that is off is empty and left out of the file.
type Addresses struct {
	Kafka     string `json:"kafka,omitempty"`
	Native    string `json:"native,omitempty"` // UDP
	API       string `json:"api,omitempty"`
	Bootstrap string `json:"bootstrap,omitempty"`
	Metrics   string `json:"metrics,omitempty"`
}

// writeReady writes the ready file whole: under another name first, then renamed, so that a reader never sees half of it.
func writeReady(path string, a Addresses) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("ready file: %w", err)
	}
	_, err = tmp.Write(append(text, '\n'))
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chmod(tmp.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // the first error is the one to report
		return fmt.Errorf("ready file: %w", err)
	}
	return nil
}
