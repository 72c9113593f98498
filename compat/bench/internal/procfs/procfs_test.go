package procfs

import (
	"os"
	"testing"
	"time"
)

func TestOwnProcess(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); time.Since(start) < 60*time.Millisecond; {
	}
	after, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after-before < 20*time.Millisecond {
		t.Errorf("60 ms of spinning counted as %v", after-before)
	}
	m, err := ReadMemory(os.Getpid())
	if err != nil || m.RSS < 1<<20 || m.Anon+m.File > m.RSS {
		t.Errorf("memory %+v, error %v", m, err)
	}
	if n, err := OpenFiles(os.Getpid()); err != nil || n < 3 {
		t.Errorf("%d open files, error %v", n, err)
	}
	if mach, err := ReadMachine(); err != nil || mach.Total == 0 || mach.Busy > mach.Total {
		t.Errorf("machine %+v, error %v", mach, err)
	}
}
