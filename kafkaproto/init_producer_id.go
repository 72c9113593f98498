package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/felixlog/felix/internal/errcode"
)

// InitProducerId, versions 0 to 5.
//
//	1  throttling by the client
//	2  flexible
//	3  the producer's present id and epoch; they mean something for transactional producers only (KIP-360)
//	4  PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH
//	5  TRANSACTION_ABORTABLE
//
// Rules: Kafka request rules 4.9. Without a transactional id any authenticated caller gets a fresh id with epoch 0.
//
// Different from Kafka: there are no transactions yet; a transactional id gets TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53), which clients
// report at once instead of trying again for ever.

var errHalfProducer = errcode.New(errcode.InvalidRequest, "a producer id and an epoch go together")

func handleInitProducerID(c *call) {
	req := c.req.(*kmsg.InitProducerIDRequest)
	resp := c.response().(*kmsg.InitProducerIDResponse)
	id, err := c.initProducerID(req)
	if err != nil {
		resp.ErrorCode = c.code(err)
		resp.ProducerID, resp.ProducerEpoch = -1, -1
	} else {
		resp.ProducerID, resp.ProducerEpoch = id, 0
	}
	c.reply(resp)
}

func (c *call) initProducerID(req *kmsg.InitProducerIDRequest) (int64, error) {
	switch {
	case req.TransactionalID != nil && *req.TransactionalID == "":
		return 0, errcode.Newf(errcode.InvalidRequest, "the transactional id is empty")
	case req.TransactionalID != nil:
		return 0, errNoTransactions
	case !c.caller().Known():
		return 0, errNoTenant
	case (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		return 0, errHalfProducer
	}
	return c.admin().AllocateProducerID(c.context())
}

var (
	errNoTransactions = errcode.New(errcode.UnauthorizedTransactionalID, "this server does not serve transactions yet: leave transactional.id unset")
	errNoTenant       = errcode.New(errcode.UnauthorizedCluster, "this takes an authenticated principal")
)
