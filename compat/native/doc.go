// Package native runs the published upstream client of the native protocol, felix-client of PyPI in the version that
// python/requirements.txt pins, against the real server. It is black-box: what the server is, it learns from its command line, its
// ready file and what the development profile writes (docs/native-protocol.md).
//
// The client is driven by python/agent.py, one process for the blocking surface and one for asyncio; what is true of both is run with
// both (each). Durable streams are made through Kafka and ephemeral ones through the REST API. Servers with settings of their own belong
// to the test that needs them.
//
// What the client puts on the wire is watched by two aids: relay_test.go is a QUIC server and client in one, which passes streams on and
// notes every frame's flags and message type; datagrams_test.go passes datagrams on and notes their sizes. The facts of
// docs/native-protocol.md about the upstream client are what wire_test.go asserts, so that a new version of it that does otherwise shows.
//
// The environment chooses: PEER and FELIX_BIN as in package peer (the suite is skipped for any other server than Felix);
// NATIVE_PYTHON is the Python with the client in it, NATIVE_IDLE how long the idle subscription lasts (60 s; 15 s when CI is set).
//
// Non-obvious:
//   - The client resumes a subscription by itself when a connection is lost. A test that asserts that nothing was lost must look at the
//     server's count of connections, or it takes a resumption for an undisturbed stream.
//   - The idle subscription is opened before the first test, so that its minute passes beside the others.
//   - The client drops what its own queue of 256 frames does not hold and resumes from the log: being behind costs order nothing.
package native
