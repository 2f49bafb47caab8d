package load

import (
	"bytes"
	"fmt"
	"html"
	"slices"
	"time"
)

// The plot's measures, in pixels.
const (
	plotLeft, plotTop, plotRow = 60.0, 76.0, 20.0
	plotWidth                  = 900.0
	// plotGap is the shortest time without a delivery that is drawn as a gap.
	plotGap = 100 * time.Millisecond
)

// Colours that people with any colour vision tell apart (Okabe and Ito).
var plotColours = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"}

// drawRebalance draws which member got each partition's messages when, and the changes, as SVG.
func drawRebalance(delivered [][]arrival, phases []phase, results []Rebalanced) []byte {
	var b bytes.Buffer
	end := time.Second
	if len(phases) > 0 {
		end = phases[len(phases)-1].to
	}
	x := func(at time.Duration) float64 { return plotLeft + plotWidth*at.Seconds()/end.Seconds() }
	bottom := plotTop + plotRow*float64(len(delivered))
	height := bottom + 70 + 16*float64(len(results))
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n", plotLeft+plotWidth+20, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	fmt.Fprintf(&b, `<text x="%.0f" y="20" font-size="14">Deliveries of each partition while members come and go</text>`+"\n", plotLeft)
	members := membersOf(delivered)
	drawLegend(&b, members)
	fmt.Fprintf(&b, `<text x="20" y="%.0f" text-anchor="middle" transform="rotate(-90 20 %.0f)">partition</text>`+"\n", (plotTop+bottom)/2, (plotTop+bottom)/2)
	for p, list := range delivered {
		y := plotTop + plotRow*float64(p)
		fmt.Fprintf(&b, `<text x="%.0f" y="%.1f" text-anchor="end">%d</text>`+"\n", plotLeft-8, y+plotRow-6, p)
		drawPartition(&b, stretches(list, end), y, x, func(member string) string { return colourOf(member, members) })
	}
	for at := time.Duration(0); at <= end; at += 2 * time.Second {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.0f" text-anchor="middle">%.0f s</text>`+"\n", x(at), bottom+16, at.Seconds())
	}
	for _, f := range phases {
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f" stroke="black" stroke-dasharray="3 3"/>`+"\n", x(f.from), x(f.from), plotTop-14, bottom)
		fmt.Fprintf(&b, `<text x="%.1f" y="%.0f">%s</text>`+"\n", x(f.from)+4, plotTop-6, html.EscapeString(f.name))
	}
	fmt.Fprintf(&b, `<text x="%.0f" y="%.0f">Pale: nothing was delivered for %d ms or more. White: nor was it until another member went on.</text>`+"\n",
		plotLeft, bottom+40, plotGap.Milliseconds())
	for i, r := range results {
		text := fmt.Sprintf("%s: longest gap of the %d partitions that stayed %.0f ms", r.Change, r.Stayed, r.Gap)
		if r.Moved > 0 {
			text += fmt.Sprintf("; of the %d that moved %.0f ms (assigned after %.0f ms, taken over %.0f ms later)",
				r.Moved, r.MovedGap, r.Assigned, r.TakenOver)
		}
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f">%s.</text>`+"\n", plotLeft, bottom+58+16*float64(i), html.EscapeString(text))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// drawPartition draws a row: its stretches, and pale between those of one member, so that it is seen who owned it all the time.
func drawPartition(b *bytes.Buffer, all []stretch, y float64, x func(time.Duration) float64, colour func(string) string) {
	bar := func(from, to time.Duration, member, opacity string) {
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.0f" fill="%s"%s/>`+"\n",
			x(from), y+2, max(x(to)-x(from), 0.5), plotRow-4, colour(member), opacity)
	}
	for i, s := range all {
		if i > 0 && all[i-1].member == s.member && s.from > all[i-1].to {
			bar(all[i-1].to, s.from, s.member, ` fill-opacity="0.35"`)
		}
		bar(s.from, s.to, s.member, "")
	}
}

func drawLegend(b *bytes.Buffer, members []string) {
	for i, name := range members {
		x := plotLeft + 110*float64(i)
		fmt.Fprintf(b, `<rect x="%.0f" y="32" width="12" height="12" fill="%s"/><text x="%.0f" y="42">%s</text>`+"\n",
			x, colourOf(name, members), x+16, html.EscapeString(name))
	}
}

// membersOf are the names of all who got something.
func membersOf(delivered [][]arrival) []string {
	var out []string
	for _, list := range delivered {
		for _, a := range list {
			if !slices.Contains(out, a.member) {
				out = append(out, a.member)
			}
		}
	}
	slices.Sort(out)
	return out
}

func colourOf(member string, members []string) string {
	return plotColours[slices.Index(members, member)%len(plotColours)]
}

// stretch is a time in which one member got a partition's messages without a gap.
type stretch struct {
	member   string
	from, to time.Duration
}

func stretches(list []arrival, end time.Duration) (out []stretch) {
	for _, a := range list {
		if a.at > end {
			break
		}
		if n := len(out); n > 0 && out[n-1].member == a.member && a.at-out[n-1].to < plotGap {
			out[n-1].to = a.at
			continue
		} else if n > 0 && a.at-out[n-1].to < plotGap {
			out[n-1].to = a.at // it goes over without a gap
		}
		out = append(out, stretch{a.member, a.at, a.at})
	}
	return out
}
