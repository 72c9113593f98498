package raftstore

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/felixlog/felix/controller"
	"github.com/felixlog/felix/controller/storetest"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	goleak.VerifyTestMain(m)
}

func TestSuite(t *testing.T) {
	storetest.Run(t, 60, func(ctx context.Context, dir string, m controller.Machine, first [][]byte) (controller.Store, error) {
		return Open(ctx, Options{Dir: dir, Node: "n1", SnapshotEntries: 20, SnapshotInterval: 5 * time.Millisecond}, m, first)
	})
}

func open(tb testing.TB, dir string) *controller.Controller {
	tb.Helper()
	c, err := controller.Open(tb.Context(), controller.Options{Store: Opener(Options{Dir: dir, Node: "n1"})})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}
