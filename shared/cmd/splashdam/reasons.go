package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/splashdam/splashdam/shared/api"
)

// reasons are what is wrong with partitions that do not answer or can only be read; those that say the same are told together.
type reasons struct {
	texts      []string // in the order in which they came
	partitions map[string][]uint32
}

func (r *reasons) add(topic string, partition uint32, e *api.ItemError) {
	if e == nil {
		return
	}
	text := e.Code
	if detail := strings.TrimPrefix(e.Detail, fmt.Sprintf("partition %d of topic %s: ", partition, topic)); detail != "" {
		text += ": " + detail
	}
	if r.partitions == nil {
		r.partitions = map[string][]uint32{}
	}
	if len(r.partitions[text]) == 0 {
		r.texts = append(r.texts, text)
	}
	r.partitions[text] = append(r.partitions[text], partition)
}

func (r *reasons) render(width int, paint painter) string {
	var b strings.Builder
	for _, text := range r.texts {
		list := r.partitions[text]
		names := make([]string, len(list))
		for i, p := range list {
			names[i] = strconv.FormatUint(uint64(p), 10)
		}
		word := "partition "
		if len(list) > 1 {
			word = "partitions "
		}
		b.WriteString(paint(styleWarn, wrap(oneLine(word+strings.Join(names, ", ")+": "+text), width)) + "\n")
	}
	return b.String()
}
