package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/errcode"
)

// ApiVersions, versions 0 to 4.
//
//	1  throttle_time_ms
//	3  client software name and version, flexible request; the response header stays the short one for ever
//	4  features whose minimum is 0 may be shown
//
// A version above the served ones gets error 35 in the layout of version 0, naming key 18 and its range (KIP-511), whatever the
// body holds, and the connection stays usable. The table is the same before and after authentication.
//
// Different from Kafka: no features are announced, since none of them (transaction.version, group.version, share.version) is
// served yet.

func handleAPIVersions(c *call) {
	resp := c.response().(*kmsg.ApiVersionsResponse)
	if req := c.req.(*kmsg.ApiVersionsRequest); c.version >= 3 &&
		(!legalSoftwareName(req.ClientSoftwareName) || !legalSoftwareName(req.ClientSoftwareVersion)) {
		resp.ErrorCode = c.kindCode(errcode.InvalidRequest)
		c.reply(resp)
		return
	}
	resp.ApiKeys = make([]kmsg.ApiVersionsResponseApiKey, 0, len(c.srv.apis.rows))
	for _, a := range c.srv.apis.rows {
		resp.ApiKeys = append(resp.ApiKeys, a.advertisement())
	}
	c.reply(resp)
}

// answerUnknownAPIVersions answers a version of ApiVersions that is not served.
func (c *conn) answerUnknownAPIVersions(a *api, h header) {
	resp := kmsg.NewApiVersionsResponse()
	resp.SetVersion(0)
	resp.ErrorCode = errcode.UnsupportedVersion.Kafka()
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{a.advertisement()}
	r := newResponse()
	r.begin(h.correlation, a, 0)
	r.head = resp.AppendTo(r.head)
	c.srv.metrics.request(a, errcode.UnsupportedVersion)
	c.complete(c.newSlot(), r)
}

func (a *api) advertisement() kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = a.key, a.advertised, a.max
	return k
}

// legalSoftwareName: letters and digits, with dots and hyphens inside (KIP-511).
func legalSoftwareName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case (c == '.' || c == '-') && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return s != ""
}
