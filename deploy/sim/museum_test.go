package sim

import (
	"flag"
	"testing"
)

var museumSeeds = flag.Int("museum-seeds", 15, "seeds for each row of the museum")

// TestMuseum runs the faults that other systems failed under (design page museum.md), row by row, more of them in each
// run than TestSimulation has.
func TestMuseum(t *testing.T) {
	for _, row := range []struct {
		name   string
		faults []string
		uses   []string // nil: as the seed says
	}{
		{"01_power_loss_behind_an_acknowledgement", []string{"crash of all nodes", "crash of a node"}, nil},
		{"02_damaged_minority_replica", []string{"flipped bit", "silently lost suffix", "crash of a node", "move wanted"}, nil},
		{"03_acknowledged_by_a_set_that_shrank", []string{"crash of a node", "node cut off", "move wanted"}, nil},
		{"04_zombie_leader_on_a_stalled_disk", []string{"stalled disk", "node cut off from etcd and controllers", "frozen node"}, nil},
		{"05_stuck_follower", []string{"stalled disk", "slow links", "frozen node"}, nil},
		{"06_resync_brings_back_what_was_acked", []string{"crash of a node", "stream reset", "silently lost suffix"}, nil},
		{"07_lease_lost_over_a_start", []string{"crash of all nodes", "clock jump", "gateway's streams end"}, nil},
		{"08_cursor_steps_back_at_failover", []string{"crash of a node", "frozen node", "move wanted", "gateway's streams end"}, nil},
		{"11_recovery_without_fencing", []string{"one-way cut", "node cut off from etcd and controllers", "move wanted"}, nil},
		{"12_seal_flag_forgotten", []string{"crash behind a seal or a creation", "node cut off from etcd and controllers"}, nil},
		{"13_rejoins_after_losing_its_data", []string{"lost directory", "silently lost suffix", "move wanted"}, nil},
		{"14_quick_successive_elections", []string{"move wanted", "two controllers at once", "crash of a controller"}, nil},
		{"15_removed_and_added_again", []string{"lost directory", "node cut off", "crash of a node"}, nil},
		{"16_timed_out_transaction", []string{"unknown outcomes of etcd", "two controllers at once", "move wanted"}, nil},
		{"17_all_leases_end_or_none", []string{"all leases end", "leases end late", "etcd away"}, nil},
		{"18_watch_lags", []string{"watch lags", "move wanted", "crash of a node"}, nil},
		{"22_hidden_behind_a_priority", []string{"crash of a node", "move wanted", "stream reset"}, []string{useLanes}},
		{"24_key_order_stalls", []string{"crash of a node", "move wanted", "gateway's streams end"}, []string{useLanes, useOrder}},
		{"38_failed_sync", []string{"failed sync", "stalled disk"}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			forEach(*firstSeed, *museumSeeds, func(seed uint64) bool {
				r := Run(seed, Config{Chaos: 25, Only: row.faults, Uses: row.uses})
				if r.Err != nil {
					t.Errorf("seed %d: %v", seed, r.Err)
				}
				return r.Err != nil
			})
		})
	}
}
