// Package auth is what a credential proves and what it allows: Felix tokens (verification, minting), the key sets that they are checked
// with, permission strings, and the matching of grants.
//
// A token is a compact JWS signed with Ed25519 by a key of its tenant. A Verifier checks one in a fixed order and says nothing of where
// it stopped: every refusal is one public sentence of kind errcode.AuthenticationFailed, and the reason is for logs and metrics alone
// (ReasonOf). What a token allows is compiled once into Grants, which are immutable and shared by everyone who shows that token.
//
// Invariants:
//   - No algorithm but EdDSA is ever tried, whatever header or key set say; an unknown one is refused before any key is looked at.
//   - A permission is matched segment by segment: equal, or "*" where the grammar allows one. Nothing is joined to a path again, so a
//     name with a slash, a colon or a star in it matches itself only.
//   - What parses is canonical: Permission.String writes the very text that ParsePermission read.
//   - One unknown action or malformed object refuses the whole token; a grant is never skipped.
//   - Grants on objects of another tenant than the token's confer nothing.
//   - No error, String method or JSON form holds a token, a signature or a seed.
//
// It owns the caches of verified tokens and of key sets, each bounded. It does no IO besides the fetch function that a KeySets is given.
// Locks: one in Verifier's cache, one in KeySets; neither is held while the other is taken, or across a fetch.
//
// Sources: spec security.md sections 2 to 6.2; RFC 7515 and 7519 (tokens), RFC 8037 (Ed25519 in key sets).
//
// Non-obvious:
//   - A cached token is still refused at once when the key that verified it leaves the tenant's key set: each hit looks at the set again.
//     Otherwise retiring a leaked key would take the longest token's life instead of the key sets' lifetime.
//   - The base64 decoder of the standard library skips line breaks and, unless strict, ignores the unused bits of the last character:
//     both are refused, or a flipped bit of a signature would not be noticed.
//   - A group grant narrows: who holds one for some group of a stream no longer reaches that stream's other groups by a stream grant.
package auth
