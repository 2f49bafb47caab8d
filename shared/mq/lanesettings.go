package mq

import "errors"

// MaxLaneWeight is the highest weight of a lane.
const MaxLaneWeight = 1000

// The modes of LaneSettings.
const (
	LanesWeighted = "weighted"
	LanesStrict   = "strict"
)

// LaneSettings say how a group's hand-outs are spread over the lanes that have something. Weighted: by Weights, so that
// each gets its share. Strict: always from the most urgent one, so that the others may wait for ever. The zero
// value means the default.
type LaneSettings struct {
	Mode    string      `json:"mode"`    // weighted or strict
	Weights LaneWeights `json:"weights"` // of no effect with strict
}

// LaneWeights are the weights of the lanes, 1 to MaxLaneWeight each.
type LaneWeights struct {
	Critical   int `json:"critical"`
	High       int `json:"high"`
	Normal     int `json:"normal"`
	Low        int `json:"low"`
	Background int `json:"background"`
}

// DefaultLaneSettings give the lowest lane a bit more than 3 % of what is handed out while all have something.
func DefaultLaneSettings() LaneSettings {
	return LaneSettings{Mode: LanesWeighted, Weights: LaneWeights{Critical: 16, High: 8, Normal: 4, Low: 2, Background: 1}}
}

// Strict says whether the most urgent lane goes first whatever waits behind it.
func (s LaneSettings) Strict() bool { return s.Mode == LanesStrict }

// Weight is the weight of a lane.
func (s LaneSettings) Weight(l Lane) int {
	w := s.Weights
	if w == (LaneWeights{}) {
		w = DefaultLaneSettings().Weights
	}
	return max(1, [Lanes]int{w.Critical, w.High, w.Normal, w.Low, w.Background}[l])
}

func (s LaneSettings) validate(at string) error {
	if s == (LaneSettings{}) {
		return nil
	}
	var c checks
	c.want(s.Mode == LanesWeighted || s.Mode == LanesStrict, at+"/mode", "must be weighted or strict")
	w := s.Weights
	for i, v := range [Lanes]int{w.Critical, w.High, w.Normal, w.Low, w.Background} {
		c.want(between(v, 1, MaxLaneWeight), at+"/weights/"+laneNames[i], "must be 1 to %d", MaxLaneWeight)
	}
	return errors.Join(c...)
}

// ParseLane reads a lane's name.
func ParseLane(s string) (Lane, bool) {
	for l, name := range laneNames {
		if s == name {
			return Lane(l), true
		}
	}
	return 0, false
}
