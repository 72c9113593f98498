package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/felixlog/felix/compat/bench/internal/load"
	"github.com/felixlog/felix/compat/bench/internal/native"
	"github.com/felixlog/felix/compat/bench/internal/report"
	"github.com/felixlog/felix/compat/bench/internal/server"
)

// What rows P9 to P13 share.

// nativeRows are the rows of native clients: those that need the NATS server and the relay, and do not need Kafka.
var nativeRows = []string{"P9", "P10", "P11", "P12", "P13"}

// variant is one column of a native row's comparison: a server, and how it is used.
type variant struct {
	name    string // in the tables
	kind    server.Kind
	durable bool   // of Felix: the stream is on disk
	fsync   string // of Felix; empty is periodic
	args    []string
	env     []string // of server and client
}

var (
	relayVariant     = variant{name: "relay", kind: server.Relay}
	natsVariant      = variant{name: "nats", kind: server.NATS}
	natsTLSVariant   = variant{name: "nats-tls", kind: server.NATSTLS}
	felixVariant     = variant{name: "felix", kind: server.Felix}
	durableVariant   = variant{name: "felix durable", kind: server.Felix, durable: true}
	onCommitVariant  = variant{name: "felix on_commit", kind: server.Felix, durable: true, fsync: "on_commit"}
	nativeListenArgs = []string{"--native-listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0"}
)

// streamName is the stream of every native row.
const streamName = "bench"

// variants runs trial for each variant in turn, as interleave does for servers.
func (b *bench) variants(ctx context.Context, s *report.Sub, all []variant, trial func(context.Context, variant) (report.Figures, error)) error {
	byName := map[server.Kind]variant{}
	names := make([]server.Kind, 0, len(all))
	for _, v := range all {
		if b.has(v.kind) {
			byName[server.Kind(v.name)] = v
			names = append(names, server.Kind(v.name))
		}
	}
	return b.takeTurns(ctx, s, names, func(ctx context.Context, k server.Kind) (report.Figures, error) { return trial(ctx, byName[k]) })
}

// busTrial runs one load of native or NATS clients against a fresh server.
func (b *bench) busTrial(ctx context.Context, v variant, spec load.Spec, measured func(*server.Server, *load.Result) error) error {
	return b.busTrialAfter(ctx, v, spec, func(context.Context, *server.Server) error { return nil }, measured)
}

// busTrialAfter is busTrial with something to do before the load.
func (b *bench) busTrialAfter(ctx context.Context, v variant, spec load.Spec, first func(context.Context, *server.Server) error,
	measured func(*server.Server, *load.Result) error,
) error {
	cfg := server.Config{Kind: v.kind, Fsync: v.fsync, Args: v.args, Env: v.env}
	if v.kind == server.Felix {
		cfg.Args = append(cfg.Args, nativeListenArgs...)
	}
	spec.Env = v.env
	return b.withServer(ctx, cfg, func(srv *server.Server) error {
		bus := *spec.Bus
		bus.Stream = streamName
		spec.Bus, spec.Client, spec.Metrics = &bus, "bus", srv.Metrics
		switch v.kind {
		case server.Felix:
			dev := filepath.Join(srv.DataDir, "dev")
			bus.Native = &native.Target{Addr: srv.Native, CAFile: filepath.Join(dev, "ca.pem"), TokenFile: filepath.Join(dev, "token")}
			if err := createStream(ctx, srv, streamName, v.durable); err != nil {
				return err
			}
		case server.Relay:
			bus.Native = &native.Target{Addr: srv.Native, CAFile: b.in.TLS.CA()}
		case server.NATSTLS:
			bus.NATS, bus.CAFile = "tls://"+srv.Addr, b.in.TLS.CA()
		default:
			bus.NATS = "nats://" + srv.Addr
		}
		if err := first(ctx, srv); err != nil {
			return err
		}
		res, err := b.load(ctx, srv, spec)
		if err != nil {
			return err
		}
		if v.kind == server.Felix {
			if err := nothingDropped(ctx, srv); err != nil {
				return err
			}
		}
		return measured(srv, res)
	})
}

// createStream makes a stream of one shard through the control API.
func createStream(ctx context.Context, srv *server.Server, name string, durable bool) error {
	token, err := os.ReadFile(filepath.Join(srv.DataDir, "dev", "api-token"))
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"stream": name, "durable": durable})
	if err != nil {
		return err
	}
	url := fmt.Sprintf("http://%s/v1/tenants/%s/namespaces/%s/streams", srv.API, native.Tenant, native.Namespace)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("create the stream: %s", resp.Status)
	}
	return nil
}

