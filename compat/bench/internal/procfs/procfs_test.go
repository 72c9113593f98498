package procfs

import (
	"os"
	"runtime"
	"testing"
	"time"
)

func TestOwnProcess(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// A machine with other work gives a spinning process little of its time; what is counted must come all the same.
	for start := time.Now(); ; {
		after, err := CPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		spun := time.Since(start)
		if after-before > spun*time.Duration(runtime.NumCPU())+20*time.Millisecond {
			t.Errorf("%v of spinning counted as %v", spun, after-before)
		}
		if after-before >= 20*time.Millisecond {
			break
		}
		if spun > 30*time.Second {
			t.Fatalf("%v of spinning counted as %v", spun, after-before)
		}
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
