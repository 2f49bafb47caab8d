package meta

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/splashdam/splashdam/shared/mq"
)

// Prefixes of keys. A numbered key holds its number in decimal, except for segments, whose number is padded so
// that a range of them is a range of keys.
const (
	keyCluster         = "/cluster"
	keyController      = "/controller"
	prefixIDs          = "/ids/"
	prefixNodes        = "/nodes/"
	prefixGateways     = "/gateways/"
	prefixCoordinators = "/coordinators/"
	prefixReports      = "/reports/"
	prefixTopics       = "/topics/"
	prefixDeleted      = "/deleted/" // tombstones of topics by id: they outlive the reuse of a name
	prefixPartitions   = "/partitions/"
	prefixSegments     = "/segments/"
	prefixGroups       = "/groups/"
	prefixMembers      = "/members/"
	prefixAssignments  = "/assignments/"
	prefixWebhooks     = "/webhooks/"
	prefixReceipts     = "/secrets/receipts/"
)

// NodeKey, GatewayKey, CoordinatorKey and ReportKey are the leased keys that Register takes.
func NodeKey(name string) string { return prefixNodes + name }

// GatewayKey is where a gateway registers.
func GatewayKey(name string) string { return prefixGateways + name }

// CoordinatorKey is where a coordinator registers.
func CoordinatorKey(name string) string { return prefixCoordinators + name }

// ReportKey is where a log node tells the controller what it wants it to know.
func ReportKey(store mq.StoreID) string { return prefixReports + string(store) }

func topicKey(name string) string     { return prefixTopics + name }
func deletedKey(id mq.TopicID) string { return prefixDeleted + strconv.FormatUint(uint64(id), 10) }

func partitionKey(p mq.PartitionID) string {
	return fmt.Sprintf("%s%d/%d", prefixPartitions, p.Topic, p.Number)
}

func partitionsPrefix(t mq.TopicID) string { return fmt.Sprintf("%s%d/", prefixPartitions, t) }

func segmentsPrefix(p mq.PartitionID) string {
	return fmt.Sprintf("%s%d/%d/", prefixSegments, p.Topic, p.Number)
}

func segmentKey(p mq.PartitionID, number uint64) string {
	return fmt.Sprintf("%s%020d", segmentsPrefix(p), number)
}

func groupsPrefix(t mq.TopicID) string { return fmt.Sprintf("%s%d/", prefixGroups, t) }

func groupKey(t mq.TopicID, name string) string { return groupsPrefix(t) + name }

func webhooksPrefix(t mq.TopicID) string { return fmt.Sprintf("%s%d/", prefixWebhooks, t) }

func webhookKey(t mq.TopicID, name string) string { return webhooksPrefix(t) + name }

func receiptKey(number uint32) string { return prefixReceipts + strconv.FormatUint(uint64(number), 10) }

// parsePartition reads "<topic id>/<n>", what follows the prefix of a partition's key.
func parsePartition(rest string) (mq.PartitionID, bool) {
	t, n, ok := strings.Cut(rest, "/")
	if !ok {
		return mq.PartitionID{}, false
	}
	topic, err := strconv.ParseUint(t, 10, 64)
	if err != nil {
		return mq.PartitionID{}, false
	}
	number, err := strconv.ParseUint(n, 10, 32)
	if err != nil {
		return mq.PartitionID{}, false
	}
	return mq.PartitionID{Topic: mq.TopicID(topic), Number: uint32(number)}, true
}
