package api

// The types of bodies and answers that their calls read and write in another way, for the document.

type tenantRequest struct {
	TenantID    string `json:"tenant_id" about:"1 to 128 of A-Z a-z 0-9 . _ -, the first a letter or digit"`
	DisplayName string `json:"display_name,omitempty" max:"256"`
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
