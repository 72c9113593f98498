package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// identityVersion is the format of meta/node.json; another one refuses to open.
const identityVersion = 1

// identity is meta/node.json: whose data directory this is.
type identity struct {
	Version int    `json:"version"`
	NodeID  string `json:"node_id"`
}

// identityPath is where a data directory says whose it is.
func identityPath(dataDir string) string { return filepath.Join(dataDir, "meta", "node.json") }

// checkIdentity refuses a data directory that another node wrote: records and promises belong to the node that made them. fresh says
// that nobody has claimed the directory yet; claim does, once the node serves, so that a first start does not wait for that sync.
func checkIdentity(dataDir, nodeID string) (fresh bool, err error) {
	path := identityPath(dataDir)
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("data directory: %w", err)
	}
	var id identity
	if err := json.Unmarshal(text, &id); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	if id.Version != identityVersion {
		return false, fmt.Errorf("%s has version %d and this release reads %d: it was written by another release", path, id.Version, identityVersion)
	}
	if id.NodeID != nodeID {
		return false, fmt.Errorf("data directory %s belongs to node %q and this is node %q: set --node-id or --data-dir", dataDir, id.NodeID, nodeID)
	}
	return false, nil
}

// claimDir records the node id in a data directory, synced.
func claimDir(dataDir, nodeID string) error {
	text, err := json.Marshal(identity{Version: identityVersion, NodeID: nodeID})
	if err != nil {
		return err
	}
	path := identityPath(dataDir)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return writeSynced(path, append(text, '\n'))
}

// writeSynced replaces a small file so that after a crash of the machine either the old or the new content is there.
func writeSynced(path string, text []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", tmp, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
