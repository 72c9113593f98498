package node

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// APIConfig is the control-plane API's part of Config, besides its listener and certificate.
type APIConfig struct {
	Region                   string
	ReadyTimeout, ReadyCache time.Duration

	Bootstrap                         bool
	BootstrapListen                   string
	BootstrapToken, BootstrapPrevious string
	DevTokens                         bool
	// All three or none: then the listener speaks TLS and demands a certificate of its callers.
	BootstrapCertFile, BootstrapKeyFile, BootstrapClientCAFile string
	TokenTTL                                                   time.Duration
}

func apiSettings() []setting {
	return []setting{
		{
			Key: "region_id", Env: "FELIX_REGION_ID", Kind: "text", Default: "local", Decides: true,
			Doc:  "Region that this node stands in. A stream that asks for another has no place.",
			bind: func(c *Config) binding { return textOf(&c.API.Region) },
		},
		{
			Key: "readiness_timeout_ms", Env: "FELIX_READINESS_TIMEOUT_MS", Kind: "ms", Default: "2000",
			Doc: "Longest time that a question for the API's readiness takes.",
			bind: func(c *Config) binding {
				return durationOf(&c.API.ReadyTimeout, time.Millisecond, 10*time.Millisecond, time.Minute)
			},
		},
		{
			Key: "readiness_cache_ttl_ms", Env: "FELIX_READINESS_CACHE_TTL_MS", Kind: "ms", Default: "1000",
			Doc: "How long the answer to such a question is given again.",
			bind: func(c *Config) binding {
				return durationOf(&c.API.ReadyCache, time.Millisecond, time.Millisecond, time.Minute)
			},
		},
		{
			Key: "exchange_token_ttl_seconds", Env: "FELIX_EXCHANGE_TOKEN_TTL_SECONDS", Kind: "s", Default: "900",
			Doc:  "How long an access token lasts that the API gives out.",
			bind: func(c *Config) binding { return durationOf(&c.API.TokenTTL, time.Second, time.Second, day) },
		},
		{
			Env: "FELIX_BOOTSTRAP_ENABLED", Kind: "bool", Default: "false", Decides: true,
			Doc:  "The bootstrap listener, which gives a tenant its first key and its first administrators. Needs `FELIX_BOOTSTRAP_TOKEN`.",
			bind: func(c *Config) binding { return boolOf(&c.API.Bootstrap) },
		},
		{
			Env: "FELIX_BOOTSTRAP_BIND_ADDR", Kind: "addr", Default: "127.0.0.1:9095", Decides: true,
			Doc:  "Address of the bootstrap listener: plain HTTP on loopback, unless it has the three TLS settings below. Port 0 picks a free one.",
			bind: func(c *Config) binding { return addrOf(&c.API.BootstrapListen) },
		},
		{
			Env: "FELIX_BOOTSTRAP_TOKEN", Kind: "text", Default: "", Secret: true, Decides: true,
			Doc:  "Shared secret that the bootstrap listener's callers send as `X-Felix-Bootstrap-Token`.",
			bind: func(c *Config) binding { return textOf(&c.API.BootstrapToken) },
		},
		{
			Env: "FELIX_BOOTSTRAP_TOKEN_PREVIOUS", Kind: "text", Default: "", Secret: true, Decides: true,
			Doc:  "A second one that counts as well, while it is being changed.",
			bind: func(c *Config) binding { return textOf(&c.API.BootstrapPrevious) },
		},
		{
			Env: "FELIX_BOOTSTRAP_DEV_TOKENS", Kind: "bool", Default: "false", Weakens: true, Decides: true,
			Doc:  "Development tokens: whoever has the bootstrap token gets any principal's, with every right. On a loopback address only.",
			bind: func(c *Config) binding { return boolOf(&c.API.DevTokens) },
		},
		{
			Env: "FELIX_BOOTSTRAP_TLS_CERT", Kind: "path", Default: "", Decides: true,
			Doc:  "Certificate chain of the bootstrap listener (PEM). Together with the next two, or none of them.",
			bind: func(c *Config) binding { return textOf(&c.API.BootstrapCertFile) },
		},
		{
			Env: "FELIX_BOOTSTRAP_TLS_KEY", Kind: "path", Default: "", Decides: true,
			Doc:  "Private key of `FELIX_BOOTSTRAP_TLS_CERT` (PEM).",
			bind: func(c *Config) binding { return textOf(&c.API.BootstrapKeyFile) },
		},
		{
			Env: "FELIX_BOOTSTRAP_TLS_CLIENT_CA", Kind: "path", Default: "", Decides: true,
			Doc:  "Certificate authority (PEM) whose certificate every caller of the bootstrap listener must show.",
			bind: func(c *Config) binding { return textOf(&c.API.BootstrapClientCAFile) },
		},
	}
}

// validate refuses a bootstrap listener that lets in more people than somebody meant.
func (c *APIConfig) validate(allowInsecure bool) []error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.BootstrapToken == "" && c.BootstrapPrevious != "" {
		refuse("FELIX_BOOTSTRAP_TOKEN_PREVIOUS is set and FELIX_BOOTSTRAP_TOKEN is not: a previous secret stands beside a present one")
	}
	if c.Bootstrap && c.BootstrapToken == "" {
		refuse("FELIX_BOOTSTRAP_ENABLED is on and there is no FELIX_BOOTSTRAP_TOKEN: nobody could be told from anybody else")
	}
	if tls := []string{c.BootstrapCertFile, c.BootstrapKeyFile, c.BootstrapClientCAFile}; slices.Contains(tls, "") && strings.Join(tls, "") != "" {
		refuse("FELIX_BOOTSTRAP_TLS_CERT, FELIX_BOOTSTRAP_TLS_KEY and FELIX_BOOTSTRAP_TLS_CLIENT_CA go together: set all three or none")
	}
	if c.Bootstrap && !allowInsecure && !isLoopback(c.BootstrapListen) && c.BootstrapCertFile == "" {
		refuse("FELIX_BOOTSTRAP_BIND_ADDR %s is reachable from other machines and sends the bootstrap token in clear text: "+
			"bind 127.0.0.1, set FELIX_BOOTSTRAP_TLS_CERT, or say --allow-insecure", c.BootstrapListen)
	}
	if c.DevTokens && (!c.Bootstrap || !isLoopback(c.BootstrapListen)) {
		refuse("FELIX_BOOTSTRAP_DEV_TOKENS gives out any principal's token: it needs FELIX_BOOTSTRAP_ENABLED=true and a loopback FELIX_BOOTSTRAP_BIND_ADDR")
	}
	if c.Region == "" {
		refuse("region_id is empty")
	}
	return errs
}

// warnings name what is on and gives something away, or has no effect.
func (c *APIConfig) warnings() []string {
	if c.DevTokens {
		return []string{"FELIX_BOOTSTRAP_DEV_TOKENS is on: whoever has the bootstrap token can act as anybody"}
	}
	return nil
}
