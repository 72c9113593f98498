// Package node is the server process: it reads the configuration, wires the parts of the server together, serves the admin HTTP
// port, and starts and stops everything in order. It is the only package that imports all others, and the only one besides
// internal/ctl that reads flags, files and the environment.
//
// A node is opened by Open, which takes the data directory's lock, opens journal, controller, broker and listeners in that order, and
// returns once it serves; Close undoes it in reverse within the drain budget. A kill at any point is safe: what Close adds is that
// clients are let go politely, and that the next start knows that nothing was lost ("clean").
//
// Invariants: no two processes hold one data directory; the clean mark is written only after every log was closed clean, and is
// consumed before anything is written again; the ready file exists only while the node serves, and is written whole.
//
// It owns: the lock file, the ready file, the development certificate, the metrics registry and the process's logger.
//
// Sources: design.md sections 10 and 11; spec operations.md sections 3, 4, 5, 8.7, 9, 10, 11; security.md section 10.
//
// Non-obvious:
//   - The settings table (settings.go) is the one place for names, defaults and bounds; docs/configuration.md is generated from it.
//   - Settings that weaken access have no key in the file: a file that is copied to another machine must not open it to the world.
//   - The single-node profile is a default of last resort for single values, and not a mode: every value of it can be set.
//   - The development key has an id of its own kind, so that a node outside the profile finds and retires it although its file is gone. Once
//     retired it is never published again: a key file that the metadata does not know is replaced.
//   - A second signal ends the wait that is going on, and not the process: logs are still closed.
//   - Nothing may run at package initialisation, and the listeners are bound before anything slow: a start is measured in milliseconds.
package node
