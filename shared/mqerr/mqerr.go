// Package mqerr is the one table of errors that cross a wire: between tiers as a number, to users as a
// code with an HTTP status. Every error that a caller may see has a row here; the row says whether the
// same call may be sent again and what to do about it.
package mqerr

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Code numbers a row. Numbers are part of the wire format and never change.
type Code uint16

// The codes. OK is the zero value and no error.
const (
	OK                  Code = 0
	Internal            Code = 1
	InvalidRequest      Code = 10
	InvalidJSON         Code = 11
	InvalidParameter    Code = 12
	InvalidReceipt      Code = 13
	InvalidCursor       Code = 14
	Unauthenticated     Code = 20
	Forbidden           Code = 21
	RouteNotFound       Code = 30
	TopicNotFound       Code = 31
	GroupNotFound       Code = 32
	MessageNotFound     Code = 33
	PartitionNotFound   Code = 34
	MethodNotAllowed    Code = 35
	WebhookNotFound     Code = 36
	SnapshotNotFound    Code = 37
	NodeNotFound        Code = 38
	IdempotencyConflict Code = 40
	ReceiptStale        Code = 41
	AlreadyReleased     Code = 42
	StaleRoute          Code = 43
	AlreadyExists       Code = 44
	NotMember           Code = 45
	NotAssigned         Code = 46
	OrderedByKey        Code = 47
	NothingToRecover    Code = 48
	OffsetExpired       Code = 50
	Lost                Code = 51
	MemberExpired       Code = 53
	PreconditionFailed  Code = 52
	MessageTooLarge     Code = 60
	BatchTooLarge       Code = 61
	UnsupportedMedia    Code = 62
	NotAcceptable       Code = 63
	OffsetOutOfRange    Code = 64
	ValidationFailed    Code = 65
	BodyTooLarge        Code = 66
	HeadersTooLarge     Code = 67
	RateLimited         Code = 70
	TooManyInFlight     Code = 71
	TooManyScheduled    Code = 78
	NoLeader            Code = 80 // the message may not have been taken: nothing was stored
	NoQuorum            Code = 81
	NotEnoughReplicas   Code = 82
	Overloaded          Code = 83
	Draining            Code = 84
	MetadataUnavailable Code = 85
	ArchiveUnavailable  Code = 87
	PartitionDamaged    Code = 88
	NotLeader           Code = 86 // between tiers only: ask the leader in the hint
	StorageFull         Code = 90
	OutcomeUnknown      Code = 91
	Cancelled           Code = 92 // between tiers only: the caller went away
)

type row struct {
	name      string
	status    int
	retryable bool
	title     string
}

