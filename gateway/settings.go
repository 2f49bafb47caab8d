package gateway

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/splashdam/splashdam/gateway/internal/strictjson"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// topicSettings reads a body as changes of base and gives what the result does not name its default: a PUT's
// base is {}, a PATCH's the settings that are there. In both the body is a JSON merge patch, so null means the
// default. The result is not validated yet.
func topicSettings(base any, body []byte) (mq.TopicSettings, error) {
	out := mq.DefaultTopicSettings()
	err := mergeSettings(base, body, &out)
	return out, err
}

// groupSettings reads the body of a PUT of a group; defaults are its topic's. startGiven says that the body
// names where the group starts.
func groupSettings(defaults mq.GroupSettings, body []byte) (out mq.GroupSettings, startGiven bool, err error) {
	merged, err := strictjson.Merge([]byte("{}"), body)
	if err != nil {
		return out, false, err
	}
	var names map[string]json.RawMessage
	if err := json.Unmarshal(merged, &names); err != nil {
		return out, false, err
	}
	out = defaults
	if _, startGiven = names["start"]; startGiven {
		out.Start = mq.Start{} // its fields belong together
	}
	if err := strictjson.Decode(merged, &out); err != nil {
		return out, false, err
	}
	return out, startGiven, validation(errors.Join(out.Validate(""), checkStart("", out.Start), checkMode("", out.Mode)))
}

// checkMode refuses the mode that groups of webhooks have.
func checkMode(at, mode string) error {
	if mode == mq.ModePush {
		return mq.FieldError{Pointer: at + "/mode", Detail: "must be shared or assigned"}
	}
	return nil
}

// checkStart refuses times that nanoseconds since 1970 can't say, which is how the places of messages are told.
func checkStart(at string, s mq.Start) error {
	if s.Time.IsZero() || !s.Time.Before(time.Unix(0, 0)) && !s.Time.After(time.Unix(0, math.MaxInt64)) {
		return nil
	}
	return mq.FieldError{Pointer: at + "/start/time", Detail: "must be in the years 1970 to 2261"}
}

// checkTopic validates a topic's settings.
func checkTopic(name string, s *mq.TopicSettings) error {
	return validation(errors.Join(s.Validate(""), checkStart("/group_defaults", s.GroupDefaults.Start), checkMode("/group_defaults", s.GroupDefaults.Mode),
		checkDeadLetterTopic("/group_defaults", name, &s.GroupDefaults)))
}

// nothing is the base of settings that are given whole.
var nothing = struct{}{}

func mergeSettings(base any, body []byte, out any) error {
	b, err := json.Marshal(base)
	if err != nil {
		return err
	}
	merged, err := strictjson.Merge(b, body)
	if err != nil {
		return err
	}
	return strictjson.Decode(merged, out)
}

// validation makes the answer to settings that are not allowed: each bad field by pointer.
func validation(err error) error {
	if err == nil {
		return nil
	}
	out := mqerr.New(mqerr.ValidationFailed, "")
	out.Fields = fieldErrors(nil, err)
	out.Detail = err.Error()
	if len(out.Fields) > 0 {
		out.Detail = out.Fields[0].Pointer + ": " + out.Fields[0].Detail
	}
	return out
}

// fieldErrors takes joined errors apart.
func fieldErrors(dst []mqerr.Field, err error) []mqerr.Field {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			dst = fieldErrors(dst, e)
		}
		return dst
	}
	var f mq.FieldError
	if errors.As(err, &f) {
		dst = append(dst, mqerr.Field{Pointer: f.Pointer, Detail: f.Detail})
	}
	return dst
}
