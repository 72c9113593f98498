package node

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// levels is a parsed FELIX_LOG: a level for everything, and others for components, by logger name.
type levels struct {
	base       zapcore.Level
	components map[string]zapcore.Level
}

// parseLevels reads "info" or "component=level,component=level", the two mixed as well.
func parseLevels(s string) (levels, error) {
	out := levels{base: zapcore.InfoLevel, components: map[string]zapcore.Level{}}
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		component, text, named := strings.Cut(part, "=")
		if !named {
			component, text = "", part
		}
		level, err := zapcore.ParseLevel(text)
		if err != nil || level > zapcore.ErrorLevel {
			return levels{}, fmt.Errorf("%q is none of debug, info, warn, error", text)
		}
		if named {
			out.components[component] = level
		} else {
			out.base = level
		}
	}
	return out, nil
}

// of returns the level of a logger: of the longest component that is a prefix of its dotted name, else the base.
func (l levels) of(logger string) zapcore.Level {
	for name := logger; name != ""; {
		if level, ok := l.components[name]; ok {
			return level
		}
		dot := strings.LastIndexByte(name, '.')
		if dot < 0 {
			break
		}
		name = name[:dot]
	}
	return l.base
}

// lowest is the level below which no component logs.
func (l levels) lowest() zapcore.Level {
	low := l.base
	for _, level := range l.components {
		low = min(low, level)
	}
	return low
}

// componentCore lets an entry pass by the level of its logger's name, which zap's own level does not look at.
type componentCore struct {
	zapcore.Core
	levels levels
}

// Check adds the core where the component's level allows the entry.
func (c componentCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Level < c.levels.of(e.LoggerName) {
		return ce
	}
	return c.Core.Check(e, ce)
}

// With keeps the filter on the child.
func (c componentCore) With(fields []zapcore.Field) zapcore.Core {
	return componentCore{Core: c.Core.With(fields), levels: c.levels}
}

// newLogger builds the process's logger: one line an entry on out.
func newLogger(c *Config, out io.Writer) (*zap.Logger, error) {
	l, err := parseLevels(c.LogLevels)
	if err != nil {
		return nil, err
	}
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.TimeEncoderOfLayout(time.RFC3339Nano)
	enc.EncodeDuration = zapcore.StringDurationEncoder
	var encoder zapcore.Encoder
	if c.LogFormat == "json" {
		encoder = zapcore.NewJSONEncoder(enc)
	} else {
		enc.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02T15:04:05.000Z07:00")
		enc.EncodeLevel = zapcore.CapitalLevelEncoder
		enc.ConsoleSeparator = "  "
		encoder = zapcore.NewConsoleEncoder(enc)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(out)), l.lowest())
	return zap.New(componentCore{Core: core, levels: l}, zap.ErrorOutput(zapcore.Lock(os.Stderr))), nil
}
