package vfs

// OpenWhole implements WholeFS. There is no call for it here that reports errors.
func (OS) OpenWhole(string) (Whole, error) { return nil, ErrNotWhole }
