//go:build !invariants

package invariant

// Enabled says that this build panics on a broken invariant and runs the expensive checks.
const Enabled = false
