package wire

// Auth is the first frame of every stream that a client opens. Client to server; answered by AuthOK if ClientFlags is set, else by OK, or
// by Error. Source: spec/felix-wire.md 3.1.
type Auth struct {
	TenantID string
	// Token is a secret: never log it.
	Token string
	// ClientFlags are the frame flags that the client can receive. Absent: a client older than negotiation.
	ClientFlags Opt[Flags]
	// ClientFeatures is the first word of features; ClientFeaturesHigh, the second, counts only under the marker. See Features.
	ClientFeatures     Opt[uint32]
	ClientFeaturesHigh Opt[uint32]
}

func (*Auth) kind() string { return "auth" }

func (m *Auth) code(c *coder) {
	c.str("tenant_id", &m.TenantID)
	c.str("token", &m.Token)
	numOpt(c, "client_flags", &m.ClientFlags)
	numOpt(c, "client_features", &m.ClientFeatures)
	numOpt(c, "client_features_hi", &m.ClientFeaturesHigh)
}

// Features is what the client offers.
func (m *Auth) Features() Features {
	return JoinFeatures(m.ClientFeatures.Value, m.ClientFeaturesHigh.Value)
}

// SetFeatures offers f: both words as Features.Words splits them, the second only if it is not zero.
func (m *Auth) SetFeatures(f Features) {
	low, high := f.Words()
	m.ClientFeatures, m.ClientFeaturesHigh = Some(low), Opt[uint32]{Value: high, Set: high != 0}
}

// String leaves the token out, also where an Auth is printed as a part of something.
func (m Auth) String() string { return "auth of tenant " + m.TenantID }

// GoString leaves the token out.
func (m Auth) GoString() string { return m.String() }

// AuthOK accepts an Auth that had ClientFlags. Server to client.
type AuthOK struct {
	// ServerFlags are the frame flags that the server reads and writes.
	ServerFlags Flags
	// ServerFeatures is the first word of features; ServerFeaturesHigh, the second, is sent only to a client that set the marker, only
	// with the marker, and only when it is not zero.
	ServerFeatures     Opt[uint32]
	ServerFeaturesHigh Opt[uint32]
	// ListenerPorts are all ports of the server's client listeners, if there is more than one.
	ListenerPorts []uint16
	// PublishWindow is how many publishes may be unanswered, meant with FeaturePublishPipeline.
	PublishWindow Opt[uint32]
}

func (*AuthOK) kind() string { return "auth_ok" }

func (m *AuthOK) code(c *coder) {
	num(c, "server_flags", &m.ServerFlags)
	numOpt(c, "server_features", &m.ServerFeatures)
	numOpt(c, "server_features_hi", &m.ServerFeaturesHigh)
	if c.encoding && len(m.ListenerPorts) > 0 || !c.encoding && c.find("listener_ports") != nil {
		numbers(c, "listener_ports", &m.ListenerPorts)
	}
	numOpt(c, "publish_window", &m.PublishWindow)
}

// Features is what the server serves.
func (m *AuthOK) Features() Features {
	return JoinFeatures(m.ServerFeatures.Value, m.ServerFeaturesHigh.Value)
}

// SetFeatures advertises f to a client that offered the features in offered: the second word and the marker are left out for one that
// does not read them.
func (m *AuthOK) SetFeatures(f, offered Features) {
	if !offered.Has(FeatureExtended) {
		f = Features(uint32(f))
	}
	low, high := f.Words()
	m.ServerFeatures, m.ServerFeaturesHigh = Some(low), Opt[uint32]{Value: high, Set: high != 0}
}

// OK answers an Auth without ClientFlags, and a CachePut without a request id. Server to client.
type OK struct{}

func (*OK) kind() string { return "ok" }

func (*OK) code(*coder) {}

// Error refuses a request that has no refusal of its own. It names no request: it answers the one that is due. Server to client.
type Error struct {
	Failure
}

func (*Error) kind() string { return "error" }

func (m *Error) code(c *coder) { m.fields(c) }

func (f *Failure) fields(c *coder) {
	c.str("message", &f.Message)
	c.strIf("code", &f.Code)
	c.strIf("retry", &f.Retry)
	if c.encoding && (f.Reason != "" || f.RetryAfterMillis.Set) || !c.encoding && c.find("detail") != nil {
		c.object("detail", func(c *coder) {
			c.strIf("reason", &f.Reason)
			numOpt(c, "retry_after_ms", &f.RetryAfterMillis)
		})
	}
}

// Unsupported answers a request whose type the server does not know, to a client that offered FeatureUnsupported. Server to client.
type Unsupported struct {
	// RequestType is the type as it was received.
	RequestType string
	// Extension is the name of an Extension, empty for any other request.
	Extension string
	RequestID Opt[uint64]
}

func (*Unsupported) kind() string { return "unsupported" }

func (m *Unsupported) code(c *coder) {
	c.str("request_type", &m.RequestType)
	c.strIf("extension", &m.Extension)
	numOpt(c, "request_id", &m.RequestID)
}

// Extension is a request of a kind that this protocol does not define; none is defined today, so the answer is Unsupported. Client to
// server.
type Extension struct {
	Name      string
	RequestID Opt[uint64]
	// Body is any JSON as it was received, nil for none. It points into the parsed payload. It must be valid JSON to be written.
	Body []byte
}

func (*Extension) kind() string { return "extension" }

func (m *Extension) code(c *coder) {
	c.str("name", &m.Name)
	numOpt(c, "request_id", &m.RequestID)
	if !c.encoding {
		m.Body = c.find("body")
	} else if m.Body != nil {
		c.key("body")
		c.dst = append(c.dst, m.Body...)
	}
}
