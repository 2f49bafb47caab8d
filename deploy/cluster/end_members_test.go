package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// membership is what a member is told.
type membership struct {
	Member     string
	TTL        string
	Assignment []int
	Generation int
}

func (c caller) join(topic, group, body string) membership {
	c.t.Helper()
	var m membership
	c.call(201, "POST", "/v1/topics/"+topic+"/groups/"+group+"/members", body, &m)
	return m
}

func (c caller) heartbeat(topic, group string, m membership, wait string) membership {
	c.t.Helper()
	c.call(200, "POST", fmt.Sprintf("/v1/topics/%s/groups/%s/members/%s/heartbeat", topic, group, m.Member),
		fmt.Sprintf(`{"generation":%d,"wait":"%s"}`, m.Generation, wait), &m)
	return m
}

// receiveAs receives once in the name of a member.
func (c caller) receiveAs(ctx context.Context, topic, group, member, more string) ([]message, error) {
	status, text, err := c.try(ctx, "POST", "/v1/topics/"+topic+"/groups/"+group+"/receive", `{"member":"`+member+`"`+more+`}`)
	if err != nil || status != 200 {
		return nil, fmt.Errorf("status %d, %w: %s", status, err, text)
	}
	var answer struct{ Messages []message }
	err = json.Unmarshal(text, &answer)
	return answer.Messages, err
}

// code wants a call to fail with a code.
func (c caller) code(want, method, path, body string) {
	c.t.Helper()
	var problem struct{ Code string }
	_, text, err := c.try(c.t.Context(), method, path, body)
	must(c.t, err)
	must(c.t, json.Unmarshal(text, &problem))
	if problem.Code != want {
		c.t.Errorf("%s %s %s: %s, want %s", method, path, body, text, want)
	}
}

// TestMembers runs groups with members on one node with two gateways; each part has its own topic.
func TestMembers(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Gateways: 2})
	for name, part := range map[string]func(*testing.T, *Cluster){
		"joining and leaving divides the partitions": joinAndLeave,
		"a long poll follows the assignment":         pollFollows,
		"museum 24: what is out blocks nobody":       handOverWithLeases,
		"who is not a member":                        notMembers,
		"a stream follows the assignment":            streamFollows,
		"a change of mode":                           changeOfMode,
	} {
		t.Run(name, func(t *testing.T) { part(t, c) })
	}
	t.Run("a member outlives its gateway", func(t *testing.T) { outlivesItsGateway(t, c) })
}

func joinAndLeave(t *testing.T, c *Cluster) {
	one, two := via(t, c, 1), via(t, c, 2)
	one.topic("shares", `{"partitions":4}`)
	a := one.join("shares", "g", `{"name":"a","ttl":"1m"}`)
	if a.Member != "a" || a.TTL != "1m" || !slices.Equal(a.Assignment, []int{0, 1, 2, 3}) || a.Generation == 0 {
		t.Errorf("alone: %+v", a)
	}
	b := two.join("shares", "g", `{"ttl":"1m"}`)
	if len(b.Assignment) != 2 || b.Member == "" {
		t.Errorf("the second one: %+v", b)
	}
	a = two.heartbeat("shares", "g", a, "20s")
	if all := append(slices.Clone(a.Assignment), b.Assignment...); len(all) != 4 || a.Generation < b.Generation {
		t.Errorf("a has %+v, b %+v", a, b)
	}
	one.publishMany("shares", "v", 40) // with keys, so they are in all partitions
	for i, m := range []membership{a, b} {
		got, err := via(t, c, i+1).receiveAs(t.Context(), "shares", "g", m.Member, `,"max":100`)
		must(t, err)
		for _, x := range got {
			if !slices.Contains(m.Assignment, x.Partition) {
				t.Errorf("%s owns %v and got a message of partition %d", m.Member, m.Assignment, x.Partition)
			}
		}
		one.settle("ack", got, "")
	}
	if g := one.group("shares", "g"); g.Lag != 0 {
		t.Errorf("both took all there was in theirs, and left %+v", g)
	}
	one.call(204, "DELETE", "/v1/topics/shares/groups/g/members/"+b.Member, "", nil)
	one.call(204, "DELETE", "/v1/topics/shares/groups/g/members/"+b.Member, "", nil) // twice is fine
	if a = one.heartbeat("shares", "g", a, "20s"); len(a.Assignment) != 4 {
		t.Errorf("after the other one left: %+v", a)
	}
	var list struct {
		Generation int
		Members    []membership
	}
	one.call(200, "GET", "/v1/topics/shares/groups/g/members", "", &list)
	if len(list.Members) != 1 || list.Members[0].Member != "a" || list.Generation != a.Generation {
		t.Errorf("the list: %+v", list)
	}
}

