package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// publishWhole publishes a value with all the headers that a message may have, and says which id it got.
func publishWhole(ctx context.Context, c caller, topic string, value []byte) (string, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", c.url+"/v1/topics/"+topic+"/messages", bytes.NewReader(value))
	if err != nil {
		return "", err
	}
	for i := range mq.MaxHeaders {
		name := fmt.Sprintf("h%02d", i)
		req.Header.Set("Mq-Header-"+name, strings.Repeat("h", mq.MaxHeaderBytes-len(name)))
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != 201 {
		err = fmt.Errorf("status %d: %.200s", res.StatusCode, text)
	}
	var m message
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m.ID, err
}

// holds checks that each message is there with its value; a leader may have to come first.
func (c caller) holds(when string, values map[string][]byte) {
	c.t.Helper()
	for id, want := range values {
		var got []byte
		eventually(c.t, "a large message is read "+when, func() bool {
			status, text, err := c.try(c.t.Context(), "GET", "/v1/messages/"+id+"?raw=true", "")
			got = text
			return err == nil && status == 200
		})
		if !bytes.Equal(got, want) {
			c.t.Errorf("%s: message %s has %d bytes, and not those that were published", when, id, len(got))
		}
	}
}

// The largest messages there can be, alone and beside others, get to three replicas and are read; when their leader is gone
// the next one has them, and takes more.
func TestEndLargestMessages(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 3})
	one := via(t, c, 1)
	one.topic("large", fmt.Sprintf(`{"partitions":1,"replicas":3,"max_message_bytes":%d}`, mq.LargestMaxMessageBytes))
	random, values := rand.NewChaCha8([32]byte{7}), map[string][]byte{}
	var mu sync.Mutex
	publish := func() {
		value := make([]byte, mq.LargestMaxMessageBytes)
		mu.Lock()
		_, _ = random.Read(value)
		mu.Unlock()
		id, err := publishWhole(ctxFor(t), one, "large", value)
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		values[id] = value
	}
	publish()
	var beside sync.WaitGroup
	for range 2 {
		beside.Go(publish)
	}
	one.publishMany("large", "small", 200)
	beside.Wait()
	one.holds("from its leader", values)

	must(t, c.NodeNamed(one.leader("large", 0)).Kill())
	one.holds("after its leader died", values)
	publish()
	one.holds("and another one was published", values)
	if small := one.receiveN("large", "g", 1, ""); len(small) != 1 {
		t.Errorf("%d messages for a group", len(small))
	}
}
