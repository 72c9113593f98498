package server

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// felixArgs is the command line of one Felix node with every port chosen freely.
func (in *Installation) felixArgs(cfg Config, s *Server) ([]string, error) {
	if _, err := os.Stat(in.FelixBinary); err != nil {
		return nil, fmt.Errorf("no Felix binary (make build): %w", err)
	}
	ready := readyFile(cfg.DataDir)
	if err := os.RemoveAll(ready); err != nil {
		return nil, err
	}
	argv := []string{
		in.FelixBinary, "serve", "--data-dir", cfg.DataDir, "--kafka-listen", s.Addr, "--metrics-listen", "127.0.0.1:0",
		"--native-listen", "", "--api-listen", "", // their usual ports may be taken; cfg.Args name them where they are measured
		"--ready-file", ready,
	}
	return append(argv, cfg.Args...), nil
}

func readyFile(dataDir string) string { return filepath.Clean(dataDir) + ".ready.json" }

// readReadyFile waits for the ready file of Felix or the relay, which names the addresses.
func (s *Server) readReadyFile(ctx context.Context) error {
	if s.Kind != Felix && s.Kind != Relay {
		return nil
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		var addrs struct {
			Metrics string `json:"metrics"`
			Native  string `json:"native"`
			API     string `json:"api"`
		}
		b, err := os.ReadFile(readyFile(s.DataDir))
		if err == nil && json.Unmarshal(b, &addrs) == nil {
			s.Metrics, s.Native, s.API = addrs.Metrics, addrs.Native, addrs.API
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no ready file: %w", ctx.Err())
		case <-s.exited:
			return fmt.Errorf("the process ended: %w", orError(s.err))
		case <-tick.C:
		}
	}
}
