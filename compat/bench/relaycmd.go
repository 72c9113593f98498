package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"time"

	"github.com/felixlog/felix/compat/bench/relay"
)

// runRelay runs the bare QUIC server until it is told to stop.
func runRelay(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("relay", flag.ContinueOnError)
	listen := fs.String("listen", "127.0.0.1:0", "address")
	metrics := fs.String("metrics", "127.0.0.1:0", "address of /debug/pprof")
	cert := fs.String("cert", "", "certificate")
	key := fs.String("key", "", "its key")
	ready := fs.String("ready-file", "", "file to write the addresses to")
	var opts relay.Options
	fs.BoolVar(&opts.PlainSocket, "plain-socket", false, "receive datagrams one by one")
	fs.IntVar(&opts.SocketBytes, "socket-bytes", 0, "buffer of the socket each way")
	fs.IntVar(&opts.WindowBytes, "window-bytes", 0, "what windows grow to")
	fs.BoolVar(&opts.LargePackets, "large-packets", false, "begin with the largest packets, without looking for the path's size")
	if err := fs.Parse(args); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(*cert, *key)
	if err != nil {
		return err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *metrics)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiles := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = profiles.Serve(ln) }() // ends with Close
	defer func() { _ = profiles.Close() }()
	s, err := relay.Listen(*listen, pair, opts)
	if err != nil {
		return err
	}
	addrs, err := json.Marshal(map[string]string{"native": s.Addr().String(), "metrics": ln.Addr().String()})
	if err != nil {
		return err
	}
	// Whoever waits for the file must not read half of it.
	if err := errors.Join(os.WriteFile(*ready+".new", addrs, 0o600), os.Rename(*ready+".new", *ready)); err != nil {
		return err
	}
	return s.Serve(ctx)
}
