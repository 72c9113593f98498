package cluster

// InitializeTenant gives a tenant what people need to begin with, all of it or none: the tenant itself if it is missing, a key that signs if
// it has none, and its first access rules, which may allow anything. It is carried out once for a tenant; again is ConflictInitialized.
type InitializeTenant struct {
	Name        string
	DisplayName string // empty: as it is
	Key         NewSigningKey
	Policies    []Policy // of the tenant, whatever their field says
	Groupings   []Grouping
}

func (InitializeTenant) command() {}
