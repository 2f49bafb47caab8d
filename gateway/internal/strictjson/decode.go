// Package strictjson reads JSON bodies of configuration calls: unknown fields, wrong types and names given twice
// are errors, every one of them is named by a JSON pointer, and all of a kind are reported at once. It costs a generic parse and
// is not for messages.
package strictjson

import (
	"bytes"
	"encoding/json"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// Decode reads one JSON value into a pointer to a struct, over what it holds already. It answers
// invalid_json for what is no JSON, validation_failed with all bad fields for what does not fit.
func Decode(body []byte, into any) error {
	tree, err := parse(body)
	if err != nil {
		return err
	}
	if fields := check(tree, into); len(fields) > 0 {
		return badFields(fields)
	}
	if json.Unmarshal(body, into) != nil { // what check lets through fits; the decoder's words would be about Go
		return mqerr.New(mqerr.InvalidJSON, "the body could not be read")
	}
	return nil
}

// badFields is the error that names them all.
func badFields(fields []mqerr.Field) error {
	detail := fields[0].Detail
	if fields[0].Pointer == "" {
		detail = "the body " + detail
	} else {
		detail = fields[0].Pointer + ": " + detail
	}
	return &mqerr.Error{Code: mqerr.ValidationFailed, Detail: detail, Fields: fields}
}

// Merge applies a JSON merge patch (RFC 7396) to an object and answers the new one. The patch must be an
// object; its nulls remove fields. An empty patch changes nothing.
func Merge(target, patch []byte) ([]byte, error) {
	if len(bytes.TrimSpace(patch)) == 0 {
		return target, nil
	}
	p, err := parse(patch)
	if err != nil {
		return nil, err
	}
	object, ok := p.(map[string]any)
	if !ok {
		return nil, mqerr.New(mqerr.ValidationFailed, "the body must be an object, not %s", kindOf(p))
	}
	t, err := parse(target)
	if err != nil {
		return nil, err
	}
	return json.Marshal(merge(t, object))
}

func merge(target any, patch map[string]any) any {
	out, ok := target.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for name, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(out, name)
		case map[string]any:
			out[name] = merge(out[name], v)
		default:
			out[name] = v
		}
	}
	return out
}
