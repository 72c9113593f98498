package api

// The types of bodies and answers that their calls read and write in another way, for the document.

type tenantRequest struct {
	TenantID    string `json:"tenant_id" about:"1 to 128 of A-Z a-z 0-9 . _ -, the first a letter or digit"`
	DisplayName string `json:"display_name,omitempty" max:"256"`
}

// initializeRequest is what a tenant begins with. Identity providers are not taken yet, so that a list of them must be empty.
type initializeRequest struct {
	DisplayName string         `json:"display_name" max:"256"`
	Admins      []string       `json:"initial_admin_principals" about:"who gets the role role:tenant-admin; at least one"`
	Policies    []policyBody   `json:"policies,omitempty" about:"may name cluster:* and node:ID"`
	Groupings   []groupingBody `json:"groupings,omitempty"`
	Issuers     []any          `json:"idp_issuers,omitempty" about:"empty: this release exchanges no tokens of identity providers"`
}

// devTokenRequest has the principal of a token, and what leaves out some of its rights.
type devTokenRequest struct {
	Principal   string   `json:"principal" about:"as policies and groupings name it"`
	Audience    string   `json:"audience,omitempty" enum:"felix-broker,felix-controlplane" about:"default felix-broker"`
	Requested   []string `json:"requested,omitempty" about:"keep these actions alone"`
	Resources   []string `json:"resources,omitempty" about:"cut every right down to the part that these objects cover"`
	Permissions []string `json:"permissions,omitempty" about:"keep exactly these pairs of action and object; needs requested to be an empty list"`
}

// keySetBody is what auth.AppendKeySet writes.
type keySetBody struct {
	Keys []publicKeyBody `json:"keys" about:"the one that signs first"`
}

type publicKeyBody struct {
	Type      string `json:"kty" enum:"OKP"`
	Curve     string `json:"crv" enum:"Ed25519"`
	Algorithm string `json:"alg" enum:"EdDSA"`
	Use       string `json:"use" enum:"sig"`
	ID        string `json:"kid"`
	Public    string `json:"x" about:"32 bytes, base64url"`
}