// metric returns the sum of a metric over its labels.
func metric(ctx context.Context, srv *server.Server, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+srv.Metrics+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	sum, found := 0.0, false
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, err
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, fmt.Errorf("no metric %s", name)
	}
	return sum, nil
}

// nothingDropped fails a trial in which Felix threw something away.
func nothingDropped(ctx context.Context, srv *server.Server) error {
	for _, name := range []string{"felix_broker_ingress_dropped_total", "felix_sub_queue_dropped_total", "felix_sub_overrun_total"} {
		n, err := metric(ctx, srv, name)
		if err != nil && !strings.HasPrefix(err.Error(), "no metric") { // labels that nothing was counted under
			return err
		}
		if n > 0 {
			return fmt.Errorf("%s is %.0f", name, n)
		}
	}
	return nil
}

// ratio is the median of a column of one variant over that of another, and whether both have it.
func ratio(s *report.Sub, column string, v, over variant) (float64, bool) {
	below := s.Median(over.name, column)
	if !s.Has(v.name, column) || below == 0 {
		return 0, false
	}
	return s.Median(v.name, column) / below, true
}

// p9 is the way of single records from a publisher to subscribers.
func (b *bench) p9(ctx context.Context) error {
	var errs []error
	for _, fanout := range []int{1, 10, 100} {
		spec := load.Spec{
			Kind: load.Deliver, RecordBytes: 256, Rate: 2000, WarmSeconds: pick(b, 0.3, 0.5), Seconds: pick(b, 0.5, 2.0),
			Bus: &load.BusSpec{Acked: true, Fanout: fanout, Batch: 1},
		}
		text := fmt.Sprintf("256 B records, one a publish, 2,000/s acknowledged (core NATS: without), open loop for %.1f s, to %d subscribers with a "+
			"connection each: from the intended send time to each subscriber.", spec.Seconds, fanout)
		s := b.sub("P9", fmt.Sprintf("fanout-%d", fanout), text, "p50 ms", "p99 ms", "p99.9 ms", "max ms", "server µs/publish", "client µs/publish", "other cores")
		if s == nil {
			continue
		}
		all := []variant{relayVariant, felixVariant, durableVariant, natsVariant, natsTLSVariant}
		errs = append(errs, b.variants(ctx, s, all, func(ctx context.Context, v variant) (f report.Figures, err error) {
			err = b.busTrial(ctx, v, spec, func(_ *server.Server, r *load.Result) error {
				n := float64(r.Records)
				f = report.Figures{"server µs/publish": 1e6 * r.ServerCPU / n, "client µs/publish": 1e6 * r.ClientCPU / n, "other cores": r.OtherCPU / r.Seconds}
				quantiles(f, "", r.End)
				return nil
			})
			return f, err
		}))
		for _, v := range []variant{felixVariant, durableVariant} {
			for _, c := range []struct {
				column string
				most   float64
			}{{"p50 ms", 1.15}, {"p99 ms", 1.25}} {
				if got, ok := ratio(s, c.column, v, relayVariant); ok {
					s.AtMost(v.name+": "+c.column+" over the relay's", got, c.most)
				}
			}
		}
		b.noteNATS(s, "p50 ms", "p99 ms")
	}
	return errors.Join(errs...)
}

// noteNATS says what Felix's figures are over NATS's where nothing must be reached.
func (b *bench) noteNATS(s *report.Sub, columns ...string) {
	var parts []string
	for _, v := range []variant{felixVariant, durableVariant} {
		for _, over := range []variant{natsVariant, natsTLSVariant} {
			for _, c := range columns {
				if got, ok := ratio(s, c, v, over); ok {
					parts = append(parts, fmt.Sprintf("%s %.2f of %s's (%s)", c, got, over.name, v.name))
				}
			}
		}
	}
	if len(parts) > 0 {
		s.Notes = append(s.Notes, "Over NATS: "+strings.Join(parts, ", ")+".")
	}
}

