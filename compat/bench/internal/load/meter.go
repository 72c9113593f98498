package load

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/felixlog/felix/compat/bench/internal/procfs"
)

// meter measures one part of a run: time, and the processor time of server, client and the rest of the machine.
type meter struct {
	pid            int
	start          time.Time
	server, client time.Duration
	machine        procfs.Machine
}

// begin starts the measured part and says so on out.
func begin(out io.Writer, pid int) (*meter, error) {
	m := &meter{pid: pid}
	var err error
	if m.server, err = procfs.CPU(pid); err != nil {
		return nil, fmt.Errorf("processor time of the server: %w", err)
	}
	if m.client, err = procfs.CPU(os.Getpid()); err != nil {
		return nil, err
	}
	if m.machine, err = procfs.ReadMachine(); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(out, "begin"); err != nil {
		return nil, err
	}
	m.start = time.Now()
	return m, nil
}

// end fills the times of res.
func (m *meter) end(res *Result) error {
	res.Seconds = time.Since(m.start).Seconds()
	server, err := procfs.CPU(m.pid)
	if err != nil {
		return fmt.Errorf("processor time of the server: %w", err)
	}
	client, err := procfs.CPU(os.Getpid())
	if err != nil {
		return err
	}
	machine, err := procfs.ReadMachine()
	if err != nil {
		return err
	}
	d := machine.Sub(m.machine)
	res.ServerCPU = (server - m.server).Seconds()
	res.ClientCPU = (client - m.client).Seconds()
	res.OtherCPU = max(0, (d.Busy+d.Steal).Seconds()-res.ServerCPU-res.ClientCPU)
	return nil
}
