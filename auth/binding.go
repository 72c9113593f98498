package auth

import (
	"crypto/x509"
	"strings"
)

// principalURI is how a certificate names the principal that it was issued to.
const principalURI = "felix:principal:"

// CheckCertificate refuses a client certificate that was issued to somebody else than the identity's principal, or the actor of a
// delegated token: the certificate must name one of them in a URI felix:principal:<sub>, or in a DNS name or address that matches it
// as a server's name would. The chain is the listener's business. Error: a *RefusedError with ReasonCertificate. Source: security
// rules, section 6.2.
func (i *Identity) CheckCertificate(cert *x509.Certificate) error {
	if cert != nil && (isIssuedTo(cert, i.Principal) || i.Actor != "" && isIssuedTo(cert, i.Actor)) {
		return nil
	}
	return refused(ReasonCertificate, nil)
}

func isIssuedTo(cert *x509.Certificate, principal string) bool {
	for _, u := range cert.URIs {
		if name, ok := strings.CutPrefix(u.String(), principalURI); ok && name == principal {
			return true
		}
	}
	return cert.VerifyHostname(principal) == nil
}
