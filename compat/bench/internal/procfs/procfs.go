// Package procfs reads what Linux says about processes and the machine: processor time, resident memory, open files.
package procfs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc's processor times: USER_HZ is 100 on every Linux architecture that Go runs on here.
const tick = 10 * time.Millisecond

// CPU returns the user and system time that all threads of a process have used, ended threads included.
func CPU(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The command name may hold spaces and brackets: count fields after its last bracket. utime and stime are fields 14, 15.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("short stat of process %d", pid)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, err
}

// Memory is the resident memory of a process in bytes.
type Memory struct {
	RSS  int64 // all resident pages
	Anon int64 // of which anonymous: heap and stacks
	File int64 // of which mapped from files
}

// ReadMemory returns the resident memory of a process.
func ReadMemory(pid int) (Memory, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	var m Memory
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(line, ":")
		var dst *int64
		switch name {
		case "VmRSS":
			dst = &m.RSS
		case "RssAnon":
			dst = &m.Anon
		case "RssFile":
			dst = &m.File
		default:
			continue
		}
		kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		if err != nil {
			return Memory{}, err
		}
		*dst = kib << 10
	}
	return m, nil
}

// OpenFiles returns the number of open file descriptors of a process.
func OpenFiles(pid int) (int, error) {
	d, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(d), err
}

// Machine is a sample of the whole machine's processor time since boot.
type Machine struct {
	Busy  time.Duration // user, nice, system and interrupts of all processors
	Steal time.Duration // time the host gave to others
	Total time.Duration // everything, idle included
}

// ReadMachine samples /proc/stat.
func ReadMachine() (Machine, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Machine{}, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return Machine{}, fmt.Errorf("unexpected first line of /proc/stat: %q", line)
	}
	var m Machine
	for i, f := range fields[1:9] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return Machine{}, err
		}
		d := time.Duration(n) * tick
		m.Total += d
		switch i {
		case 3, 4: // idle, iowait
		case 7:
			m.Steal += d
		default:
			m.Busy += d
		}
	}
	return m, nil
}

// Sub returns the time between an earlier sample and this one.
func (m Machine) Sub(earlier Machine) Machine {
	return Machine{Busy: m.Busy - earlier.Busy, Steal: m.Steal - earlier.Steal, Total: m.Total - earlier.Total}
}
