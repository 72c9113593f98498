package ctl

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestConfirmation: on a terminal a deletion asks, and says what goes; nothing but y or yes is a yes.
func TestConfirmation(t *testing.T) {
	c, _ := development(t)
	want(t, exitOK, "", []string{"stream", "create", "orders", c})
	for _, tt := range []struct {
		name, reply string
		in, out     bool
		status      int
		said        string
	}{
		{"no", "n\n", true, true, exitFailure, "not confirmed; nothing was done"},
		{"empty", "\n", true, true, exitFailure, "not confirmed"},
		{"end", "", true, true, exitFailure, "not confirmed"},
		{"other", "orders\n", true, true, exitFailure, "not confirmed"},
		{"no_terminal_in", "y\n", false, true, exitUsage, "say --yes"},
		{"no_terminal_out", "y\n", true, false, exitUsage, "say --yes"},
		{"yes", "y\n", true, true, exitOK, "Delete stream orders with its records (1 shard) for good? [y/N]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			status := Main(t.Context(), Process{
				Args: []string{"stream", "rm", "orders", c}, In: strings.NewReader(tt.reply), Out: &out, Err: &errs, InTerminal: tt.in, OutTerminal: tt.out,
			})
			if status != tt.status || !strings.Contains(errs.String(), tt.said) {
				t.Errorf("got status %d, %q, want %d and %q", status, errs.String(), tt.status, tt.said)
			}
			if (out.Len() > 0) != (tt.status == exitOK) {
				t.Errorf("got %q on standard output", out.String())
			}
		})
	}
	want(t, exitMissing, "", []string{"stream", "info", "orders", c})
}

// TestProgress: long work is told of where a person sits at standard error and sees no data meanwhile, now and then.
func TestProgress(t *testing.T) {
	for _, tt := range []struct {
		name     string
		err, out bool
		json     bool
		since    time.Duration
		want     string
	}{
		{"person", true, false, false, time.Hour, "7 so far\n"},
		{"soon", true, false, false, 0, ""},
		{"script", false, false, false, time.Hour, ""},
		{"data_on_terminal", true, true, false, time.Hour, ""},
		{"program", true, false, true, time.Hour, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var errs bytes.Buffer
			a := &app{p: Process{Err: &errs, ErrTerminal: tt.err, OutTerminal: tt.out}, settings: settings{asJSON: tt.json}}
			told := time.Now().Add(-tt.since)
			a.progress(&told, "%d so far", 7)
			a.progress(&told, "%d so far", 8)
			if errs.String() != tt.want {
				t.Errorf("got %q, want %q", errs.String(), tt.want)
			}
		})
	}
}

// TestAligned: columns stand below each other; what is written later keeps the widths, and wider cells push.
func TestAligned(t *testing.T) {
	widths := make([]int, 3)
	got := string(aligned(widths, [][]string{{"NAME", "N", "REST"}, {"ä", "10", ""}, {"a\tb", "1", "x"}}))
	if want := "NAME  N   REST\nä     10\na\\tb  1   x\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := string(aligned(widths, [][]string{{"longer", "1", "x"}, {"s", "1", "x"}})), "longer  1   x\ns       1   x\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
