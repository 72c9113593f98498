// Command felix is the server and its offline tools:
//
//	felix serve          one node (see `felix serve --help`; without any setting a development node on loopback)
//	felix log inspect    what a start would say of a data directory, without writing
//	felix log verify     the same with every checksum of every segment
//	felix version        what was built
//
// It turns arguments and signals into calls of internal/node, and errors into an exit status: 0 success, 1 failure or a forced stop,
// 2 arguments or settings that cannot be; the offline tools add 6 (a start would repair) and 7 (a start would refuse, or records are
// damaged).
//
// Non-obvious: the first SIGINT or SIGTERM begins the stop and each further one ends a wait of it; none kills the process, because
// the logs are closed in every case.
package main
