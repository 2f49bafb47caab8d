package strictjson

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/splashdam/splashdam/gateway/internal/jsonscan"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// parse reads exactly one JSON value into what encoding/json would make of it, but numbers stay text. Of a name
// that an object has twice encoding/json would take the last one in silence; here it is an error.
func parse(body []byte) (any, error) {
	var p parser
	p.scan.Reset(body)
	v := p.value(jsonscan.MaxDepth)
	switch err := p.scan.End(); {
	case len(body) == 0:
		return nil, mqerr.New(mqerr.InvalidJSON, "the body is empty")
	case err != nil:
		return nil, mqerr.New(mqerr.InvalidJSON, "%v", err)
	case len(p.twice) > 0:
		return nil, badFields(p.twice)
	}
	return v, nil
}

type parser struct {
	scan  jsonscan.Scanner
	path  []string // where the scanner is
	twice []mqerr.Field
}

// value reads any value; depth is how many levels there may be from here.
func (p *parser) value(depth int) any {
	switch p.scan.Peek() {
	case jsonscan.Null:
		p.scan.Null()
		return nil
	case jsonscan.Bool:
		return p.scan.Bool()
	case jsonscan.Number:
		return json.Number(p.scan.Raw())
	case jsonscan.String:
		return string(p.scan.String())
	case jsonscan.Array:
		if depth > 0 {
			return p.array(depth - 1)
		}
		p.scan.TooDeep()
	case jsonscan.Object:
		if depth > 0 {
			return p.object(depth - 1)
		}
		p.scan.TooDeep()
	default:
		p.scan.Skip() // fails, and says why
	}
	return nil
}

// member reads the value of a member or an element.
func (p *parser) member(name string, depth int) any {
	p.path = append(p.path, name)
	v := p.value(depth)
	p.path = p.path[:len(p.path)-1]
	return v
}

func (p *parser) array(depth int) []any {
	out := []any{}
	p.scan.Open()
	for i := 0; p.scan.Element(i == 0); i++ {
		out = append(out, p.member(strconv.Itoa(i), depth))
	}
	return out
}

func (p *parser) object(depth int) map[string]any {
	out := map[string]any{}
	p.scan.Open()
	for first := true; ; first = false {
		b, more := p.scan.Key(first)
		if !more {
			return out
		}
		name := string(b)
		if _, has := out[name]; has && len(p.twice) < maxFields {
			p.twice = append(p.twice, mqerr.Field{Pointer: p.pointer(name), Detail: "is given twice"})
		}
		out[name] = p.member(name, depth)
	}
}

// pointer leads to a member of where the scanner is.
func (p *parser) pointer(name string) string {
	var b strings.Builder
	for _, at := range p.path {
		b.WriteString("/" + escape(at))
	}
	return b.String() + "/" + escape(name)
}
