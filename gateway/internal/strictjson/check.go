package strictjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// maxFields bounds how many bad fields one answer names; a body that has more is wrong as a whole.
const maxFields = 32

var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	timeType = reflect.TypeFor[time.Time]()
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonType = reflect.TypeFor[json.Unmarshaler]()
)

// checker walks a parsed body along the Go type that it is meant for.
type checker struct {
	fields []mqerr.Field
}

func check(tree, into any) []mqerr.Field {
	var c checker
	c.value(tree, reflect.TypeOf(into).Elem(), "")
	slices.SortStableFunc(c.fields, func(a, b mqerr.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
	return c.fields
}

func (c *checker) bad(pointer, detail string) {
	if len(c.fields) < maxFields {
		c.fields = append(c.fields, mqerr.Field{Pointer: pointer, Detail: detail})
	}
}

func (c *checker) want(what string, v any, pointer string) {
	c.bad(pointer, "must be "+what+", not "+kindOf(v))
}

func (c *checker) value(v any, t reflect.Type, pointer string) {
	if t == rawType {
		return
	}
	if t.Kind() == reflect.Pointer {
		if v != nil {
			c.value(v, t.Elem(), pointer)
		}
		return
	}
	if reflect.PointerTo(t).Implements(textType) {
		c.text(v, t, pointer)
		return
	}
	if reflect.PointerTo(t).Implements(jsonType) {
		c.own(v, t, pointer)
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		c.object(v, t, pointer)
	case reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			c.want("a list", v, pointer)
		}
		for i, e := range list {
			c.value(e, t.Elem(), pointer+"/"+strconv.Itoa(i))
		}
	case reflect.Map:
		object, ok := v.(map[string]any)
		if !ok {
			c.want("an object", v, pointer)
		}
		for name, e := range object {
			c.value(e, t.Elem(), pointer+"/"+escape(name))
		}
	case reflect.String:
		if _, ok := v.(string); !ok {
			c.want("a string", v, pointer)
		}
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			c.want("true or false", v, pointer)
		}
	default:
		c.number(v, t, pointer)
	}
}

func (c *checker) text(v any, t reflect.Type, pointer string) {
	s, ok := v.(string)
	if !ok {
		c.want("a string", v, pointer)
		return
	}
	u := reflect.New(t).Interface().(encoding.TextUnmarshaler)
	if t == timeType { // its own words are about layouts
		if _, err := time.Parse(time.RFC3339, s); err != nil {
			c.bad(pointer, "must be a time like 2026-01-31T12:00:00Z, not "+short(strconv.Quote(s)))
			return
		}
	}
	if err := u.UnmarshalText([]byte(s)); err != nil {
		c.bad(pointer, err.Error())
	}
}

// own lets a type with a form of its own say what is wrong.
func (c *checker) own(v any, t reflect.Type, pointer string) {
	text, err := json.Marshal(v)
	if err == nil {
		err = reflect.New(t).Interface().(json.Unmarshaler).UnmarshalJSON(text)
	}
	if err != nil {
		c.bad(pointer, err.Error())
	}
}

func (c *checker) number(v any, t reflect.Type, pointer string) {
	n, ok := v.(json.Number)
	if !ok {
		c.want("a number", v, pointer)
		return
	}
	var err error
	switch t.Kind() {
	case reflect.Float32, reflect.Float64:
		_, err = strconv.ParseFloat(n.String(), t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		_, err = strconv.ParseUint(n.String(), 10, t.Bits())
	default:
		_, err = strconv.ParseInt(n.String(), 10, t.Bits())
	}
	if err != nil {
		c.bad(pointer, "must be a whole number in the range of its field, not "+short(n.String()))
	}
}

func (c *checker) object(v any, t reflect.Type, pointer string) {
	object, ok := v.(map[string]any)
	if !ok {
		c.want("an object", v, pointer)
		return
	}
	known := map[string]reflect.Type{}
	gather(t, known)
	for name, e := range object {
		field, ok := known[name]
		if !ok {
			c.bad(pointer+"/"+escape(name), "is not a field here")
			continue
		}
		c.value(e, field, pointer+"/"+name)
	}
}

// gather finds the JSON names of a struct's fields, those of embedded structs among them.
func gather(t reflect.Type, into map[string]reflect.Type) {
	for f := range t.Fields() {
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			gather(f.Type, into)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" && f.IsExported() {
			into[name] = f.Type
		}
	}
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return "the number " + short(v.String())
	case string:
		return "the string " + strconv.Quote(short(v))
	case []any:
		return "a list"
	}
	return "an object"
}

// short keeps what a caller sent from filling the answer.
func short(s string) string {
	if len(s) <= 40 {
		return s
	}
	return strings.ToValidUTF8(s[:40], "") + "…"
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func escape(name string) string { return pointerEscapes.Replace(short(name)) }
