package broker

import "golang.org/x/sys/unix"

// DiskSpace is the size of the volume that holds the shards and what can still be written to it, in bytes; -1 and -1 if that cannot be
// found out, as before the first shard has made the directory.
func (b *Broker) DiskSpace() (total, usable int64) {
	var st unix.Statfs_t
	if err := unix.Statfs(b.opts.Dir, &st); err != nil {
		return -1, -1
	}
	return int64(st.Blocks) * int64(st.Bsize), int64(st.Bavail) * int64(st.Bsize) //nolint:unconvert // the types differ between systems
}