var table = map[Code]row{
	Internal:            {"internal", 500, false, "This is a fault of the server; the request id finds it in the log."},
	InvalidRequest:      {"invalid_request", 400, false, "The request is not of the form that this call takes."},
	InvalidJSON:         {"invalid_json", 400, false, "The body is not valid JSON."},
	InvalidParameter:    {"invalid_parameter", 400, false, "A parameter or header has a value that is not allowed."},
	InvalidReceipt:      {"invalid_receipt", 400, false, "This is not a receipt that this cluster gave out."},
	InvalidCursor:       {"invalid_cursor", 400, false, "This is not a cursor that this cluster gave out."},
	Unauthenticated:     {"unauthenticated", 401, false, "The call needs an API key."},
	Forbidden:           {"forbidden", 403, false, "The API key lacks the scope that is named."},
	RouteNotFound:       {"route_not_found", 404, false, "There is no such path; see /openapi.json."},
	TopicNotFound:       {"topic_not_found", 404, false, "There is no such topic; create it, or publish to it."},
	GroupNotFound:       {"group_not_found", 404, false, "The topic has no such group; create it, or receive with it."},
	MessageNotFound:     {"message_not_found", 404, false, "There is no such message, or it is no longer kept."},
	PartitionNotFound:   {"partition_not_found", 404, false, "The topic has no such partition."},
	WebhookNotFound:     {"webhook_not_found", 404, false, "The topic has no such webhook; create it with PUT."},
	SnapshotNotFound:    {"snapshot_not_found", 404, false, "The group has no snapshot of this name; GET its snapshots."},
	NodeNotFound:        {"node_not_found", 404, false, "There is no such log node now; GET /v1/cluster lists them."},
	MethodNotAllowed:    {"method_not_allowed", 405, false, "The path exists, but not with this method; see Allow."},
	IdempotencyConflict: {"idempotency_conflict", 409, false, "The same idempotency key was used for other bytes."},
	ReceiptStale:        {"receipt_stale", 409, false, "The lease is over and the message is settled or with another consumer; drop this delivery."},
	AlreadyReleased:     {"already_released", 409, false, "The schedule has fired already."},
	OrderedByKey:        {"ordered_by_key", 409, false, "A group orders by key, and more partitions would move keys; change the group first, or force it with force=true."},
	NothingToRecover:    {"nothing_to_recover", 409, false, "What would be recovered is not lost; there is nothing to do."},
	StaleRoute:          {"stale_route", 409, true, "The topic changed meanwhile; send the request again."},
	AlreadyExists:       {"already_exists", 412, false, "It exists already, and the request said to create only."},
	NotMember:           {"not_member", 409, false, "The group is assigned and the caller is none of its members; join it and say so."},
	NotAssigned:         {"not_assigned", 409, false, "The group is shared and has no members; receive without one, or make it assigned."},
	OffsetExpired:       {"offset_expired", 410, false, "Retention removed this offset; the detail names the first one kept."},
	Lost:                {"lost", 410, false, "This range was lost and is recorded as such."},
	MemberExpired:       {"member_expired", 410, false, "The member was not heard of for its ttl or has left; join again."},
	PreconditionFailed:  {"precondition_failed", 412, false, "It changed since it was read; read it again."},
	MessageTooLarge:     {"message_too_large", 413, false, "A message is larger than the topic allows."},
	BatchTooLarge:       {"batch_too_large", 413, false, "A batch has at most 10,000 messages and 32 MiB."},
	UnsupportedMedia:    {"unsupported_media_type", 415, false, "This content type or encoding is not taken here."},
	NotAcceptable:       {"not_acceptable", 406, false, "None of the accepted types can be answered."},
	OffsetOutOfRange:    {"offset_out_of_range", 416, false, "The offset is beyond the end; the detail names the next one."},
	ValidationFailed:    {"validation_failed", 422, false, "Fields have values that are not allowed; errors names each."},
	BodyTooLarge:        {"body_too_large", 413, false, "The body, unpacked, is larger than this call takes."},
	HeadersTooLarge:     {"headers_too_large", 431, false, "The request's headers are too large."},
	RateLimited:         {"rate_limited", 429, true, "Too many requests; wait as long as Retry-After says."},
	TooManyInFlight:     {"too_many_in_flight", 429, true, "The group has as many messages out as it may; settle some."},
	TooManyScheduled:    {"too_many_scheduled", 429, true, "The partition has as many pending schedules as it may; wait until some are released, or cancel some."},
	NoLeader:            {"no_leader", 503, true, "The partition has no leader now; nothing was stored; send it again."},
	NoQuorum:            {"no_quorum", 503, true, "Too few replicas answer; nothing new is taken until they do."},
	NotEnoughReplicas:   {"not_enough_replicas", 503, true, "The cluster has fewer nodes than the topic needs."},
	Overloaded:          {"overloaded", 503, true, "A queue is full; wait as long as Retry-After says."},
	Draining:            {"draining", 503, true, "This process is stopping; another one will answer."},
	MetadataUnavailable: {"metadata_unavailable", 503, true, "The coordinators can't be reached; send it again."},
	ArchiveUnavailable:  {"archive_unavailable", 503, true, "The archive does not answer; send it again, or read without it."},
	PartitionDamaged:    {"partition_damaged", 503, true, "The partition, or the part of it that is asked for, is damaged and no whole copy answers; the detail says what to do."},
	NotLeader:           {"not_leader", 503, true, "Another node leads the partition."},
	StorageFull:         {"storage_full", 507, true, "The disks are nearly full; settle or remove messages, or add nodes."},
	OutcomeUnknown:      {"outcome_unknown", 504, true, "The request may or may not have been carried out. Repeat it with the same Idempotency-Key: it is stored once; without a key it may be stored twice."},
	Cancelled:           {"cancelled", 499, true, "The caller went away."},
}

// Codes lists every code of the table, for documents and tests; the order is not defined.
func Codes() []Code {
	out := make([]Code, 0, len(table))
	for c := range table {
		out = append(out, c)
	}
	return out
}

// String is the code's name in the API ("topic_not_found").
func (c Code) String() string {
	if c == OK {
		return "ok"
	}
	if r, ok := table[c]; ok {
		return r.name
	}
	return fmt.Sprintf("code_%d", uint16(c))
}

// Status is the HTTP status of the code.
func (c Code) Status() int {
	if c == OK {
		return http.StatusOK
	}
	if r, ok := table[c]; ok {
		return r.status
	}
	return http.StatusInternalServerError
}

// Retryable says whether the same request may be sent again unchanged and might then succeed.
func (c Code) Retryable() bool { return table[c].retryable }

// Title says what the code means and what to do, in one sentence.
func (c Code) Title() string { return table[c].title }

// Field is one bad field of a request: a JSON pointer into the body, or "query/limit", "header/Mq-Key".
type Field struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// Error is an error with a code. Detail is for the person who reads the answer: it names the field, the
// limit, the value; it holds no secret.
type Error struct {
	Code       Code
	Detail     string
	Fields     []Field
	RetryAfter time.Duration // 0: none is advised
	Leader     string        // name of the node to ask instead, with NotLeader
	cause      error
}

// New makes an error with a formatted detail; a %w in it is kept as the cause.
func New(c Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: c, Detail: err.Error(), cause: errors.Unwrap(err)}
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return e.Code.String()
	}
	return e.Code.String() + ": " + e.Detail
}

// Unwrap gives the cause, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// Of finds the Error in err's chain; any other error becomes Internal, nil stays nil.
func Of(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: Internal, Detail: err.Error(), cause: err}
}

// Is says whether err carries code c.
func Is(err error, c Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == c
}
