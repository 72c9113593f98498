// Package archtest holds the rules of the tree that a linter cannot say, as tables and as functions over parsed sources, and the
// tests that apply them to the whole module.
//
// What it checks: the import arrows between packages (arrows.go); that every package has a doc.go with a package comment; that every
// exported name has a doc comment; that no goroutine is started by a bare go statement; that context.Background is made only in cmd
// and in tests; that time.Sleep and time.After stay in tests; that banned words ("flush" for sync, "LSO") name nothing; that a file of
// more than 1,000 lines is explained; and that no test skips itself.
//
// A new folder or a new arrow is an edit to the table in arrows.go, reviewed as design and explained in docs/architecture.md.
//
// Non-obvious:
//   - Sources are parsed in this process. The test cache sees files that the test process opens, and not files that a child
//     (go list, grep) reads; with a child the cached verdict "ok" would outlive the code it was about.
//   - Files of every build tag are read, since a rule holds for a file whether or not this machine would build it.
//   - Only names that the tree declares are searched for banned words: uses of a library's Flush method are not ours to rename.
//   - Each rule is proved by breaking it once, in rules_test.go; a rule without a failing example may check nothing.
package archtest
