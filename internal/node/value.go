package node

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// binding connects a row of the settings table to its field of a Config. set parses the text of a flag, a variable or a scalar of the
// file and refuses what it does not understand; get writes the field so that set reads the same value back.
type binding struct {
	set func(text string) error
	get func() string
}

func textOf(p *string) binding {
	return binding{
		set: func(s string) error { *p = s; return nil },
		get: func() string { return *p },
	}
}

func boolOf(p *bool) binding {
	return binding{
		set: func(s string) error {
			switch strings.ToLower(s) {
			case "1", "true", "yes":
				*p = true
			case "0", "false", "no":
				*p = false
			default:
				return fmt.Errorf("%q is not a truth value: use true or false (also 1, 0, yes, no)", s)
			}
			return nil
		},
		get: func() string { return strconv.FormatBool(*p) },
	}
}

func enumOf(p *string, words ...string) binding {
	return binding{
		set: func(s string) error {
			if !slices.Contains(words, s) {
				return fmt.Errorf("%q is none of %s", s, strings.Join(words, ", "))
			}
			*p = s
			return nil
		},
		get: func() string { return *p },
	}
}

// addrOf takes host:port with a port of 0 to 65535; the host may be empty (all interfaces) or a name. Empty text is "off".
func addrOf(p *string) binding {
	return binding{
		set: func(s string) error {
			if s != "" {
				if err := checkAddr(s); err != nil {
					return err
				}
			}
			*p = s
			return nil
		},
		get: func() string { return *p },
	}
}

func checkAddr(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not host:port", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q: port %q is not a number from 0 to 65535", s, port)
	} else if n == 0 && port != "0" {
		return fmt.Errorf("%q: port %q is not a number from 0 to 65535", s, port)
	}
	return nil
}

func intOf(p *int, low, high int) binding {
	return binding{
		set: func(s string) error {
			n, err := strconv.Atoi(s)
			if err != nil {
				return fmt.Errorf("%q is not a whole number", s)
			}
			if n < low || n > high {
				return fmt.Errorf("%d is outside %d to %d", n, low, high)
			}
			*p = n
			return nil
		},
		get: func() string { return strconv.Itoa(*p) },
	}
}

// orDefault makes a zero stand for the default, whatever the bounds.
func orDefault(b binding, def string) binding {
	return binding{
		set: func(s string) error {
			if n, err := parseBytes(s); err == nil && n == 0 {
				s = def
			}
			return b.set(s)
		},
		get: b.get,
	}
}

// bytesOf takes a whole number of bytes, also with a unit: KiB, MiB or GiB.
func bytesOf(p *int64, low, high int64) binding {
	return binding{
		set: func(s string) error {
			n, err := parseBytes(s)
			if err != nil {
				return err
			}
			if n < low || n > high {
				return fmt.Errorf("%d bytes is outside %d to %d", n, low, high)
			}
			*p = n
			return nil
		},
		get: func() string { return formatBytes(*p) },
	}
}

var byteUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

func parseBytes(s string) (int64, error) {
	unit := int64(1)
	number := s
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64/unit || n < math.MinInt64/unit {
		return 0, fmt.Errorf("%q is not a number of bytes (a whole number, or one with KiB, MiB or GiB)", s)
	}
	return n * unit, nil
}

func formatBytes(n int64) string {
	for _, u := range byteUnits {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// durationOf takes a whole number of the unit in the setting's name. Negative numbers are allowed where low is negative.
func durationOf(p *time.Duration, unit, low, high time.Duration) binding {
	return binding{
		set: func(s string) error {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return fmt.Errorf("%q is not a whole number (the unit is in the name)", s)
			}
			lowUnits, highUnits := int64(low/unit), int64(high/unit)
			if n < lowUnits || n > highUnits {
				return fmt.Errorf("%d is outside %d to %d", n, lowUnits, highUnits)
			}
			*p = time.Duration(n) * unit
			return nil
		},
		get: func() string { return strconv.FormatInt(int64(*p/unit), 10) },
	}
}

func listOf(p *[]string) binding {
	return binding{
		set: func(s string) error {
			var out []string
			for part := range strings.SplitSeq(s, ",") {
				if part = strings.TrimSpace(part); part == "" {
					return fmt.Errorf("%q has an empty entry", s)
				}
				out = append(out, part)
			}
			*p = out
			return nil
		},
		get: func() string { return strings.Join(*p, ",") },
	}
}

// credentialsOf takes tenant:password,tenant:password. A password may hold colons and no comma.
func credentialsOf(p *[]Credential) binding {
	return binding{
		set: func(s string) error {
			if s == "" {
				*p = nil
				return nil
			}
			var out []Credential
			for part := range strings.SplitSeq(s, ",") {
				tenant, password, ok := strings.Cut(part, ":")
				switch {
				case !ok || tenant == "" || password == "":
					return errors.New("an entry is not tenant:password (entries are separated by commas)")
				case slices.ContainsFunc(out, func(c Credential) bool { return c.Tenant == tenant }):
					return fmt.Errorf("tenant %q appears twice", tenant)
				}
				out = append(out, Credential{Tenant: tenant, Password: password})
			}
			*p = out
			return nil
		},
		get: func() string {
			parts := make([]string, len(*p))
			for i, c := range *p {
				parts[i] = c.Tenant + ":" + c.Password
			}
			return strings.Join(parts, ",")
		},
	}
}