// p10 is large batches in, without subscribers.
func (b *bench) p10(ctx context.Context) error {
	var errs []error
	for _, acked := range []bool{false, true} {
		spec := load.Spec{
			Kind: load.Ingest, RecordBytes: 4 << 10, WarmSeconds: pick(b, 0.3, 0.8), Seconds: pick(b, 0.5, 2.2),
			Bus: &load.BusSpec{Acked: acked, Batch: 64, Window: 16},
		}
		name := map[bool]string{false: "fire-and-forget", true: "acked"}[acked]
		text := fmt.Sprintf("One publisher, 64 records of 4 KiB a publish, for %.1f s; %s. The relay has nobody to deliver to: a sink.", spec.Seconds,
			map[bool]string{false: "no answers but to the last publish", true: "16 unanswered at most"}[acked])
		s := b.sub("P10", name, text, "MB/s", "core-s/GB", "client core-s/GB", "UDP %", "crypto %", "quic-go %", "ours %", "runtime %", "other cores")
		if s == nil {
			continue
		}
		all := []variant{relayVariant, felixVariant, durableVariant}
		errs = append(errs, b.variants(ctx, s, all, func(ctx context.Context, v variant) (f report.Figures, err error) {
			err = b.ingestTrial(ctx, v, spec, func(_ *server.Server, r *load.Result) error {
				f = throughput(r)
				return nil
			})
			return f, err
		}))
		if got, ok := ratio(s, "core-s/GB", felixVariant, relayVariant); ok {
			s.AtMost("core-s/GB over the relay's", got, 1.2)
			if s.Has(durableVariant.name, "core-s/GB") {
				s.AtMost("core-s/GB that durable adds", s.Median(durableVariant.name, "core-s/GB")-s.Median(felixVariant.name, "core-s/GB"), 0.4)
			}
		}
		for _, v := range all {
			if b.has(v.kind) && s.Has(v.name, "MB/s") {
				errs = append(errs, b.profileIngest(ctx, s, v, spec))
			}
		}
		if s.Has(felixVariant.name, "ours %") {
			s.AtMost("% of the profile that is ours", s.Median(felixVariant.name, "ours %"), 15)
		}
	}
	return errors.Join(append(errs, b.p10settings(ctx))...)
}

// ingestTrial is busTrial with memory at hand for the page cache.
func (b *bench) ingestTrial(ctx context.Context, v variant, spec load.Spec, measured func(*server.Server, *load.Result) error) error {
	release, err := warmMemory(pick(b, 64<<20, 2<<30))
	if err != nil {
		return err
	}
	defer release()
	return b.busTrialAfter(ctx, v, spec, func(context.Context, *server.Server) error {
		release()
		return nil
	}, measured)
}

// p10settings shows what single settings of sockets and transport are worth, on the relay.
func (b *bench) p10settings(ctx context.Context) error {
	spec := load.Spec{
		Kind: load.Ingest, RecordBytes: 4 << 10, WarmSeconds: pick(b, 0.3, 0.5), Seconds: pick(b, 0.5, 1.5), Bus: &load.BusSpec{Batch: 64, Window: 16},
	}
	s := b.sub("P10", "settings", fmt.Sprintf("The same load without answers for %.1f s, against the relay with one setting changed. "+
		"GSO is off on both sides, the rest changes the relay alone.", spec.Seconds), "MB/s", "core-s/GB", "client core-s/GB", "other cores")
	if s == nil {
		return nil
	}
	all := []variant{
		relayVariant,
		{name: "no UDP_GRO", kind: server.Relay, args: []string{"-plain-socket"}},
		{name: "no GSO", kind: server.Relay, env: []string{"QUIC_GO_DISABLE_GSO=true"}},
		{name: "neither", kind: server.Relay, args: []string{"-plain-socket"}, env: []string{"QUIC_GO_DISABLE_GSO=true"}},
		{name: "windows 256 KiB", kind: server.Relay, args: []string{"-window-bytes", "262144"}},
		{name: "windows 1 MiB", kind: server.Relay, args: []string{"-window-bytes", "1048576"}},
		{name: "socket 208 KiB", kind: server.Relay, args: []string{"-socket-bytes", "212992"}},
		{name: "1452 B at once", kind: server.Relay, args: []string{"-large-packets"}},
	}
	keep := b.trials
	defer func() { b.trials = keep }()
	b.trials = min(keep, 3)
	return b.variants(ctx, s, all, func(ctx context.Context, v variant) (f report.Figures, err error) {
		err = b.busTrial(ctx, v, spec, func(_ *server.Server, r *load.Result) error {
			f = throughput(r)
			return nil
		})
		return f, err
	})
}

// profileIngest runs one more trial that is not counted but profiled, and puts the shares of the profile into the first trial's figures.
func (b *bench) profileIngest(ctx context.Context, s *report.Sub, v variant, spec load.Spec) error {
	spec.Seconds = max(spec.Seconds, profileSeconds+0.5)
	path := filepath.Join(b.work, safe("P10-"+s.Name+"-"+v.name)+".pprof")
	if b.profiles != "" {
		path = filepath.Join(b.profiles, filepath.Base(path))
	}
	ctx = context.WithValue(ctx, profileKey{}, path)
	if err := b.ingestTrial(ctx, v, spec, func(*server.Server, *load.Result) error { return nil }); err != nil {
		return err
	}
	shares, err := profileShares(path)
	if err != nil {
		return err
	}
	for class, share := range shares {
		s.Trials[v.name][0][class+" %"] = 100 * share
	}
	b.say("P10 %s %s profile: %v", s.Name, v.name, shares)
	return nil
}

