package main

import (
	"slices"
	"strings"

	"github.com/splashdam/splashdam/shared/mq"
)

// filterOf makes a filter of the flags: NAME=VALUE, NAME=VALUE,VALUE or NAME=PREFIX*.
func filterOf(flags map[string]string) *mq.Filter {
	f := mq.Filter{}
	for name, v := range flags {
		m := mq.HeaderMatch{Name: name}
		if prefix, ok := strings.CutSuffix(v, "*"); ok && prefix != "" {
			m.Prefix = prefix
		} else {
			m.Values = strings.Split(v, ",")
		}
		f = append(f, m)
	}
	slices.SortFunc(f, func(a, b mq.HeaderMatch) int { return strings.Compare(a.Name, b.Name) })
	return &f
}

// filterText shows a filter as the flags have it.
func filterText(f mq.Filter) string {
	var parts []string
	for _, m := range f {
		v := strings.Join(m.Values, ",")
		if m.Prefix != "" {
			v = m.Prefix + "*"
		}
		parts = append(parts, oneLine(m.Name+"="+v))
	}
	return strings.Join(parts, " ")
}
