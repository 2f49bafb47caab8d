package api

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/mqerr"
)

func TestFenceSortsAsTheNumbersDo(t *testing.T) {
	got := string(AppendFence(nil, 12, 345))
	if want := "000000000000000c0000000000000159"; got != want {
		t.Fatalf("fence %q, want %q", got, want)
	}
	if len(got) != FenceLength {
		t.Fatalf("length %d", len(got))
	}
	order := [][2]uint64{{0, 0}, {0, 9}, {0, 10}, {1, 0}, {9, 1 << 63}, {10, 2}, {1 << 63, 0}}
	for i := 1; i < len(order); i++ {
		a, b := order[i-1], order[i]
		if string(AppendFence(nil, a[0], a[1])) >= string(AppendFence(nil, b[0], b[1])) {
			t.Errorf("%v does not sort before %v", a, b)
		}
	}
}

func TestMessageBytes(t *testing.T) {
	key := "/w=="
	m := Message{Value: "AAECAw==", Encoding: EncodingBase64, Key: &key, KeyEncoding: EncodingBase64}
	if b, err := m.Bytes(); err != nil || !reflect.DeepEqual(b, []byte{0, 1, 2, 3}) {
		t.Errorf("value %v, %v", b, err)
	}
	if b, err := m.KeyBytes(); err != nil || !reflect.DeepEqual(b, []byte{0xff}) {
		t.Errorf("key %v, %v", b, err)
	}
	m = Message{Value: "hé", Encoding: EncodingUTF8}
	if b, err := m.Bytes(); err != nil || string(b) != "hé" {
		t.Errorf("value %q, %v", b, err)
	}
	if b, err := m.KeyBytes(); err != nil || b != nil {
		t.Errorf("no key: %v, %v", b, err)
	}
	m.Encoding = "hex"
	if _, err := m.Bytes(); err == nil {
		t.Error("an unknown encoding was read")
	}
}

func TestItemErrorOf(t *testing.T) {
	if ItemErrorOf(nil) != nil {
		t.Error("nil became an error")
	}
	e := ItemErrorOf(mqerr.New(mqerr.NoLeader, "partition 3"))
	if e.Code != "no_leader" || !e.Retryable || e.Detail != "partition 3" {
		t.Errorf("%+v", e)
	}
	if e := ItemErrorOf(errors.New("x")); e.Code != "internal" || e.Retryable {
		t.Errorf("%+v", e)
	}
}

// The embedded structs must not hide each other's fields.
func TestEmbeddedFieldsAreAnswered(t *testing.T) {
	for _, c := range []struct {
		body any
		want []string
	}{
		{Topic{}, []string{"name", "state", "messages", "partition_count", "settings", "partitions"}},
		{Group{}, []string{"name", "topic", "lag", "in_flight", "oldest_age", "settings", "partitions"}},
		{Delivery{}, []string{"id", "value", "encoding", "receipt", "fence", "attempt"}},
		{GroupPartition{GroupPartitionFigures: &GroupPartitionFigures{}}, []string{"partition", "cursor", "next_offset", "lag", "waiting"}},
		{Partition{PartitionFigures: &PartitionFigures{}}, []string{"partition", "state", "first_offset", "next_offset", "messages", "idempotency"}},
	} {
		b, err := json.Marshal(c.body)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range c.want {
			if !strings.Contains(string(b), `"`+f+`":`) {
				t.Errorf("%T lacks %s: %s", c.body, f, b)
			}
		}
	}
}

// What nobody could be asked for is left out, and is not 0.
func TestUnknownFiguresAreLeftOut(t *testing.T) {
	for want, body := range map[string]any{
		`{"partition":3,"error":{"code":"no_leader","retryable":true}}`: GroupPartition{Partition: 3, Error: &ItemError{Code: "no_leader", Retryable: true}},
		`{"partition":3,"state":"opening","replicas":[{"node":"n","leader":false,"alive":true}],"ack_quorum":2}`: Partition{Partition: 3, State: StateOpening,
			Replicas: []Replica{{Node: "n", Alive: true}}, AckQuorum: 2},
	} {
		if b, err := json.Marshal(body); err != nil || string(b) != want {
			t.Errorf("%s (%v), want %s", b, err, want)
		}
	}
	var p Partition
	if err := json.Unmarshal([]byte(`{"partition":3,"state":"opening"}`), &p); err != nil || p.PartitionFigures != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if err := json.Unmarshal([]byte(`{"partition":3,"first_offset":7}`), &p); err != nil || p.PartitionFigures == nil || p.FirstOffset != 7 {
		t.Errorf("%+v, %v", p, err)
	}
}
