package mq

// Traceparent is the header by which W3C Trace Context hands a trace on. A message has it like any other header.
const Traceparent = "traceparent"

// maxTraceparent bounds what a later version of the format may say.
const maxTraceparent = 255

// ValidTraceparent says whether a text is a traceparent of W3C Trace Context: version, trace id, parent id and flags in lower
// case hex, with dashes between. Version ff and ids of zeros are none; later versions may have more behind another dash.
func ValidTraceparent(v string) bool {
	const version, trace, parent, end = 2, 35, 52, 55
	if len(v) < end || len(v) > maxTraceparent || v[version] != '-' || v[trace] != '-' || v[parent] != '-' {
		return false
	}
	switch {
	case v[:version] == "ff":
		return false
	case len(v) > end && (v[:version] == "00" || v[end] != '-'):
		return false
	}
	_, hexVersion := lowerHex(v[:version])
	traceID, hexTrace := lowerHex(v[version+1 : trace])
	parentID, hexParent := lowerHex(v[trace+1 : parent])
	_, hexFlags := lowerHex(v[parent+1 : end])
	return hexVersion && hexTrace && hexParent && hexFlags && traceID && parentID
}

// lowerHex says whether a text is lower case hex, and whether there is more in it than zeros.
func lowerHex(s string) (some, ok bool) {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false, false
		}
		some = some || c != '0'
	}
	return some, true
}
