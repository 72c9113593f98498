module github.com/felixlog/felix/compat/clients/agent

go 1.26.0
