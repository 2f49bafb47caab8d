package api

// The frames of the WebSocket GET /v1/stream. Each is one text message with a JSON object. Type says what it is, ID is the
// caller's own and comes back with the answer.
const (
	FrameSubscribe    = "subscribe"    // SocketSubscribe -> subscribed, then messages
	FrameSubscribed   = "subscribed"   // SocketAnswer
	FrameCredit       = "credit"       // SocketCredit; no answer but an error
	FrameUnsubscribe  = "unsubscribe"  // SocketUnsubscribe -> unsubscribed
	FrameUnsubscribed = "unsubscribed" // SocketAnswer; nothing comes for the subscription after it
	FrameMessages     = "messages"     // SocketMessages
	FrameSettle       = "settle"       // SocketSettle -> settled
	FrameSettled      = "settled"      // SettleAnswer, with type and id
	FramePublish      = "publish"      // SocketPublish -> published
	FramePublished    = "published"    // PublishBatchAnswer, with type and id
	FramePing         = "ping"         // SocketHead -> pong
	FramePong         = "pong"         // SocketHead
	FrameError        = "error"        // SocketAnswer with Error: of the request with the id, or the end of a subscription
	FrameReconnect    = "reconnect"    // SocketReconnect: the gateway stops
)

// SocketHead is what every frame begins with.
type SocketHead struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"` // up to 128 bytes
}

// SocketSubscribe begins to deliver messages of a group on the connection.
type SocketSubscribe struct {
	SocketHead
	// Subscription is a name of the caller's own (up to 64 bytes), unique on the connection.
	Subscription string `json:"subscription"`
	Topic        string `json:"topic"`
	Group        string `json:"group"`
	// Credit is how many messages may be out and not settled, 0 to 10,000; default 16.
	Credit *int `json:"credit,omitempty"`
	// Max is how many messages come in all, after which the subscription ends with a FrameUnsubscribed; 0: no bound.
	Max        int      `json:"max,omitempty"`
	Lease      Duration `json:"lease,omitzero"`      // default: the group's setting
	Consumer   string   `json:"consumer,omitempty"`  // shown in traces; default: the caller's address
	Encoding   string   `json:"encoding,omitempty"`  // utf8 (default) or base64
	Partitions []uint32 `json:"partitions,omitzero"` // nil: all; an empty list is refused
	Member     string   `json:"member,omitempty"`    // who receives in a group of mode assigned
}

// SocketCredit changes the credit of a subscription. With 0 it rests; what is out stays out.
type SocketCredit struct {
	SocketHead
	Subscription string `json:"subscription"`
	Credit       int    `json:"credit"`
}

// SocketUnsubscribe ends a subscription. What was delivered stays leased; release what was not begun.
type SocketUnsubscribe struct {
	SocketHead
	Subscription string `json:"subscription"`
}

// SocketMessages is what a subscription got.
type SocketMessages struct {
	SocketHead
	Subscription string     `json:"subscription"`
	Messages     []Delivery `json:"messages"`
}

// SocketSettle settles deliveries, whichever way they came.
type SocketSettle struct {
	SocketHead
	SettleRequest
}

// SocketPublish publishes to a topic, like a batch.
type SocketPublish struct {
	SocketHead
	Topic    string        `json:"topic"`
	Messages []PublishItem `json:"messages"`
}

// SocketAnswer is any frame from the gateway: the fields that its type has are set.
type SocketAnswer struct {
	SocketHead
	Subscription string     `json:"subscription,omitempty"`
	Messages     []Delivery `json:"messages,omitempty"`
	Error        *ItemError `json:"error,omitempty"`
	After        Duration   `json:"after,omitzero"` // reconnect: wait so long
	Failed       int        `json:"failed,omitempty"`
}