// A member waits with nothing to own; the owner leaves, and the waiting call has the message that nobody took.
func pollFollows(t *testing.T, c *Cluster) {
	one, two := via(t, c, 1), via(t, c, 2)
	one.topic("follow", `{"partitions":1}`)
	one.join("follow", "g", `{"name":"owner","ttl":"1m"}`)
	if m := two.join("follow", "g", `{"name":"standby","ttl":"1m"}`); len(m.Assignment) != 0 {
		t.Fatalf("two of one partition: %+v", m)
	}
	sent := one.publish("follow", "v")
	type answer struct {
		got []message
		err error
	}
	waits := make(chan answer, 1)
	go func() {
		got, err := two.receiveAs(t.Context(), "follow", "g", "standby", `,"wait":"30s"`)
		waits <- answer{got, err}
	}()
	one.call(204, "DELETE", "/v1/topics/follow/groups/g/members/owner", "", nil)
	a := <-waits
	must(t, a.err)
	if len(a.got) != 1 || a.got[0].ID != sent.ID {
		t.Errorf("after the hand-over: %+v", a.got)
	}
}

// What the old owner has out is its own until it is settled; the new owner has the rest at once.
func handOverWithLeases(t *testing.T, c *Cluster) {
	one, two := via(t, c, 1), via(t, c, 2)
	one.topic("handover", `{"partitions":1}`)
	one.join("handover", "g", `{"name":"old","ttl":"1m"}`)
	for i := range 3 {
		one.publish("handover", fmt.Sprint("v", i))
	}
	out, err := one.receiveAs(t.Context(), "handover", "g", "old", `,"max":2`)
	must(t, err)
	one.call(204, "DELETE", "/v1/topics/handover/groups/g/members/old", "", nil)
	two.join("handover", "g", `{"name":"new","ttl":"1m"}`)
	next, err := two.receiveAs(t.Context(), "handover", "g", "new", `,"max":10,"wait":"20s"`)
	must(t, err)
	if len(out) != 2 || len(next) != 1 || next[0].Value != "v2" || next[0].Attempt != 1 {
		t.Fatalf("old has %+v, new %+v", out, next)
	}
	one.settle("nack", out[:1], `,"delay":"0s"`)
	one.settle("ack", out[1:], "")
	again, err := two.receiveAs(t.Context(), "handover", "g", "new", `,"max":10,"wait":"20s"`)
	must(t, err)
	if len(again) != 1 || again[0].ID != out[0].ID || again[0].Attempt != 2 {
		t.Errorf("the nacked one goes to the new owner: %+v", again)
	}
}

