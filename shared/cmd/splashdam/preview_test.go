package main

import (
	"testing"

	"github.com/splashdam/splashdam/shared/api"
)

// A dry run of a lower retention says how much would go, what keeps the rest, and which partitions are not in it.
func TestRetentionPreviewTellsHowMuch(t *testing.T) {
	c := &api.ConfigChange{Changes: []api.SettingChange{{Setting: "/retention/time", From: "168h", To: "1h", Removes: true}},
		Removal: &api.Removal{Segments: 3, Messages: 1200, Bytes: 524_288, Partial: true, Partitions: []api.PartitionRemoval{
			{Segments: 3, Messages: 1200, Bytes: 524_288, KeptFor: "billing"},
			{Partition: 1, Error: &api.ItemError{Code: "no_leader", Detail: "node node-2 did not answer in time"}}, {Partition: 2}}}}
	same(t, renderChange(c, 80, plain), `
SETTING          NOW   THEN
/retention/time  168h  1h    removes what is beyond it

MESSAGES  1200 (not all partitions are counted)
SEGMENTS  3
SIZE      524.3 kB on each replica, at most
partition 0 keeps the rest for group billing
partition 1 is not counted: node node-2 did not answer in time
`)
}
