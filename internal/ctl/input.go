package ctl

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
)

// maxLineBytes bounds one line of input; a longer record is sent with --whole.
const maxLineBytes = 16 << 20

// inputFlags say where the records of produce and pub come from, and what their keys are.
type inputFlags struct {
	key, keyDelim, file string
	count               int
	whole, null         bool
	keyed               bool // a key was given, be it empty
}

func (f *inputFlags) add(fl *pflag.FlagSet) {
	fl.StringVarP(&f.key, "key", "k", "", "key of every record")
	fl.StringVarP(&f.keyDelim, "key-delim", "K", "", "text that separates key and value in each line")
	fl.StringVarP(&f.file, "file", "f", "", "read records from this file")
	fl.BoolVar(&f.whole, "whole", false, "the whole input is one record, not one a line")
	fl.IntVar(&f.count, "count", 1, "write each record this many times")
}

func (f *inputFlags) check(hasMessage bool) error {
	switch {
	case f.count < 1:
		return usageErrorf("--count must be at least 1")
	case hasMessage && (f.file != "" || f.whole || f.null):
		return usageErrorf("a message on the command line goes without --file, --whole and --null")
	case f.key != "" && f.keyDelim != "":
		return usageErrorf("--key and --key-delim exclude each other")
	}
	return nil
}

// split finds the key of a line and what is left as its value.
func (f *inputFlags) split(line []byte) (key, value []byte, err error) {
	if f.keyDelim != "" {
		k, v, ok := bytes.Cut(line, []byte(f.keyDelim))
		if !ok {
			return nil, nil, usageErrorf("a line has no %q between key and value: %.60q", f.keyDelim, line)
		}
		return k, v, nil
	}
	if f.key != "" || f.keyed {
		key = []byte(f.key)
	}
	return key, line, nil
}

// eachRecord calls send for each record that the flags and the input make.
func (a *app) eachRecord(ctx context.Context, f *inputFlags, message []string, send func(line []byte, null bool) error) error {
	switch {
	case f.null:
		return send(nil, true)
	case len(message) > 0:
		return send([]byte(message[0]), false)
	}
	in := a.p.In
	if f.file != "" {
		file, err := os.Open(f.file)
		if err != nil {
			return usageErrorf("--file: %w", err)
		}
		defer func() { _ = file.Close() }() // only read
		in = file
	} else if a.p.InTerminal {
		a.say("one record a line; end with Ctrl-D")
	}
	if f.whole {
		all, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		return send(all, false)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLineBytes)
	for lines.Scan() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := send(bytes.Clone(lines.Bytes()), false); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read records (a line holds at most %d bytes; --whole sends larger ones): %w", maxLineBytes, err)
	}
	return nil
}