func notMembers(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.topic("strangers", `{"partitions":2}`)
	receive, members := "/v1/topics/strangers/groups/g/receive", "/v1/topics/strangers/groups/g/members"
	one.join("strangers", "g", `{"name":"a","ttl":"1m"}`)
	one.code("not_member", "POST", receive, `{}`)
	one.code("not_member", "POST", receive, `{"member":"b"}`)
	one.code("not_member", "POST", members+"/b/heartbeat", `{}`)
	one.code("validation_failed", "POST", receive, `{"member":"../b"}`)
	one.code("validation_failed", "POST", members, `{"ttl":"1s"}`)
	one.code("validation_failed", "POST", members, `{"ttl":"2500ms"}`)
	one.code("validation_failed", "POST", members, `{"name":"-a"}`)
	one.code("validation_failed", "POST", members, `{"colour":"red"}`)
	one.code("topic_not_found", "POST", "/v1/topics/nowhere/groups/g/members", `{}`)
	one.call(201, "PUT", "/v1/topics/strangers/groups/everybodys", "", nil)
	one.code("not_assigned", "POST", "/v1/topics/strangers/groups/everybodys/members", `{}`)
	one.code("not_assigned", "POST", "/v1/topics/strangers/groups/everybodys/receive", `{"member":"a"}`)
	// A member that nobody hears of for its ttl is gone, and its partitions are the others'.
	b := one.join("strangers", "g", `{"name":"b","ttl":"2s"}`)
	a := one.heartbeat("strangers", "g", membership{Member: "a", Generation: b.Generation}, "30s")
	if len(b.Assignment) != 1 || len(a.Assignment) != 2 {
		t.Errorf("b had %+v, now a has %+v", b, a)
	}
	one.code("not_member", "POST", members+"/b/heartbeat", `{}`)
}

func changeOfMode(t *testing.T, c *Cluster) {
	one, two := via(t, c, 1), via(t, c, 2)
	one.topic("modes", `{"partitions":1}`)
	one.publish("modes", "v")
	out := one.receiveN("modes", "g", 1, "")
	one.call(200, "PUT", "/v1/topics/modes/groups/g", `{"mode":"assigned"}`, nil)
	one.code("not_member", "POST", "/v1/topics/modes/groups/g/receive", `{}`)
	a := two.join("modes", "g", `{"name":"a","ttl":"1m"}`)
	one.settle("nack", out, `,"delay":"0s"`)
	again, err := two.receiveAs(t.Context(), "modes", "g", "a", `,"wait":"20s"`)
	must(t, err)
	if len(again) != 1 || again[0].Attempt != 2 || len(a.Assignment) != 1 {
		t.Errorf("what was out before the change: %+v", again)
	}
	one.call(200, "PUT", "/v1/topics/modes/groups/g", `{"mode":"shared"}`, nil)
	one.settle("nack", again, `,"delay":"0s"`)
	one.receiveN("modes", "g", 1, "")
}

// A member that joined through a gateway that is killed goes on through another one, with the same partitions.
func outlivesItsGateway(t *testing.T, c *Cluster) {
	one, two := via(t, c, 1), via(t, c, 2)
	two.topic("outlives", `{"partitions":2}`)
	a := one.join("outlives", "g", `{"name":"a","ttl":"5s"}`)
	must(t, c.Gateway(1).Kill())
	sent := two.publish("outlives", "v")
	got, err := two.receiveAs(t.Context(), "outlives", "g", "a", `,"wait":"20s"`)
	must(t, err)
	if len(got) != 1 || got[0].ID != sent.ID {
		t.Errorf("through the other gateway: %+v", got)
	}
	if now := two.heartbeat("outlives", "g", a, "6s"); now.Generation != a.Generation || len(now.Assignment) != 2 {
		t.Errorf("joined with %+v, has %+v", a, now)
	}
}

// A stream of a member gets the partitions that it is given while it is open.
func streamFollows(t *testing.T, c *Cluster) {
	one, two := via(t, c, 1), via(t, c, 2)
	one.topic("streams", `{"partitions":1}`)
	one.join("streams", "g", `{"name":"owner","ttl":"1m"}`)
	two.join("streams", "g", `{"name":"standby","ttl":"1m"}`)
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", two.url+"/v1/topics/streams/groups/g/stream?member=standby", nil)
	must(t, err)
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	sent := one.publish("streams", "v")
	one.call(204, "DELETE", "/v1/topics/streams/groups/g/members/owner", "", nil)
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), sent.ID) {
			return
		}
	}
	t.Errorf("the stream ended without the message: %v", lines.Err())
}