// p11 is batches to many subscribers.
func (b *bench) p11(ctx context.Context) error {
	var errs []error
	for _, size := range []int{256, 1024} {
		for _, fanout := range []int{1, 10, 100} {
			spec := load.Spec{
				Kind: load.Fanout, RecordBytes: size, WarmSeconds: pick(b, 0.3, 0.5), Seconds: pick(b, 0.5, 1.4),
				Bus: &load.BusSpec{Fanout: fanout, Batch: 64, Window: 128},
			}
			text := fmt.Sprintf("64 records of %d B a publish (NATS: published one by one), to %d subscribers with a connection each, as fast as the slowest "+
				"takes them, 128 batches under way, for %.1f s; in memory, none lost.", size, fanout, spec.Seconds)
			s := b.sub("P11", fmt.Sprintf("%dB/fanout-%d", size, fanout), text, "kdeliveries/s", "MB/s", "core-s/GB", "server µs/delivery",
				"client µs/delivery", "encodes/batch", "other cores")
			if s == nil {
				continue
			}
			errs = append(errs, b.fanoutSub(ctx, s, spec))
		}
	}
	return errors.Join(errs...)
}

func (b *bench) fanoutSub(ctx context.Context, s *report.Sub, spec load.Spec) error {
	all := []variant{relayVariant, felixVariant, natsVariant, natsTLSVariant}
	err := b.variants(ctx, s, all, func(ctx context.Context, v variant) (f report.Figures, err error) {
		err = b.busTrial(ctx, v, spec, func(srv *server.Server, r *load.Result) error {
			n := float64(r.Deliveries)
			f = report.Figures{
				"kdeliveries/s": n / 1e3 / r.Seconds, "MB/s": float64(r.Bytes) / 1e6 / r.Seconds, "core-s/GB": r.ServerCPU / float64(r.Bytes) * 1e9,
				"server µs/delivery": 1e6 * r.ServerCPU / n, "client µs/delivery": 1e6 * r.ClientCPU / n, "other cores": r.OtherCPU / r.Seconds,
			}
			if v.kind != server.Felix {
				return nil
			}
			encodes, err := metric(ctx, srv, "felix_sub_frames_encoded_total")
			f["encodes/batch"] = encodes / (float64(r.AllRecords) / float64(spec.Bus.Batch))
			return err
		})
		return f, err
	})
	type bound struct {
		bytes, fanout int
		over          variant
		least         float64
	}
	for _, c := range []bound{
		{256, 1, natsVariant, 0.95},
		{256, 10, natsVariant, 1.5},
		{256, 100, natsVariant, 1.1},
		{256, 10, natsTLSVariant, 2},
		{256, 100, natsTLSVariant, 2},
		{1024, 10, natsTLSVariant, 0.9},
	} {
		if got, ok := ratio(s, "kdeliveries/s", felixVariant, c.over); ok && c.bytes == spec.RecordBytes && c.fanout == spec.Bus.Fanout {
			s.AtLeast("deliveries/s over "+c.over.name+"'s", got, c.least)
		}
	}
	if s.Has(felixVariant.name, "encodes/batch") {
		s.AtMost("encodes a batch", s.Median(felixVariant.name, "encodes/batch"), 1)
	}
	return err
}

// p12 is single durable records.
func (b *bench) p12(ctx context.Context) error {
	spec := load.Spec{
		Kind: load.Singles, RecordBytes: 256, WarmSeconds: pick(b, 0.3, 1.0), Seconds: pick(b, 0.5, 3.0), Bus: &load.BusSpec{Acked: true, Batch: 1, Window: 64},
	}
	text := fmt.Sprintf("256 B records, one a publish, each answered, 64 under way on one stream, for %.1f s. The relay answers and forgets.", spec.Seconds)
	s := b.sub("P12", "singles", text, "krec/s", "server µs/record", "client µs/record", "appends/sync", "other cores")
	if s == nil {
		return nil
	}
	all := []variant{relayVariant, durableVariant, onCommitVariant}
	all[1].name = felixVariant.name // periodic is what the server does by default
	err := b.variants(ctx, s, all, func(ctx context.Context, v variant) (f report.Figures, err error) {
		err = b.busTrial(ctx, v, spec, func(srv *server.Server, r *load.Result) error {
			n := float64(r.Records)
			f = report.Figures{
				"krec/s": n / 1e3 / r.Seconds, "server µs/record": 1e6 * r.ServerCPU / n, "client µs/record": 1e6 * r.ClientCPU / n,
				"other cores": r.OtherCPU / r.Seconds,
			}
			if v.fsync == "" {
				return nil
			}
			appends, err := metric(ctx, srv, "felix_storage_sync_batch_appends_sum")
			if err != nil {
				return err
			}
			syncs, err := metric(ctx, srv, "felix_storage_sync_batch_appends_count")
			f["appends/sync"] = appends / max(syncs, 1)
			return err
		})
		return f, err
	})
	for _, v := range all[1:] {
		if s.Has(v.name, "server µs/record") {
			s.AtMost(v.name+": server µs a record", s.Median(v.name, "server µs/record"), 20)
		}
	}
	if s.Has(onCommitVariant.name, "appends/sync") {
		s.AtLeast("publishes that share a sync", s.Median(onCommitVariant.name, "appends/sync"), 2)
	}
	return err
}

