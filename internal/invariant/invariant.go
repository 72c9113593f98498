package invariant

import "fmt"

// Violation is an invariant that did not hold, in a build that reports instead of panicking. Front ends see an internal error; the
// owner of the state stops using it.
type Violation struct {
	// What is the sentence that should have been true.
	What string
}

// Error returns the sentence with a prefix that log searches can rely on.
func (v *Violation) Error() string { return "invariant broken: " + v.What }

// Check returns nil when ok, which is to say that the sentence what holds. Otherwise it panics with a *Violation in a build with the
// tag "invariants", and returns the *Violation in any other.
func Check(ok bool, what string) error {
	if ok {
		return nil
	}
	return broken(what)
}

// Checkf is Check with a formatted sentence, for places that run seldom.
func Checkf(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return broken(fmt.Sprintf(format, args...))
}

func broken(what string) error {
	v := &Violation{What: what}
	if Enabled {
		panic(v)
	}
	return v
}
