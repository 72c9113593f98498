package node

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func TestLogLevelsByComponent(t *testing.T) {
	var out bytes.Buffer
	logger, err := newLogger(&Config{LogLevels: "warn,kafkaproto=debug,log.compact=info", LogFormat: "json"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"broker", "kafkaproto", "kafkaproto.conn", "log", "log.compact"} {
		l := logger
		for part := range strings.SplitSeq(name, ".") {
			l = l.Named(part)
		}
		l = l.With(zap.String("shard", "x"))
		l.Debug("debug")
		l.Info("info")
		l.Warn("warn")
	}
	got := map[string]int{}
	for line := range strings.Lines(out.String()) {
		var entry struct{ Logger, Level, Msg, Shard string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if entry.Level != entry.Msg || entry.Shard != "x" {
			t.Errorf("got %+v", entry)
		}
		got[entry.Logger]++
	}
	want := map[string]int{"broker": 1, "kafkaproto": 3, "kafkaproto.conn": 3, "log": 1, "log.compact": 2}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: got %d lines, want %d", name, got[name], n)
		}
	}
}

func TestLogText(t *testing.T) {
	var out bytes.Buffer
	logger, err := newLogger(&Config{LogLevels: "info", LogFormat: "text"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	logger.Named("node").Info("serving", zap.String("kafka", "127.0.0.1:1"))
	if s := out.String(); !strings.Contains(s, "INFO") || !strings.Contains(s, "serving") || strings.Count(s, "\n") != 1 {
		t.Errorf("got %q, want one readable line", s)
	}
}
