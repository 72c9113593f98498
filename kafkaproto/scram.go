package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/errcode"
)

// DescribeUserScramCredentials and AlterUserScramCredentials, version 0.
//
// Rules: Kafka request rules 4.15. SCRAM is not a mechanism of this listener, so no user has credentials of it: a description is empty, a
// user asked for by name has none (91), and so is one to be deleted. kafka-configs.sh asks for them beside the quotas of users.
//
// Different from Kafka: credentials are not taken, since no login could use them: UNSUPPORTED_SASL_MECHANISM for each.

var errNoSCRAM = errcode.New(errcode.UnsupportedSASLMechanism, "SCRAM is not served: its credentials would be of no use")

func handleDescribeSCRAM(c *call) {
	req := c.req.(*kmsg.DescribeUserSCRAMCredentialsRequest)
	resp := c.response().(*kmsg.DescribeUserSCRAMCredentialsResponse)
	resp.Results = []kmsg.DescribeUserSCRAMCredentialsResponseResult{}
	if !c.caller().Known() {
		resp.ErrorCode, resp.ErrorMessage = c.describe(errNoTenant)
		c.reply(resp)
		return
	}
	seen := duplicates[string]{}
	for i := range req.Users {
		seen.add(req.Users[i].Name)
	}
	for i := range req.Users {
		name := req.Users[i].Name
		twice := seen.repeated(name)
		if seen.answered(name) {
			continue
		}
		r := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		r.User, r.CredentialInfos = name, []kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo{}
		err := errcode.Newf(errcode.ResourceNotFound, "user %.64q has no SCRAM credentials", name)
		if twice {
			err = errcode.Newf(errcode.DuplicateResource, "user %.64q is named twice", name)
		}
		r.ErrorCode, r.ErrorMessage = c.describe(err)
		resp.Results = append(resp.Results, r)
	}
	c.reply(resp)
}

func handleAlterSCRAM(c *call) {
	req := c.req.(*kmsg.AlterUserSCRAMCredentialsRequest)
	resp := c.response().(*kmsg.AlterUserSCRAMCredentialsResponse)
	resp.Results = []kmsg.AlterUserSCRAMCredentialsResponseResult{}
	seen := duplicates[string]{}
	for i := range req.Deletions {
		seen.add(req.Deletions[i].Name)
	}
	for i := range req.Upsertions {
		seen.add(req.Upsertions[i].Name)
	}
	answer := func(name string, err error) {
		if !c.caller().Known() {
			err = errNoTenant
		}
		if seen.repeated(name) {
			err = errcode.Newf(errcode.DuplicateResource, "user %.64q is named twice", name)
		}
		if seen.answered(name) {
			return
		}
		r := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		r.User = name
		r.ErrorCode, r.ErrorMessage = c.describe(err)
		resp.Results = append(resp.Results, r)
	}
	for i := range req.Deletions {
		answer(req.Deletions[i].Name, errcode.Newf(errcode.ResourceNotFound, "user %.64q has no SCRAM credentials", req.Deletions[i].Name))
	}
	for i := range req.Upsertions {
		answer(req.Upsertions[i].Name, errNoSCRAM)
	}
	c.reply(resp)
}
