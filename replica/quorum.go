package replica

import "github.com/felixlog/felix/internal/ids"

// committed is the highest offset that at least need members of the set hold, need between 1 and the set's size. A set
// that is too small for need has committed nothing that was not committed before: it gives 0.
//
// The set is a handful of members, so the positions are searched by counting: no allocation on the append path.
func committed(set []progress, need int) ids.Offset {
	var best ids.Offset
	for i := range set {
		candidate := set[i].held
		if candidate <= best {
			continue
		}
		holders := 0
		for j := range set {
			if set[j].held >= candidate {
				holders++
			}
		}
		if holders >= need {
			best = candidate
		}
	}
	return best
}
