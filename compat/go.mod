module github.com/felixlog/felix/compat

go 1.26.0

require (
	github.com/felixlog/felix/compat/clients/agent v0.0.0
	github.com/klauspost/compress v1.20.4
	github.com/pierrec/lz4/v4 v4.1.33
	github.com/quic-go/quic-go v0.65.0
	github.com/twmb/franz-go v1.22.3
	github.com/twmb/franz-go/pkg/kadm v1.20.0
	github.com/twmb/franz-go/pkg/kmsg v1.15.1
)

require (
	github.com/felixlog/felix v0.0.0
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/felixlog/felix/compat/clients/agent => ./clients/agent

replace github.com/felixlog/felix => ../
