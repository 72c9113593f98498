// Package report keeps the outcomes of the client suite and writes them into the documents: results/<peer>.json holds those of the
// last recorded run against each peer, docs/kafka-clients.md is written from all of them, and docs/kafka-compatibility.md holds a
// table of one row a client between two markers.
//
// A run with CLIENTS_DOCS=1 saves its results; compat/clients/generate.sh, and so `make generate`, writes the documents. A test here
// fails when they differ from what the results say, so that neither is edited by hand.
//
// Non-obvious:
//   - A case that a library cannot do is not counted as passed: it is named with the reason (Results.Without), in the page and in the
//     table. A case that fails is shown as failing.
//   - A case without any result shows that, so that one which was renamed or not run is seen.
package report
