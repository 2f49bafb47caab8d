package main

type style int

const (
	stylePlain style = iota
	styleHead
	styleGood
	styleWarn
	styleBad
	styleDim
)

const reset = "\x1b[0m"

// painter wraps text in a style's escape sequences; of an empty text it gives the opening sequence alone.
type painter func(s style, text string) string

// painter is the one for the session's output: none where it is no terminal.
func (s *session) painter() painter {
	if s.colours {
		return colour
	}
	return plain
}

func plain(_ style, text string) string { return text }

func colour(s style, text string) string {
	on := map[style]string{styleHead: "\x1b[1m", styleGood: "\x1b[32m", styleWarn: "\x1b[33m", styleBad: "\x1b[31m", styleDim: "\x1b[2m"}[s]
	switch {
	case on == "":
		return text
	case text == "":
		return on
	}
	return on + text + reset
}

// styleOf colours the words that say how something does.
func styleOf(word string) style {
	switch word {
	case "ready", "acked", "alive", "ACKNOWLEDGED":
		return styleGood
	case "opening", "degraded", "deleting", "starting", "paused", "waiting", "leased", "postponed", "disk slow", "draining", "unknown", "NACKED", "EXPIRED", "REDELIVERED":
		return styleWarn
	case "dead", "away", "not heard", "failed", "disabled", "lost", "DEAD":
		return styleBad
	}
	return stylePlain
}
