package vfs

import "testing"

func TestAtLeast(t *testing.T) {
	for release, want := range map[string]bool{
		"5.8.0": true, "5.10.0-21-amd64": true, "6.18.44": true, "10.0": true, "5.7.19": false, "4.19.0": false, "5": false, "": false,
	} {
		if got := atLeast([]byte(release), 5, 8); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}
