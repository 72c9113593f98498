package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/felixlog/felix/compat/bench/internal/server"
)

// profileSeconds is how long a profile samples; a shorter measured part leaves the rest of the samples empty.
const profileSeconds = 3

// startProfile fetches a CPU profile from Felix's metrics port if ctx asks for one. The function that it returns waits for it.
func (b *bench) startProfile(ctx context.Context, s *server.Server) func() error {
	path, ok := ctx.Value(profileKey{}).(string)
	if !ok || s.Metrics == "" {
		return func() error { return nil }
	}
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { err = fetchProfile(ctx, s.Metrics, path) })
	return func() error {
		wg.Wait()
		return err
	}
}

func fetchProfile(ctx context.Context, metrics, path string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", metrics, profileSeconds)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}
