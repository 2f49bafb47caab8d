package main

import (
	"reflect"
	"time"

	"github.com/alecthomas/kong"
)

// refuseEmpty refuses flags that are given without a content: mostly a variable that was not set, or a zero that would count as
// not given. What such a flag should have chosen would be everything, anything or the default, and nobody would notice. Flags
// for which that is a value are pointers, or say so with a tag (blank).
func refuseEmpty(parsed *kong.Context) error {
	for _, given := range parsed.Path {
		f := given.Flag
		if f == nil || given.Resolved || f.Tag.Has("blank") {
			continue
		}
		v := f.Target
		switch v.Kind() {
		case reflect.String, reflect.Slice, reflect.Map, reflect.Struct:
			if v.IsZero() || v.Kind() != reflect.Struct && v.Len() == 0 {
				return wrongUsage("--%s is empty: give it a value, or leave it out", f.Name)
			}
		case reflect.Float64:
			if v.IsZero() {
				return wrongUsage("--%s must be more than 0; leave it out for the default", f.Name)
			}
		case reflect.Int64:
			if v.Type() == reflect.TypeFor[time.Duration]() && v.IsZero() {
				return wrongUsage("--%s must be more than 0s; leave it out for the default", f.Name)
			}
		}
	}
	return nil
}