// p13 is clients that do nothing.
func (b *bench) p13(ctx context.Context) error {
	spec := load.Spec{
		Kind: load.Hold, Seconds: pick(b, 1.0, 8.0),
		Bus: &load.BusSpec{Connections: pick(b, 20, 100), Streams: 40, Subscriptions: 10},
	}
	registered := pick(b, 100, 10_000)
	text := fmt.Sprintf("%d connections with one authenticated stream each; %d more on each; %d subscriptions on each; then %.0f s of nothing. Felix has %d "+
		"streams registered. Judged is what heap and stacks hold after a collection, beside it resident memory.", spec.Bus.Connections, spec.Bus.Streams,
		spec.Bus.Subscriptions, spec.Seconds, registered)
	s := b.sub("P13", "idle", text, "KiB/connection", "KiB/stream", "KiB/subscription", "RSS KiB/connection", "RSS KiB/stream", "RSS KiB/subscription",
		"RSS MiB", "idle %", "other cores")
	if s == nil {
		return nil
	}
	keep := b.trials
	defer func() { b.trials = keep }()
	b.trials = min(keep, 3)
	all := []variant{relayVariant, felixVariant}
	err := b.variants(ctx, s, all, func(ctx context.Context, v variant) (f report.Figures, err error) {
		before := func(context.Context, *server.Server) error { return nil }
		if v.kind == server.Felix {
			before = func(ctx context.Context, srv *server.Server) error {
				names := make([]string, registered)
				for i := range names {
					names[i] = fmt.Sprintf("registered-%05d", i)
				}
				return b.createTopics(ctx, srv, names, 1, nil)
			}
		}
		err = b.busTrialAfter(ctx, v, spec, before, func(_ *server.Server, r *load.Result) error {
			f = heldFigures(r, spec.Bus)
			return nil
		})
		return f, err
	})
	for _, c := range []struct {
		column string
		most   float64
	}{{"KiB/connection", 16}, {"KiB/stream", 6}, {"KiB/subscription", 4}} {
		if s.Has(felixVariant.name, c.column) && s.Has(relayVariant.name, c.column) {
			s.AtMost(c.column+" above the relay's", s.Median(felixVariant.name, c.column)-s.Median(relayVariant.name, c.column), c.most)
		}
	}
	if s.Has(felixVariant.name, "idle %") {
		s.AtMost("idle % of a core", s.Median(felixVariant.name, "idle %"), 2)
	}
	return err
}

// heldFigures are the steps of Hold, each over what it opened.
func heldFigures(r *load.Result, bus *load.BusSpec) report.Figures {
	f := report.Figures{
		"RSS MiB": float64(r.Held[len(r.Held)-1].RSS) / (1 << 20), "idle %": 100 * r.ServerCPU / r.Seconds, "other cores": r.OtherCPU / r.Seconds,
	}
	opened := []int{bus.Connections, bus.Connections * bus.Streams, bus.Connections * bus.Subscriptions}
	for i, name := range []string{"connection", "stream", "subscription"} {
		n := 1024 * float64(opened[i])
		f["KiB/"+name] = float64(r.Held[i+1].Live-r.Held[i].Live) / n
		f["RSS KiB/"+name] = float64(r.Held[i+1].RSS-r.Held[i].RSS) / n
	}
	return f
}

// wanted reports whether a list of rows, all when empty, has one that keep accepts.
func wanted(list string, keep func(string) bool) bool {
	names := strings.Split(list, ",")
	return slices.ContainsFunc(rows, func(r row) bool { return (list == "" || slices.Contains(names, r.name)) && keep(r.name) })
}
