package gateway

import (
	"strconv"
	"strings"

	"github.com/splashdam/splashdam/gateway/internal/replay"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

const (
	// exportPrefix begins the headers that tell where an exported message comes from.
	exportPrefix = "dead-letter-"
	exportedHops = exportPrefix + "hops"
	// headersDropped says how many of its own headers an exported message has lost.
	headersDropped = exportPrefix + "headers-dropped"
)

// exportedBefore is how many times a message has been exported, by its headers. Anybody can write them: it is never less
// than 0 nor more than would be.
func exportedBefore(headers []mq.Header) int {
	for _, h := range headers {
		if n, err := strconv.Atoi(h.Value); err == nil && h.Name == exportedHops {
			return max(0, min(n, mostExportHops))
		}
	}
	return 0
}

// exportFacts are the headers that tell what became of a dead message; none is empty.
func exportFacts(t meta.Topic, gr *meta.Group, p mq.PartitionID, item *replay.Item, d *mqpb.HeldMessage, hops int) (facts []mq.Header) {
	for _, f := range [][2]string{
		{"id", item.ID.String()},
		{"topic", t.Name},
		{"partition", strconv.FormatUint(uint64(p.Number), 10)},
		{"offset", strconv.FormatUint(d.GetOffset(), 10)},
		{"group", gr.Name},
		{"attempts", strconv.FormatUint(uint64(d.GetAttempt()), 10)},
		{"reason", d.GetReason()},
		{"consumer", d.GetConsumer()},
		{"published", timeText(item.Stamp)},
		{"first-delivery", timeText(d.GetFirstDelivery())},
		{"last-delivery", timeText(d.GetLastDelivery())},
		{"died", timeText(d.GetUntil())},
		{"hops", strconv.Itoa(hops)},
	} {
		if f[1] != "" {
			facts = append(facts, mq.Header{Name: exportPrefix + f[0], Value: f[1]})
		}
	}
	return facts
}

// exportHeaders are the headers of an exported message: its own, without those of an earlier export, and then the facts. A
// message has at most mq.MaxHeaders; where that would be more its own last ones are left out, and a header says how many. A
// dead letter must not stay behind because it had many headers.
func exportHeaders(own, facts []mq.Header) []mq.Header {
	kept := make([]mq.Header, 0, len(own)+len(facts)+1)
	for _, h := range own {
		if !strings.HasPrefix(h.Name, exportPrefix) {
			kept = append(kept, h)
		}
	}
	if over := len(kept) + len(facts) - mq.MaxHeaders; over > 0 {
		over++ // for the header that says so
		kept = append(kept[:len(kept)-over], mq.Header{Name: headersDropped, Value: strconv.Itoa(over)})
	}
	return append(kept, facts...)
}

// timeText is a time (Unix nanoseconds) as RFC 3339 in UTC, "" for 0.
func timeText(unix int64) string {
	if unix == 0 {
		return ""
	}
	return string(appendTime(nil, unix))
}
