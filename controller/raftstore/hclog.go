package raftstore

import (
	"github.com/hashicorp/go-hclog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// raftLogger passes raft's messages to zap. Raft is talkative at every start and election, so all but its errors are debug messages.
// The embedded null logger answers what raft never asks.
type raftLogger struct {
	hclog.Logger
	z    *zap.Logger
	name string
}

func newRaftLogger(z *zap.Logger) hclog.Logger {
	return &raftLogger{Logger: hclog.NewNullLogger(), z: z.WithOptions(zap.AddCallerSkip(2))}
}

func (l *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	if level >= hclog.Error {
		l.write(zapcore.ErrorLevel, msg, args)
		return
	}
	l.write(zapcore.DebugLevel, msg, args)
}

func (l *raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l *raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l *raftLogger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l *raftLogger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l *raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }
func (l *raftLogger) IsDebug() bool                 { return l.z.Core().Enabled(zapcore.DebugLevel) }
func (l *raftLogger) IsInfo() bool                  { return l.IsDebug() }
func (l *raftLogger) IsWarn() bool                  { return l.IsDebug() }
func (l *raftLogger) IsError() bool                 { return true }
func (l *raftLogger) Name() string                  { return l.name }

func (l *raftLogger) With(args ...any) hclog.Logger {
	return &raftLogger{Logger: l.Logger, z: l.z.With(fields(args)...), name: l.name}
}

func (l *raftLogger) Named(name string) hclog.Logger {
	return &raftLogger{Logger: l.Logger, z: l.z.Named(name), name: name}
}

func (l *raftLogger) ResetNamed(name string) hclog.Logger { return l.Named(name) }

func (l *raftLogger) write(level zapcore.Level, msg string, args []any) {
	if e := l.z.Check(level, msg); e != nil {
		e.Write(fields(args)...)
	}
}

// fields turns alternating keys and values into fields.
func fields(args []any) []zap.Field {
	out := make([]zap.Field, 0, len(args)/2)
	for i := 0; i+1 < len(args); i += 2 {
		key, ok := args[i].(string)
		if !ok {
			key = "value"
		}
		out = append(out, zap.Any(key, args[i+1]))
	}
	return out
}
