package connect

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/felixlog/felix/compat/peer"
)

// StartStandalone starts a standalone worker with the connectors of a pipe; it keeps its offsets in a file of dir. The worker's output is
// dir/standalone.log.
func StartStandalone(dir, addr string, p *Pipe) (*peer.Child, error) {
	port, err := peer.FreePort()
	if err != nil {
		return nil, err
	}
	settings := common(addr)
	settings["offset.storage.file.filename"] = filepath.Join(dir, "offsets")
	settings["listeners"] = fmt.Sprintf("http://127.0.0.1:%d", port)
	files := []string{filepath.Join(dir, "worker.properties")}
	err = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(files[0], properties(settings), 0o600))
	connectors := p.connectors()
	for _, name := range slices.Sorted(maps.Keys(connectors)) {
		config := maps.Clone(connectors[name])
		config["name"] = name
		file := filepath.Join(dir, name+".properties")
		files = append(files, file)
		err = errors.Join(err, os.WriteFile(file, properties(config), 0o600))
	}
	if err != nil {
		return nil, err
	}
	return peer.StartChild(filepath.Join(dir, "standalone.log"), jvm("org.apache.kafka.connect.cli.ConnectStandalone", files...)...)
}
